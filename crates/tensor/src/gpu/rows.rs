//! Rows of values on a GPU.

use super::{Buffer, Gpu, GpuError, Result};

/// `rows × width` values of f32, in memory that grows with the largest pass.
#[derive(Debug, Default)]
pub struct Rows {
    buffer: Option<Buffer>,
    rows: usize,
    width: usize,
    /// Where the values are, if not in `buffer`: see [`Rows::place_in_blocks`].
    blocks: Option<u64>,
}

impl Rows {
    /// Make it `rows × width`. Memory that is large enough is kept, with its contents; larger memory starts as zeros. Fails
    /// if memory is missing, or the rows exceed the device's largest binding.
    pub fn reserve(&mut self, gpu: &Gpu, rows: usize, width: usize) -> Result<&Buffer> {
        let bytes = (rows * width).max(1) as u64 * 4;
        if self.buffer.as_ref().is_none_or(|b| b.bytes() < bytes) {
            // Released before the larger one is allocated; commands in flight keep their memory.
            self.buffer = None;
        }
        (self.rows, self.width, self.blocks) = (rows, width, None);
        match &mut self.buffer {
            Some(buffer) => Ok(buffer),
            none => Ok(none.insert(gpu.buffer(bytes)?)),
        }
    }

    pub(crate) fn upload(gpu: &Gpu, values: &[f32], width: usize) -> Result<Self> {
        let buffer = gpu.upload(bytemuck::cast_slice(values))?;
        Ok(Self { buffer: Some(buffer), rows: values.len() / width.max(1), width, blocks: None })
    }

    /// Rows in memory that holds at least as many values.
    pub fn of(buffer: Buffer, rows: usize, width: usize) -> Self {
        Self { buffer: Some(buffer), rows, width, blocks: None }
    }

    /// The same values as other rows.
    pub(crate) fn reshape(&mut self, rows: usize, width: usize) {
        debug_assert_eq!(rows * width, self.rows * self.width, "the number of values stays");
        (self.rows, self.width) = (rows, width);
    }

    /// Give the memory away; the next [`Rows::reserve`] allocates again.
    pub fn take(&mut self) -> Option<Buffer> {
        self.buffer().is_some().then(|| self.buffer.take())?
    }

    /// The memory of the values; none before the first [`Rows::reserve`], and if they are only in blocks.
    pub fn buffer(&self) -> Option<&Buffer> {
        self.buffer.as_ref().filter(|_| self.blocks.is_none())
    }

    pub(crate) fn memory(&self) -> Option<&Buffer> {
        self.buffer.as_ref()
    }

    /// Note that the values are not in the memory, but only in the blocks of a [`Scratch`](super::Scratch), as of this number of
    /// its fillings.
    pub(crate) fn place_in_blocks(&mut self, filling: u64) {
        self.blocks = Some(filling);
    }

    /// The filling of a scratch that has the values instead of the memory.
    pub(crate) fn in_blocks(&self) -> Option<u64> {
        self.blocks
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    pub fn bytes(&self) -> u64 {
        (self.rows * self.width) as u64 * 4
    }
}

/// The memory of rows that have been written.
pub(crate) fn filled(rows: &Rows) -> Result<&Buffer> {
    rows.buffer().ok_or_else(|| GpuError::Invalid("rows are used before they are written".into()))
}
