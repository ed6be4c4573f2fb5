//! The language model of a checkpoint's `config.json`: a raw mirror of the file, resolved into a configuration without options.
//!
//! Both layouts are supported: the original flat one, and the newer one with the language model under `text_config`.

pub(crate) mod experts;
pub(crate) mod hybrid;
pub(crate) mod text;

pub use experts::Sparse;
use specreel_tensor::{KvType, LinearAttention, WeightType, convolution::ConvolutionShape};

/// The language model's configuration.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TextConfig {
    /// Width of the states.
    pub hidden: usize,
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Width of the feed-forward layers.
    pub intermediate: usize,
    /// Rows of the embedding table (padding included).
    pub vocab: usize,
    /// True if the LM head is the embedding table.
    pub tied: bool,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Frequencies for time, row and column; `None` = one axis.
    pub mrope_section: Option<[usize; 3]>,
    /// True if the three axes alternate over the frequencies (time, row, column, time, …); else they are blocks.
    pub interleaved: bool,
    /// True if queries, keys and values have biases.
    pub bias: bool,
    /// True if queries and keys are normed in each head before they are rotated.
    pub qk_norm: bool,
    /// True if attention's output is multiplied by the logistic function of a gate, whose rows follow the query's rows in each
    /// head of `q_proj`.
    pub output_gate: bool,
    /// Values of a head that are rotated, the first ones; all others keep their value at any position.
    pub rotary_dim: usize,
    /// True if the weights of norms are stored as their difference from 1.
    pub norm_offset: bool,
    /// The layers with linear attention; `None` if all have full attention.
    pub linear: Option<LinearAttention>,
    /// The layers of experts; `None` if all feed-forward layers are dense.
    pub sparse: Option<Sparse>,
    /// The convolutions around attention and feed-forward layers of a DFlash 2 head; `None` = there are none.
    pub convolution: Option<ConvolutionShape>,
    /// DeepStack levels n: a visual token has 1 + n embeddings, of which one is added after each of the first n layers. 0 for
    /// none.
    pub deepstack: usize,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Longest context that the checkpoint supports.
    pub max_positions: usize,
}

impl TextConfig {
    pub fn is_linear(&self, layer: usize) -> bool {
        self.linear.is_some_and(|linear| !(layer + 1).is_multiple_of(linear.every))
    }

    /// The experts of a layer, if it has some.
    pub fn experts(&self, layer: usize) -> Option<&Sparse> {
        self.sparse.as_ref().filter(|sparse| sparse.is_sparse(layer))
    }

    /// Width of the values between the two matrices of a dense feed-forward layer, or of all experts of a row together.
    pub fn active_intermediate(&self, layer: usize) -> usize {
        self.experts(layer).map_or(self.intermediate, Sparse::active)
    }

    /// Parameters of the experts that a row does not take.
    pub fn idle_parameters(&self) -> u64 {
        let idle = |sparse: &Sparse| (sparse.experts - sparse.chosen) * 3 * self.hidden * sparse.width;
        (0..self.layers).filter_map(|layer| self.experts(layer)).map(|sparse| idle(sparse) as u64).sum()
    }

    /// Number of layers with full attention: those that have keys and values in the cache.
    pub fn attention_layers(&self) -> usize {
        self.linear.map_or(self.layers, |linear| self.layers / linear.every)
    }

    /// Key heads and value heads of all layers.
    fn cached_heads(&self) -> usize {
        self.attention_layers() * 2 * self.kv_heads
    }

    /// Bytes of the keys and values of one token in all layers.
    pub fn kv_bytes(&self, kind: KvType) -> usize {
        kind.token_bytes(self.cached_heads(), self.head_dim)
    }

    /// The type of the KV cache on the CPU if this one was requested, see [`KvType::fitting`].
    pub fn kv_type(&self, requested: KvType, dtype: WeightType) -> KvType {
        requested.fitting(self.cached_heads(), self.head_dim, dtype)
    }

    /// Bytes of the states of all layers with linear attention, as a sequence keeps them to be rolled back.
    pub(crate) fn recurrent_bytes(&self) -> usize {
        /// The settled and the current state, and two marks.
        const STATES: usize = 4;
        /// Rows of a step and of the drafts before it.
        const LOGGED: usize = 16;
        let layer = self.linear.map_or(0, |l| {
            let row = l.channels() + l.keys() + l.values() + l.value_heads;
            STATES * (l.state() + (l.kernel - 1) * l.channels()) + LOGGED * row
        });
        (self.layers - self.attention_layers()) * layer * size_of::<f32>()
    }

    /// Number of a layer among the layers of its kind, full or linear attention.
    pub(crate) fn index_in_kind(&self, layer: usize) -> usize {
        (0..layer).filter(|other| self.is_linear(*other) == self.is_linear(layer)).count()
    }

    /// Width of a prompt's rows: the embedding, and one more for each DeepStack level. Text rows hold zeros there.
    pub fn input_width(&self) -> usize {
        (1 + self.deepstack) * self.hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_heads_find_their_key_head() {
        let shape = |tiled| LinearAttention {
            every: 4,
            key_heads: 2,
            value_heads: 6,
            key_dim: 8,
            value_dim: 8,
            kernel: 4,
            tiled,
        };
        let heads = |tiled| (0..6).map(|head| shape(tiled).key_head(head)).collect::<Vec<_>>();
        assert_eq!(heads(false), [0, 0, 0, 1, 1, 1]);
        assert_eq!(heads(true), [0, 1, 0, 1, 0, 1]);
    }
}
