//! The trainable EAGLE-3 head: the arithmetic of `model::draft_head::eagle3` through candle's autograd, with its training-time test.
//!
//! The data are the target's captions. A first pass reads the target's states at all rows; each later pass
//! continues from the outputs of the pass before, a row further, as drafting does. A row of pass k sees what
//! the k-th draft of a chain sees: the rows of the first pass up to the token that the chain begins at, then
//! one row of each pass since (arXiv:2503.01840). The loss is the cross-entropy with the target's
//! distribution, summed over the passes with weights of 0.8^k.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Result, Tensor, Var};

use super::{
    begin::FirstValues,
    head::Head,
    layer::{Losses, log_softmax, rotate, softmax},
    sample::Sample,
};
use specreel_checkpoint::Checkpoint;
use specreel_model::{config::TextConfig, decoder::rope::Rope, draft_head::DraftHeadConfig};
use specreel_tensor::CheckpointError;

/// What hides a row.
const HIDDEN: f32 = -1e9;
/// Weight of a pass relative to the one before it.
const FADE: f64 = 0.8;
/// Layers of the target whose states are read.
pub(crate) const TAPS: usize = 3;

/// A caption as the head reads it: `N` rows, one for every token but the first, of which the last `M` are learned.
pub struct Rows {
    /// Embeddings, `N × width`.
    embeddings: Tensor,
    /// The target's states before the rows, `N × 3 width`.
    context: Tensor,
    /// Cosines and sines, `N × head_dim / 2`.
    rotation: (Tensor, Tensor),
    /// The target's final states at the learned rows, from which it predicts the tokens after them, `M × width`.
    states: Tensor,
    pub learned: usize,
}

impl Rows {
    /// Fails if the sample holds no context rows, or a caption without tokens.
    pub fn new(sample: &Sample, rope: &Rope, table: &Tensor) -> Result<Self> {
        let (rows, width, texts) = (sample.context_positions.len(), sample.width(), sample.ids.len());
        let prompt = sample.embeddings.len() / width.max(1);
        let Some(written) = rows.checked_sub(prompt).filter(|written| *written <= texts) else {
            candle_core::bail!("a sample of {texts} text rows has {rows} context rows");
        };
        // The prompt's last row predicts the first token. It is learned, and each token of the caption.
        let learned = written + 1;
        if sample.answer.len() != learned || prompt < 2 {
            candle_core::bail!("a caption of {written} tokens has {} learned rows", sample.answer.len());
        }
        let cpu = &Device::Cpu;
        let embedded = Tensor::from_slice(&sample.embeddings, (prompt, width), cpu)?;
        let ids = Tensor::from_slice(&sample.ids[texts - written..], written, cpu)?;
        let embeddings = match written {
            0 => embedded,
            _ => Tensor::cat(&[embedded, table.index_select(&ids, 0)?], 0)?,
        };
        let (n, read) = (rows - 1, sample.context.len() / rows);
        let (cos, sin) = rope.tables(&sample.context_positions.slice(0..n));
        let half = cos.len() / n;
        let states = &sample.states[sample.answer.start * width..sample.answer.end * width];
        Ok(Self {
            embeddings: embeddings.narrow(0, 1, n)?.contiguous()?,
            context: Tensor::from_slice(&sample.context[..n * read], (n, read), cpu)?,
            rotation: (Tensor::from_vec(cos, (n, half), cpu)?, Tensor::from_vec(sin, (n, half), cpu)?),
            states: Tensor::from_slice(states, (learned, width), cpu)?,
            learned,
        })
    }
}

/// Keys and values of a pass, `kv_heads × rows × head_dim` each.
struct KeysAndValues {
    keys: Tensor,
    values: Tensor,
}

/// A trainable EAGLE-3 head with the target's frozen embeddings and LM head.
pub struct TrainedEagle {
    config: TextConfig,
    head: Head,
}

