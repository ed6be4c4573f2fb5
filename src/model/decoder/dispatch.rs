//! A decoder and its cache on any device: this crate's kernels on the CPU, candle's tensors elsewhere.
//!
//! Both implementations keep the same contracts. What they have in common is checked here, once: a cache of another device or
//! model is never computed with.

use std::ops::Range;

use candle_core::{Result, Tensor};

use super::{CpuDecoder, Mask, Pass, Positions, Taps, Workspace, tensors::TensorDecoder};
use crate::model::{
    ComputeDevice,
    checkpoint::{Checkpoint, CheckpointError},
    config::TextConfig,
    device::{candle::cache::TensorCache, cpu::cache::Cache as CpuCache},
};

/// Rows of a prefill pass on the CPU.
const CHUNK: usize = 128;
/// Rows of a prefill pass on an accelerator, which few rows do not fill.
const WIDE_CHUNK: usize = 1024;

/// Evaluate `$body` with `$inner` bound to either implementation.
macro_rules! either {
    ($self:expr, $inner:ident => $body:expr) => {
        match $self {
            Self::Cpu($inner) => $body,
            Self::Tensors($inner) => $body,
        }
    };
}

/// A decoder's weights.
pub enum Decoder {
    /// On the CPU, in this crate's kernels.
    Cpu(CpuDecoder),
    /// In candle's tensors.
    Tensors(TensorDecoder),
}

/// The keys and values of one sequence in all layers.
pub enum Cache {
    /// For a decoder on the CPU.
    Cpu(CpuCache),
    /// For a decoder in tensors.
    Tensors(TensorCache),
}

