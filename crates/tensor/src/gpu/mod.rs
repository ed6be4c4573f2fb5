//! GPUs through wgpu: Vulkan, Metal, DirectX 12.
//!
//! [`Gpu`] is an opened device with its compiled kernels, [`Buffer`] its memory, [`Stream`] the commands of one sequence.

pub mod adapter;
pub mod attention;
mod buffer;
pub mod cache;
mod columns;
mod context;
pub mod elements;
mod error;
pub mod held;
mod kernel;
pub mod logits;
pub(crate) mod matrix;
mod open;
pub mod ops;
mod placing;
mod products;
pub(crate) mod recurrent;
pub mod relevance;
mod rows;
pub mod states;
mod stream;
mod table;
#[doc(hidden)]
pub mod testing;
pub mod tower;
pub mod work;

pub use self::{
    buffer::Buffer,
    context::Gpu,
    error::{GpuError, Result},
    kernel::{Access, Kernel},
    matrix::Matrix,
    products::input::Scratch,
    rows::Rows,
    stream::{ALIGNMENT, Stream},
    table::Table,
};
