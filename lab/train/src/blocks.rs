//! The trainable DFlash head: the arithmetic of `model::draft_head::dflash` through candle's autograd.
//!
//! The data are the target's captions. A block begins at an anchor, a random token of a caption; it is the root, and the mask tokens
//! after it stand for the tokens that follow. All blocks of a caption are computed together: they share the context, of which a
//! block sees the rows before its anchor, and see nothing of each other. The loss at a place fades with its distance from the
//! anchor, as a draft counts only if those before it pass (arXiv:2602.06036).
//!
//! A selector (DFlash 2) learns with the other weights, from the right token before each place, to prefer the target's choice among
//! the head's candidates. Where the target's choice is not among them, it takes the place of the last one.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, IndexOp, Result, Tensor, Var};
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{
    begin::FirstValues,
    head::Head,
    layer::{Losses, log_softmax, rotate, softmax},
    sample::Sample,
};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    config::TextConfig,
    decoder::{Positions, rope::Rope},
    draft_head::{
        BlockAttention, BlockConfig, DraftHeadConfig, Recipe, SelectorConfig, TargetIdentity, VisualRows,
        dflash::usual_layers,
    },
};
use specreel_tensor::{CheckpointError, convolution::ConvolutionShape};

/// What hides a row.
const HIDDEN: f32 = -1e9;

/// The sizes of a DFlash head, and how its blocks are laid out in training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockOptions {
    /// Rows of a block: one for the anchor and one for each drafted token.
    pub size: usize,
    pub layers: usize,
    /// Width of the feed-forward layers; `None` = the target's.
    pub feed_forward: Option<usize>,
    /// Number of the target's layers whose states are read.
    pub taps: usize,
    /// Most blocks of a caption in a step.
    pub anchors: usize,
    /// Places over which the loss fades to 1/e.
    pub fade: f64,
    /// Rows that the convolutions mix (DFlash 2); 0 = there are none.
    #[serde(default)]
    pub convolution: usize,
    /// Values of a token in the selector's codebooks (DFlash 2); 0 = there is no selector.
    #[serde(default)]
    pub selector: usize,
}

/// Neighboring values that share a correction of a convolution, and the selector's candidates, as in published heads.
const GROUP: usize = 16;
const CANDIDATES: usize = 16;

impl Default for BlockOptions {
    fn default() -> Self {
        Self::of(16)
    }
}

impl BlockOptions {
    /// The usual head with blocks of so many rows. The paper's distances are 7, 5 and 4 for blocks of 16, 10 and 8.
    pub fn of(size: usize) -> Self {
        let fade = if size > 12 { size as f64 * 7.0 / 16.0 } else { size as f64 / 2.0 };
        Self { size, layers: 5, feed_forward: None, taps: 5, anchors: 32, fade, convolution: 0, selector: 0 }
    }

    /// The target's layers whose states are read.
    pub fn target_layers(&self, target: &TextConfig) -> Vec<usize> {
        let mut layers = usual_layers(target.layers, self.taps.min(target.layers));
        layers.dedup();
        layers
    }

    /// The configuration of such a head. Its layers have the target's heads, which are normed, and no biases; mask tokens have
    /// the embedding of `mask`.
    pub fn config(&self, target: &TextConfig, identity: TargetIdentity, mask: u32) -> DraftHeadConfig {
        let like = DraftHeadConfig::like(target, identity, Recipe::Dflash, VisualRows::Embeddings);
        like.with_blocks(
            self.feed_forward,
            BlockConfig {
                block_size: self.size,
                mask_token_id: mask,
                target_layer_ids: self.target_layers(target),
                layers: vec![BlockAttention::default(); self.layers],
                convolution: (self.convolution > 0).then(|| ConvolutionShape {
                    taps: self.convolution.min(self.size),
                    group: (1..=GROUP).rev().find(|group| target.hidden.is_multiple_of(*group)).unwrap_or(1),
                }),
                selector: (self.selector > 0).then(|| SelectorConfig {
                    rank: self.selector,
                    candidates: CANDIDATES.min(target.vocab),
                }),
            },
        )
    }
}

