//! The operations of models in candle's tensors.
//!
//! The library chooses kernels by the number of rows, so a row computed among others can differ in its last bits from the same
//! row computed alone. A pass is queued on the device without waiting. Positions, a mask and ids are sent to the device. Rows
//! that enter and leave a pass are f32; in between, values have the compute type.

mod tower;

use std::ops::Range;

use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::{ops, rotary_emb::rope};

use self::tower::{Batch, Taps, TensorLayout, attend, concatenate};
use super::{HeadNorms, Input, Loaded, Norm, Ops, Out, Part, PassSpec, Residual};
use crate::{
    CheckpointError, ComputeDevice, LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionShape, AttentionStats, Mask},
    cache::DeviceCache as _,
    candle::{
        attention::{PassAttention, ProbeSums},
        cache::TensorCache,
        linear::Matrix,
        mask,
        mixing::{self, TensorLinear},
        recurrent::Recurrent,
    },
    convolution::{Convolution, Side},
    fused::FusedMatrix,
    logits::Logits,
    recurrent::RecurrentPass,
    states::States,
    tower::{Activation, Tap, TowerLayout},
};

/// Rows of a prefill pass on an accelerator, which few rows do not fill.
const WIDE_CHUNK: usize = 1024;
/// Rows of a prefill pass on the CPU.
const CHUNK: usize = 128;
/// Patches of a chunk on an accelerator, which fewer would not fill.
const WIDE_PATCHES: usize = 8192;
/// Patches of a chunk on the CPU: more would only cost memory.
const PATCHES: usize = 1024;

#[derive(Clone, Debug)]
pub struct TensorOps {
    place: ComputeDevice,
}

/// Rows in the compute type; none before something was written to them.
#[derive(Default)]
pub struct Rows(Option<Tensor>);

impl Rows {
    fn get(&self) -> Result<&Tensor> {
        self.0.as_ref().ok_or_else(|| crate::Error::Message("rows are used before they are written".into()))
    }
}

pub struct Embeddings {
    /// `vocab × hidden`.
    table: Tensor,
    /// The head is in the same memory.
    shared: bool,
}

/// What the operations of a pass have in common.
#[derive(Default)]
pub struct TensorWork(Option<TensorPass>);

struct TensorPass {
    cos: Tensor,
    sin: Tensor,
    attention: PassAttention,
    probe: Option<ProbeSums>,
}

impl TensorWork {
    fn pass(&mut self) -> Result<&mut TensorPass> {
        self.0.as_mut().ok_or_else(|| crate::Error::Message("no pass has begun".into()))
    }
}

impl TensorOps {
    /// A device whose weight type is resolved.
    pub fn new(place: &ComputeDevice) -> Self {
        Self { place: place.clone() }
    }

    fn device(&self) -> &Device {
        self.place.device()
    }

    fn dtype(&self) -> DType {
        self.place.compute_type()
    }

    /// Values of an input tensor in the compute type.
    fn rows(&self, states: &States) -> Result<Tensor> {
        let Some(tensor) = states.tensor() else {
            let (values, shape) = (states.to_vec()?, states.shape());
            return Ok(Tensor::from_vec(values, shape, self.device())?.to_dtype(self.dtype())?);
        };
        Ok(tensor.to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?)
    }
}

fn on_tensor(name: &str) -> impl Fn(crate::Error) -> CheckpointError {
    move |error| CheckpointError::tensor(name, &error.to_string())
}

impl Ops for TensorOps {
    type Matrix = Matrix;
    type Vector = Tensor;
    type Table = Embeddings;
    type Columns = Tensor;
    type Linear = TensorLinear;
    type Layout = TensorLayout;
    type Recurrent = Recurrent;
    type Rows = Rows;
    type Cache = TensorCache;
    type Work = TensorWork;

    fn is_exact(&self) -> bool {
        false
    }

    fn chunk(&self) -> usize {
        if self.device().is_cpu() { CHUNK } else { WIDE_CHUNK }
    }

    fn chunk_patches(&self, _: usize) -> usize {
        if self.device().is_cpu() { PATCHES } else { WIDE_PATCHES }
    }

    fn rows_at_once(&self, _: usize) -> usize {
        usize::MAX
    }

