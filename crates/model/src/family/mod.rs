//! Whole Video-LLMs: which tower, prompt layout and positions a checkpoint uses.
//!
//! [`VideoLlm`] is a loaded model of any family. A family is defined in its folder, by implementations of
//! `FamilyRules` and of its tower's rules; [`Family`] names them all. No other code depends on the family.

mod clip;
mod error;
mod kind;
pub mod llava_onevision;
mod prompt;
mod quantized;
pub mod qwen2_vl;
pub mod qwen3_5;
pub mod qwen3_vl;
mod rules;
pub mod smolvlm;
mod video_llm;
mod writing;

pub use clip::ClipFacts;
pub use error::ModelError;
pub use kind::Family;
pub use prompt::{Prompt, Rope};
pub use rules::{FamilyRules, VideoText};
pub use video_llm::VideoLlm;
pub(super) use writing::write;
