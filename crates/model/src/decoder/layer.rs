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
    /// Norms of what attention and the feed-forward layer add.
    pub(super) after: Option<[Norm<D::Vector>; 2]>,
    pub(super) added: Option<Added<D>>,
    /// The factor of the layer's states.
    pub(super) scalar: Option<f32>,
    /// Around attention, and around the feed-forward layer.
    pub(super) convolutions: Option<[Convolved<D>; 2]>,
}

/// What the embeddings of a layer add to its states.
pub(super) struct Added<D: DecoderOps> {
    /// From the states to the values by which the embeddings are multiplied.
    pub(super) gate: D::Matrix,
    pub(super) projection: D::Matrix,
    pub(super) norm: Norm<D::Vector>,
}

/// The tensors of a layer besides its matrices.
pub(super) enum Mixer<D: DecoderOps> {
    Attention {
        /// Norms of queries and keys in each head.
        norms: Option<[D::Vector; 2]>,
        /// Values are normed in each head too.
        normed_values: bool,
        /// It attends within the window.
        sliding: bool,
        /// The columns of queries, keys and values among what enters, where these are not all of it in order.
        picked: Option<D::Columns>,
        gates: Option<D::Columns>,
        /// The place of its keys and values in the cache, among the layers that see as many slots.
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
        let (post_norm, after) = parts::norms(config, index);
        let norm = |name: &str| parts::norm(ops, name, config, checkpoint);
        let after = match after {
            Some([attention, feed_forward]) => Some([norm(&attention)?, norm(&feed_forward)?]),
            None => None,
        };
        Ok(Self {
            after,
            added: Added::load(ops, checkpoint, config, index)?,
            scalar: match config.gemma {
                Some(_) => checkpoint.f32(&parts::scalar(index), &[1])?.first().copied(),
                None => None,
            },
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
            Mixer::Attention { norms: Some([queries, keys]), normed_values: values, .. } => {
                Some(HeadNorms { queries, keys, values: *values, eps })
            }
            _ => None,
        }
    }

    pub(super) fn matrices(&self) -> impl Iterator<Item = &D::Matrix> {
        let entry = self.entry.iter().map(|(_, qkv)| qkv);
        let convolved = self.convolutions.iter().flatten().map(|convolved| &convolved.matrix);
        let added = self.added.iter().flat_map(|added| [&added.gate, &added.projection]);
        entry.chain([&self.output]).chain(self.feed_forward.matrices()).chain(convolved).chain(added)
    }

    /// Bytes that a pass of so many rows reads.
    pub(super) fn pass_bytes(&self, rows: usize) -> usize {
        let entry = self.entry.as_ref().map_or(0, |(_, qkv)| qkv.bytes());
        let convolved = self.convolutions.iter().flatten().map(|convolved| convolved.matrix.bytes());
        let added = self.added.as_ref().map_or(0, |added| added.gate.bytes() + added.projection.bytes());
        entry + self.output.bytes() + self.feed_forward.pass_bytes(rows) + convolved.sum::<usize>() + added
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

impl<D: DecoderOps> Added<D> {
    fn load(ops: &D, checkpoint: &Checkpoint, config: &TextConfig, index: usize) -> Loaded<Option<Self>> {
        let Some([gate, projection]) = parts::per_layer(config, index) else { return Ok(None) };
        Ok(Some(Self {
            gate: ops.matrix(&gate, checkpoint)?,
            projection: ops.matrix(&projection, checkpoint)?,
            norm: parts::norm(ops, &parts::per_layer_norm(index), config, checkpoint)?,
        }))
    }
}

impl<D: DecoderOps> Mixer<D> {
    fn load(ops: &D, checkpoint: &Checkpoint, c: &TextConfig, index: usize) -> Loaded<Self> {
        let number = c.cache_layer(index);
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
        let shape = c.attention_shape(index);
        let order = match c.gemma {
            Some(_) => (0..shape.head_dim).collect(),
            None => rope::order(c.head_dim, c.rotary_dim),
        };
        let norms = match parts::head_norms(c, index) {
            None => None,
            Some([queries, keys]) => {
                let load = |name: &str, factor: f32| {
                    let values = parts::norm_values(name, shape.head_dim, c, checkpoint)?;
                    ops.vector(name, order.iter().map(|&at| values[at] * factor).collect())
                };
                // Scores of normed queries are not divided by the root of their width, which all devices do.
                let factor = c.gemma.as_ref().map_or(1.0, |_| (shape.head_dim as f32).sqrt());
                Some([load(&queries, factor)?, load(&keys, 1.0)?])
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
            normed_values: c.gemma.is_some(),
            sliding: c.is_sliding(index),
            picked: if as_it_is { None } else { Some(columns(picked.concat())?) },
            gates: if c.output_gate { Some(columns(gates())?) } else { None },
            number,
        })
    }
}
