//! Memory on a GPU.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use super::{Gpu, Result};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// Memory on a GPU. Clones are handles of the same memory, which is freed with the last of them.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<Memory>);

#[derive(Debug)]
pub(super) struct Memory {
    pub(super) raw: wgpu::Buffer,
    id: u64,
}

impl Buffer {
    pub(super) fn new(raw: wgpu::Buffer) -> Self {
        Self(Arc::new(Memory { raw, id: NEXT.fetch_add(1, Ordering::Relaxed) }))
    }

    /// Its size; a multiple of 4.
    pub fn bytes(&self) -> u64 {
        self.0.raw.size()
    }

    /// A number that no other buffer of this process has.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// True if there is no other handle of this memory.
    pub(crate) fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    pub(super) fn raw(&self) -> &wgpu::Buffer {
        &self.0.raw
    }

    pub(super) fn downgrade(&self) -> Weak<Memory> {
        Arc::downgrade(&self.0)
    }
}

/// Memory of at least `bytes` in `buffer`, which is replaced if it is smaller.
pub(crate) fn grown<'a>(buffer: &'a mut Option<Buffer>, gpu: &Gpu, bytes: usize) -> Result<&'a Buffer> {
    if buffer.as_ref().is_none_or(|b| b.bytes() < bytes as u64) {
        // Released before the larger one is allocated.
        *buffer = None;
    }
    match buffer {
        Some(buffer) => Ok(buffer),
        none => Ok(none.insert(gpu.buffer(bytes as u64)?)),
    }
}
