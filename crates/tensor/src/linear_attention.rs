//! The sizes of linear attention.

/// Linear attention by the gated delta rule (arXiv:2412.06464) in all layers but every n-th: a causal convolution over queries,
/// keys and values, and a state of `value_heads × key_dim × value_dim` values in place of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LinearAttention {
    /// Every n-th layer has full attention: those with index n - 1, 2n - 1, …
    pub every: usize,
    /// Query and key heads.
    pub key_heads: usize,
    /// Value heads, a multiple of the key heads; see [`Self::key_head`].
    pub value_heads: usize,
    /// Width of a query or key head.
    pub key_dim: usize,
    pub value_dim: usize,
    /// Rows under the convolution, the row itself included.
    pub kernel: usize,
    /// True if the value heads of a key head are as many value heads apart as there are key heads; else they are consecutive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tiled: bool,
}

impl LinearAttention {
    /// The query and key head that a value head reads.
    pub fn key_head(&self, value_head: usize) -> usize {
        match self.tiled {
            true => value_head % self.key_heads,
            false => value_head / (self.value_heads / self.key_heads),
        }
    }

    /// Values of all queries or all keys of a row.
    pub fn keys(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Values of all values of a row.
    pub fn values(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Columns under the convolution: queries, keys and values.
    pub fn channels(&self) -> usize {
        2 * self.keys() + self.values()
    }

    /// Values of a layer's state.
    pub fn state(&self) -> usize {
        self.value_heads * self.key_dim * self.value_dim
    }
}

/// The tensors of a layer with linear attention besides its matrices.
#[derive(Clone, Debug)]
pub struct LinearWeights {
    pub shape: LinearAttention,
    /// The convolution, `channels × kernel`; the last weight belongs to the row itself.
    pub convolution: Vec<f32>,
    /// The rate of each value head's decay, `-exp(A_log)`.
    pub rates: Vec<f32>,
    /// Added to each value head's column before softplus.
    pub biases: Vec<f32>,
    /// The norm of each head's output, `value_dim` values.
    pub norm: Vec<f32>,
    /// Added to its mean square.
    pub eps: f32,
}
