//! The trainable draft head: the arithmetic of `model::draft_head` through candle's autograd.
//!
//! With a single layer the outputs at visual rows are not needed, so only their keys and values are computed.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    begin::{FirstValues, Tables},
    sample::Batch,
};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    config::{Sparse, TextConfig},
    draft_head::{last_attention_layer, layer_of},
};
use specreel_tensor::{CheckpointError, Weights};

/// Names of the tensors below `model.layers.0.` of every layer.
const PARTS: [&str; 9] = [
    "input_layernorm.weight",
    "self_attn.q_proj.weight",
    "self_attn.k_proj.weight",
    "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
];
/// Those of layers with biases.
const BIASES: [&str; 3] = ["self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"];
/// Those of layers that norm queries and keys in each head.
const HEAD_NORMS: [&str; 2] = ["self_attn.q_norm.weight", "self_attn.k_norm.weight"];

/// Separates the random numbers of the adaptor from the projection's.
const ADAPTOR: u64 = 0x76_6973;

/// A trainable layer with the target's frozen embeddings and LM head.
pub struct TrainedLayer {
    config: TextConfig,
    vars: BTreeMap<String, Var>,
    tables: Tables,
}

/// A matrix of one dense feed-forward layer in place of as many experts as a row takes: the first ones at equal weights, and the
/// shared one at the weight of a gate of 0.
fn joined(
    sparse: &Sparse,
    hidden: usize,
    part: &str,
    read: impl Fn(&str, &[usize]) -> std::result::Result<Vec<f32>, CheckpointError>,
) -> std::result::Result<Vec<f32>, CheckpointError> {
    let routed = (0..sparse.chosen)
        .map(|expert| (format!("experts.{expert}"), sparse.width, 1.0 / sparse.chosen as f32));
    let shared = sparse.shared.map(|width| ("shared_expert".to_owned(), width, 0.5));
    let is_down = part.starts_with("down_proj");
    let mut rows = vec![Vec::new(); if is_down { hidden } else { 1 }];
    for (expert, width, weight) in routed.chain(shared) {
        if is_down {
            let values = read(&expert, &[hidden, width])?;
            for (row, values) in rows.iter_mut().zip(values.chunks_exact(width)) {
                row.extend(values.iter().map(|value| value * weight));
            }
        } else {
            rows[0].extend(read(&expert, &[width, hidden])?);
        }
    }
    Ok(rows.concat())
}

pub struct Losses {
    pub total: Tensor,
    /// Mean state loss of the first pass.
    pub state: f32,
    /// Mean token loss of the first pass.
    pub token: f32,
    /// Share of answer rows whose best token is the target's, for the first pass and each recursion.
    pub agreement: Vec<f32>,
}

/// The part of a target's layer from which a part of the head's is initialized: Gemma has more norms, with other names.
fn of_target<'a>(target: &TextConfig, part: &'a str) -> &'a str {
    match part {
        "post_attention_layernorm.weight" if target.gemma.is_some() => "pre_feedforward_layernorm.weight",
        _ => part,
    }
}

impl TrainedLayer {
    /// A layer initialized with the target's last one with full attention, without its gates; its input projection is initialized
    /// at random, like torch's linear layer. Fails if the target's checkpoint lacks a tensor.
    pub fn new(
        target: &Checkpoint,
        config: &TextConfig,
        seed: u64,
    ) -> std::result::Result<Self, CheckpointError> {
        let (source, config) = (config, &layer_of(config));
        let d = config.hidden;
        let last = last_attention_layer(source);
        let read = |name: &str, shape: &[usize]| {
            let mut values = target.f32(name, shape)?;
            if source.norm_offset && name.ends_with("norm.weight") {
                values.iter_mut().for_each(|value| *value += 1.0);
            }
            Ok::<_, CheckpointError>(values)
        };
        let mut values = FirstValues::new(seed);
        for part in Self::parts(config) {
            let (name, shape) =
                (format!("model.layers.{last}.{}", of_target(source, part)), Self::shape(config, part));
            let loaded = match (source.experts(last), part.strip_prefix("mlp.")) {
                (Some(sparse), Some(part)) => joined(sparse, d, part, |expert, shape| {
                    read(&format!("model.layers.{last}.mlp.{expert}.{part}"), shape)
                })?,
                // Each head's query is followed by its gate.
                _ if source.output_gate && part == "self_attn.q_proj.weight" => {
                    let both = read(&name, &[2 * shape[0], shape[1]])?;
                    let heads = both.chunks_exact(2 * config.head_dim * d);
                    heads.flat_map(|head| &head[..config.head_dim * d]).copied().collect()
                }
                _ => read(&name, &shape)?,
            };
            values.given(&format!("model.layers.0.{part}"), loaded, shape);
        }
        values.last_norm(target, source)?;
        values.matrix("fc", d, 2 * d);
        values.biases("fc", d, 2 * d);
        Ok(Self { config: config.clone(), vars: values.vars()?, tables: Tables::of(target, config)? })
    }

