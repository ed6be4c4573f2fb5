//! The operations of which models consist, on one device: what decoders and vision towers are written over.
//!
//! | trait | for |
//! |---|---|
//! | [`RowOps`] | what all models do: loading matrices, and operations on rows |
//! | [`DecoderOps`] | decoders and draft heads: embeddings, passes over a cache, linear attention, experts, logits |
//! | [`TowerOps`] | vision towers: attention within temporal grids, positions |
//! | [`TunedOps`] | devices with several kernels for a matrix, of which the faster ones are found by measurement |
//!
//! A device keeps rows of f32 values (or of its compute type) in memory of its own between operations. An operation computes a
//! row to the same bits among any other rows, except on candle's accelerators ([`ComputeDevice::is_batch_invariant`]). Operations
//! may be queued: only reading `States`, `Logits` or attention statistics waits for them.
//!
//! The states of a chunk of a video's temporal grids are rows below each other, grid by grid. A device that is faster with few
//! rows at a time passes them through several operations in parts ([`TowerOps::rows_at_once`]); attention is computed for a whole
//! chunk.
//!
//! [`ComputeDevice::is_batch_invariant`]: super::ComputeDevice::is_batch_invariant

pub(crate) mod cpu;
mod decoder;
#[cfg_attr(not(feature = "gpu"), path = "absent.rs")]
mod gpu;
mod rows;
#[cfg_attr(not(feature = "candle"), path = "tensors/absent.rs")]
mod tensors;
mod tower;

pub use self::{
    cpu::{CpuOps, CpuWork, WORKSPACE},
    decoder::{Ability, DecoderOps, HeadNorms, Input, NO_EXPERTS, PassSpec, TunedOps},
    gpu::GpuOps,
    rows::{HeldWeights, Loaded, Norm, Out, Residual, RowOps, RowPart},
    tensors::TensorOps,
    tower::TowerOps,
};
