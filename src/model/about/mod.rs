//! Checkpoints before they are loaded: sizes, memory estimate, and all problems.

mod facts;
mod inspection;
mod need;
mod pair;

pub use facts::{Facts, Sample, Sampled};
pub use inspection::{EXAMPLE, Inspection, Memory, Problem, Share};
pub use need::Need;
pub use pair::{can_draft, same_tokenizer_file};