    /// The same layer with a vision adaptor of `queries` queries (ViSpec), initialized as ViSpec's: queries from a normal
    /// distribution, projections like torch's linear layers, and a mixture that leaves the states as they are.
    pub fn with_adaptor(mut self, queries: usize, seed: u64) -> Result<Self> {
        let c = &self.config;
        let (d, inner) = (c.hidden, c.heads * c.head_dim);
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ ADAPTOR);
        let mut uniform = |n: usize, inputs: usize| {
            let bound = 1.0 / (inputs as f32).sqrt();
            (0..n).map(|_| (rng.random::<f32>() * 2.0 - 1.0) * bound).collect::<Vec<f32>>()
        };
        let mut values = vec![
            ("imadpt.o_proj.weight", uniform(d * inner, inner), vec![d, inner]),
            ("imadpt.k_proj.weight", uniform(inner * d, d), vec![inner, d]),
            ("imadpt.v_proj.weight", uniform(inner * d, d), vec![inner, d]),
        ];
        if c.bias {
            values.push(("imadpt.k_proj.bias", uniform(inner, d), vec![inner]));
            values.push(("imadpt.v_proj.bias", uniform(inner, d), vec![inner]));
        }
        let mut normal = || {
            let (u, v) = (1.0 - rng.random::<f32>(), rng.random::<f32>());
            (-2.0 * u.ln()).sqrt() * (std::f32::consts::TAU * v).cos()
        };
        let deviation = 1.0 / (c.head_dim as f32).sqrt();
        let drawn = (0..queries * inner).map(|_| normal() * deviation).collect();
        values.push(("imadpt.q", drawn, vec![queries, c.heads, c.head_dim]));
        let as_they_are =
            (0..d * 2 * d).map(|i| if i % (2 * d) == i / (2 * d) { 1.0 } else { 0.0 }).collect();
        values.push(("img_fc.weight", as_they_are, vec![d, 2 * d]));
        values.push(("img_fc.bias", vec![0.0; d], vec![d]));
        for (name, values, shape) in values {
            let var = Var::from_tensor(&Tensor::from_vec(values, shape, &Device::Cpu)?)?;
            self.vars.insert(name.to_owned(), var);
        }
        Ok(self)
    }

    /// What stands for the runs of visual tokens, and the states with the vectors that sum them up.
    fn compress(&self, batch: &Batch, before: &Tensor) -> Result<(Option<Tensor>, Tensor)> {
        let c = &self.config;
        let (b, t, d) = before.dims3()?;
        let queries = self.var("imadpt.q")?;
        let count = queries.dim(0)?;
        let queries = queries.transpose(0, 1)?.contiguous()?;
        // In each head: queries × head_dim, and rows × head_dim.
        let mut rows = vec![Tensor::zeros((1, d), DType::F32, &Device::Cpu)?];
        for run in &batch.runs {
            let heads = |name: &str| {
                let x = self.linear(run, name, c.bias)?;
                x.reshape((run.dim(0)?, c.heads, c.head_dim))?.transpose(0, 1)?.contiguous()
            };
            let (k, v) = (heads("imadpt.k_proj")?, heads("imadpt.v_proj")?);
            let scores = (queries.matmul(&k.transpose(1, 2)?)? * (1.0 / (c.head_dim as f64).sqrt()))?;
            let attended = softmax(&scores)?.matmul(&v)?.transpose(0, 1)?.contiguous()?;
            let attended = attended.reshape((count, c.heads * c.head_dim))?;
            rows.push(self.linear(&attended, "imadpt.o_proj", false)?);
        }
        let rows = Tensor::cat(&rows, 0)?;
        let vectors = rows.index_select(&batch.vectors, 0)?.reshape((b, t, d))?;
        let mixed = self.linear(&Tensor::cat(&[before, &vectors], 2)?, "img_fc", true)?;
        let visual = match &batch.compressed {
            Some(index) => Some(rows.index_select(index, 0)?.reshape((b, index.elem_count() / b, d))?),
            None => None,
        };
        Ok((visual, mixed))
    }

    /// Names of the tensors below `model.layers.0.`, as in the target's own layers.
    fn parts(config: &TextConfig) -> impl Iterator<Item = &'static str> {
        let biases = BIASES.into_iter().filter(|_| config.bias);
        PARTS.into_iter().chain(biases).chain(HEAD_NORMS.into_iter().filter(|_| config.qk_norm))
    }

    fn shape(config: &TextConfig, part: &str) -> Vec<usize> {
        let c = config;
        let (d, q, kv) = (c.hidden, c.heads * c.head_dim, c.kv_heads * c.head_dim);
        match part {
            "self_attn.q_proj.weight" => vec![q, d],
            "self_attn.q_proj.bias" => vec![q],
            "self_attn.k_proj.weight" | "self_attn.v_proj.weight" => vec![kv, d],
            "self_attn.k_proj.bias" | "self_attn.v_proj.bias" => vec![kv],
            "self_attn.o_proj.weight" => vec![d, q],
            "mlp.gate_proj.weight" | "mlp.up_proj.weight" => vec![c.intermediate, d],
            "mlp.down_proj.weight" => vec![d, c.intermediate],
            "self_attn.q_norm.weight" | "self_attn.k_norm.weight" => vec![c.head_dim],
            _ => vec![d],
        }
    }

    /// Trainable variables, sorted by name.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        &self.vars
    }

    fn var(&self, name: &str) -> Result<&Tensor> {
        self.vars
            .get(name)
            .map(Var::as_tensor)
            .ok_or_else(|| candle_core::Error::Msg(format!("the layer has no `{name}`")))
    }

    fn part(&self, name: &str) -> Result<&Tensor> {
        self.var(&format!("model.layers.0.{name}"))
    }

    /// `x Wᵀ + b` over the last axis.
    fn linear(&self, x: &Tensor, name: &str, bias: bool) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let weight = self.var(&format!("{name}.weight"))?;
        let rows = x.elem_count() / weight.dim(1)?;
        let y = x.reshape((rows, weight.dim(1)?))?.matmul(&weight.t()?)?;
        let y = if bias { y.broadcast_add(self.var(&format!("{name}.bias"))?)? } else { y };
        if let Some(last) = shape.last_mut() {
            *last = weight.dim(0)?;
        }
        y.reshape(shape)
    }

    fn norm(&self, x: &Tensor, weight: &Tensor) -> Result<Tensor> {
        norm(x, weight, self.config.norm_eps)
    }

    /// States at the text rows, `B × T × width`, from the states before them.
    pub fn forward(&self, batch: &Batch, before: &Tensor) -> Result<Tensor> {
        let c = &self.config;
        let (b, t, d) = before.dims3()?;
        let embeddings = self.tables.embeddings.index_select(&batch.ids, 0)?.reshape((b, t, d))?;
        let (visual, before) = match self.vars.contains_key("img_fc.weight") {
            true => self.compress(batch, before)?,
            false => (batch.visual.clone(), before.clone()),
        };
        let z = self.linear(&Tensor::cat(&[&embeddings, &before], 2)?, "fc", true)?;
        let input_norm = self.part("input_layernorm.weight")?;
        let normed = self.norm(&z, input_norm)?;
        let p = |name: &str| format!("model.layers.0.self_attn.{name}");
        let q = self.linear(&normed, &p("q_proj"), c.bias)?;
        // Keys and values: visual rows before text rows.
        let read = match &visual {
            Some(visual) => Tensor::cat(&[&self.norm(visual, input_norm)?, &normed], 1)?,
            None => normed,
        };
        let all = read.dim(1)?;
        let heads = |x: Tensor, rows: usize, count: usize| {
            x.reshape((b, rows, count, c.head_dim))?.transpose(1, 2)?.contiguous()
        };
        let q = heads(q, t, c.heads)?;
        let k = heads(self.linear(&read, &p("k_proj"), c.bias)?, all, c.kv_heads)?;
        let v = heads(self.linear(&read, &p("v_proj"), c.bias)?, all, c.kv_heads)?;
        let (q, k) = match c.qk_norm {
            false => (q, k),
            true => {
                let [queries, keys] = HEAD_NORMS;
                (self.norm(&q, self.part(queries)?)?, self.norm(&k, self.part(keys)?)?)
            }
        };
        let (q, k) = (self.rotate(&q, batch, all - t)?, self.rotate(&k, batch, 0)?);

        let group = c.heads / c.kv_heads;
        let q = q.reshape((b, c.kv_heads, group * t, c.head_dim))?;
        let scores = (q.matmul(&k.transpose(2, 3)?)? * (1.0 / (c.head_dim as f64).sqrt()))?;
        let scores = scores.reshape((b, c.heads, t, all))?.broadcast_add(&batch.mask)?;
        let weights = softmax(&scores)?.reshape((b, c.kv_heads, group * t, all))?;
        let attended = weights.matmul(&v)?.reshape((b, c.heads, t, c.head_dim))?;
        let attended = attended.transpose(1, 2)?.reshape((b, t, c.heads * c.head_dim))?;
        let x = (z + self.linear(&attended, &p("o_proj"), false)?)?;

        let normed = self.norm(&x, self.part("post_attention_layernorm.weight")?)?;
        let m = |name: &str| format!("model.layers.0.mlp.{name}");
        let gate = self.linear(&normed, &m("gate_proj"), false)?.silu()?;
        let up = self.linear(&normed, &m("up_proj"), false)?;
        let x = (x + self.linear(&(gate * up)?, &m("down_proj"), false)?)?;
        self.norm(&x, self.var("model.norm.weight")?)
    }

    /// Rotate heads (`B × heads × rows × head_dim`) by their positions; `from` is the first row's index in the batch's tables.
    fn rotate(&self, x: &Tensor, batch: &Batch, from: usize) -> Result<Tensor> {
        let rows = x.dim(2)?;
        let table = |t: &Tensor| t.narrow(2, from, rows)?.contiguous();
        rotate(x, (&table(&batch.rotation.0)?, &table(&batch.rotation.1)?))
    }

    /// The losses of a batch: a first pass on the target's states, then `recursions` passes on the head's own outputs (MTP). For each pass:
    /// `weights.0` · smooth L1 of the states + `weights.1` · cross-entropy with the target's distribution, means over the answer
    /// rows; the sum over the passes.
    pub fn losses(&self, batch: &Batch, recursions: usize, weights: (f64, f64)) -> Result<Losses> {
        let rows = batch.rows.max(1) as f64;
        let logits = batch.states.matmul(&self.tables.head.t()?)?;
        let (wanted, best) = (softmax(&logits)?, logits.argmax(D::Minus1)?);
        let (mut before, mut sum) = (batch.before.clone(), None);
        let (mut first, mut agreement) = (None, Vec::new());
        for pass in 0..=recursions {
            let out = self.forward(batch, &before)?;
            let (b, t, d) = out.dims3()?;
            let answered = out.reshape((b * t, d))?.index_select(&batch.answer, 0)?;
            let state = smooth_l1(&(&answered - &batch.states)?)?;
            let said = answered.matmul(&self.tables.head.t()?)?;
            let token = ((&wanted * log_softmax(&said)?)?.sum_all()? * (-1.0 / rows))?;
            let right = said.argmax(D::Minus1)?.eq(&best)?.to_dtype(DType::F32)?.sum_all()?;
            agreement.push(right.to_scalar::<f32>()? / rows as f32);
            if first.is_none() {
                first = Some((state.to_scalar::<f32>()?, token.to_scalar::<f32>()?));
            }
            let loss = ((state * weights.0)? + (token * weights.1)?)?;
            sum = Some(match sum {
                None => loss,
                Some(sum) => (sum + loss)?,
            });
            if pass < recursions {
                let shifted = Tensor::cat(&[&out.narrow(1, 0, 1)?, &out.narrow(1, 0, t - 1)?], 1)?;
                let real = batch.before.broadcast_mul(&batch.own.affine(-1.0, 1.0)?)?;
                before = (shifted.broadcast_mul(&batch.own)? + real)?;
            }
        }
        let (state, token) = first.unwrap_or_default();
        let total = sum.ok_or_else(|| candle_core::Error::Msg("no pass was made".into()))?;
        Ok(Losses { total, state, token, agreement })
    }
}

