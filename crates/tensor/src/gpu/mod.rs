//! GPUs through wgpu: Vulkan, Metal, DirectX 12.
//!
//! [`Gpu`] is an opened device with its compiled kernels, [`Buffer`] its memory, [`Stream`] the commands of one sequence.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod adapter;
pub mod attention;
pub(crate) mod buffer;
pub mod cache;
pub(crate) mod columns;
pub(crate) mod context;
pub mod elements;
pub(crate) mod experts;
pub mod held;
mod imported;
mod kernel;
pub mod logits;
pub(crate) mod matrix;
pub mod measure;
mod noise;
mod open;
pub(crate) mod products;
pub(crate) mod recurrent;
pub mod relevance;
pub(crate) mod rows;
pub mod states;
mod stream;
mod table;
#[doc(hidden)]
pub mod testing;
mod upload;

pub use crate::error::gpu::{GpuError, Result};

pub use self::{
    buffer::Buffer,
    context::Gpu,
    kernel::{Access, Kernel},
    matrix::Matrix,
    products::input::Scratch,
    rows::Rows,
    stream::{ALIGNMENT, Stream},
    table::Table,
};

/// A lock whose holder panicked still guards sound data: every change is a single insertion.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuError {
    /// From an error of wgpu; `needed` is the size of the allocation that was tried.
    fn from_wgpu(error: &wgpu::Error, needed: u64) -> Self {
        match error {
            wgpu::Error::OutOfMemory { .. } => GpuError::OutOfMemory { needed },
            other => GpuError::Invalid(one_line(&other.to_string())),
        }
    }
}

/// A message of several lines as one, of bounded length.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut line = words.join(" ");
    if let Some((end, _)) = line.char_indices().nth(600) {
        line.truncate(end);
        line.push('…');
    }
    line
}