impl TrainedEagle {
    /// A head of this configuration, initialized at random like torch's linear layers; its last norm is the target's. Fails if the
    /// target's checkpoint lacks a tensor.
    pub fn new(
        target: &Checkpoint,
        source: &TextConfig,
        config: &DraftHeadConfig,
        seed: u64,
    ) -> std::result::Result<Self, CheckpointError> {
        let c = config.layer(source);
        let d = c.hidden;
        let mut values = FirstValues::new(seed);
        values.matrix("fc", d, TAPS * d);
        values.layer(0, &c, 2 * d);
        for name in ["input_layernorm", "hidden_norm", "post_attention_layernorm"] {
            values.norm(&format!("model.layers.0.{name}"), d);
        }
        values.last_norm(target, source)?;
        Ok(Self { head: Head::new(values, target, &c)?, config: c })
    }

    /// Trainable variables, sorted by name.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        self.head.vars()
    }

    /// The target's embeddings, `vocab × width`.
    pub fn embeddings(&self) -> &Tensor {
        &self.head.tables.embeddings
    }

    /// `x Wᵀ` with a part of the layer.
    fn of_layer(&self, x: &Tensor, part: &str) -> Result<Tensor> {
        self.head.linear(x, &format!("model.layers.0.{part}"))
    }

    /// `rows × heads · head_dim` as `heads × rows × head_dim`.
    fn heads(&self, x: &Tensor, count: usize) -> Result<Tensor> {
        x.reshape((x.dim(0)?, count, self.config.head_dim))?.transpose(0, 1)?.contiguous()
    }

    /// What rows from `from` on enter the layer with: embeddings and the states before them, each normed.
    fn pairs(&self, rows: &Rows, from: usize, before: &Tensor) -> Result<Tensor> {
        let embeddings = rows.embeddings.narrow(0, from, before.dim(0)?)?;
        let embeddings = self.head.norm(&embeddings, "model.layers.0.input_layernorm")?;
        Tensor::cat(&[embeddings, self.head.norm(before, "model.layers.0.hidden_norm")?], 1)
    }

    fn keys_and_values(&self, pairs: &Tensor, rotation: (&Tensor, &Tensor)) -> Result<KeysAndValues> {
        let kv_heads = self.config.kv_heads;
        let keys = self.heads(&self.of_layer(pairs, "self_attn.k_proj")?, kv_heads)?;
        let values = self.heads(&self.of_layer(pairs, "self_attn.v_proj")?, kv_heads)?;
        Ok(KeysAndValues { keys: rotate(&keys, rotation)?, values })
    }

    /// The layer's outputs at `n` rows, `n × width`, before the final norm. `before` are the states that they read and the residual,
    /// `pairs` what they enter with. They see the first pass through `mask` (`n × N`), and the row at the same place of each later pass.
    fn layer(
        &self,
        (pairs, before): (&Tensor, &Tensor),
        rotation: (&Tensor, &Tensor),
        (first, mask): (&KeysAndValues, &Tensor),
        later: &[KeysAndValues],
    ) -> Result<Tensor> {
        let c = &self.config;
        let (n, all, group) = (pairs.dim(0)?, first.keys.dim(1)?, c.heads / c.kv_heads);
        let q = self.heads(&self.of_layer(pairs, "self_attn.q_proj")?, c.heads)?;
        let q = (rotate(&q, rotation)? * (c.head_dim as f64).sqrt().recip())?;
        let grouped = q.reshape((c.kv_heads, group * n, c.head_dim))?;
        let scores = grouped.matmul(&first.keys.transpose(1, 2)?.contiguous()?)?;
        let scores = scores.reshape((c.heads, n, all))?.broadcast_add(mask)?;
        // A key, or value, of each of the rows, for all heads that share it.
        let own = |of: &Tensor| -> Result<Tensor> {
            let of = of.narrow(1, 0, n)?.unsqueeze(1)?;
            of.broadcast_as((c.kv_heads, group, n, c.head_dim))?.reshape((c.heads, n, c.head_dim))
        };
        let mut parts = vec![scores];
        for pass in later {
            parts.push((&q * own(&pass.keys)?)?.sum_keepdim(D::Minus1)?);
        }
        let weights = softmax(&Tensor::cat(&parts, 2)?)?;
        let seen = weights.narrow(2, 0, all)?.contiguous()?.reshape((c.kv_heads, group * n, all))?;
        let mut mixed = seen.matmul(&first.values)?.reshape((c.heads, n, c.head_dim))?;
        for (at, pass) in later.iter().enumerate() {
            mixed = (mixed + own(&pass.values)?.broadcast_mul(&weights.narrow(2, all + at, 1)?)?)?;
        }
        let mixed = mixed.transpose(0, 1)?.contiguous()?.reshape((n, c.heads * c.head_dim))?;
        let x = (before + self.of_layer(&mixed, "self_attn.o_proj")?)?;
        self.head.feed_forward(&x, 0)
    }

    /// The outputs of the first pass and of `recursions` passes after it, at the learned rows that each has: `M - k` of pass k,
    /// from the k-th learned row on, `rows × width`.
    pub fn forward(&self, rows: &Rows, recursions: usize) -> Result<Vec<Tensor>> {
        let (all, m) = (rows.context.dim(0)?, rows.learned);
        let (cos, sin) = &rows.rotation;
        let read = self.head.linear(&rows.context, "fc")?;
        let pairs = self.pairs(rows, 0, &read)?;
        let first = self.keys_and_values(&pairs, (cos, sin))?;
        let from = all - m;
        // In every pass, row n sees the same rows of the first pass.
        let seen = |row: usize| (0..all).map(move |at| if at <= from + row { 0.0 } else { HIDDEN });
        let mask = Tensor::from_iter((0..m).flat_map(seen), &Device::Cpu)?.reshape((m, all))?;
        let mut before = read.narrow(0, from, m)?;
        let mut pairs = pairs.narrow(0, from, m)?;
        let (mut later, mut outputs) = (Vec::new(), Vec::new());
        for pass in 0..=recursions.min(m - 1) {
            let (start, n) = (from + pass, m - pass);
            let turn = (&cos.narrow(0, start, n)?, &sin.narrow(0, start, n)?);
            if pass > 0 {
                // Each pass reads what the one before it said of the row before.
                let said: &Tensor = &outputs[pass - 1];
                before = said.narrow(0, 0, n)?;
                pairs = self.pairs(rows, start, &before)?;
                later.push(self.keys_and_values(&pairs, turn)?);
            }
            let mask = mask.narrow(0, 0, n)?;
            outputs.push(self.layer((&pairs, &before), turn, (&first, &mask), &later)?);
        }
        Ok(outputs)
    }

    /// The loss of some captions. Agreement is listed for the first pass, then for each later pass.
    pub fn losses(&self, captions: &[Rows], recursions: usize) -> Result<Losses> {
        let (mut right, mut counts) = (vec![0f32; recursions + 1], vec![0usize; recursions + 1]);
        let mut entropies: Vec<Option<Tensor>> = vec![None; recursions + 1];
        for rows in captions {
            let logits = self.head.logits(&rows.states)?;
            let (wanted, best) = (softmax(&logits)?, logits.argmax(D::Minus1)?);
            for (pass, out) in self.forward(rows, recursions)?.iter().enumerate() {
                let n = out.dim(0)?;
                let said = self.head.logits(&self.head.norm(out, "model.norm")?)?;
                let entropy = (wanted.narrow(0, pass, n)? * log_softmax(&said)?)?.sum_all()?.neg()?;
                let same = said.argmax(D::Minus1)?.eq(&best.narrow(0, pass, n)?)?.to_dtype(DType::F32)?;
                right[pass] += same.sum_all()?.to_scalar::<f32>()?;
                counts[pass] += n;
                entropies[pass] = Some(match entropies[pass].take() {
                    None => entropy,
                    Some(sum) => (sum + entropy)?,
                });
            }
        }
        let (mut total, mut token) = (None, 0.0);
        for (pass, entropy) in entropies.into_iter().flatten().enumerate() {
            let mean = (entropy / counts[pass] as f64)?;
            if pass == 0 {
                token = mean.to_scalar::<f32>()?;
            }
            let weighted = (mean * FADE.powi(pass as i32))?;
            total = Some(match total {
                None => weighted,
                Some(sum) => (sum + weighted)?,
            });
        }
        let total = total.ok_or_else(|| candle_core::Error::Msg("there are no captions".into()))?;
        let made = right.iter().zip(&counts).filter(|(_, count)| **count > 0);
        let agreement = made.map(|(right, count)| right / *count as f32).collect();
        Ok(Losses { total, state: 0.0, token, agreement })
    }
}
