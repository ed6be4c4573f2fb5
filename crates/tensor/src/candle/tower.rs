//! The operations of vision towers in candle's tensors: matrices and states in the compute type, rotation in f32.

use crate::Result;
use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::{ops, rotary_emb::rope};

use super::{
    linear::Matrix,
    ops::{Rows, TensorOps, on_tensor},
};
use crate::Weights;
use crate::{
    fused::FusedMatrix,
    ops::Loaded,
    states::States,
    tower_ops::{Activation, Norm, Part, Tap, TowerLayout, TowerOps},
};

/// Patches of a chunk on the CPU: more would only cost memory.
const CHUNK: usize = 1024;
/// Patches of a chunk on an accelerator, which fewer would not fill.
const WIDE_CHUNK: usize = 8192;

/// Attention scores in memory at a time, in values: 64 MiB as f32 on the CPU, 256 MiB as bf16 on an accelerator.
fn max_scores(device: &Device) -> usize {
    if device.is_cpu() { 1 << 24 } else { 1 << 27 }
}

/// A layout, and what the device needs of it.
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
struct Batch {
    count: usize,
    size: usize,
}

impl TensorLayout {
    fn batches(&self, windows: bool) -> Vec<Batch> {
        if !windows {
            return vec![Batch { count: 1, size: self.layout.order.len() }];
        }
        let equal = self.layout.windows.chunk_by(|a, b| a.len() == b.len());
        equal.map(|windows| Batch { count: windows.len(), size: windows[0].len() }).collect()
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

impl TowerOps for TensorOps {
    type Layout = TensorLayout;

    fn chunk_patches(&self, _: usize) -> usize {
        if self.device().is_cpu() { CHUNK } else { WIDE_CHUNK }
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

    fn positions(&self, name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Loaded<Tensor> {
        self.place.tensor(checkpoint.f32(name, &shape)?, &shape).map_err(on_tensor(name))
    }

    fn interpolate(&self, (): &mut (), table: &Tensor, _: usize, taps: &[Vec<Tap>]) -> Result<Tensor> {
        // In f32 for any compute type.
        let sums = Taps::new(taps, DType::F32, self.device())?.sum(&table.to_dtype(DType::F32)?)?;
        Ok(sums.to_dtype(table.dtype())?)
    }

    fn layout(&self, layout: TowerLayout) -> Result<TensorLayout> {
        let device = self.device();
        let tensor = |values: &[f32]| Tensor::from_slice(values, (layout.order.len(), ()), device);
        let angles = match &layout.angles {
            Some(angles) => Some([tensor(&angles.cos)?, tensor(&angles.sin)?]),
            None => None,
        };
        Ok(TensorLayout { angles, taps: Taps::new(&layout.taps, self.place.compute_type(), device)?, layout })
    }

    fn patches(
        &self,
        (): &mut (),
        layout: &TensorLayout,
        patches: &[f32],
        part: Part,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        let (order, row) = (&layout.layout.order, patches.len() / part.of.max(1));
        let mut values = Vec::with_capacity(part.rows * row);
        for r in part.range() {
            let patch = r / order.len() * order.len() + order[r % order.len()] as usize;
            values.extend_from_slice(&patches[patch * row..(patch + 1) * row]);
        }
        out.0 = Some(self.place.tensor(values, &[part.rows, row])?);
        Ok(())
    }

    fn multiply(&self, (): &mut (), matrix: &Matrix, x: &Rows, _: Part, out: &mut Rows) -> Result<()> {
        out.0 = Some(matrix.forward(x.get()?)?);
        Ok(())
    }

    fn add_positions(
        &self,
        (): &mut (),
        layout: &TensorLayout,
        x: &mut Rows,
        positions: &Tensor,
    ) -> Result<()> {
        let (per_grid, (all, width)) = (layout.layout.order.len(), x.get()?.dims2()?);
        let grids = x.get()?.reshape((all / per_grid.max(1), per_grid, width))?;
        x.0 = Some(grids.broadcast_add(positions)?.reshape((all, width))?);
        Ok(())
    }

    fn normalize(
        &self,
        (): &mut (),
        x: &mut Rows,
        _: Part,
        add: Option<&Rows>,
        norm: &Norm<Tensor>,
        joined: usize,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        if let Some(add) = add {
            x.0 = Some((x.get()? + add.get()?)?);
        }
        let x = x.get()?.reshape(((), norm.width))?;
        let normed = match &norm.bias {
            None => ops::rms_norm(&x, &norm.weight, norm.eps)?,
            Some(bias) => ops::layer_norm(&x, &norm.weight, bias, norm.eps)?,
        };
        let (rows, width) = x.dims2()?;
        out.0 = Some(normed.reshape((rows / joined, joined * width))?);
        Ok(())
    }

    fn attend_in_grids(
        &self,
        (): &mut (),
        layout: &TensorLayout,
        qkv: &Rows,
        grids: usize,
        windows: bool,
        out: &mut Rows,
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
        for Batch { count, size } in layout.batches(windows) {
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

    fn part(&self, (): &mut (), rows: &Rows, part: Part, _: &Matrix, out: &mut Rows) -> Result<()> {
        out.0 = Some(rows.get()?.narrow(0, part.start, part.rows)?);
        Ok(())
    }

    fn gate(
        &self,
        (): &mut (),
        matrix: &Matrix,
        x: &Rows,
        _: usize,
        _: &mut Rows,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        out.0 = Some(matrix.forward_gated(x.get()?)?);
        Ok(())
    }

    fn activate(
        &self,
        (): &mut (),
        activation: Activation,
        x: &mut Rows,
        _: usize,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        let x = x.get()?;
        out.0 = Some(match activation {
            Activation::QuickGelu => (x * ops::sigmoid(&(x * 1.702)?)?)?,
            Activation::GeluTanh => x.gelu()?,
            Activation::GeluErf => x.gelu_erf()?,
        });
        Ok(())
    }

    fn accumulate(&self, (): &mut (), x: &mut Rows, _: Part, add: &Rows) -> Result<()> {
        x.0 = Some((x.get()? + add.get()?)?);
        Ok(())
    }

    fn result(&self, (): &mut (), layout: &TensorLayout, blocks: &[Rows], grids: usize) -> Result<States> {
        let of_block = |block: &Rows| {
            let rows = block.get()?;
            let (all, width) = rows.dims2()?;
            layout.taps.sum(&rows.reshape((grids, all / grids.max(1), width))?)
        };
        let blocks = blocks.iter().map(of_block).collect::<Result<Vec<_>>>()?;
        let all = concatenate(blocks, 2)?;
        Ok(States::Tensor(all.flatten(0, 1)?.to_dtype(DType::F32)?))
    }
}
