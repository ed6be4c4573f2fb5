//! The decoder in this crate's own kernels, on the CPU.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor};

use super::{Mask, Pass, Positions, Taps, check_pass, parts, rope::Rope, with_slice};
use crate::model::{
    ComputeDevice, KvType, WeightType,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
    device::{
        attention::{AttentionShape, AttentionStats},
        cpu::{
            attention::{self, ProbedLayer},
            cache::Cache,
            kernels,
            linear::{Forms, Linear, QuantizedRows},
            table::Table,
            thread_pool::{DisjointSliceMut, ThreadPool},
        },
    },
};

/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 1536;

/// The decoder's weights on the CPU.
#[derive(Clone)]
pub struct CpuDecoder {
    config: TextConfig,
    /// Type of keys and values, never `Auto`.
    kv_type: KvType,
    /// `vocab × hidden`: rows are looked up, not multiplied.
    embeddings: Arc<Table>,
    layers: Vec<Arc<Layer>>,
    norm: Vec<f32>,
    head: Arc<Linear>,
    /// The head is the embedding table, in the same memory.
    shares_table: bool,
    rope: Rope,
}

struct Layer {
    input_norm: Vec<f32>,
    qkv: Linear,
    output: Linear,
    post_norm: Vec<f32>,
    gate_up: Linear,
    down: Linear,
}

impl Layer {
    fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        index: usize,
        dtype: WeightType,
    ) -> std::result::Result<Self, CheckpointError> {
        let [qkv, output, gate_up, down] = parts::layer(config, index);
        let norm = |name: &str| {
            checkpoint.f32(&format!("model.layers.{index}.{name}_layernorm.weight"), &[config.hidden])
        };
        Ok(Self {
            input_norm: norm("input")?,
            qkv: qkv.load(checkpoint, dtype)?,
            output: output.load(checkpoint, dtype)?,
            post_norm: norm("post_attention")?,
            gate_up: gate_up.load(checkpoint, dtype)?,
            down: down.load(checkpoint, dtype)?,
        })
    }
}

/// Buffers of a pass, kept by the caller between passes so that nothing is allocated in the loop.
#[derive(Default)]
pub struct Workspace {
    x: Vec<f32>,
    normed: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    projected: Vec<f32>,
    gate_up: Vec<f32>,
    gated: Vec<f32>,
    normed8: QuantizedRows,
    attended8: QuantizedRows,
    gated8: QuantizedRows,
    probed: ProbedLayer,
}

impl Workspace {
    /// For every row: add the output of the last matrix to the residual stream if it is `pending`, and norm the stream; quantise
    /// the result in some forms.
    fn norm(&mut self, rows: usize, width: usize, pending: bool, weight: &[f32], eps: f32, forms: Forms) {
        let (x, normed) = (DisjointSliceMut::new(&mut self.x), DisjointSliceMut::new(&mut self.normed));
        let (projected, normed8) =
            (&self.projected, forms.any().then(|| self.normed8.resize(forms, rows * width)));
        let unit = |r: usize| {
            let at = r * width;
            // SAFETY: each row belongs to one unit.
            unsafe {
                let (x, normed) = (x.slice(at, width), normed.slice(at, width));
                if pending {
                    kernels::add(x, &projected[at..at + width]);
                }
                kernels::rms_norm(x, weight, eps, normed);
                if let Some(normed8) = &normed8 {
                    normed8.quantize(at, normed);
                }
            }
        };
        if rows * width < SINGLE_THREADED {
            (0..rows).for_each(unit);
        } else {
            ThreadPool::global().run(rows, &unit);
        }
    }
}

