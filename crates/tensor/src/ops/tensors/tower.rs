//! What vision towers do in candle's tensors: layouts, and attention in bounded memory.

use candle_core::{DType, Device, IndexOp as _, Tensor};
use candle_nn::{ops, rotary_emb::rope};

use super::{TensorOps, TensorRows, TensorWork, on_tensor};
use crate::{
    Result, Weights,
    candle::{linear::Matrix, states::CandleRows},
    fused::FusedMatrix,
    ops::{Loaded, Out, RowPart, TowerOps},
    states::States,
    tower::{Activation, Tap, TowerLayout},
};

/// Patches of a chunk on an accelerator, which fewer would not fill.
const WIDE_PATCHES: usize = 8192;
/// Patches of a chunk on the CPU: more would only cost memory.
const PATCHES: usize = 1024;

/// Attention scores in memory at a time, in values: 64 MiB as f32 on the CPU, 256 MiB as bf16 on an accelerator.
fn max_scores(device: &Device) -> usize {
    if device.is_cpu() { 1 << 24 } else { 1 << 27 }
}

/// A layout, in the form that the device needs.
pub struct TensorLayout {
    layout: TowerLayout,
    /// Cosines and sines, `rows × head_dim / 2`.
    angles: Option<[Tensor; 2]>,
    taps: Taps,
}

/// For each list of taps, the rows, and the weights (`rows × 1`) unless they are all 1.
struct Taps(Vec<(Tensor, Option<Tensor>)>);