/// The blocks of one caption.
pub struct Blocks {
    /// The places of their roots among the sample's ids.
    pub anchors: Vec<usize>,
    /// The target's states after the tapped layers, `C × taps · width`.
    context: Tensor,
    /// Tokens of the blocks, `N`, block by block.
    ids: Tensor,
    /// Cosines and sines of the context's rows and then the blocks' (`(C + N) × head_dim / 2`).
    rotation: (Tensor, Tensor),
    /// Added to scores, `N × (C + N)`.
    mask: Tensor,
    /// Which of the `N` rows are learned, `R`.
    learned: Tensor,
    /// The target's final states from which it predicts the tokens there, `R × width`.
    states: Tensor,
    /// Weights of the rows in the loss, `R`.
    weights: Tensor,
    /// 1 where a row is the first draft of its block, `R`.
    first: Tensor,
    /// The token before each learned row's, `R`.
    before: Tensor,
    /// Rows of a block.
    size: usize,
    pub rows: usize,
}

impl Blocks {
    /// Blocks at random anchors of a caption. Fails if the sample holds no context rows, or a caption without tokens.
    pub fn new(
        sample: &Sample,
        options: &BlockOptions,
        mask_id: u32,
        rope: &Rope,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self> {
        let (rows, width, size) = (sample.context_positions.len(), sample.width(), options.size);
        let texts = sample.ids.len();
        if rows < texts || sample.answer.is_empty() {
            candle_core::bail!("a sample of {texts} text rows has {rows} context rows");
        }
        let mut anchors: Vec<usize> = sample.answer.clone().collect();
        anchors.shuffle(rng);
        anchors.truncate(options.anchors.max(1));
        // Text follows the last visual token without gaps.
        let ahead = rows - texts;
        let n = anchors.len() * size;
        let mut mask = vec![HIDDEN; n * (rows + n)];
        let (mut ids, mut axes) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let (mut learned, mut states, mut weights, mut first) = (vec![], vec![], vec![], vec![]);
        let mut befores = vec![];
        for (block, &anchor) in anchors.iter().enumerate() {
            for place in 0..size {
                let row = block * size + place;
                ids.push(if place == 0 { sample.ids[anchor] } else { mask_id });
                axes.push(sample.positions.axes[0][anchor] + place as u32);
                let line = &mut mask[row * (rows + n)..][..rows + n];
                line[..ahead + anchor].fill(0.0);
                line[rows + block * size..][..size].fill(0.0);
                // The state at a token predicts the one after it; the last one predicts the end.
                let Some(before) = place.checked_sub(1).map(|before| anchor + before) else { continue };
                if before < texts {
                    learned.push(row as u32);
                    befores.push(sample.ids[before]);
                    states.extend_from_slice(&sample.states[before * width..][..width]);
                    weights.push((-(place as f64 - 1.0) / options.fade).exp() as f32);
                    first.push(if place == 1 { 1f32 } else { 0.0 });
                }
            }
        }
        let all: [Vec<u32>; 3] =
            [0, 1, 2].map(|axis| [&sample.context_positions.axes[axis][..], &axes].concat());
        let (cos, sin) = rope.tables(&Positions { axes: all });
        let (cpu, count, half) = (&Device::Cpu, learned.len(), cos.len() / (rows + n));
        let read = sample.context.len() / rows;
        Ok(Self {
            context: Tensor::from_slice(&sample.context, (rows, read), cpu)?,
            ids: Tensor::from_vec(ids, n, cpu)?,
            rotation: (
                Tensor::from_vec(cos, (rows + n, half), cpu)?,
                Tensor::from_vec(sin, (rows + n, half), cpu)?,
            ),
            mask: Tensor::from_vec(mask, (n, rows + n), cpu)?,
            learned: Tensor::from_vec(learned, count, cpu)?,
            states: Tensor::from_vec(states, (count, width), cpu)?,
            weights: Tensor::from_vec(weights, count, cpu)?,
            first: Tensor::from_vec(first, count, cpu)?,
            before: Tensor::from_vec(befores, count, cpu)?,
            size,
            anchors,
            rows: count,
        })
    }
}

/// A trainable DFlash head with the target's frozen embeddings and LM head.
pub struct TrainedBlocks {
    config: TextConfig,
    head: Head,
    /// Candidates of its selector; 0 = it has none.
    candidates: usize,
}

impl TrainedBlocks {
    /// A head of this configuration, initialized at random like torch's linear layers; its last norm is the target's. Fails if the
    /// target's checkpoint lacks a tensor.
    pub fn new(
        target: &Checkpoint,
        source: &TextConfig,
        config: &DraftHeadConfig,
        seed: u64,
    ) -> std::result::Result<Self, CheckpointError> {
        let block = config.dflash.as_ref();
        let block = block.ok_or_else(|| CheckpointError::tensor("fc.weight", "the head drafts no blocks"))?;
        let c = TextConfig { layers: block.layers.len(), ..config.layer(source) };
        let d = c.hidden;
        let mut values = FirstValues::new(seed);
        values.matrix("fc", d, block.target_layer_ids.len() * d);
        for layer in 0..c.layers {
            values.layer(layer, &c, d);
        }
        values.norm("hidden_norm", d);
        for layer in 0..c.layers {
            for (part, width) in [
                ("input_layernorm", d),
                ("post_attention_layernorm", d),
                ("self_attn.q_norm", c.head_dim),
                ("self_attn.k_norm", c.head_dim),
            ] {
                values.norm(&format!("model.layers.{layer}.{part}"), width);
            }
        }
        values.last_norm(target, source)?;
        if let Some(shape) = c.convolution {
            for layer in 0..c.layers {
                for name in ["attention_conv", "mlp_conv"] {
                    values.convolution(&format!("model.layers.{layer}.{name}"), shape, d);
                }
            }
        }
        if let Some(selector) = block.selector {
            values.selector(selector.rank, c.vocab, d);
        }
        let candidates = block.selector.map_or(0, |selector| selector.candidates);
        Ok(Self { head: Head::new(values, target, &c)?, config: c, candidates })
    }

