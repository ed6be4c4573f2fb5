//! Checkpoints before they are loaded: sizes, memory estimate, and all problems.

mod conversion;
mod facts;
mod inspection;
mod need;
mod pair;
mod reads;

pub use conversion::Conversion;
pub use facts::{Facts, SampledVideo, VideoInputs};
pub use inspection::{DtypeShare, Inspection, Memory, Problem};
pub use need::Need;
pub use pair::Interface;
pub use reads::Reads;