/// `x / sqrt(mean(x²) + eps) · weight` over the last axis.
pub(crate) fn norm(x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor> {
    let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
    let scale = (mean + f64::from(eps))?.sqrt()?.recip()?;
    x.broadcast_mul(&scale)?.broadcast_mul(weight)
}

/// Rotate heads (`… × rows × head_dim`) by cosines and sines of their rows (`rows × head_dim / 2`, or as many axes).
pub(crate) fn rotate(x: &Tensor, (cos, sin): (&Tensor, &Tensor)) -> Result<Tensor> {
    let half = x.dim(D::Minus1)? / 2;
    let (a, b) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let turned =
        [(a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?, (b.broadcast_mul(cos)? + a.broadcast_mul(sin)?)?];
    Tensor::cat(&turned, D::Minus1)
}

pub(crate) fn softmax(x: &Tensor) -> Result<Tensor> {
    let e = x.broadcast_sub(&x.max_keepdim(D::Minus1)?.detach())?.exp()?;
    e.broadcast_div(&e.sum_keepdim(D::Minus1)?)
}

pub(crate) fn log_softmax(x: &Tensor) -> Result<Tensor> {
    let x = x.broadcast_sub(&x.max_keepdim(D::Minus1)?.detach())?;
    x.broadcast_sub(&x.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

/// Mean of d²/2 where |d| < 1, of |d| - 1/2 elsewhere.
fn smooth_l1(difference: &Tensor) -> Result<Tensor> {
    let size = difference.abs()?;
    let near = size.lt(1.0)?;
    near.where_cond(&(difference.sqr()? * 0.5)?, &(size - 0.5)?)?.mean_all()
}