    /// Trainable variables, sorted by name.
    pub fn vars(&self) -> &BTreeMap<String, Var> {
        self.head.vars()
    }

    /// Final states of all rows of the blocks, `N × width`.
    pub fn forward(&self, blocks: &Blocks) -> Result<Tensor> {
        let c = &self.config;
        let context = self.head.norm(&self.head.linear(&blocks.context, "fc")?, "hidden_norm")?;
        let mut x = self.head.tables.embeddings.index_select(&blocks.ids, 0)?;
        let (rows, n) = (context.dim(0)?, x.dim(0)?);
        let (cos, sin) = &blocks.rotation;
        let own = (&cos.narrow(0, rows, n)?, &sin.narrow(0, rows, n)?);
        let group = c.heads / c.kv_heads;
        for layer in 0..c.layers {
            let part = |name: &str| format!("model.layers.{layer}.{name}");
            let normed = self.head.norm(&x, &part("input_layernorm"))?;
            let around = self.around(&part("attention_conv"), normed, blocks.size)?;
            let normed = &around.rows;
            let read = Tensor::cat(&[&context, normed], 0)?;
            let heads = |x: &Tensor, name: &str, count: usize| {
                let x = self.head.linear(x, &part(&format!("self_attn.{name}_proj")))?;
                x.reshape((x.dim(0)?, count, c.head_dim))?.transpose(0, 1)?.contiguous()
            };
            let q = self.head.norm(&heads(normed, "q", c.heads)?, &part("self_attn.q_norm"))?;
            let k = self.head.norm(&heads(&read, "k", c.kv_heads)?, &part("self_attn.k_norm"))?;
            let v = heads(&read, "v", c.kv_heads)?;
            let (q, k) = (rotate(&q, own)?, rotate(&k, (cos, sin))?);
            let q = q.reshape((c.kv_heads, group * n, c.head_dim))?;
            let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? * (c.head_dim as f64).sqrt().recip())?;
            let scores = scores.reshape((c.heads, n, rows + n))?.broadcast_add(&blocks.mask)?;
            let weights = softmax(&scores)?.reshape((c.kv_heads, group * n, rows + n))?;
            let mixed = weights.matmul(&v)?.reshape((c.heads, n, c.head_dim))?;
            let mixed = mixed.transpose(0, 1)?.contiguous()?.reshape((n, c.heads * c.head_dim))?;
            x = (x + around.leave(self, self.head.linear(&mixed, &part("self_attn.o_proj"))?)?)?;
            let normed = self.head.norm(&x, &part("post_attention_layernorm"))?;
            let around = self.around(&part("mlp_conv"), normed, blocks.size)?;
            let gated = self.head.gated(&around.rows, layer)?;
            x = (x + around.leave(self, gated)?)?;
        }
        self.head.norm(&x, "model.norm")
    }

    /// What enters a sublayer of blocks of `size` rows, and what its output passes.
    fn around(&self, name: &str, normed: Tensor, size: usize) -> Result<Around> {
        let Some(shape) = self.config.convolution else {
            return Ok(Around { rows: normed, after: None });
        };
        let corrections = self.head.linear(&normed, &format!("{name}.kernel_projection"))?;
        let after = After { name: format!("{name}.base_kernel"), corrections, shape, size };
        Ok(Around { rows: after.convolve(self, &normed, 0)?, after: Some(after) })
    }

