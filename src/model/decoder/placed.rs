//! A decoder and its cache wherever they compute: this crate's kernels on the CPU, candle's tensors elsewhere.
//!
//! Both sides keep the same contracts; what calls them does not ask which one it has.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::{
    CpuDecoder, Mask, Pass, Positions, Taps, Workspace,
    cache::Cache as CpuCache,
    tensors::{TensorCache, TensorDecoder},
};
use crate::model::{
    ComputeDevice,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
};

/// Rows of a prefill that are computed at once on the CPU.
const CHUNK: usize = 128;
/// The same on an accelerator, which is busy only with many.
const WIDE_CHUNK: usize = 1024;

/// A decoder's weights.
pub enum Decoder {
    /// In this crate's kernels, whose rows do not depend on their number.
    Cpu(CpuDecoder),
    /// In candle's tensors.
    Tensors(TensorDecoder),
}

/// The keys and values of one sequence in all layers.
pub enum Cache {
    /// For a decoder on the CPU.
    Cpu(CpuCache),
    /// For one in tensors.
    Tensors(TensorCache),
}

impl Decoder {
    /// Load from a checkpoint, matrix by matrix.
    ///
    /// # Errors
    /// If a tensor is missing, of a wrong shape, or does not fit into memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        place: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        if place.is_batch_invariant() {
            CpuDecoder::load(checkpoint, config, place.dtype(), progress).map(Self::Cpu)
        } else {
            let decoder = TensorDecoder::load(checkpoint, config, place, progress)?;
            Ok(Self::Tensors(decoder))
        }
    }

    /// The same model ending after its first `layers` layers (LayerSkip): norm and head follow at once. All weights are shared.
    pub fn first_layers(&self, layers: usize) -> Self {
        match self {
            Self::Cpu(decoder) => Self::Cpu(decoder.first_layers(layers)),
            Self::Tensors(decoder) => Self::Tensors(decoder.first_layers(layers)),
        }
    }

    /// A model of one layer of its own between this one's embeddings and head, which are shared: what drafts from this model's
    /// states. `config` describes that layer; its weights and those of the norm after it are called as in a whole model.
    ///
    /// # Errors
    /// As [`Decoder::load`].
    pub fn with_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        place: &ComputeDevice,
    ) -> std::result::Result<Self, CheckpointError> {
        Ok(match self {
            Self::Cpu(decoder) => Self::Cpu(decoder.with_layer(checkpoint, config, place.dtype())?),
            Self::Tensors(decoder) => Self::Tensors(decoder.with_layer(checkpoint, config)?),
        })
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        match self {
            Self::Cpu(decoder) => decoder.config(),
            Self::Tensors(decoder) => decoder.config(),
        }
    }

    /// True if a row's result does not depend on the rows that are computed with it, to the last bit.
    pub fn is_batch_invariant(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// Bytes of the weights in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Cpu(decoder) => decoder.bytes(),
            Self::Tensors(decoder) => decoder.bytes(),
        }
    }

    /// Bytes of the matrices that a pass of one row and its logits reads.
    pub fn matrix_bytes(&self) -> usize {
        match self {
            // The embedding table is looked up, not read; a tied head has its own copy.
            Self::Cpu(decoder) => decoder.bytes().saturating_sub(decoder.table_bytes()),
            Self::Tensors(decoder) => decoder.matrix_bytes(),
        }
    }

    /// Bytes of the keys and values of `slots` slots in all layers.
    pub fn cache_bytes(&self, slots: usize) -> usize {
        let c = self.config();
        let value = match self {
            Self::Cpu(_) => size_of::<f32>(),
            Self::Tensors(decoder) => decoder.place().compute_type().size_in_bytes(),
        };
        c.layers * 2 * c.kv_heads * c.head_dim * slots * value
    }

    /// Rows of a prefill that are best computed at once.
    pub fn chunk(&self) -> usize {
        match self {
            Self::Tensors(decoder) if !decoder.place().device().is_cpu() => WIDE_CHUNK,
            _ => CHUNK,
        }
    }

    /// An empty cache with room for `capacity` slots.
    pub fn cache(&self, capacity: usize) -> Cache {
        match self {
            Self::Cpu(decoder) => Cache::Cpu(decoder.cache(capacity)),
            Self::Tensors(decoder) => Cache::Tensors(decoder.cache(capacity)),
        }
    }

    /// Embeddings of ids, `ids × width`, f32, where the decoder computes.
    ///
    /// # Errors
    /// If an id is outside of the table.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        match self {
            Self::Cpu(decoder) => decoder.embed(ids),
            Self::Tensors(decoder) => decoder.embed(ids),
        }
    }

    /// Run rows through all layers. `input` is `rows × width`; the cache grows by `rows` slots.
    ///
    /// # Errors
    /// If the shapes of input, positions and mask do not agree, or the cache is not of this decoder.
    pub fn forward(
        &self,
        input: &Tensor,
        positions: &Positions,
        mask: &Mask,
        cache: &mut Cache,
        taps: &Taps,
        workspace: &mut Workspace,
    ) -> Result<Pass> {
        match (self, cache) {
            (Self::Cpu(decoder), Cache::Cpu(cache)) => {
                decoder.forward(input, positions, mask, cache, taps, workspace)
            }
            (Self::Tensors(decoder), Cache::Tensors(cache)) => {
                decoder.forward(input, positions, mask, cache, taps)
            }
            _ => candle_core::bail!("decoder and cache live on different devices"),
        }
    }

    /// Wait until everything that was asked of an accelerator is done; the CPU has always done it.
    ///
    /// # Errors
    /// If something of it failed.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Tensors(decoder) => decoder.place().device().synchronize(),
        }
    }

    /// Logits of some final states, `rows × vocab`, f32. They are there when this returns: an accelerator is waited for.
    ///
    /// # Errors
    /// If the states are not `rows × width`.
    pub fn logits(&self, states: &Tensor, workspace: &mut Workspace) -> Result<Tensor> {
        match self {
            Self::Cpu(decoder) => decoder.logits(states, workspace),
            Self::Tensors(decoder) => {
                let logits = decoder.logits(states)?;
                self.synchronize()?;
                Ok(logits)
            }
        }
    }
}

