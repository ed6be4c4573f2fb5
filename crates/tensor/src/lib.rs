//! Operations on rows of numbers, on every device: the CPU with kernels of this crate, a GPU with kernels through wgpu, or an
//! accelerator with candle's tensors. No model is known here.
//!
//! GPUs, CUDA and Metal are Cargo features; a build without them recognizes their names and names the missing feature. candle is
//! linked only with `cuda`, `metal` or `candle`, the last for its CPU kernels. Every opened CUDA device has its own stream, so that
//! a target and a drafter on one card can run concurrently.
//!
//! Weights come from a [`Weights`] source; a matrix is loaded by a device and multiplied there:
//!
//! ```
//! use specreel_tensor::{
//!     CheckpointError, ComputeDevice, DeviceChoice, Importance, KvType, WeightType, Weights,
//!     fused::FusedMatrix, ops::{CpuOps, GpuOps, RowOps}, states::States,
//! };
//!
//! /// A matrix of ones.
//! struct Ones;
//!
//! impl Weights for Ones {
//!     fn f32(&self, _: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
//!         Ok(vec![1.0; shape.iter().product()])
//!     }
//! }
//!
//! fn row_sums<O: RowOps>(ops: &O) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
//!     let list = FusedMatrix { tensors: vec![("ones".into(), 4)], inputs: 64, bias: false, importance: Importance::Usual };
//!     let matrix = ops.matrix(&list, &Ones)?;
//!     let rows = States::new((0..128).map(|i| i as f32).collect(), 64)?;
//!     Ok(ops.project(&mut O::Work::default(), &matrix, &rows)?.to_vec()?)
//! }
//!
//! let sums = row_sums(&CpuOps::new(WeightType::F32, KvType::F32))?;
//! assert_eq!(sums, [[2016.0; 4], [6112.0; 4]].concat());
//! // The same on a GPU, where there is one.
//! if let Ok(device) = ComputeDevice::open(DeviceChoice::Gpu(None), WeightType::F32)
//!     && let Some(gpu) = device.gpu()
//! {
//!     assert_eq!(row_sums(&GpuOps::new(gpu, WeightType::F32, KvType::F32))?, sums);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod accelerators;
pub mod attention;
pub mod cache;
#[cfg_attr(not(feature = "candle"), path = "candle/absent.rs")]
pub mod candle;
pub mod convolution;
pub mod cpu;
mod device;
mod error;
pub mod experts;
pub mod fused;
mod gate;
#[cfg_attr(not(feature = "gpu"), path = "gpu/absent.rs")]
pub mod gpu;
pub mod kept;
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
pub mod tower;
mod weight_type;
pub mod weights;

pub use self::{
    accelerators::{Accelerator, accelerators},
    cpu::table::HostTable,
    device::{Backend, ComputeDevice, DeviceChoice},
    error::{CheckpointError, Error, Result, gpu::GpuError},
    gate::Gate,
    gpu::Gpu,
    kv::KvType,
    linear_attention::{LinearAttention, LinearWeights},
    memory::DeviceMemory,
    quant::BlockKind,
    spans::{SpansError, VisualSpans},
    weight_type::{Importance, TensorType, WeightType},
    weights::Weights,
};