    /// The selector's cross-entropy with the target's distribution over the candidates, for each row, and 1 where its choice is the
    /// target's, and was among the candidates. `out` are the head's final states, `said` and `wanted` the head's logits and the target's.
    fn select(&self, blocks: &Blocks, out: &Tensor, said: &Tensor, wanted: &Tensor) -> Result<[Tensor; 2]> {
        const NAME: &str = "candidate_selector";
        let best = wanted.argmax(D::Minus1)?.to_vec1::<u32>()?;
        let (rows, count) = (best.len(), self.candidates);
        let (mut ids, mut known): (Vec<u32>, Vec<f32>) = (Vec::with_capacity(rows * count), vec![1.0; rows]);
        for ((logits, best), known) in said.detach().to_vec2::<f32>()?.iter().zip(&best).zip(&mut known) {
            let mut order: Vec<u32> = (0..logits.len() as u32).collect();
            let likelier = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]);
            order.select_nth_unstable_by(count - 1, likelier);
            order.truncate(count);
            if !order.contains(best) {
                order[count - 1] = *best;
                *known = 0.0;
            }
            ids.extend(order);
        }
        let at: Vec<u32> = ids
            .chunks(count)
            .zip(&best)
            .map(|(ids, best)| ids.iter().position(|id| id == best).unwrap_or_default() as u32)
            .collect();
        let (ids, at) = (Tensor::from_vec(ids, (rows, count), &Device::Cpu)?, Tensor::new(at, &Device::Cpu)?);
        let before =
            self.head.tensor(&format!("{NAME}.predecessor_codebook"))?.index_select(&blocks.before, 0)?;
        let gate = (before * self.head.linear(out, &format!("{NAME}.hidden_projection"))?)?;
        let successors = self.head.tensor(&format!("{NAME}.successor_codebook"))?;
        let successors = successors.index_select(&ids.flatten_all()?, 0)?.reshape((rows, count, ()))?;
        let edges = successors.matmul(&gate.unsqueeze(2)?)?.squeeze(2)?;
        let scores = (said.gather(&ids, 1)? + edges)?;
        let wanted = softmax(&wanted.gather(&ids, 1)?)?;
        let entropy = (wanted * log_softmax(&scores)?)?.sum(D::Minus1)?.neg()?;
        let right = scores.argmax(D::Minus1)?.eq(&at)?.to_dtype(DType::F32)?;
        Ok([entropy, (right * Tensor::new(known, &Device::Cpu)?)?])
    }

    /// The loss of some captions' blocks: the cross-entropy with the target's distribution, and the loss of
    /// the selector, if there is one, weighted by place. Agreement is listed for the first drafts, then for
    /// all drafts.
    pub fn losses(&self, captions: &[Blocks]) -> Result<Losses> {
        let mut sum: Option<Tensor> = None;
        let (mut weight, mut right, mut rows, mut firsts, mut first_right) = (0f64, 0f32, 0, 0f32, 0f32);
        for blocks in captions {
            let out = self.forward(blocks)?.index_select(&blocks.learned, 0)?;
            let said = self.head.logits(&out)?;
            let logits = self.head.logits(&blocks.states)?;
            let mut entropy = (softmax(&logits)? * log_softmax(&said)?)?.sum(D::Minus1)?.neg()?;
            let mut same = said.argmax(D::Minus1)?.eq(&logits.argmax(D::Minus1)?)?.to_dtype(DType::F32)?;
            if self.candidates > 0 {
                let [selected, right] = self.select(blocks, &out, &said, &logits)?;
                (entropy, same) = ((entropy + selected)?, right);
            }
            let loss = (entropy * &blocks.weights)?.sum_all()?;
            weight += f64::from(blocks.weights.sum_all()?.to_scalar::<f32>()?);
            right += same.sum_all()?.to_scalar::<f32>()?;
            first_right += (same * &blocks.first)?.sum_all()?.to_scalar::<f32>()?;
            firsts += blocks.first.sum_all()?.to_scalar::<f32>()?;
            rows += blocks.rows;
            sum = Some(match sum {
                None => loss,
                Some(sum) => (sum + loss)?,
            });
        }
        let sum = sum.ok_or_else(|| candle_core::Error::Msg("there are no blocks".into()))?;
        let total = (sum * weight.max(1e-9).recip())?;
        let token = total.to_scalar::<f32>()?;
        let agreement = vec![first_right / firsts.max(1.0), right / rows.max(1) as f32];
        Ok(Losses { total, state: 0.0, token, agreement })
    }
}

/// A sublayer's convolutions.
struct Around {
    /// What enters it.
    rows: Tensor,
    after: Option<After>,
}

