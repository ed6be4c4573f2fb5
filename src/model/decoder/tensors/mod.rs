//! The decoder on candle tensors: CUDA and Metal, and candle's own CPU kernels in tests.
//!
//! It keeps the contracts of the CPU decoder beside it: positions apart from slots, angles in f32, trees as paths, a cache that is
//! written in place, logits by row. What it does not keep is the order of sums: a library picks its kernels by the number of
//! rows, so a row computed among others can differ from the same row computed alone in its last bits.
//!
//! Everything of a pass is put on the device's queue without waiting; positions, a mask and ids go up, and nothing comes down
//! but what [`AttentionProbe`] asks for. States cross the border as f32 on the device; inside, the type of the weights is kept.

mod attention;
mod cache;
mod linear;
mod mask;

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::ops;

pub(super) use self::cache::TensorCache;
use self::{
    attention::{Attended, Sight},
    linear::{Gated, Matrix},
};
use super::{Mask, Pass, Positions, Taps, attention::Shape, rope::Rope};
use crate::model::{
    ComputeDevice,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
};

/// The decoder's weights on a device.
pub struct TensorDecoder {
    config: TextConfig,
    place: ComputeDevice,
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

/// Reads tensors of a checkpoint to a device, one at a time.
struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    place: &'a ComputeDevice,
}

impl Reader<'_> {
    fn vector(&self, name: &str, width: usize) -> std::result::Result<Tensor, CheckpointError> {
        let values = self.checkpoint.f32(name, &[width])?;
        self.place
            .tensor(values, &[width])
            .map_err(|e| CheckpointError::tensor(name, &crate::model::plain(&e)))
    }

    /// The rows of matrices of the same inputs, one after the other.
    fn rows(
        &self,
        parts: &[(String, usize)],
        inputs: usize,
    ) -> std::result::Result<Vec<f32>, CheckpointError> {
        let mut rows = Vec::new();
        for (name, outputs) in parts {
            rows.extend(self.checkpoint.f32(&format!("{name}.weight"), &[*outputs, inputs])?);
        }
        Ok(rows)
    }

    /// Matrices of the same inputs, fused into one.
    fn matrix(
        &self,
        parts: &[(String, usize)],
        inputs: usize,
        bias: bool,
    ) -> std::result::Result<Matrix, CheckpointError> {
        let mut biases = Vec::new();
        for (name, outputs) in parts.iter().filter(|_| bias) {
            biases.extend(self.checkpoint.f32(&format!("{name}.bias"), &[*outputs])?);
        }
        let outputs = parts.iter().map(|(_, outputs)| outputs).sum();
        Matrix::new(self.rows(parts, inputs)?, bias.then_some(biases), outputs, inputs, self.place)
            .map_err(|e| CheckpointError::tensor(&parts[0].0, &e.to_string()))
    }

    fn layer(&self, c: &TextConfig, index: usize) -> std::result::Result<Layer, CheckpointError> {
        let (d, q, kv) = (c.hidden, c.heads * c.head_dim, c.kv_heads * c.head_dim);
        let p = |name: &str| format!("model.layers.{index}.{name}");
        Ok(Layer {
            input_norm: self.vector(&p("input_layernorm.weight"), d)?,
            qkv: self.matrix(
                &[(p("self_attn.q_proj"), q), (p("self_attn.k_proj"), kv), (p("self_attn.v_proj"), kv)],
                d,
                true,
            )?,
            output: self.matrix(&[(p("self_attn.o_proj"), d)], q, false)?,
            post_norm: self.vector(&p("post_attention_layernorm.weight"), d)?,
            gate_up: Gated::new(
                self.rows(&[(p("mlp.gate_proj"), c.intermediate), (p("mlp.up_proj"), c.intermediate)], d)?,
                c.intermediate,
                d,
                self.place,
            )
            .map_err(|e| CheckpointError::tensor(&p("mlp"), &e.to_string()))?,
            down: self.matrix(&[(p("mlp.down_proj"), d)], c.intermediate, false)?,
        })
    }
}

