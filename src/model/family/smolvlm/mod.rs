//! SmolVLM2 (arXiv:2504.05299).
//!
//! Every frame is a picture of fixed size for SigLIP; squares of its states are joined and projected to visual tokens.

mod config;
mod tower;

pub use config::VisionConfig;
