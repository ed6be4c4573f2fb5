//! GPUs through wgpu: Vulkan, Metal, DirectX 12.
//!
//! [`Gpu`] is an opened device with its compiled kernels, [`Buffer`] its memory, [`Stream`] the commands of one sequence.

pub mod adapter;
mod buffer;
mod context;
mod error;
mod failure;
mod matrix;
mod matrix_format;
mod matrix_load;
mod matrix_pack;
mod matrix_read;
mod open;
mod products;
mod products_input;
mod products_source;
#[cfg(test)]
mod products_tests;
mod rows;
pub mod states;
mod stream;
mod table;
#[cfg(test)]
pub(crate) mod testing;

pub use self::{
    buffer::Buffer,
    context::{Access, Gpu, Kernel},
    error::{GpuError, Result},
    matrix::Matrix,
    matrix_format::Format,
    products_input::Prepared,
    rows::Rows,
    stream::{ALIGNMENT, Stream, Traffic},
    table::Table,
};
