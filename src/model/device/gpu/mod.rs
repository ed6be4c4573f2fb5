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
mod failure;
pub mod gaze;
pub mod held;
mod kernel;
mod largest;
pub mod logits;
pub mod logits_rows;
mod matrix;
mod matrix_format;
mod matrix_load;
mod matrix_pack;
mod matrix_read;
pub(in crate::model) mod mixing;
mod open;
pub mod ops;
mod placing;
mod products;
mod products_input;
mod products_source;
pub(in crate::model) mod recurrent;
pub mod relevance;
mod rows;
pub mod states;
mod stream;
mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod tower;
mod tower_matrix;
mod visible;
pub mod work;

pub use self::{
    buffer::Buffer,
    context::Gpu,
    error::{GpuError, Result},
    kernel::{Access, Kernel},
    matrix::Matrix,
    matrix_format::Format,
    products_input::Scratch,
    rows::Rows,
    stream::{ALIGNMENT, Stream},
    table::Table,
};
