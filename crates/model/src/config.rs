//! The language model of a checkpoint's `config.json`: a raw mirror of the file, resolved into a configuration without options.
//!
//! Both layouts are supported: the original flat one, and the newer one with the language model under `text_config`.

pub(crate) mod experts;
mod gemma;
pub(crate) mod hybrid;
pub(crate) mod text;

pub use experts::Sparse;
pub(crate) use gemma::GEMMA4;
pub use gemma::{Gemma, PerLayer};
use specreel_tensor::{
    Gate, KvType, LinearAttention, WeightType, attention::AttentionShape, convolution::ConvolutionShape,
};

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
    /// What Gemma 4 has; `None` in other models.
    pub gemma: Option<Gemma>,
    /// Of an assistant, whose layers have queries alone: the places of the target's keys and values that they read, among its
    /// layers that see all slots, and among those with a window. `None` in other models.
    pub assists: Option<[usize; 2]>,
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
        self.experts(layer).map_or(self.intermediate_of(layer), Sparse::active)
    }

    /// Parameters of the experts that a row does not take.
    pub fn idle_parameters(&self) -> u64 {
        let idle = |sparse: &Sparse| (sparse.experts - sparse.chosen) * 3 * self.hidden * sparse.width;
        (0..self.layers).filter_map(|layer| self.experts(layer)).map(|sparse| idle(sparse) as u64).sum()
    }

    /// Number of layers with full attention: those that have keys and values of all slots in the cache.
    pub fn attention_layers(&self) -> usize {
        match (&self.gemma, self.assists) {
            (None, None) => self.linear.map_or(self.layers, |linear| self.layers / linear.every),
            _ => self.layers_with_keys(false),
        }
    }

    /// Number of layers that attend to all slots, with keys and values of their own or of another layer.
    pub fn unbounded_layers(&self) -> usize {
        let bounded = |layer: &usize| self.is_linear(*layer) || self.is_sliding(*layer);
        (0..self.layers).filter(|layer| !bounded(layer)).count()
    }

    /// Number of layers that attend within a window and have keys and values in the cache.
    pub fn sliding_layers(&self) -> usize {
        if self.gemma.is_some() { self.layers_with_keys(true) } else { 0 }
    }

    fn layers_with_keys(&self, sliding: bool) -> usize {
        (0..self.layers).filter(|layer| self.has_keys(*layer) && self.is_sliding(*layer) == sliding).count()
    }

    /// True if a layer attends within a window.
    pub fn is_sliding(&self, layer: usize) -> bool {
        self.gemma.as_ref().is_some_and(|gemma| gemma.sliding.get(layer) == Some(&true))
    }

    /// True if a layer has keys and values of its own.
    pub fn has_keys(&self, layer: usize) -> bool {
        self.assists.is_none() && self.gemma.as_ref().is_none_or(|gemma| layer < gemma.first_shared)
    }

    /// The shape of a layer's attention.
    pub fn attention_shape(&self, layer: usize) -> AttentionShape {
        let all = AttentionShape { heads: self.heads, kv_heads: self.kv_heads, head_dim: self.head_dim };
        match &self.gemma {
            Some(gemma) if self.is_sliding(layer) => {
                AttentionShape { kv_heads: gemma.kv_heads, head_dim: gemma.head_dim, ..all }
            }
            _ => all,
        }
    }

    /// Width of the values between the two matrices of a dense feed-forward layer.
    pub fn intermediate_of(&self, layer: usize) -> usize {
        let doubled = self.gemma.as_ref().is_some_and(|gemma| gemma.wide) && !self.has_keys(layer);
        self.intermediate * if doubled { 2 } else { 1 }
    }

    /// The gate of feed-forward layers.
    pub fn gate(&self) -> Gate {
        if self.gemma.is_some() { Gate::GeluTanh } else { Gate::Silu }
    }

    /// Embeddings of text are multiplied by this.
    pub fn embedding_scale(&self) -> f32 {
        if self.gemma.is_some() { (self.hidden as f32).sqrt() } else { 1.0 }
    }

    /// The embeddings that are added in each layer, if the model has them.
    pub fn per_layer(&self) -> Option<PerLayer> {
        self.gemma.as_ref()?.per_layer
    }

    /// Key heads and value heads of all layers that see all slots.
    fn cached_heads(&self) -> usize {
        self.attention_layers() * 2 * self.kv_heads
    }

    /// Bytes of the keys and values of one token in all layers.
    pub fn kv_bytes(&self, kind: KvType) -> usize {
        let sliding = self
            .gemma
            .as_ref()
            .map_or(0, |gemma| kind.token_bytes(self.sliding_layers() * 2 * gemma.kv_heads, gemma.head_dim));
        kind.token_bytes(self.cached_heads(), self.head_dim) + sliding
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

    /// The place of a layer's keys and values in the cache, among the layers that see as many slots: its own, or those of the last
    /// layer of its kind that has some.
    pub(crate) fn cache_layer(&self, layer: usize) -> usize {
        if let Some(places) = self.assists {
            return places[usize::from(self.is_sliding(layer))];
        }
        if self.gemma.is_none() {
            return self.index_in_kind(layer);
        }
        let of_kind =
            |other: &usize| self.has_keys(*other) && self.is_sliding(*other) == self.is_sliding(layer);
        let before = (0..=layer).filter(of_kind).count();
        before.saturating_sub(1)
    }

    /// Width of a prompt's rows: the embedding, one more for each DeepStack level, of which text rows hold zeros, and what is added
    /// in each layer.
    pub fn input_width(&self) -> usize {
        (1 + self.deepstack) * self.hidden + self.per_layer().map_or(0, PerLayer::values)
    }

    /// The columns of a prompt's rows that enter the layers above the first `layers` next to the states below them: the DeepStack
    /// levels of those layers, or what is added in each layer. Rows that enter at layer `from` hold no earlier levels.
    pub(crate) fn carried(&self, from: usize, layers: usize) -> std::ops::Range<usize> {
        if let Some(per_layer) = self.per_layer() {
            return self.hidden..self.hidden + per_layer.values();
        }
        let (first, left) = (1 + layers - from, self.deepstack.saturating_sub(layers));
        first * self.hidden..(first + left) * self.hidden
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
