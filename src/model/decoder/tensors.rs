//! The decoder in candle tensors: for CUDA and Metal, and on candle's CPU kernels in tests.
//!
//! It keeps the contracts of the CPU decoder: positions are not slots, angles are f32, trees are paths, the cache is written in
//! place, logits are computed by row. It does not keep the order of sums: the library chooses kernels by the number of rows, so
//! a row computed among others can differ in its last bits from the same row computed alone.
//!
//! A pass is queued on the device without waiting. Positions, a mask and ids are sent to the device; only the results of an
//! [`AttentionProbe`](super::AttentionProbe) are read back. Input and output states are f32 on the device; in between, values
//! have the compute type.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops;

use super::{
    Mask, Pass, Positions, Taps, check_pass,
    parts::{self, FusedMatrix},
    rope::Rope,
};
use crate::model::device::{
    attention::AttentionShape,
    candle::{
        attention::{PassAttention, ProbeSums},
        cache::TensorCache,
        linear::{Gated, Matrix},
        mask,
    },
};
use crate::model::{
    ComputeDevice,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
    tensor_error_text,
};

/// The decoder's weights on a device.
#[derive(Clone)]
pub struct TensorDecoder {
    config: TextConfig,
    device: ComputeDevice,
    /// `vocab × hidden`.
    embeddings: Tensor,
    layers: Vec<Arc<Layer>>,
    norm: Tensor,
    head: Arc<Matrix>,
    rope: Rope,
}

struct Layer {
    input_norm: Tensor,
    qkv: Matrix,
    output: Matrix,
    post_norm: Tensor,
    gate_up: Gated,
    down: Matrix,
}

/// Reads tensors of a checkpoint and moves them to a device, one at a time.
struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    device: &'a ComputeDevice,
}

impl Reader<'_> {
    fn vector(&self, name: &str, width: usize) -> std::result::Result<Tensor, CheckpointError> {
        let values = self.checkpoint.f32(name, &[width])?;
        self.device
            .tensor(values, &[width])
            .map_err(|e| CheckpointError::tensor(name, &tensor_error_text(&e)))
    }

    fn matrix(&self, list: &FusedMatrix) -> std::result::Result<Matrix, CheckpointError> {
        let (weight, bias) = (list.weights(self.checkpoint)?, list.biases(self.checkpoint)?);
        Matrix::new(weight, bias, list.outputs(), list.inputs, self.device)
            .map_err(|e| CheckpointError::tensor(list.name(), &tensor_error_text(&e)))
    }

    fn layer(&self, c: &TextConfig, index: usize) -> std::result::Result<Layer, CheckpointError> {
        let norm =
            |name: &str| self.vector(&format!("model.layers.{index}.{name}_layernorm.weight"), c.hidden);
        let [qkv, output, gate_up, down] = parts::layer(c, index);
        let gated = Gated::new(gate_up.weights(self.checkpoint)?, c.intermediate, c.hidden, self.device);
        Ok(Layer {
            input_norm: norm("input")?,
            qkv: self.matrix(&qkv)?,
            output: self.matrix(&output)?,
            post_norm: norm("post_attention")?,
            gate_up: gated.map_err(|e| CheckpointError::tensor(gate_up.name(), &tensor_error_text(&e)))?,
            down: self.matrix(&down)?,
        })
    }
}

