//! What vision towers need in candle's tensors: layouts, and attention in bounded memory.

use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use crate::{
    Result,
    tower::{Tap, TowerLayout},
};

/// Attention scores in memory at a time, in values: 64 MiB as f32 on the CPU, 256 MiB as bf16 on an accelerator.
fn max_scores(device: &Device) -> usize {
    if device.is_cpu() { 1 << 24 } else { 1 << 27 }
}

/// A layout, in the form that the device needs.
pub struct TensorLayout {
    pub(super) layout: TowerLayout,
    /// Cosines and sines, `rows × head_dim / 2`.
    pub(super) angles: Option<[Tensor; 2]>,
    taps: Taps,
}

/// For each list of taps, the rows, and the weights (`rows × 1`) unless they are all 1.
pub(super) struct Taps(Vec<(Tensor, Option<Tensor>)>);

impl Taps {
    pub(super) fn new(taps: &[Vec<Tap>], dtype: DType, device: &Device) -> Result<Self> {
        let list = |taps: &Vec<Tap>| {
            let rows = Tensor::from_iter(taps.iter().map(|tap| tap.row), device)?;
            let weights = match taps.iter().all(|tap| tap.weight == 1.0) {
                true => None,
                false => {
                    let weights = taps.iter().map(|tap| tap.weight).collect();
                    let weights = Tensor::from_vec(weights, (taps.len(), 1), &Device::Cpu)?;
                    Some(weights.to_dtype(dtype)?.to_device(device)?)
                }
            };
            Ok((rows, weights))
        };
        Ok(Self(taps.iter().map(list).collect::<Result<_>>()?))
    }

    /// Weighted sums of rows of `[.., rows, width]`.
    pub(super) fn sum(&self, rows: &Tensor) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for (index, weights) in &self.0 {
            let part = rows.index_select(index, rows.rank() - 2)?;
            let part = match weights {
                Some(weights) => part.broadcast_mul(weights)?,
                None => part,
            };
            sum = Some(match sum {
                Some(sum) => (sum + part)?,
                None => part,
            });
        }
        sum.ok_or_else(|| crate::Error::Message("rows are to be put together of no taps".into()))
    }
}

/// Windows of equal size next to each other.
pub(super) struct Batch {
    pub(super) count: usize,
    pub(super) size: usize,
}

impl TensorLayout {
    pub(super) fn new(layout: TowerLayout, dtype: DType, device: &Device) -> Result<Self> {
        let tensor = |values: &[f32]| Tensor::from_slice(values, (layout.order.len(), ()), device);
        let angles = match &layout.angles {
            Some(angles) => Some([tensor(&angles.cos)?, tensor(&angles.sin)?]),
            None => None,
        };
        Ok(Self { angles, taps: Taps::new(&layout.taps, dtype, device)?, layout })
    }

    /// What the taps make of the rows of `grids` grids: `[grids, results, width]`.
    pub(super) fn blend(&self, rows: &Tensor, grids: usize) -> Result<Tensor> {
        let (all, width) = rows.dims2()?;
        self.taps.sum(&rows.reshape((grids, all / grids.max(1), width))?)
    }

    pub(super) fn batches(&self, windows: bool) -> Vec<Batch> {
        if !windows {
            return vec![Batch { count: 1, size: self.layout.order.len() }];
        }
        let equal = self.layout.windows.chunk_by(|a, b| a.len() == b.len());
        equal.map(|windows| Batch { count: windows.len(), size: windows[0].len() }).collect()
    }
}

/// Softmax attention of `[b, n, d]` queries (already scaled), keys and values, for some queries at a time so that the scores
/// stay bounded.
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let (batch, n, _) = q.dims3()?;
    let keys = k.transpose(1, 2)?.contiguous()?;
    let rows = (max_scores(q.device()) / (batch * n).max(1)).clamp(1, n);
    let mut parts = Vec::with_capacity(n.div_ceil(rows));
    for start in (0..n).step_by(rows) {
        let part = q.narrow(1, start, rows.min(n - start))?.contiguous()?;
        parts.push(ops::softmax_last_dim(&part.matmul(&keys)?)?.matmul(v)?);
    }
    concatenate(parts, 1)
}

/// Concatenate tensors along a dimension, without a copy if there is one.
pub(super) fn concatenate(mut parts: Vec<Tensor>, dim: usize) -> Result<Tensor> {
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Ok(Tensor::cat(&parts, dim)?) }
}
