//! Files to weights: checkpoints in Hugging Face layout (plain, quantized, with LoRA adapters) and GGUF, downloads, and the cache
//! of converted weights.
//!
//! ```
//! use specreel_checkpoint::ModelFiles;
//! use specreel_tensor::Weights;
//!
//! let demo = specreel_demo::demo(None)?;
//! let files = ModelFiles::open(&demo.target, None)?;
//! let checkpoint = files.checkpoint()?;
//! let largest = checkpoint.tensors().max_by_key(|tensor| tensor.bytes).ok_or("no tensors")?;
//! let values = checkpoint.f32(largest.name, largest.shape)?;
//! assert_eq!(values.len(), largest.shape.iter().product::<usize>());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod adapter;
mod checkpoint;
mod experts;
pub mod files;
pub mod gguf;
pub(crate) mod header;
pub mod hub;
mod names;
mod quantized;
pub(crate) mod shard;
mod source;
pub mod weight_cache;

pub use self::{
    checkpoint::{Checkpoint, KeptWeights, LoadProgress, StoredTensor},
    source::ModelFiles,
    weight_cache::WeightCache,
};
