//! Qwen3-VL (arXiv:2511.21631), dense sizes.
//!
//! Frames in pairs near their aspect ratio; a tower with learned, interpolated positions beside rotary ones, whose states after
//! some blocks become further embeddings of each visual token (DeepStack).

mod config;
mod tower;

pub use config::VisionConfig;
