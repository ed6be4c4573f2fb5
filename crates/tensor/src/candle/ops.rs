//! The operations of models in candle's tensors.
//!
//! The library chooses kernels by the number of rows, so a row computed among others can differ in its last bits from the same
//! row computed alone. A pass is queued on the device without waiting. Positions, a mask and ids are sent to the device. Rows
//! that enter and leave a pass are f32; in between, values have the compute type.

use std::ops::Range;

use crate::Result;
use candle_core::{DType, Device, Tensor};
use candle_nn::ops;

use super::{
    attention::{PassAttention, ProbeSums},
    cache::TensorCache,
    linear::Matrix,
    mask,
    mixing::{self, TensorLinear},
    recurrent::Recurrent,
};
use crate::Weights;
use crate::{
    CheckpointError, ComputeDevice, LinearAttention,
    attention::{AttentionShape, AttentionStats, Mask},
    fused::FusedMatrix,
    logits::Logits,
    ops::{DeviceCache as _, HeadNorms, Input, LinearWeights, Loaded, Ops, PassSpec},
    recurrent::Plan,
    states::States,
};

/// Rows of a prefill pass on an accelerator, which few rows do not fill.
const WIDE_CHUNK: usize = 1024;
/// Rows of a prefill pass on the CPU.
const CHUNK: usize = 128;

/// A candle device.
#[derive(Clone, Debug)]
pub struct TensorOps {
    pub(super) place: ComputeDevice,
}

/// Rows in the compute type; none before something was written to them.
#[derive(Default)]
pub struct Rows(pub(super) Option<Tensor>);

impl Rows {
    pub(super) fn get(&self) -> Result<&Tensor> {
        self.0.as_ref().ok_or_else(|| crate::Error::Message("rows are used before they are written".into()))
    }
}

/// The embedding table.
pub struct Embeddings {
    /// `vocab × hidden`.
    table: Tensor,
    /// The head is in the same memory.
    shared: bool,
}

/// A pass in progress.
pub struct TensorPass<'a> {
    shape: AttentionShape,
    rows: usize,
    cos: Tensor,
    sin: Tensor,
    attention: PassAttention,
    probe: Option<ProbeSums<'a>>,
}

impl TensorOps {
    /// A device whose weight type is resolved.
    pub fn new(place: &ComputeDevice) -> Self {
        Self { place: place.clone() }
    }