impl TensorDecoder {
    /// Load from a checkpoint, matrix by matrix.
    ///
    /// # Errors
    /// If a tensor is missing, has the wrong shape, or does not fit into the device's memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        let (c, reader) = (config, Reader { checkpoint, device });
        let total = c.layers + 1;
        progress(0, total);
        let mut layers = Vec::with_capacity(c.layers);
        for index in 0..c.layers {
            layers.push(Arc::new(reader.layer(c, index)?));
            progress(index + 1, total);
        }
        let name = "model.embed_tokens.weight";
        let embeddings = device
            .tensor(checkpoint.f32(name, &[c.vocab, c.hidden])?, &[c.vocab, c.hidden])
            .map_err(|e| CheckpointError::tensor(name, &tensor_error_text(&e)))?;
        let head = match c.tied && !device.quantizes() {
            // The embedding table is the head: it is stored once.
            true => Matrix::of(embeddings.clone()),
            false => reader.matrix(&parts::head(c))?,
        };
        progress(total, total);
        Ok(Self {
            head: Arc::new(head),
            embeddings,
            layers,
            norm: reader.vector("model.norm.weight", c.hidden)?,
            rope: Rope::new(c.head_dim, c.rope_theta, c.mrope_section),
            device: device.clone(),
            config: c.clone(),
        })
    }

    /// See [`super::Decoder::first_layers`].
    pub fn first_layers(&self, layers: usize) -> Self {
        let mut first = self.clone();
        first.layers.truncate(layers.max(1));
        first.config.layers = first.layers.len();
        first
    }

    /// See [`super::Decoder::with_layer`].
    ///
    /// # Errors
    /// As [`TensorDecoder::load`].
    pub fn with_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
    ) -> std::result::Result<Self, CheckpointError> {
        let reader = Reader { checkpoint, device: &self.device };
        Ok(Self {
            config: config.clone(),
            layers: vec![Arc::new(reader.layer(config, 0)?)],
            norm: reader.vector("model.norm.weight", config.hidden)?,
            rope: Rope::new(config.head_dim, config.rope_theta, config.mrope_section),
            ..self.clone()
        })
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// The device that it computes on.
    pub fn compute_device(&self) -> &ComputeDevice {
        &self.device
    }

    fn device(&self) -> &Device {
        self.device.device()
    }

    fn dtype(&self) -> DType {
        self.device.compute_type()
    }

    /// Bytes of the matrices that a pass of one row and its logits read.
    pub fn matrix_bytes(&self) -> usize {
        let layers = self.layers.iter();
        let layers: usize =
            layers.map(|l| l.qkv.bytes() + l.output.bytes() + l.gate_up.bytes() + l.down.bytes()).sum();
        layers + self.head.bytes()
    }

    /// Size of all weights in bytes.
    pub fn bytes(&self) -> usize {
        let table = self.embeddings.elem_count() * self.dtype().size_in_bytes();
        let shared = self.config.tied && !self.device.quantizes();
        self.matrix_bytes() + if shared { 0 } else { table }
    }

    /// An empty cache, to be allocated with `capacity` slots.
    pub fn cache(&self, capacity: usize) -> TensorCache {
        let c = &self.config;
        TensorCache::new(c.layers, c.kv_heads, c.head_dim, capacity, self.dtype(), self.device())
    }

    /// Embeddings of ids, `ids × width`.
    ///
    /// # Errors
    /// If an id is outside of the vocabulary.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= self.config.vocab) {
            candle_core::bail!("token id {id} is outside of the vocabulary of {}", self.config.vocab);
        }
        let ids = Tensor::from_slice(ids, ids.len(), self.device())?;
        self.embeddings.index_select(&ids, 0)?.to_dtype(DType::F32)
    }

    /// See [`super::Decoder::forward`].
    ///
    /// # Errors
    /// As [`super::Decoder::forward`], or if the device's memory does not suffice.
    pub fn forward(
        &self,
        input: &Tensor,
        positions: &Positions,
        mask: &Mask,
        cache: &mut TensorCache,
        taps: &Taps,
    ) -> Result<Pass> {
        let c = &self.config;
        let rows = check_pass(input, positions, mask, cache.len(), c)?;
        if !cache.device().same_device(self.device()) {
            candle_core::bail!("the decoder and the cache are on different devices");
        }
        let shape = AttentionShape { heads: c.heads, kv_heads: c.kv_heads, head_dim: c.head_dim };
        cache.reserve(rows)?;
        let before = cache.len();
        let (mut angles, sin) = self.rope.tables(positions);
        angles.extend(sin);
        // One transfer: small ones cost as much as large ones.
        let angles =
            Tensor::from_vec(angles, (2, rows, c.head_dim / 2), self.device())?.to_dtype(self.dtype())?;
        let (cos, sin) = (angles.get(0)?, angles.get(1)?);
        let hidden = mask::hidden(mask, before, rows, self.dtype(), self.device())?;
        let attention = PassAttention::new(shape, before + rows, *mask == Mask::Causal, hidden)?;
        let mut probe = taps.probe.as_ref().map(|probe| ProbeSums::new(probe, c.layers));
        let mut tapped = vec![None; taps.after_layers.len()];
        let part = taps.layers.clone().unwrap_or(0..self.layers.len());
        let mut x = input.to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?;
        for (index, layer) in self.layers.iter().enumerate().filter(|(index, _)| part.contains(index)) {
            let normed = ops::rms_norm(&x, &layer.input_norm, c.norm_eps)?;
            let (q, k, v) = rotated(&layer.qkv.forward(&normed)?, shape, &cos, &sin)?;
            cache.write(index, &k, &v)?;
            let (keys, values) = cache.layer(index, attention.slots)?;
            let mixed = attention.run(&q, &keys, &values, probe.as_mut())?;
            x = (x + layer.output.forward(&mixed)?)?;
            let normed = ops::rms_norm(&x, &layer.post_norm, c.norm_eps)?;
            x = (x + layer.down.forward(&layer.gate_up.forward(&normed)?)?)?;
            for (slot, &wanted) in tapped.iter_mut().zip(&taps.after_layers) {
                if wanted == index {
                    *slot = Some(x.to_dtype(DType::F32)?);
                }
            }
        }
        cache.advance(rows);
        let states = ops::rms_norm(&x, &self.norm, c.norm_eps)?.to_dtype(DType::F32)?;
        let after_layers: Option<Vec<Tensor>> = tapped.into_iter().collect();
        Ok(Pass {
            states,
            attention: probe.map(ProbeSums::finish).transpose()?,
            before_norm: taps.before_norm.then(|| x.to_dtype(DType::F32)).transpose()?,
            after_layers: after_layers.ok_or_else(|| {
                candle_core::Error::Msg(format!("the model has only {} layers", self.layers.len()))
            })?,
        })
    }

    /// Logits of final states, `rows × vocab`, as f32 on the device.
    ///
    /// # Errors
    /// If the states are not `rows × width`.
    pub fn logits(&self, states: &Tensor) -> Result<Tensor> {
        let states = states.to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?;
        self.head.forward(&states)?.to_dtype(DType::F32)
    }
}

/// Split fused rows `rows × (heads + 2 · kv_heads) · head_dim` into rotated queries (`heads × rows × head_dim`), rotated keys and
/// values (`kv_heads × rows × head_dim`), all contiguous.
fn rotated(
    qkv: &Tensor,
    shape: AttentionShape,
    cos: &Tensor,
    sin: &Tensor,
) -> Result<(Tensor, Tensor, Tensor)> {
    let AttentionShape { heads, kv_heads, head_dim } = shape;
    let rows = qkv.dim(0)?;
    let qkv = qkv.reshape((rows, heads + 2 * kv_heads, head_dim))?.transpose(0, 1)?.contiguous()?;
    let qk = qkv.narrow(0, 0, heads + kv_heads)?.unsqueeze(0)?;
    let qk = candle_nn::rotary_emb::rope(&qk, cos, sin)?.squeeze(0)?;
    Ok((qk.narrow(0, 0, heads)?, qk.narrow(0, heads, kv_heads)?, qkv.narrow(0, heads + kv_heads, kv_heads)?))
}