impl Cache {
    /// Slots in use.
    pub fn len(&self) -> usize {
        match self {
            Self::Cpu(cache) => cache.len(),
            Self::Tensors(cache) => cache.len(),
        }
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Cpu(cache) => cache.bytes(),
            Self::Tensors(cache) => cache.bytes(),
        }
    }

    /// Forget all slots from `len` on. O(1). Growing this way is not possible: a larger `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        match self {
            Self::Cpu(cache) => cache.truncate(len),
            Self::Tensors(cache) => cache.truncate(len),
        }
    }

    /// Of the slots from `base` on keep those at `base + rows[0], base + rows[1], …` (ascending), moved together: what is
    /// left of a verified tree is its accepted path.
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        match self {
            Self::Cpu(cache) => cache.keep(base, rows),
            Self::Tensors(cache) => cache.keep(base, rows),
        }
    }

    /// The cache of the first `layers` layers: what a model that ends there would hold.
    pub fn first_layers(&self, layers: usize) -> Self {
        match self {
            Self::Cpu(cache) => Self::Cpu(cache.first_layers(layers)),
            Self::Tensors(cache) => Self::Tensors(cache.first_layers(layers)),
        }
    }

    /// A cache that holds some of this one's slots, in each layer and head its own: `kept(layer, head)`, each of `len` slots.
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        match self {
            Self::Cpu(cache) => Self::Cpu(cache.gather(len, capacity, kept)),
            Self::Tensors(cache) => Self::Tensors(cache.gather(len, capacity, kept)),
        }
    }

    /// Append the slots `range` of a cache of the same model. Of a cache on another device nothing can be taken.
    pub fn append(&mut self, other: &Self, range: Range<usize>) {
        match (self, other) {
            (Self::Cpu(cache), Self::Cpu(other)) => cache.append(other, range),
            (Self::Tensors(cache), Self::Tensors(other)) => cache.append(other, range),
            _ => debug_assert!(false, "caches of one model live on one device"),
        }
    }
}