impl Decoder {
    /// Load from a checkpoint, matrix by matrix.
    ///
    /// # Errors
    /// If a tensor is missing, has the wrong shape, or does not fit into memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> std::result::Result<Self, CheckpointError> {
        if device.is_batch_invariant() {
            CpuDecoder::load(checkpoint, config, device, progress).map(Self::Cpu)
        } else {
            let decoder = TensorDecoder::load(checkpoint, config, device, progress)?;
            Ok(Self::Tensors(decoder))
        }
    }

    /// The same model ending after its first `layers` layers (LayerSkip), followed by norm and head. All weights are shared.
    pub fn first_layers(&self, layers: usize) -> Self {
        match self {
            Self::Cpu(decoder) => Self::Cpu(decoder.first_layers(layers)),
            Self::Tensors(decoder) => Self::Tensors(decoder.first_layers(layers)),
        }
    }

    /// A model of one layer of its own between this model's embeddings and head, which are shared: a draft head. `config`
    /// describes the layer; the names of its weights and of its norm are those of a whole model.
    ///
    /// # Errors
    /// As [`Decoder::load`].
    pub fn with_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
    ) -> std::result::Result<Self, CheckpointError> {
        Ok(match self {
            Self::Cpu(decoder) => Self::Cpu(decoder.with_layer(checkpoint, config, device.dtype())?),
            Self::Tensors(decoder) => Self::Tensors(decoder.with_layer(checkpoint, config)?),
        })
    }

    /// The resolved configuration.
    pub fn config(&self) -> &TextConfig {
        either!(self, decoder => decoder.config())
    }

    /// True if a row's result is bit-identical for any other rows in the pass.
    pub fn is_batch_invariant(&self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        either!(self, decoder => decoder.bytes())
    }

    /// Bytes of the matrices that are parts of mapped files: the system may take their memory back, and reads them again.
    pub fn mapped_bytes(&self) -> usize {
        match self {
            Self::Cpu(decoder) => decoder.mapped_bytes(),
            Self::Tensors(_) => 0,
        }
    }

    /// Bytes of the matrices that a pass of one row and its logits read.
    pub fn matrix_bytes(&self) -> usize {
        match self {
            // A pass reads single rows of the embedding table; a tied head is a copy of its own.
            Self::Cpu(decoder) => decoder.bytes().saturating_sub(decoder.table_bytes()),
            Self::Tensors(decoder) => decoder.matrix_bytes(),
        }
    }

    /// Bytes of keys and values of `slots` slots in all layers.
    pub fn cache_bytes(&self, slots: usize) -> usize {
        let c = self.config();
        match self {
            Self::Cpu(decoder) => decoder.kv_type().token_bytes(c) * slots,
            Self::Tensors(decoder) => {
                let value = decoder.compute_device().compute_type().size_in_bytes();
                c.layers * 2 * c.kv_heads * c.head_dim * slots * value
            }
        }
    }

    /// Rows of a prefill pass.
    pub fn chunk(&self) -> usize {
        match self {
            Self::Tensors(decoder) if !decoder.compute_device().device().is_cpu() => WIDE_CHUNK,
            _ => CHUNK,
        }
    }

    /// An empty cache with `capacity` slots.
    pub fn cache(&self, capacity: usize) -> Cache {
        match self {
            Self::Cpu(decoder) => Cache::Cpu(decoder.cache(capacity)),
            Self::Tensors(decoder) => Cache::Tensors(decoder.cache(capacity)),
        }
    }

    /// Embeddings of ids, `ids × width`, f32, on the decoder's device.
    ///
    /// # Errors
    /// If an id is outside of the vocabulary.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        either!(self, decoder => decoder.embed(ids))
    }

    /// Run rows through all layers. `input` is `rows × width`; the cache grows by `rows` slots.
    ///
    /// # Errors
    /// If the shapes of input, positions and mask do not agree, or the cache is of another device or model.
    pub fn forward(
        &self,
        input: &Tensor,
        positions: &Positions,
        mask: &Mask,
        cache: &mut Cache,
        taps: &Taps,
        workspace: &mut Workspace,
    ) -> Result<Pass> {
        let c = self.config();
        let (layout, got) = ([c.layers, c.kv_heads, c.head_dim], cache.layout());
        if layout != got {
            candle_core::bail!(
                "the decoder has the layout {layout:?} (layers, key heads, head width), the cache {got:?}"
            );
        }
        match (self, cache) {
            (Self::Cpu(decoder), Cache::Cpu(cache)) => {
                decoder.forward(input, positions, mask, cache, taps, workspace)
            }
            (Self::Tensors(decoder), Cache::Tensors(cache)) => {
                decoder.forward(input, positions, mask, cache, taps)
            }
            _ => candle_core::bail!("the decoder and the cache are on different devices"),
        }
    }

    /// Wait until an accelerator has completed all queued work.
    ///
    /// # Errors
    /// If some of it failed.
    pub fn synchronize(&self) -> Result<()> {
        match self {
            Self::Cpu(_) => Ok(()),
            Self::Tensors(decoder) => decoder.compute_device().device().synchronize(),
        }
    }

    /// Logits of final states, `rows × vocab`, f32. Waits for an accelerator to complete them.
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
        either!(self, cache => cache.len())
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of layers, key heads and values of a head.
    fn layout(&self) -> [usize; 3] {
        either!(self, cache => cache.layout())
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        either!(self, cache => cache.bytes())
    }

    /// Drop all slots from `len` on. O(1). A `len` larger than the current one has no effect.
    pub fn truncate(&mut self, len: usize) {
        either!(self, cache => cache.truncate(len))
    }

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together: of a
    /// verified tree, its accepted path.
    ///
    /// # Panics
    /// If the rows are not ascending or not in use.
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        let end = rows.last().map_or(base, |row| base + row + 1);
        let valid = end <= self.len() && rows.is_sorted_by(|a, b| a < b);
        assert!(valid, "cannot keep the slots {rows:?} after {base} of {}", self.len());
        either!(self, cache => cache.keep(base, rows))
    }

    /// The cache of the first `layers` layers, for a model that ends after them.
    pub fn first_layers(&self, layers: usize) -> Self {
        match self {
            Self::Cpu(cache) => Self::Cpu(cache.first_layers(layers)),
            Self::Tensors(cache) => Self::Tensors(cache.first_layers(layers)),
        }
    }

    /// A cache of some of this cache's slots, chosen for each layer and head: `kept(layer, head)`, `len` slots each.
    ///
    /// # Panics
    /// If a list has another length, or a slot is not in use.
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        let kept = |layer, head| {
            let slots = kept(layer, head);
            let valid = slots.len() == len && slots.iter().all(|&slot| slot < self.len());
            assert!(valid, "cannot gather the slots of layer {layer}, head {head}");
            slots
        };
        match self {
            Self::Cpu(cache) => Self::Cpu(cache.gather(len, capacity, kept)),
            Self::Tensors(cache) => Self::Tensors(cache.gather(len, capacity, kept)),
        }
    }

    /// Append the slots `range` of a cache of the same model.
    ///
    /// # Errors
    /// If the other cache is of another device or model, or the slots are not in use.
    pub fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()> {
        if self.layout() != other.layout() {
            candle_core::bail!(
                "the caches are of different models: {:?}, {:?}",
                self.layout(),
                other.layout()
            );
        }
        if range.start > range.end || range.end > other.len() {
            candle_core::bail!("cannot append the slots {range:?} of a cache of {} slots", other.len());
        }
        match (self, other) {
            (Self::Cpu(cache), Self::Cpu(other)) => {
                if cache.kind() != other.kind() {
                    candle_core::bail!(
                        "the caches are of different types: {:?}, {:?}",
                        cache.kind(),
                        other.kind()
                    );
                }
                cache.append(other, range);
                Ok(())
            }
            (Self::Tensors(cache), Self::Tensors(other)) => cache.append(other, range),
            _ => candle_core::bail!("the caches are on different devices"),
        }
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
