//! Rows in candle's tensors that outlive the pass that computes them.

use std::ops::Range;

use candle_core::{DType, Device, Storage, Tensor};

use crate::Result;

/// `rows × width` f32 values in a tensor. Cloning shares them.
#[derive(Clone, Debug)]
pub struct CandleRows(Tensor);

impl CandleRows {
    /// A matrix of any float type.
    pub(crate) fn new(rows: &Tensor) -> Result<Self> {
        Ok(Self(rows.to_dtype(DType::F32)?))
    }

    /// Rows of `width` values in host memory, moved to the device of these.
    pub(crate) fn upload(&self, values: &[f32], width: usize) -> Result<Self> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Ok(Self(Tensor::from_slice(values, (rows, width), self.0.device())?))
    }

    pub(crate) fn tensor(&self) -> &Tensor {
        &self.0
    }

    /// Number of rows and values of a row.
    pub fn shape(&self) -> (usize, usize) {
        self.0.dims2().unwrap_or_default()
    }

    /// The rows `start..start + count`, which exist.
    pub fn narrow(&self, start: usize, count: usize) -> Result<Self> {
        Ok(Self(self.0.narrow(0, start, count)?))
    }

    /// Copies of some rows, which exist, in the given order.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        let index: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let index = Tensor::from_vec(index, rows.len(), self.0.device())?;
        Ok(Self(self.0.index_select(&index, 0)?))
    }

    /// Copies of some columns, which exist.
    pub fn columns(&self, columns: Range<usize>) -> Result<Self> {
        Ok(Self(self.0.narrow(1, columns.start, columns.len())?.contiguous()?))
    }

    /// Copies padded with zeros to `width` values.
    pub fn widened(&self, width: usize) -> Result<Self> {
        Ok(Self(self.0.pad_with_zeros(1, 0, width - self.shape().1)?))
    }

    /// Rows below each other, all on the first device that is not the CPU.
    pub(crate) fn below(parts: &[Self]) -> Result<Self> {
        let device = parts.iter().map(|part| part.0.device()).find(|device| !device.is_cpu());
        let device = device.unwrap_or(&Device::Cpu);
        let tensors: Vec<Tensor> =
            parts.iter().map(|part| part.0.to_device(device)).collect::<candle_core::Result<_>>()?;
        Ok(Self(Tensor::cat(&tensors, 0)?))
    }

    /// Call `f` with the values: without a copy if they are contiguous on the CPU, else of a copy there.
    pub fn with_values<T>(&self, f: impl FnOnce(&[f32]) -> T) -> Result<T> {
        let tensor = self.0.to_device(&Device::Cpu)?.contiguous()?;
        let (storage, layout) = tensor.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(values), Some((start, end))) => Ok(f(&values.as_slice::<f32>()?[start..end])),
            _ => crate::bail!("expected contiguous f32 values"),
        }
    }
}
