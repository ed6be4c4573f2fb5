//! Whole Video-LLMs: which tower, prompt layout and positions a checkpoint uses.
//!
//! [`Family`] is what differs in words and numbers, [`VideoLlm`] the loaded model that everything above works with, whatever
//! its family. Towers are told apart in [`super::vision::Tower`] and frame processors by their settings; nothing else asks
//! for the family.

mod error;
mod kind;
mod prompt;
mod video_llm;

pub use error::ModelError;
pub(super) use error::is_out_of_memory;
pub use kind::Family;
pub use prompt::{Prompt, Rope};
pub use video_llm::VideoLlm;