    fn for_ends(&self) -> Self {
        self.clone()
    }

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Matrix> {
        let (weight, bias) = (list.weights(checkpoint)?, list.biases(checkpoint)?);
        let dtype = self.place.dtype().kept(list.importance);
        Matrix::new(weight, bias, [list.outputs(), list.inputs], dtype, &self.place)
            .map_err(on_tensor(list.name()))
    }

    fn tower_matrix(&self, list: &FusedMatrix, _: bool, checkpoint: &dyn Weights) -> Loaded<Matrix> {
        let (weight, bias) = (list.weights(checkpoint)?, list.biases(checkpoint)?);
        let shape = [list.outputs(), list.inputs];
        Matrix::floats(weight, bias, shape, &self.place).map_err(on_tensor(list.name()))
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Tensor> {
        let width = values.len();
        self.place.tensor(values, &[width]).map_err(on_tensor(name))
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<Tensor> {
        let count = columns.len();
        let columns = Tensor::from_vec(columns, count, self.device()).map_err(crate::Error::from);
        columns.map_err(on_tensor("chosen columns"))
    }

    fn linear(&self, name: &str, weights: LinearWeights) -> Loaded<TensorLinear> {
        TensorLinear::new(weights, self.device()).map_err(on_tensor(name))
    }

    fn recurrent(&self, layers: usize, shape: LinearAttention) -> Recurrent {
        Recurrent::new(layers, shape, self.device())
    }

    fn embeddings(
        &self,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
    ) -> Loaded<(Embeddings, Matrix)> {
        let shape = [head.outputs(), head.inputs];
        let table = self.place.tensor(checkpoint.f32(name, &shape)?, &shape).map_err(on_tensor(name))?;
        // A tied table is the head; it is stored once.
        let shared = tied && !self.place.quantizes();
        let head = if shared { Matrix::of(table.clone()) } else { self.matrix(head, checkpoint)? };
        Ok((Embeddings { table, shared }, head))
    }

    fn matrix_bytes(matrix: &Matrix) -> usize {
        matrix.bytes()
    }

    fn table_bytes(table: &Embeddings) -> usize {
        if table.shared { 0 } else { table.table.elem_count() * table.table.dtype().size_in_bytes() }
    }

    fn slot_bytes(&self, shape: AttentionShape) -> usize {
        2 * shape.kv_heads * shape.head_dim * self.dtype().size_in_bytes()
    }

    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> TensorCache {
        TensorCache::new(layers, shape.kv_heads, shape.head_dim, capacity, self.dtype(), self.device())
    }

    fn embed(&self, table: &Embeddings, ids: &[u32]) -> Result<States> {
        let ids = Tensor::from_slice(ids, ids.len(), self.device())?;
        Ok(States::Tensor(table.table.index_select(&ids, 0)?.to_dtype(DType::F32)?))
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

    fn begin(&self, work: &mut TensorWork, pass: &PassSpec<'_>, cache: &mut TensorCache) -> Result<()> {
        let PassSpec { rows, layers, shape, cos, sin, mask, probe } = pass;
        if !cache.device().same_device(self.device()) {
            crate::bail!("the decoder and the cache are on different devices");
        }
        cache.reserve(*rows)?;
        let before = cache.len();
        // One transfer: small ones cost as much as large ones.
        let angles = [&cos[..], sin].concat();
        let angles = Tensor::from_vec(angles, (2, *rows, shape.head_dim / 2), self.device())?
            .to_dtype(self.dtype())?;
        let hidden = mask::hidden(mask, before, *rows, self.dtype(), self.device())?;
        work.0 = Some(TensorPass {
            cos: angles.get(0)?,
            sin: angles.get(1)?,
            attention: PassAttention::new(*shape, before + rows, **mask == Mask::Causal, hidden)?,
            probe: probe.map(|probe| ProbeSums::new(probe, *layers)),
        });
        Ok(())
    }

    fn load(&self, _: &mut TensorWork, table: &Embeddings, input: Input<'_>, x: &mut Rows) -> Result<()> {
        let rows = match input {
            Input::Ids(ids) => self.rows(&self.embed(table, ids)?)?,
            Input::States(states) => self.rows(states)?,
        };
        x.0 = Some(rows);
        Ok(())
    }

    fn patches(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        patches: &[f32],
        part: Part,
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

    fn part(&self, _: &mut TensorWork, rows: &Rows, part: Part, out: Out<'_, Self>) -> Result<()> {
        out.rows.0 = Some(rows.get()?.narrow(0, part.start, part.rows)?);
        Ok(())
    }

    fn norm(
        &self,
        _: &mut TensorWork,
        Residual { x, add, .. }: Residual<'_, Rows>,
        norm: &Norm<Tensor>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        if let Some(add) = add {
            x.0 = Some((x.get()? + add.get()?)?);
        }
        let x = x.get()?.reshape(((), norm.width))?;
        let normed = match &norm.bias {
            None => ops::rms_norm(&x, &norm.weight, norm.eps)?,
            Some(bias) => ops::layer_norm(&x, &norm.weight, bias, norm.eps)?,
        };
        out.rows.0 = Some(normed.reshape(((), norm.joined * norm.width))?);
        Ok(())
    }

    fn product(&self, _: &mut TensorWork, matrix: &Matrix, x: &Rows, _: Part, out: &mut Rows) -> Result<()> {
        out.0 = Some(matrix.forward(x.get()?)?);
        Ok(())
    }

    fn gated(&self, _: &mut TensorWork, matrix: &Matrix, x: &Rows, out: Out<'_, Self>) -> Result<()> {
        out.rows.0 = Some(matrix.forward_gated(x.get()?)?);
        Ok(())
    }

    fn activate(
        &self,
        _: &mut TensorWork,
        activation: Activation,
        x: &mut Rows,
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

    fn store(
        &self,
        work: &mut TensorWork,
        pass: &PassSpec<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Tensor>>,
        cache: &mut TensorCache,
        layer: usize,
    ) -> Result<()> {
        let AttentionShape { heads, kv_heads, head_dim } = pass.shape;
        let TensorPass { cos, sin, .. } = work.pass()?;
        let split = (pass.rows, heads + 2 * kv_heads, head_dim);
        let split = qkv.get()?.reshape(split)?.transpose(0, 1)?.contiguous()?;
        let mut qk = split.narrow(0, 0, heads + kv_heads)?;
        if let Some(norms) = norms {
            let normed =
                |first, count, weight| ops::rms_norm(&qk.narrow(0, first, count)?, weight, norms.eps);
            qk = Tensor::cat(&[normed(0, heads, norms.queries)?, normed(heads, kv_heads, norms.keys)?], 0)?;
        }
        let qk = candle_nn::rotary_emb::rope(&qk.unsqueeze(0)?, cos, sin)?.squeeze(0)?;
        cache.write(layer, &qk.narrow(0, heads, kv_heads)?, &split.narrow(0, heads + kv_heads, kv_heads)?)?;
        // Only the queries are needed from here on: `heads × rows × head_dim`.
        qkv.0 = Some(qk.narrow(0, 0, heads)?);
        Ok(())
    }

    fn attend(
        &self,
        work: &mut TensorWork,
        _: &PassSpec<'_>,
        qkv: &Rows,
        cache: &TensorCache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let pass = work.pass()?;
        let (keys, values) = cache.layer(layer, pass.attention.slots)?;
        out.rows.0 = Some(pass.attention.run(qkv.get()?, &keys, &values, pass.probe.as_mut())?);
        Ok(())
    }

    fn attend_in_grids(
        &self,
        _: &mut TensorWork,
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

    fn mix(
        &self,
        _: &mut TensorWork,
        mixed: &Rows,
        weights: &TensorLinear,
        pass: RecurrentPass<'_, Recurrent>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.0 = Some(mixing::mix(mixed.get()?, weights, pass)?);
        Ok(())
    }

    fn choose(&self, _: &mut TensorWork, from: &Rows, columns: &Tensor, x: &mut Rows) -> Result<()> {
        x.0 = Some(from.get()?.index_select(columns, 1)?);
        Ok(())
    }

    fn gate_by(&self, _: &mut TensorWork, gates: &Rows, Out { rows: x, .. }: Out<'_, Self>) -> Result<()> {
        x.0 = Some((x.get()? * ops::sigmoid(gates.get()?)?)?);
        Ok(())
    }

    fn convolve(
        &self,
        _: &mut TensorWork,
        x: &Rows,
        corrections: &Rows,
        convolution: &Convolution<Tensor>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let ([first, own], taps) = (convolution.first(side), convolution.shape.taps);
        let (x, corrections) = (x.get()?, corrections.get()?);
        let ((rows, width), groups) = (x.dims2()?, convolution.width / convolution.shape.group);
        let shared = convolution.shared.narrow(0, first, taps * width)?.reshape((taps, groups, ()))?;
        let mut sum: Option<Tensor> = None;
        for tap in 0..taps.min(rows) {
            let corrections = corrections.narrow(1, own + tap * groups, groups)?.unsqueeze(2)?;
            let kernel = corrections.broadcast_add(&shared.get(tap)?)?.reshape((rows, width))?;
            let shifted = x.narrow(0, 0, rows - tap)?.pad_with_zeros(0, tap, 0)?;
            let mixed = (kernel * shifted)?;
            sum = Some(match sum {
                None => mixed,
                Some(sum) => (sum + mixed)?,
            });
        }
        out.rows.0 = sum;
        Ok(())
    }

    fn add(&self, _: &mut TensorWork, x: &mut Rows, _: Part, add: &Rows) -> Result<()> {
        x.0 = Some((x.get()? + add.get()?)?);
        Ok(())
    }

    fn add_positions(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        x: &mut Rows,
        positions: &Tensor,
    ) -> Result<()> {
        let (per_grid, (all, width)) = (layout.layout.order.len(), x.get()?.dims2()?);
        let grids = x.get()?.reshape((all / per_grid.max(1), per_grid, width))?;
        let positions = positions.reshape(((), width))?;
        x.0 = Some(grids.broadcast_add(&positions)?.reshape((all, width))?);
        Ok(())
    }

    fn columns(&self, _: &mut TensorWork, from: &Rows, columns: Range<usize>, x: &mut Rows) -> Result<()> {
        x.0 = Some(from.get()?.narrow(1, columns.start, columns.len())?.contiguous()?);
        Ok(())
    }

    fn add_columns(
        &self,
        _: &mut TensorWork,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        x.0 = Some((x.get()? + from.get()?.narrow(1, columns.start, columns.len())?)?);
        Ok(())
    }

    fn keep(&self, _: &mut TensorWork, rows: &Rows) -> Result<States> {
        Ok(States::Tensor(rows.get()?.to_dtype(DType::F32)?))
    }

    fn finish(
        &self,
        work: &mut TensorWork,
        pass: &PassSpec<'_>,
        cache: &mut TensorCache,
    ) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        work.0.take().and_then(|pass| pass.probe).map(ProbeSums::finish).transpose()
    }

    fn blend(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        rows: &Rows,
        grids: usize,
        out: &mut Rows,
    ) -> Result<()> {
        out.0 = Some(layout.blend(rows.get()?, grids)?.flatten(0, 1)?);
        Ok(())
    }

    fn result(
        &self,
        _: &mut TensorWork,
        layout: &TensorLayout,
        blocks: &[Rows],
        grids: usize,
    ) -> Result<States> {
        let of_block = |block: &Rows| layout.blend(block.get()?, grids);
        let blocks = blocks.iter().map(of_block).collect::<Result<Vec<_>>>()?;
        let all = concatenate(blocks, 2)?;
        Ok(States::Tensor(all.flatten(0, 1)?.to_dtype(DType::F32)?))
    }

    fn project(&self, _: &mut TensorWork, matrix: &Matrix, states: &States) -> Result<States> {
        Ok(States::Tensor(matrix.forward(&self.rows(states)?)?.to_dtype(DType::F32)?))
    }

    fn logits(&self, _: &mut TensorWork, head: &Matrix, states: &States) -> Result<Logits> {
        let logits = head.forward(&self.rows(states)?)?.to_dtype(DType::F32)?;
        self.device().synchronize()?;
        Ok(Logits::Tensor(logits))
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        Ok(States::Tensor(Tensor::cat(&[self.rows(a)?, self.rows(b)?], 1)?.to_dtype(DType::F32)?))
    }

    fn synchronize(&self, _: &mut TensorWork) -> Result<()> {
        Ok(self.device().synchronize()?)
    }
}
