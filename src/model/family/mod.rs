//! Whole Video-LLMs: which tower, prompt layout and positions a checkpoint uses.
//!
//! [`Family`] holds the names and defaults of a family, [`VideoLlm`] is a loaded model of any family. Towers differ in
//! [`super::vision::Tower`], frame processors by their settings; no other code depends on the family.

mod clip;
mod error;
mod kind;
mod prompt;
mod video_llm;

pub use clip::ClipFacts;
pub use error::ModelError;
pub(super) use error::is_out_of_memory;
pub use kind::Family;
pub use prompt::{Prompt, Rope};
pub use video_llm::VideoLlm;
