//! GPUs through wgpu: Vulkan, Metal, DirectX 12.
//!
//! [`Gpu`] is an opened device with its compiled kernels, [`Buffer`] its memory, [`Stream`] the commands of one sequence.

pub mod adapter;
mod buffer;
mod context;
mod error;
mod failure;
mod open;
mod rows;
pub mod states;
mod stream;
#[cfg(test)]
pub(crate) mod testing;

pub use self::{
    buffer::Buffer,
    context::{Access, Gpu, Kernel},
    error::{GpuError, Result},
    rows::Rows,
    stream::{ALIGNMENT, Stream},
};