    pub(super) fn device(&self) -> &Device {
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

pub(super) fn on_tensor(name: &str) -> impl Fn(crate::Error) -> CheckpointError {
    move |error| CheckpointError::tensor(name, &error.to_string())
}

impl Ops for TensorOps {
    type Matrix = Matrix;
    type Vector = Tensor;
    type Table = Embeddings;
    type Rows = Rows;
    type Columns = Tensor;
    type Linear = TensorLinear;
    type Recurrent = Recurrent;
    type Cache = TensorCache;
    type Work = ();
    type Pass<'a> = TensorPass<'a>;

    fn chunk(&self) -> usize {
        if self.device().is_cpu() { CHUNK } else { WIDE_CHUNK }
    }

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Matrix> {
        let (weight, bias) = (list.weights(checkpoint)?, list.biases(checkpoint)?);
        Matrix::new(weight, bias, list.outputs(), list.inputs, &self.place).map_err(on_tensor(list.name()))
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
        match table.shared {
            true => 0,
            false => table.table.elem_count() * table.table.dtype().size_in_bytes(),
        }
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

    fn begin<'a>(
        &self,
        (): &'a mut (),
        spec: PassSpec<'a>,
        cache: &mut TensorCache,
    ) -> Result<TensorPass<'a>> {
        let PassSpec { rows, layers, shape, cos, sin, mask, probe } = spec;
        if !cache.device().same_device(self.device()) {
            crate::bail!("the decoder and the cache are on different devices");
        }
        cache.reserve(rows)?;
        let before = cache.len();
        // One transfer: small ones cost as much as large ones.
        let angles = Tensor::from_vec([cos, sin].concat(), (2, rows, shape.head_dim / 2), self.device())?
            .to_dtype(self.dtype())?;
        let hidden = mask::hidden(mask, before, rows, self.dtype(), self.device())?;
        Ok(TensorPass {
            shape,
            rows,
            cos: angles.get(0)?,
            sin: angles.get(1)?,
            attention: PassAttention::new(shape, before + rows, *mask == Mask::Causal, hidden)?,
            probe: probe.map(|probe| ProbeSums::new(probe, layers)),
        })
    }

    fn load(&self, _: &mut TensorPass<'_>, table: &Embeddings, input: Input<'_>, x: &mut Rows) -> Result<()> {
        let rows = match input {
            Input::Ids(ids) => self.rows(&self.embed(table, ids)?)?,
            Input::States(states) => self.rows(states)?,
        };
        x.0 = Some(rows);
        Ok(())
    }

    fn norm(
        &self,
        _: &mut TensorPass<'_>,
        x: &mut Rows,
        add: Option<&Rows>,
        weight: &Tensor,
        eps: f32,
        _: Option<&Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        if let Some(add) = add {
            x.0 = Some((x.get()? + add.get()?)?);
        }
        out.0 = Some(ops::rms_norm(x.get()?, weight, eps)?);
        Ok(())
    }

    fn product(&self, _: &mut TensorPass<'_>, matrix: &Matrix, x: &Rows, out: &mut Rows) -> Result<()> {
        out.0 = Some(matrix.forward(x.get()?)?);
        Ok(())
    }

    fn gated(
        &self,
        _: &mut TensorPass<'_>,
        matrix: &Matrix,
        x: &Rows,
        _: &mut Rows,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        out.0 = Some(matrix.forward_gated(x.get()?)?);
        Ok(())
    }

    fn store(
        &self,
        pass: &mut TensorPass<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Tensor>>,
        cache: &mut TensorCache,
        layer: usize,
    ) -> Result<()> {
        let AttentionShape { heads, kv_heads, head_dim } = pass.shape;
        let split = (pass.rows, heads + 2 * kv_heads, head_dim);
        let split = qkv.get()?.reshape(split)?.transpose(0, 1)?.contiguous()?;
        let mut qk = split.narrow(0, 0, heads + kv_heads)?;
        if let Some(norms) = norms {
            let normed =
                |first, count, weight| ops::rms_norm(&qk.narrow(0, first, count)?, weight, norms.eps);
            qk = Tensor::cat(&[normed(0, heads, norms.queries)?, normed(heads, kv_heads, norms.keys)?], 0)?;
        }
        let qk = candle_nn::rotary_emb::rope(&qk.unsqueeze(0)?, &pass.cos, &pass.sin)?.squeeze(0)?;
        cache.write(layer, &qk.narrow(0, heads, kv_heads)?, &split.narrow(0, heads + kv_heads, kv_heads)?)?;
        // Only the queries are needed from here on: `heads × rows × head_dim`.
        qkv.0 = Some(qk.narrow(0, 0, heads)?);
        Ok(())
    }

    fn attend(
        &self,
        pass: &mut TensorPass<'_>,
        qkv: &Rows,
        cache: &TensorCache,
        layer: usize,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        let (keys, values) = cache.layer(layer, pass.attention.slots)?;
        out.0 = Some(pass.attention.run(qkv.get()?, &keys, &values, pass.probe.as_mut())?);
        Ok(())
    }

    fn mix(
        &self,
        _: &mut TensorPass<'_>,
        mixed: &Rows,
        weights: &TensorLinear,
        plan: &Plan,
        states: &mut Recurrent,
        layer: usize,
        _: &Matrix,
        out: &mut Rows,
    ) -> Result<()> {
        out.0 = Some(mixing::mix(mixed.get()?, weights, plan, states, layer)?);
        Ok(())
    }

    fn choose(&self, _: &mut TensorPass<'_>, from: &Rows, columns: &Tensor, x: &mut Rows) -> Result<()> {
        x.0 = Some(from.get()?.index_select(columns, 1)?);
        Ok(())
    }

    fn gate_by(&self, _: &mut TensorPass<'_>, gates: &Rows, _: &Matrix, x: &mut Rows) -> Result<()> {
        x.0 = Some((x.get()? * ops::sigmoid(gates.get()?)?)?);
        Ok(())
    }

    fn add(&self, _: &mut TensorPass<'_>, x: &mut Rows, add: &Rows) -> Result<()> {
        x.0 = Some((x.get()? + add.get()?)?);
        Ok(())
    }

    fn columns(
        &self,
        _: &mut TensorPass<'_>,
        from: &Rows,
        columns: Range<usize>,
        x: &mut Rows,
    ) -> Result<()> {
        x.0 = Some(from.get()?.narrow(1, columns.start, columns.len())?.contiguous()?);
        Ok(())
    }

    fn add_columns(
        &self,
        _: &mut TensorPass<'_>,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        x.0 = Some((x.get()? + from.get()?.narrow(1, columns.start, columns.len())?)?);
        Ok(())
    }

    fn keep(&self, _: &mut TensorPass<'_>, rows: &Rows) -> Result<States> {
        Ok(States::Tensor(rows.get()?.to_dtype(DType::F32)?))
    }

    fn finish(&self, pass: TensorPass<'_>, cache: &mut TensorCache) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        pass.probe.map(ProbeSums::finish).transpose()
    }

    fn project(&self, (): &mut (), matrix: &Matrix, states: &States) -> Result<States> {
        Ok(States::Tensor(matrix.forward(&self.rows(states)?)?.to_dtype(DType::F32)?))
    }

    fn logits(&self, (): &mut (), head: &Matrix, states: &States) -> Result<Logits> {
        let logits = head.forward(&self.rows(states)?)?.to_dtype(DType::F32)?;
        self.device().synchronize()?;
        Ok(Logits::Tensor(logits))
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        Ok(States::Tensor(Tensor::cat(&[self.rows(a)?, self.rows(b)?], 1)?.to_dtype(DType::F32)?))
    }

    fn synchronize(&self, (): &mut ()) -> Result<()> {
        Ok(self.device().synchronize()?)
    }
}