impl TensorDecoder {
    /// Load from a checkpoint, matrix by matrix.
    ///
    /// # Errors
    /// If a tensor is missing, of a wrong shape, or does not fit into the device's memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        place: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        let (c, reader) = (config, Reader { checkpoint, place });
        let total = c.layers + 1;
        progress(0, total);
        let mut layers = Vec::with_capacity(c.layers);
        for index in 0..c.layers {
            layers.push(Arc::new(reader.layer(c, index)?));
            progress(index + 1, total);
        }
        let told =
            |name: &'static str| move |e: candle_core::Error| CheckpointError::tensor(name, &e.to_string());
        let table = checkpoint.f32("model.embed_tokens.weight", &[c.vocab, c.hidden])?;
        let embeddings =
            place.tensor(table, &[c.vocab, c.hidden]).map_err(told("model.embed_tokens.weight"))?;
        let head = if c.tied && !place.quantizes() {
            // The table is the head: nothing is stored twice.
            Ok(Matrix::of(embeddings.clone()))
        } else {
            let name = if c.tied { "model.embed_tokens.weight" } else { "lm_head.weight" };
            Matrix::new(checkpoint.f32(name, &[c.vocab, c.hidden])?, None, c.vocab, c.hidden, place)
        };
        progress(total, total);
        Ok(Self {
            head: Arc::new(head.map_err(told("lm_head.weight"))?),
            embeddings,
            layers,
            norm: reader.vector("model.norm.weight", c.hidden)?,
            rope: Rope::new(c.head_dim, c.rope_theta, c.mrope_section),
            place: place.clone(),
            config: c.clone(),
        })
    }

    /// The same model ending after its first `layers` layers; all weights are shared.
    pub fn first_layers(&self, layers: usize) -> Self {
        let layers = layers.clamp(1, self.layers.len());
        Self {
            config: TextConfig { layers, ..self.config.clone() },
            place: self.place.clone(),
            embeddings: self.embeddings.clone(),
            layers: self.layers[..layers].to_vec(),
            norm: self.norm.clone(),
            head: self.head.clone(),
            rope: self.rope.clone(),
        }
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
        let reader = Reader { checkpoint, place: &self.place };
        Ok(Self {
            config: config.clone(),
            place: self.place.clone(),
            embeddings: self.embeddings.clone(),
            layers: vec![Arc::new(reader.layer(config, 0)?)],
            norm: reader.vector("model.norm.weight", config.hidden)?,
            head: self.head.clone(),
            rope: Rope::new(config.head_dim, config.rope_theta, config.mrope_section),
        })
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// Where it computes.
    pub fn place(&self) -> &ComputeDevice {
        &self.place
    }

    fn device(&self) -> &Device {
        self.place.device()
    }

    fn dtype(&self) -> DType {
        self.place.compute_type()
    }

    /// Bytes of the matrices that a pass of one row and its logits reads.
    pub fn matrix_bytes(&self) -> usize {
        let layers = self.layers.iter();
        let layers: usize =
            layers.map(|l| l.qkv.bytes() + l.output.bytes() + l.gate_up.bytes() + l.down.bytes()).sum();
        layers + self.head.bytes()
    }

    /// Bytes of all weights.
    pub fn bytes(&self) -> usize {
        let table = self.embeddings.elem_count() * self.dtype().size_in_bytes();
        let shared = self.config.tied && !self.place.quantizes();
        self.matrix_bytes() + if shared { 0 } else { table }
    }

    /// An empty cache that will have room for `capacity` slots.
    pub fn cache(&self, capacity: usize) -> TensorCache {
        let c = &self.config;
        TensorCache::new(c.layers, c.kv_heads, c.head_dim, capacity, self.dtype(), self.device())
    }

    /// Embeddings of ids, `ids × width`.
    ///
    /// # Errors
    /// If an id is outside of the table.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        if let Some(id) = ids.iter().find(|&&id| id as usize >= self.config.vocab) {
            candle_core::bail!("token id {id} is outside of the {} embeddings", self.config.vocab);
        }
        let ids = Tensor::from_slice(ids, ids.len(), self.device())?;
        self.embeddings.index_select(&ids, 0)?.to_dtype(DType::F32)
    }

    /// Run rows through all layers: as the CPU decoder's.
    ///
    /// # Errors
    /// If the shapes of input, positions and mask do not agree, or the device's memory does not suffice.
    pub fn forward(
        &self,
        input: &Tensor,
        positions: &Positions,
        mask: &Mask,
        cache: &mut TensorCache,
        taps: &Taps,
    ) -> Result<Pass> {
        let c = &self.config;
        let rows = super::agreed(input, positions, mask, c)?;
        let shape = Shape { heads: c.heads, kv_heads: c.kv_heads, head_dim: c.head_dim };
        cache.reserve(rows)?;
        let before = cache.len();
        let (mut angles, sin) = self.rope.tables(positions);
        angles.extend(sin);
        // One parcel: small ones cost as much to send as large ones.
        let angles =
            Tensor::from_vec(angles, (2, rows, c.head_dim / 2), self.device())?.to_dtype(self.dtype())?;
        let (cos, sin) = (angles.get(0)?, angles.get(1)?);
        let hidden = mask::hidden(mask, before, rows, self.dtype(), self.device())?;
        let attended = Attended::new(shape, before + rows, *mask == Mask::Causal, hidden)?;
        let mut sight = taps.watch.as_ref().map(|watch| Sight::new(watch, c.layers));
        let mut tapped = vec![None; taps.after_layers.len()];
        let part = taps.layers.clone().unwrap_or(0..self.layers.len());
        let mut x = input.to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?;
        for (index, layer) in self.layers.iter().enumerate().filter(|(index, _)| part.contains(index)) {
            let normed = ops::rms_norm(&x, &layer.input_norm, c.norm_eps)?;
            let (q, k, v) = rotated(&layer.qkv.forward(&normed)?, shape, &cos, &sin)?;
            cache.write(index, &k, &v)?;
            let (keys, values) = cache.layer(index, attended.slots)?;
            let mixed = attended.run(&q, &keys, &values, sight.as_mut())?;
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
            gaze: sight.map(Sight::told).transpose()?,
            before_norm: taps.before_norm.then(|| x.to_dtype(DType::F32)).transpose()?,
            after_layers: after_layers.ok_or_else(|| {
                candle_core::Error::Msg(format!("the model has {} layers", self.layers.len()))
            })?,
        })
    }

    /// Logits of some final states, `rows × vocab`, as f32 on the device.
    ///
    /// # Errors
    /// If the states are not `rows × width`.
    pub fn logits(&self, states: &Tensor) -> Result<Tensor> {
        let states = states.to_device(self.device())?.to_dtype(self.dtype())?.contiguous()?;
        self.head.forward(&states)?.to_dtype(DType::F32)
    }
}

/// From fused rows `rows × (heads + 2 · kv_heads) · head_dim` to rotated queries (`heads × rows × head_dim`), rotated keys and
/// values (`kv_heads × rows × head_dim`), all contiguous.
fn rotated(qkv: &Tensor, shape: Shape, cos: &Tensor, sin: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let Shape { heads, kv_heads, head_dim } = shape;
    let rows = qkv.dim(0)?;
    let qkv = qkv.reshape((rows, heads + 2 * kv_heads, head_dim))?.transpose(0, 1)?.contiguous()?;
    let qk = qkv.narrow(0, 0, heads + kv_heads)?.unsqueeze(0)?;
    let qk = candle_nn::rotary_emb::rope(&qk, cos, sin)?.squeeze(0)?;
    Ok((qk.narrow(0, 0, heads)?, qk.narrow(0, heads, kv_heads)?, qkv.narrow(0, heads + kv_heads, kv_heads)?))
}
