//! Rows of values that stay on the device that computed them until somebody reads them.

mod host;

use std::ops::Range;

use crate::{
    Result,
    candle::states::CandleRows,
    gpu::states::{GpuRows, RowSource, below},
};

pub use self::host::HostRows;

/// Rows of f32 values, `rows × width`: embeddings, or states of a pass. Cloning shares the values.
#[derive(Clone, Debug)]
pub enum States {
    /// On the CPU.
    Host(HostRows),
    /// On a GPU through wgpu.
    Gpu(GpuRows),
    /// On an accelerator in candle's tensors.
    Candle(CandleRows),
}

impl States {
    /// Rows of `width` values in host memory. Fails if the values are not whole rows.
    pub fn new(values: Vec<f32>, width: usize) -> Result<Self> {
        HostRows::new(values, width).map(Self::Host)
    }

    /// Number of rows and values of a row.
    pub fn shape(&self) -> (usize, usize) {
        match self {
            Self::Host(rows) => rows.shape(),
            Self::Gpu(rows) => rows.shape(),
            Self::Candle(rows) => rows.shape(),
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
        check(start.saturating_add(count) <= self.rows(), || format!("no rows {start}+{count}"))?;
        Ok(match self {
            Self::Host(rows) => Self::Host(rows.narrow(start, count)),
            Self::Gpu(rows) => Self::Gpu(rows.narrow(start, count)),
            Self::Candle(rows) => Self::Candle(rows.narrow(start, count)?),
        })
    }

    /// Some rows, in the given order. Fails if a row does not exist.
    pub fn select(&self, rows: &[usize]) -> Result<Self> {
        let missing = rows.iter().find(|row| **row >= self.rows());
        check(missing.is_none(), || format!("no row {missing:?}"))?;
        Ok(match self {
            Self::Host(all) => Self::Host(all.select(rows)),
            Self::Gpu(all) => Self::Gpu(all.select(rows)?),
            Self::Candle(all) => Self::Candle(all.select(rows)?),
        })
    }

    /// Some columns of all rows. Fails if the rows are narrower, or memory is missing.
    pub fn columns(&self, columns: Range<usize>) -> Result<Self> {
        let width = self.shape().1;
        let valid = columns.start <= columns.end && columns.end <= width;
        check(valid, || format!("no columns {columns:?} of {width}"))?;
        if columns.len() == width {
            return Ok(self.clone());
        }
        Ok(match self {
            Self::Host(rows) => Self::Host(rows.columns(columns)),
            Self::Gpu(rows) => Self::Gpu(rows.columns(columns)?),
            Self::Candle(rows) => Self::Candle(rows.columns(columns)?),
        })
    }

    /// The same rows padded with zeros to `width` values. Fails if the rows are wider, or memory is missing.
    pub fn widened(&self, width: usize) -> Result<Self> {
        let own = self.shape().1;
        check(own <= width, || format!("rows of {own} values do not fit into {width}"))?;
        Ok(match self {
            _ if own == width => self.clone(),
            Self::Host(rows) => Self::Host(rows.widened(width)),
            Self::Gpu(rows) => Self::Gpu(rows.widened(width)?),
            Self::Candle(rows) => Self::Candle(rows.widened(width)?),
        })
    }

    /// Rows below each other; those in host memory move to the device of the others. Fails if the rows differ in width, or there
    /// are none.
    pub fn cat(parts: &[Self]) -> Result<Self> {
        if let [part] = parts {
            return Ok(part.clone());
        }
        let width = parts.first().map_or(0, |part| part.shape().1);
        check(width > 0, || "no rows to put together".into())?;
        let same = parts.iter().all(|part| part.shape().1 == width);
        check(same, || "the rows differ in width".into())?;
        if let Some(first) = parts.iter().find_map(Self::on_gpu) {
            let host: Vec<Option<Vec<f32>>> =
                parts.iter().map(Self::in_host_memory).collect::<Result<_>>()?;
            let pieces = parts.iter().zip(&host).filter_map(|(part, host)| match host {
                Some(values) => Some(RowSource::Host(values)),
                None => part.on_gpu().map(RowSource::Device),
            });
            return Ok(Self::Gpu(below(first.stream(), &pieces.collect::<Vec<_>>(), width)?));
        }
        if let Some(first) = parts.iter().find_map(Self::in_tensors) {
            let moved = parts.iter().map(|part| match part.in_tensors() {
                Some(rows) => Ok(rows.clone()),
                None => with_slice(part, |values| first.upload(values, width))?,
            });
            return Ok(Self::Candle(CandleRows::below(&moved.collect::<Result<Vec<_>>>()?)?));
        }
        let mut all = Vec::with_capacity(width * parts.iter().map(Self::rows).sum::<usize>());
        for part in parts {
            with_slice(part, |values| all.extend_from_slice(values))?;
        }
        Self::new(all, width)
    }

    /// The rows, if they are on an accelerator in candle's tensors.
    pub(super) fn in_tensors(&self) -> Option<&CandleRows> {
        match self {
            Self::Candle(rows) => Some(rows),
            Self::Host(_) | Self::Gpu(_) => None,
        }
    }

    /// The rows, if they are on a GPU.
    pub(super) fn on_gpu(&self) -> Option<&GpuRows> {
        match self {
            Self::Gpu(rows) => Some(rows),
            Self::Host(_) | Self::Candle(_) => None,
        }
    }

    /// True unless the rows are on a GPU whose kernels this crate has.
    pub fn is_in_host_memory(&self) -> bool {
        self.on_gpu().is_none()
    }

    /// The values, unless they are on a GPU.
    pub(super) fn in_host_memory(&self) -> Result<Option<Vec<f32>>> {
        if self.is_in_host_memory() { self.to_vec().map(Some) } else { Ok(None) }
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
        States::Host(rows) => Ok(f(rows.values())),
        States::Gpu(rows) => Ok(f(&rows.read()?)),
        States::Candle(rows) => rows.with_values(f),
    }
}

#[cfg(test)]
mod tests;