struct After {
    /// Of the taps that all rows share.
    name: String,
    /// `N × 2 · taps · groups`.
    corrections: Tensor,
    shape: ConvolutionShape,
    /// Rows of a block.
    size: usize,
}

impl Around {
    /// What the sublayer gives, convolved.
    fn leave(&self, head: &TrainedBlocks, x: Tensor) -> Result<Tensor> {
        match &self.after {
            None => Ok(x),
            Some(after) => after.convolve(head, &x, 1),
        }
    }
}

impl After {
    /// See [`specreel_tensor::convolution`]; side 0 is that of what enters, side 1 that of what leaves.
    fn convolve(&self, head: &TrainedBlocks, x: &Tensor, side: usize) -> Result<Tensor> {
        let ConvolutionShape { taps, group } = self.shape;
        let (n, width) = x.dims2()?;
        let (groups, size) = (width / group, self.size);
        let shared = head.head.tensor(&self.name)?;
        let x = x.reshape((n / size, size, width))?;
        let mut sum: Option<Tensor> = None;
        for tap in 0..taps {
            let own = self.corrections.narrow(1, (side * taps + tap) * groups, groups)?.unsqueeze(2)?;
            let kernel = own.broadcast_add(&shared.i((side, tap))?.reshape((groups, group))?)?;
            let moved = x.narrow(1, 0, size - tap)?.pad_with_zeros(1, tap, 0)?.reshape((n, groups, group))?;
            let mixed = (kernel * moved)?;
            sum = Some(match sum {
                None => mixed,
                Some(sum) => (sum + mixed)?,
            });
        }
        let sum = sum.ok_or_else(|| candle_core::Error::Msg("a convolution without taps".into()))?;
        sum.reshape((n, width))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_loss_fades_as_in_the_paper() {
        assert_eq!([16, 10, 8].map(|size| BlockOptions::of(size).fade), [7.0, 5.0, 4.0]);
    }

    fn sample() -> Sample {
        // Three visual rows between the first and the second of six text rows, of which four are the caption's.
        Sample {
            ids: vec![10, 11, 12, 13, 14, 15],
            positions: Positions::text(3, 6),
            states: (0..12).map(|i| i as f32).collect(),
            answer: 1..6,
            context: (0..9 * 4).map(|i| i as f32).collect(),
            context_positions: Positions::text(0, 9),
            ..Sample::default()
        }
    }

    #[test]
    fn a_block_sees_the_rows_before_its_anchor_and_itself() {
        let tiny = specreel_model::shapes::find("tiny").unwrap();
        let rope = Rope::new(&TextConfig { head_dim: 4, rotary_dim: 4, mrope_section: None, ..tiny });
        let options = BlockOptions { anchors: 99, ..BlockOptions::of(3) };
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let blocks = Blocks::new(&sample(), &options, 99, &rope, &mut rng).unwrap();
        let ids = blocks.ids.to_vec1::<u32>().unwrap();
        let mask = blocks.mask.to_vec2::<f32>().unwrap();
        let mut anchors = Vec::new();
        for (block, ids) in ids.chunks(3).enumerate() {
            let anchor = ids[0] as usize - 10;
            assert_eq!(ids[1..], [99, 99]);
            anchors.push(anchor);
            for row in &mask[3 * block..][..3] {
                let seen: Vec<usize> = (0..row.len()).filter(|&at| row[at] == 0.0).collect();
                let own = 9 + 3 * block..12 + 3 * block;
                assert_eq!(seen, (0..3 + anchor).chain(own).collect::<Vec<_>>());
            }
            let (cos, _) = rope.tables(&Positions::text(3 + anchor as u32, 3));
            let at = blocks.rotation.0.narrow(0, 9 + 3 * block, 3).unwrap().flatten_all().unwrap();
            assert_eq!(at.to_vec1::<f32>().unwrap(), cos);
        }
        anchors.sort_unstable();
        assert_eq!(anchors, [1, 2, 3, 4, 5]);
        // The block at the last token learns the end alone.
        assert_eq!((blocks.rows, blocks.first.sum_all().unwrap().to_scalar::<f32>().unwrap()), (9, 5.0));
        let states = blocks.states.to_vec2::<f32>().unwrap();
        let learned = blocks.learned.to_vec1::<u32>().unwrap();
        for (state, row) in states.iter().zip(learned) {
            let (anchor, place) = (ids[row as usize / 3 * 3] as usize - 10, row as usize % 3);
            assert_eq!(state[0], (2 * (anchor + place - 1)) as f32);
        }
    }
}
