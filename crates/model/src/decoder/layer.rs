//! A layer's weights on a device.

use super::{
    convolved::Convolved,
    parts::{self, FeedForward},
    rope,
};
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    LinearWeights, Weights,
    ops::{DecoderOps, HeadNorms, HeldWeights, Loaded, Norm},
};

pub(super) struct DecoderLayer<D: DecoderOps> {
    /// The input norm, and the matrix of what enters attention; `None` if that enters with the rows.
    pub(super) entry: Option<(Norm<D::Vector>, D::Matrix)>,
    pub(super) mixer: Mixer<D>,
    pub(super) output: D::Matrix,
    pub(super) post_norm: Norm<D::Vector>,
    pub(super) feed_forward: FeedForward<D::Matrix>,
    /// Around attention, and around the feed-forward layer.
    pub(super) convolutions: Option<[Convolved<D>; 2]>,
}

/// The tensors of a layer besides its matrices.
pub(super) enum Mixer<D: DecoderOps> {
    Attention {
        /// Norms of queries and keys in each head.
        norms: Option<[D::Vector; 2]>,
        /// The columns of queries, keys and values among what enters, where these are not all of it in order.
        picked: Option<D::Columns>,
        gates: Option<D::Columns>,
        /// Its number among the layers with full attention: its place in the cache.
        number: usize,
    },
    Linear {
        weights: D::Linear,
        /// Its number among the layers with linear attention.
        number: usize,
    },
}

impl<D: DecoderOps> DecoderLayer<D> {
    pub(super) fn load(ops: &D, checkpoint: &Checkpoint, config: &TextConfig, index: usize) -> Loaded<Self> {
        let [entering, _] = parts::attention(config, index);
        let norm = parts::norm(ops, &parts::input_norm(index), config, checkpoint)?;
        let entry = Some((norm, ops.matrix(&entering, checkpoint)?));
        Ok(Self { entry, ..Self::load_entered(ops, checkpoint, config, index)? })
    }

    /// All tensors except those for queries, keys and values.
    pub(super) fn load_entered(
        ops: &D,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        index: usize,
    ) -> Loaded<Self> {
        let [_, output] = parts::attention(config, index);
        let post_norm = format!("model.layers.{index}.post_attention_layernorm.weight");
        Ok(Self {
            entry: None,
            mixer: Mixer::load(ops, checkpoint, config, index)?,
            output: ops.matrix(&output, checkpoint)?,
            post_norm: parts::norm(ops, &post_norm, config, checkpoint)?,
            feed_forward: load_feed_forward(ops, checkpoint, config, index)?,
            convolutions: Convolved::load(ops, checkpoint, config, index)?,
        })
    }

    /// The norms of queries and keys in each head.
    pub(super) fn head_norms(&self, eps: f32) -> Option<HeadNorms<'_, D::Vector>> {
        match &self.mixer {
            Mixer::Attention { norms: Some([queries, keys]), .. } => Some(HeadNorms { queries, keys, eps }),
            _ => None,
        }
    }

    pub(super) fn matrices(&self) -> impl Iterator<Item = &D::Matrix> {
        let entry = self.entry.iter().map(|(_, qkv)| qkv);
        let convolved = self.convolutions.iter().flatten().map(|convolved| &convolved.matrix);
        entry.chain([&self.output]).chain(self.feed_forward.matrices()).chain(convolved)
    }

    /// Bytes that a pass of so many rows reads.
    pub(super) fn pass_bytes(&self, rows: usize) -> usize {
        let entry = self.entry.as_ref().map_or(0, |(_, qkv)| qkv.bytes());
        let convolved = self.convolutions.iter().flatten().map(|convolved| convolved.matrix.bytes());
        entry + self.output.bytes() + self.feed_forward.pass_bytes(rows) + convolved.sum::<usize>()
    }
}

fn load_feed_forward<D: DecoderOps>(
    ops: &D,
    checkpoint: &Checkpoint,
    c: &TextConfig,
    index: usize,
) -> Loaded<FeedForward<D::Matrix>> {
    Ok(match parts::feed_forward(c, index) {
        FeedForward::Dense { gate_up, down } => FeedForward::Dense {
            gate_up: ops.matrix(&gate_up, checkpoint)?,
            down: ops.matrix(&down, checkpoint)?,
        },
        FeedForward::Sparse(experts) => FeedForward::Sparse(ops.experts(experts, checkpoint)?),
    })
}

impl<M: HeldWeights> FeedForward<M> {
    fn matrices(&self) -> Box<dyn Iterator<Item = &M> + '_> {
        match self {
            Self::Dense { gate_up, down } => Box::new([gate_up, down].into_iter()),
            Self::Sparse(experts) => Box::new(experts.matrices()),
        }
    }

    fn pass_bytes(&self, rows: usize) -> usize {
        match self {
            Self::Dense { gate_up, down } => gate_up.bytes() + down.bytes(),
            Self::Sparse(experts) => experts.pass_bytes(rows, HeldWeights::bytes),
        }
    }

    /// The matrix that takes the normed rows.
    pub(super) fn first(&self) -> &M {
        match self {
            Self::Dense { gate_up, .. } => gate_up,
            Self::Sparse(experts) => &experts.router,
        }
    }
}

impl<D: DecoderOps> Mixer<D> {
    fn load(ops: &D, checkpoint: &Checkpoint, c: &TextConfig, index: usize) -> Loaded<Self> {
        let number = c.index_in_kind(index);
        if let Some(shape) = c.linear.filter(|_| c.is_linear(index)) {
            let parts = parts::linear(&shape, index);
            let [convolution, logarithms, biases, norm] =
                parts.each_ref().map(|(name, shape)| checkpoint.f32(name, shape));
            let weights = LinearWeights {
                shape,
                convolution: convolution?,
                rates: logarithms?.iter().map(|log| -log.exp()).collect(),
                biases: biases?,
                norm: norm?,
                eps: c.norm_eps,
            };
            return Ok(Self::Linear { weights: ops.linear(&parts[0].0, weights)?, number });
        }
        let order = rope::order(c.head_dim, c.rotary_dim);
        let norms = match parts::head_norms(c, index) {
            None => None,
            Some([queries, keys]) => {
                let load = |name: &str| {
                    let values = parts::norm_values(name, c.head_dim, c, checkpoint)?;
                    ops.vector(name, order.iter().map(|&at| values[at]).collect())
                };
                Some([load(&queries)?, load(&keys)?])
            }
        };
        // A head's query is followed by its gate.
        let (d, stride) = (c.head_dim, c.head_dim * if c.output_gate { 2 } else { 1 });
        let (queries, keys) = (c.heads * stride, c.kv_heads * d);
        let columns = |columns: Vec<usize>| ops.chosen(columns.into_iter().map(|at| at as u32).collect());
        let in_order = |first: usize, heads: usize, stride: usize| -> Vec<usize> {
            (0..heads).flat_map(|head| order.iter().map(move |at| first + head * stride + at)).collect()
        };
        let as_it_is = !c.output_gate && c.rotary_dim == d;
        let picked = [
            in_order(0, c.heads, stride),
            in_order(queries, c.kv_heads, d),
            (queries + keys..queries + 2 * keys).collect(),
        ];
        let gates = || (0..c.heads).flat_map(|head| head * stride + d..(head + 1) * stride).collect();
        Ok(Self::Attention {
            norms,
            picked: if as_it_is { None } else { Some(columns(picked.concat())?) },
            gates: if c.output_gate { Some(columns(gates())?) } else { None },
            number,
        })
    }
}
