//! A cache and its slots, on any device.

use std::ops::Range;

use specreel_tensor::Result;

use super::Cache;
use crate::config::TextConfig;

impl Cache {
    /// Slots in use.
    pub fn len(&self) -> usize {
        each!(self, Self, cache => cache.len())
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of layers, key heads and values of a head.
    pub(super) fn layout(&self) -> [usize; 3] {
        each!(self, Self, cache => cache.layout())
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        each!(self, Self, cache => cache.bytes())
    }

    /// Bytes that are allocated for `more` slots after those in use, at most.
    pub fn growth(&self, more: usize) -> usize {
        each!(self, Self, cache => cache.growth(more))
    }

    /// Slots at the end whose recurrent state is not kept: [`Cache::truncate`] went behind what is. A pass needs it; dropping these
    /// slots, too, and feeding them again makes up for it. 0 in models with full attention only.
    pub fn owed(&self) -> usize {
        each!(self, Self, cache => cache.owed())
    }

    /// Keep the state of the last slot, so that the cache can be truncated to it later. Only the last marks are kept.
    pub fn mark(&mut self) {
        each!(self, Self, cache => cache.mark())
    }

    /// Drop all slots from `len` on. O(1). A `len` larger than the current one has no effect. See [`Cache::owed`].
    pub fn truncate(&mut self, len: usize) {
        each!(self, Self, cache => cache.truncate(len))
    }

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together: of a
    /// verified tree, its accepted path. See [`Cache::owed`]. Panics if the rows are not ascending or not in use.
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        let end = rows.last().map_or(base, |row| base + row + 1);
        let valid = end <= self.len() && rows.is_sorted_by(|a, b| a < b);
        assert!(valid, "cannot keep the slots {rows:?} after {base} of {}", self.len());
        each!(self, Self, cache => cache.keep(base, rows))
    }

    /// The cache of a model of this configuration that ends after some of the layers.
    pub fn first_layers(&self, config: &TextConfig) -> Self {
        let attention = config.attention_layers();
        let linear = config.layers - attention;
        same!(self, Self => Self, cache => cache.first_layers(attention, linear))
    }

    /// A cache of some of this cache's slots, chosen for each layer with full attention and each head: `kept(layer, head)`, `len`
    /// slots each. States of layers with linear attention, which have no slots, are those after all of them. Panics if a list has
    /// another length, or a slot is not in use.
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        // Before the cache is locked, as a GPU's is while its slots are copied.
        let used = self.len();
        let kept = |layer, head| {
            let slots = kept(layer, head);
            let valid = slots.len() == len && slots.iter().all(|&slot| slot < used);
            assert!(valid, "cannot gather the slots of layer {layer}, head {head}");
            slots
        };
        same!(self, Self => Self, cache => cache.gather(len, capacity, kept))
    }

    /// Append the slots `range` of a cache of the same model. States of layers with linear attention become those of the other
    /// cache after its last slot, or after the range if it is its beginning and this cache is empty. Fails if the other cache is
    /// of another device or model, the slots are not in use, or the state after them is not kept.
    pub fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()> {
        if self.layout() != other.layout() {
            specreel_tensor::bail!(
                "the caches are of different models: {:?}, {:?}",
                self.layout(),
                other.layout()
            );
        }
        if range.start > range.end || range.end > other.len() {
            specreel_tensor::bail!("cannot append the slots {range:?} of a cache of {} slots", other.len());
        }
        match (self, other) {
            (Self::Cpu(cache), Self::Cpu(other)) => cache.append(other, range),
            (Self::Tensors(cache), Self::Tensors(other)) => cache.append(other, range),
            (Self::Gpu(cache), Self::Gpu(other)) => cache.append(other, range),
            _ => specreel_tensor::bail!("the caches are on different devices"),
        }
    }
}