impl Taps {
    fn new(taps: &[Vec<Tap>], dtype: DType, device: &Device) -> Result<Self> {
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
    fn sum(&self, rows: &Tensor) -> Result<Tensor> {
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
struct EqualWindows {
    count: usize,
    size: usize,
}

impl TensorLayout {
    fn new(layout: TowerLayout, dtype: DType, device: &Device) -> Result<Self> {
        let tensor = |values: &[f32]| Tensor::from_slice(values, (layout.order.len(), ()), device);
        let angles = match &layout.angles {
            Some(angles) => Some([tensor(&angles.cos)?, tensor(&angles.sin)?]),
            None => None,
        };
        Ok(Self { angles, taps: Taps::new(&layout.taps, dtype, device)?, layout })
    }

    /// What the taps make of the rows of `grids` grids: `[grids, results, width]`.
    fn blend(&self, rows: &Tensor, grids: usize) -> Result<Tensor> {
        let (all, width) = rows.dims2()?;
        self.taps.sum(&rows.reshape((grids, all / grids.max(1), width))?)
    }

    fn batches(&self, windows: bool) -> Vec<EqualWindows> {
        if !windows {
            return vec![EqualWindows { count: 1, size: self.layout.order.len() }];
        }
        let equal = self.layout.windows.chunk_by(|a, b| a.len() == b.len());
        equal.map(|windows| EqualWindows { count: windows.len(), size: windows[0].len() }).collect()
    }
}

impl TowerOps for TensorOps {
    type Layout = TensorLayout;

    fn chunk_patches(&self, _: usize) -> usize {
        if self.device().is_cpu() { PATCHES } else { WIDE_PATCHES }
    }

    fn rows_at_once(&self, _: usize) -> usize {
        usize::MAX
    }

    fn for_ends(&self) -> Self {
        self.clone()
    }

    fn tower_matrix(&self, list: &FusedMatrix, _: bool, checkpoint: &dyn Weights) -> Loaded<Matrix> {
        let (weight, bias) = (list.weights(checkpoint)?, list.biases(checkpoint)?);
        let shape = [list.outputs(), list.inputs];
        Matrix::floats(weight, bias, shape, &self.place).map_err(on_tensor(list.name()))
    }

    fn layout(&self, layout: TowerLayout) -> Result<TensorLayout> {
        TensorLayout::new(layout, self.dtype(), self.device())
    }

    fn interpolate(
        &self,
        _: &mut TensorWork,
        table: &Tensor,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Tensor> {
        // In f32 for any compute type.
        let rows = table.reshape(((), width))?.to_dtype(DType::F32)?;
        Ok(Taps::new(taps, DType::F32, self.device())?.sum(&rows)?.to_dtype(table.dtype())?)
    }

    fn patches(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        patches: &[f32],
        part: RowPart,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let (order, row) = (&layout.layout.order, patches.len() / part.of.max(1));
        let mut values = Vec::with_capacity(part.rows * row);
        for r in part.range() {
            let patch = r / order.len() * order.len() + order[r % order.len()] as usize;
            values.extend_from_slice(&patches[patch * row..(patch + 1) * row]);
        }
        out.rows.0 = Some(self.place.tensor(values, &[part.rows, row])?);
        Ok(())
    }

    fn activate(
        &self,
        _: &mut TensorWork,
        activation: Activation,
        x: &mut TensorRows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let x = x.get()?;
        out.rows.0 = Some(match activation {
            Activation::QuickGelu => (x * ops::sigmoid(&(x * 1.702)?)?)?,
            Activation::GeluTanh => x.gelu()?,
            Activation::GeluErf => x.gelu_erf()?,
        });
        Ok(())
    }

    fn attend_in_grids(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        qkv: &TensorRows,
        grids: usize,
        windows: bool,
        out: &mut TensorRows,
    ) -> Result<()> {
        let TowerLayout { heads, head_dim, .. } = layout.layout;
        let n = layout.layout.order.len();
        // [3, grids, heads, n, head_dim]
        let qkv = qkv.get()?.reshape((grids, n, 3, heads, head_dim))?.permute((2, 0, 3, 1, 4))?;
        let dtype = qkv.dtype();
        let part = |i: usize| qkv.i(i)?.contiguous();
        // The rotation is computed in f32 for any compute type.
        let rotate = |part: Tensor| match &layout.angles {
            Some([cos, sin]) => rope(&part.to_dtype(DType::F32)?, cos, sin)?.to_dtype(dtype),
            None => Ok(part),
        };
        let q = (rotate(part(0)?)? * (head_dim as f64).powf(-0.5))?;
        let (k, v) = (rotate(part(1)?)?, part(2)?);
        let all = grids * heads;
        let mut parts = Vec::new();
        let mut start = 0;
        for EqualWindows { count, size } in layout.batches(windows) {
            let windows = |t: &Tensor| {
                t.narrow(2, start, count * size)?.contiguous()?.reshape((all * count, size, head_dim))
            };
            let y = attend(&windows(&q)?, &windows(&k)?, &windows(&v)?)?;
            parts.push(y.reshape((grids, heads, count * size, head_dim))?);
            start += count * size;
        }
        let y = concatenate(parts, 2)?.transpose(1, 2)?.contiguous()?;
        out.0 = Some(y.reshape((grids * n, heads * head_dim))?);
        Ok(())
    }

    fn add_positions(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        x: &mut TensorRows,
        positions: &Tensor,
    ) -> Result<()> {
        let (per_grid, (all, width)) = (layout.layout.order.len(), x.get()?.dims2()?);
        let grids = x.get()?.reshape((all / per_grid.max(1), per_grid, width))?;
        let positions = positions.reshape(((), width))?;
        x.0 = Some(grids.broadcast_add(&positions)?.reshape((all, width))?);
        Ok(())
    }

    fn blend(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        rows: &TensorRows,
        grids: usize,
        out: &mut TensorRows,
    ) -> Result<()> {
        out.0 = Some(layout.blend(rows.get()?, grids)?.flatten(0, 1)?);
        Ok(())
    }

    fn result(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        blocks: &[TensorRows],
        grids: usize,
    ) -> Result<States> {
        let of_block = |block: &TensorRows| layout.blend(block.get()?, grids);
        let blocks = blocks.iter().map(of_block).collect::<Result<Vec<_>>>()?;
        CandleRows::new(&concatenate(blocks, 2)?.flatten(0, 1)?).map(States::Candle)
    }
}

/// Softmax attention of `[b, n, d]` queries (already scaled), keys and values, for some queries at a time so that the scores
/// stay bounded.
fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
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
fn concatenate(mut parts: Vec<Tensor>, dim: usize) -> Result<Tensor> {
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Ok(Tensor::cat(&parts, dim)?) }
}
