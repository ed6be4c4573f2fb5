//! Rows of values that stay on the device that computed them until somebody reads them.

use std::ops::Range;

use crate::Result;
use candle_core::{Device, Tensor};

use super::gpu::states::{GpuRows, RowSource, below};

/// Rows of f32 values, `rows × width`: embeddings, or states of a pass. Cloning shares the values.
#[derive(Clone, Debug)]
pub enum States {
    /// On the CPU, or on an accelerator in candle's tensors.
    Tensor(Tensor),
    /// On a GPU through wgpu.
    Gpu(GpuRows),
}

impl States {
    /// Rows of `width` values in host memory. Fails if the values are not whole rows.
    pub fn new(values: Vec<f32>, width: usize) -> Result<Self> {
        let rows = values.len().checked_div(width).unwrap_or(0);
        Ok(Self::Tensor(Tensor::from_vec(values, (rows, width), &Device::Cpu)?))
    }

    /// Number of rows and values of a row.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::Tensor(tensor) => tensor.dims2().unwrap_or_default(),
            Self::Gpu(rows) => rows.shape(),
        }
    }

    pub fn rows(&self) -> usize {
        self.shape().0
    }

    pub fn bytes(&self) -> usize {
        let (rows, width) = self.shape();
        rows * width * size_of::<f32>()
    }

    /// The rows `start..start + count`, without a copy. Fails if there are fewer rows.
    pub fn narrow(&self, start: usize, count: usize) -> Result<Self> {
        match self {
            Self::Tensor(tensor) => Ok(Self::Tensor(tensor.narrow(0, start, count)?)),
            Self::Gpu(rows) => {
                check(start + count <= rows.shape().0, || format!("no rows {start}+{count}"))?;
                Ok(Self::Gpu(rows.narrow(start, count)))
            }
        }
    }

    /// Some rows, in the given order. Fails if a row does not exist.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        match self {
            Self::Tensor(tensor) => {
                let index: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
                let index = Tensor::from_vec(index, rows.len(), tensor.device())?;
                Ok(Self::Tensor(tensor.index_select(&index, 0)?))
            }
            Self::Gpu(all) => {
                let missing = rows.iter().find(|row| **row >= all.shape().0);
                check(missing.is_none(), || format!("no row {missing:?}"))?;
                Ok(Self::Gpu(all.select(rows)?))
            }
        }
    }

    /// Some columns of all rows. Fails if the rows are narrower, or memory is missing.
    pub fn columns(&self, columns: Range<usize>) -> Result<Self> {
        let width = self.shape().1;
        let valid = columns.start <= columns.end && columns.end <= width;
        check(valid, || format!("no columns {columns:?} of {width}"))?;
        if columns.len() == width {
            return Ok(self.clone());
        }
        match self {
            Self::Tensor(tensor) => {
                Ok(Self::Tensor(tensor.narrow(1, columns.start, columns.len())?.contiguous()?))
            }
            Self::Gpu(rows) => Ok(Self::Gpu(rows.columns(columns)?)),
        }
    }

    /// The same rows padded with zeros to `width` values. Fails if the rows are wider, or memory is missing.
    pub fn widened(&self, width: usize) -> Result<Self> {
        let own = self.shape().1;
        check(own <= width, || format!("rows of {own} values do not fit into {width}"))?;
        match self {
            _ if own == width => Ok(self.clone()),
            Self::Tensor(tensor) => Ok(Self::Tensor(tensor.pad_with_zeros(1, 0, width - own)?)),
            Self::Gpu(rows) => Ok(Self::Gpu(rows.widened(width)?)),
        }
    }

    /// Rows below each other; those in host memory move to the device of the others. Fails if the rows differ in width, or there
    /// are none.
    pub fn cat(parts: &[Self]) -> Result<Self> {
        if let [part] = parts {
            return Ok(part.clone());
        }
        let width = parts.first().map_or(0, |part| part.shape().1);
        check(width > 0, || "no rows to put together".into())?;
        if let Some(first) = parts.iter().find_map(Self::on_gpu) {
            let same = parts.iter().all(|part| part.shape().1 == width);
            check(same, || "the rows differ in width".into())?;
            let host: Vec<Option<Vec<f32>>> =
                parts.iter().map(Self::in_host_memory).collect::<Result<_>>()?;
            let pieces = parts.iter().zip(&host).filter_map(|(part, host)| match host {
                Some(values) => Some(RowSource::Host(values)),
                None => part.on_gpu().map(RowSource::Device),
            });
            return Ok(Self::Gpu(below(first.stream(), &pieces.collect::<Vec<_>>(), width)?));
        }
        let tensors: Vec<&Tensor> = parts.iter().filter_map(Self::tensor).collect();
        let elsewhere = tensors.iter().map(|tensor| tensor.device()).find(|device| !device.is_cpu());
        let device = elsewhere.unwrap_or(&Device::Cpu);
        let tensors: Vec<Tensor> =
            tensors.iter().map(|tensor| tensor.to_device(device)).collect::<candle_core::Result<_>>()?;
        Ok(Self::Tensor(Tensor::cat(&tensors, 0)?))
    }

    /// The tensor, if the rows are in one.
    pub(super) fn tensor(&self) -> Option<&Tensor> {
        match self {
            Self::Tensor(tensor) => Some(tensor),
            Self::Gpu(_) => None,
        }
    }

    /// The rows, if they are on a GPU.
    pub(super) fn on_gpu(&self) -> Option<&GpuRows> {
        match self {
            Self::Gpu(rows) => Some(rows),
            Self::Tensor(_) => None,
        }
    }

    /// True unless the rows are on a GPU whose kernels this crate has.
    pub fn is_in_host_memory(&self) -> bool {
        self.on_gpu().is_none()
    }

    /// The values, unless they are on a GPU.
    pub(super) fn in_host_memory(&self) -> Result<Option<Vec<f32>>> {
        self.tensor().map(|tensor| with_tensor(tensor, <[f32]>::to_vec)).transpose()
    }

    /// The values in host memory, row by row.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        with_slice(self, <[f32]>::to_vec)
    }

    /// The rows in host memory.
    pub fn to_vec2(&self) -> Result<Vec<Vec<f32>>> {
        let width = self.shape().1.max(1);
        with_slice(self, |values| values.chunks_exact(width).map(<[f32]>::to_vec).collect())
    }
}

fn check(holds: bool, problem: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(crate::Error::Message(problem())) }
}

/// Call `f` with the values of rows: without a copy if they are in host memory, else after they were read from the device.
pub fn with_slice<T>(states: &States, f: impl FnOnce(&[f32]) -> T) -> Result<T> {
    match states {
        States::Tensor(tensor) => with_tensor(tensor, f),
        States::Gpu(rows) => Ok(f(&rows.read()?)),
    }
}

/// Call `f` with the values of an f32 tensor: without a copy if it is contiguous on the CPU, else of a copy there.
/// Errors: if the values are not f32, or the device fails.
pub(crate) fn with_tensor<T>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (candle_core::Storage::Cpu(values), Some((start, end))) => {
            Ok(f(&values.as_slice::<f32>()?[start..end]))
        }
        _ => crate::bail!("expected contiguous f32 values"),
    }
}

#[cfg(test)]
mod tests;