impl CpuDecoder {
    /// Load from a checkpoint, quantising matrix by matrix.
    ///
    /// # Errors
    /// If a tensor is missing, has the wrong shape, or has values that are not finite.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        let (c, dtype) = (config, device.dtype());
        let total = c.layers + 1;
        progress(0, total);
        let mut layers = Vec::with_capacity(c.layers);
        for i in 0..c.layers {
            layers.push(Arc::new(Layer::load(checkpoint, config, i, dtype)?));
            progress(i + 1, total);
        }
        let head = parts::head(c).load(checkpoint, dtype)?;
        // Last, as few of its rows are read: kept weights are read ahead up to it.
        let table = Table::new(parts::table(checkpoint, c)?, c.hidden);
        progress(total, total);
        Ok(Self {
            shares_table: c.tied && checkpoint.files().gguf().is_some(),
            embeddings: Arc::new(table),
            layers,
            norm: checkpoint.f32("model.norm.weight", &[c.hidden])?,
            head: Arc::new(head),
            rope: Rope::new(c.head_dim, c.rope_theta, c.mrope_section),
            kv_type: device.kv_type().fitting(c, dtype),
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
    /// As [`CpuDecoder::load`].
    pub fn with_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        dtype: WeightType,
    ) -> std::result::Result<Self, CheckpointError> {
        Ok(Self {
            layers: vec![Arc::new(Layer::load(checkpoint, config, 0, dtype)?)],
            norm: checkpoint.f32("model.norm.weight", &[config.hidden])?,
            rope: Rope::new(config.head_dim, config.rope_theta, config.mrope_section),
            config: config.clone(),
            ..self.clone()
        })
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// Type of keys and values.
    pub fn kv_type(&self) -> KvType {
        self.kv_type
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        let layers = self.layers.iter();
        let matrices: usize =
            layers.map(|l| l.qkv.bytes() + l.output.bytes() + l.gate_up.bytes() + l.down.bytes()).sum();
        matrices + self.table_bytes() + self.head.bytes()
    }

    /// Bytes of the matrices that are parts of mapped files.
    pub fn mapped_bytes(&self) -> usize {
        let of = |l: &Arc<Layer>| {
            [&l.qkv, &l.output, &l.gate_up, &l.down].into_iter().map(Linear::mapped_bytes).sum::<usize>()
        };
        self.layers.iter().map(of).sum::<usize>() + self.head.mapped_bytes()
    }

    /// Size of the embedding table in bytes, 0 if it is the head; a pass reads a few of its rows.
    pub fn table_bytes(&self) -> usize {
        if self.shares_table { 0 } else { self.embeddings.bytes() }
    }

    /// An empty cache with `capacity` slots.
    pub fn cache(&self, capacity: usize) -> Cache {
        let c = &self.config;
        Cache::new(c.layers, c.kv_heads, c.head_dim, capacity, self.kv_type)
    }

    /// Embeddings of ids, `ids × width`.
    ///
    /// # Errors
    /// If an id is outside of the vocabulary.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        let width = self.config.hidden;
        let mut rows = Vec::with_capacity(ids.len() * width);
        for &id in ids {
            if !self.embeddings.row(id, &mut rows) {
                candle_core::bail!("token id {id} is outside of the vocabulary of {}", self.config.vocab);
            }
        }
        Tensor::from_vec(rows, (ids.len(), width), &Device::Cpu)
    }

    /// Run rows through all layers. `input` is `rows × width`; the cache grows by `rows` slots.
    ///
    /// # Errors
    /// As [`super::Decoder::forward`]; the cache must have this decoder's layout.
    pub fn forward(
        &self,
        input: &Tensor,
        positions: &Positions,
        mask: &Mask,
        cache: &mut Cache,
        taps: &Taps,
        ws: &mut Workspace,
    ) -> Result<Pass> {
        let c = &self.config;
        let (rows, width) = (check_pass(input, positions, mask, cache.len(), c)?, c.hidden);
        let (q, kv, d) = (c.heads * c.head_dim, c.kv_heads * c.head_dim, c.head_dim);
        let shape = AttentionShape { heads: c.heads, kv_heads: c.kv_heads, head_dim: d };
        let (cos, sin) = self.rope.tables(positions);
        let half = d / 2;
        let fused = q + 2 * kv;

        ws.x.clear();
        with_slice(input, |x| ws.x.extend_from_slice(x))?;
        ws.normed.resize(rows * width, 0.0);
        ws.qkv.resize(rows * fused, 0.0);
        ws.attended.resize(rows * q, 0.0);
        ws.projected.resize(rows * width, 0.0);
        ws.gate_up.resize(rows * 2 * c.intermediate, 0.0);
        ws.gated.resize(rows * c.intermediate, 0.0);
        cache.reserve(rows);
        let mut tapped = vec![None; taps.after_layers.len()];
        let mut stats = taps.probe.as_ref().map(|_| AttentionStats::default());

        let part = taps.layers.clone().unwrap_or(0..self.layers.len());
        // True if `ws.projected` is yet to be added to the residual stream.
        let mut pending = false;
        for (index, layer) in self.layers.iter().enumerate().filter(|(index, _)| part.contains(index)) {
            ws.norm(rows, width, pending, &layer.input_norm, c.norm_eps, layer.qkv.forms());
            layer.qkv.forward_prepared(&ws.normed, &ws.normed8, rows, &mut ws.qkv)?;
            for (r, row) in ws.qkv.chunks_exact_mut(fused).enumerate() {
                let (cos, sin) = (&cos[r * half..(r + 1) * half], &sin[r * half..(r + 1) * half]);
                row[..q + kv].chunks_exact_mut(d).for_each(|head| kernels::rotate(head, cos, sin));
            }
            let qkv = &ws.qkv;
            cache.write(index, rows, |r| {
                let row = &qkv[r * fused..(r + 1) * fused];
                (&row[q..q + kv], &row[q + kv..])
            });
            let forms = layer.output.forms();
            let in_place = forms.any() && d.is_multiple_of(forms.block());
            attention::attend(
                cache,
                index,
                shape,
                rows,
                mask,
                &|r| &qkv[r * fused..r * fused + q],
                &mut ws.attended,
                in_place.then(|| ws.attended8.resize(forms, rows * q)),
                taps.probe.as_ref().map(|probe| (probe, &mut ws.probed)),
            );
            if let (Some(stats), Some(probe)) = (&mut stats, &taps.probe) {
                ws.probed.add_to(stats, probe, shape, c.layers);
            }
            if forms.any() && !in_place {
                ws.attended8.quantize(forms, &ws.attended);
            }
            layer.output.forward_prepared(&ws.attended, &ws.attended8, rows, &mut ws.projected)?;

            ws.norm(rows, width, true, &layer.post_norm, c.norm_eps, layer.gate_up.forms());
            let forms = layer.down.forms();
            let in_place = forms.any() && Linear::quantizes_gated(forms);
            let next = in_place.then(|| ws.gated8.resize(forms, rows * c.intermediate));
            layer.gate_up.forward_gated(
                &ws.normed,
                &ws.normed8,
                rows,
                &mut ws.gate_up,
                &mut ws.gated,
                next,
            )?;
            if forms.any() && !in_place {
                ws.gated8.quantize(forms, &ws.gated);
            }
            layer.down.forward_prepared(&ws.gated, &ws.gated8, rows, &mut ws.projected)?;
            pending = true;

            if taps.after_layers.contains(&index) {
                kernels::add(&mut ws.x, &ws.projected);
                pending = false;
                for (slot, &wanted) in tapped.iter_mut().zip(&taps.after_layers) {
                    if wanted == index {
                        *slot = Some(Tensor::from_slice(&ws.x, (rows, width), &Device::Cpu)?);
                    }
                }
            }
        }
        cache.advance(rows);
        ws.norm(rows, width, pending, &self.norm, c.norm_eps, Forms::default());
        let tensor = |values: &[f32]| Tensor::from_slice(values, (rows, width), &Device::Cpu);
        let after_layers: Option<Vec<Tensor>> = tapped.into_iter().collect();
        Ok(Pass {
            states: tensor(&ws.normed)?,
            attention: stats,
            before_norm: taps.before_norm.then(|| tensor(&ws.x)).transpose()?,
            after_layers: after_layers.ok_or_else(|| {
                candle_core::Error::Msg(format!("the model has only {} layers", self.layers.len()))
            })?,
        })
    }

    /// Logits of final states, `rows × vocab`.
    ///
    /// # Errors
    /// If the states are not `rows × width`.
    pub fn logits(&self, states: &Tensor, ws: &mut Workspace) -> Result<Tensor> {
        let (rows, _) = states.dims2()?;
        let head = &self.head;
        let mut out = vec![0f32; rows * head.outputs()];
        with_slice(states, |x| head.forward(x, rows, &mut out, &mut ws.normed8))??;
        Tensor::from_vec(out, (rows, head.outputs()), &Device::Cpu)
    }
}
