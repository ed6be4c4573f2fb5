//! Rows of values on a GPU.

use super::{Buffer, Gpu, Result};

/// `rows × width` values of f32, in memory that grows with the largest pass.
#[derive(Debug, Default)]
pub struct Rows {
    buffer: Option<Buffer>,
    rows: usize,
    width: usize,
}

impl Rows {
    /// Make it `rows × width`. Memory that is large enough is kept, with whatever it holds; larger memory starts as zeros.
    ///
    /// # Errors
    /// If memory is missing, or the rows exceed the device's largest binding.
    pub fn reserve(&mut self, gpu: &Gpu, rows: usize, width: usize) -> Result<&Buffer> {
        let bytes = (rows * width).max(1) as u64 * 4;
        if self.buffer.as_ref().is_none_or(|b| b.bytes() < bytes) {
            // Released before the larger one is allocated; commands in flight keep what they use.
            self.buffer = None;
        }
        (self.rows, self.width) = (rows, width);
        match &mut self.buffer {
            Some(buffer) => Ok(buffer),
            none => Ok(none.insert(gpu.buffer(bytes)?)),
        }
    }

    /// Values of the host, uploaded.
    ///
    /// # Errors
    /// As [`Rows::reserve`].
    pub fn upload(gpu: &Gpu, values: &[f32], width: usize) -> Result<Self> {
        let buffer = gpu.upload(bytemuck::cast_slice(values))?;
        Ok(Self { buffer: Some(buffer), rows: values.len() / width.max(1), width })
    }

    /// Rows in memory that holds at least as many values.
    pub fn of(buffer: Buffer, rows: usize, width: usize) -> Self {
        Self { buffer: Some(buffer), rows, width }
    }

    /// The same values as other rows.
    pub(super) fn reshape(&mut self, rows: usize, width: usize) {
        debug_assert_eq!(rows * width, self.rows * self.width, "the number of values stays");
        (self.rows, self.width) = (rows, width);
    }

    /// Give the memory away; the next [`Rows::reserve`] allocates anew.
    pub fn take(&mut self) -> Option<Buffer> {
        self.buffer.take()
    }

    /// The memory; none before the first [`Rows::reserve`].
    pub fn buffer(&self) -> Option<&Buffer> {
        self.buffer.as_ref()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Size of the values in bytes.
    pub fn bytes(&self) -> u64 {
        (self.rows * self.width) as u64 * 4
    }
}
