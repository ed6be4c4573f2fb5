//! Operations on rows of numbers, on every device: the CPU with kernels of this crate, a GPU with kernels through wgpu, or an
//! accelerator with candle's tensors. No model is known here.
//!
//! CUDA and Metal are Cargo features; a build without them recognises their names and explains what is missing. Every opened
//! CUDA device has its own stream, so that a target and a drafter on one card can run concurrently.

mod accelerators;
pub mod attention;
pub mod candle;
pub mod cpu;
mod device;
mod error;
pub mod fused;
pub mod gpu;
mod kv;
mod linear_attention;
pub mod logits;
mod memory;
pub mod ops;
mod quant;
pub mod recurrent;
pub mod similarity;
mod sources;
mod spans;
pub mod states;
pub mod store;
pub mod tower_ops;
mod weight_type;
pub mod weights;

pub use self::{
    accelerators::{Accelerator, accelerators},
    device::{ComputeDevice, DeviceChoice},
    error::{CheckpointError, Error, Result},
    gpu::Gpu,
    kv::KvType,
    linear_attention::LinearAttention,
    memory::DeviceMemory,
    quant::BlockKind,
    spans::{SpansError, VisualSpans},
    weight_type::{TensorType, WeightType},
    weights::Weights,
};
