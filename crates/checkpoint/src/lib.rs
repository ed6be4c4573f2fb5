//! Files to weights: checkpoints in Hugging Face layout and GGUF, downloads, and the cache of converted weights.

mod checkpoint;
pub mod files;
pub mod gguf;
pub mod hub;
mod names;
mod source;
pub mod weight_cache;

pub use self::{
    checkpoint::{Checkpoint, LoadProgress, StoredTensor},
    source::ModelFiles,
    weight_cache::WeightCache,
};
