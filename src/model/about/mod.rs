//! What can be said of a checkpoint before it is loaded: sizes, the memory it will take, and everything that is wrong with it.

mod facts;
mod inspection;
mod need;
mod pair;

pub use facts::{Facts, Sample, Sampled};
pub use inspection::{EXAMPLE, Inspection, Memory, Problem, Share};
pub use need::Need;
pub use pair::{can_draft, same_tokenizer_file};
