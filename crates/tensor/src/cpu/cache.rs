//! The CPU's cache of one sequence: allocated in blocks ahead of need, rolled back in O(1), compacted in place.

use super::{
    kernels::{Held, SLOTS},
    plane::{RowBuffer, Stored},
};

use crate::{
    KvType, Result,
    cache::{DeviceCache, GROW},
};

/// The keys and values of one sequence in all layers, in one type.
///
/// Keys of one head are interleaved in blocks of [`SLOTS`] slots (slot `j`, dimension `i` at `(j / 16, i, j % 16)`), so that
/// the scores of sixteen slots are computed at once; values of one head are rows of `head_dim`.
#[derive(Clone, Debug)]
pub struct CpuCache {
    layers: Vec<LayerCache>,
    kind: KvType,
    len: usize,
    capacity: usize,
    heads: usize,
    head_dim: usize,
}

/// One layer: `heads × capacity` keys and values.
#[derive(Clone, Debug)]
struct LayerCache {
    keys: Stored,
    values: Stored,
}

pub(crate) struct HeadCache<'a> {
    pub keys: Held<'a>,
    pub values: Held<'a>,
}

impl CpuCache {
    /// An empty cache with `capacity` slots; it grows when they are full. The type is not `Auto`, which is f32 here. Panics if a
    /// head in 8 bits is not a multiple of four values.
    pub fn new(layers: usize, heads: usize, head_dim: usize, capacity: usize, kind: KvType) -> Self {
        let capacity = capacity.next_multiple_of(SLOTS);
        let layer = || LayerCache {
            keys: Stored::keys(kind, heads, head_dim, capacity),
            values: Stored::values(kind, heads, head_dim, capacity),
        };
        Self { layers: (0..layers).map(|_| layer()).collect(), kind, len: 0, capacity, heads, head_dim }
    }

    pub fn kind(&self) -> KvType {
        self.kind
    }

    fn copy_to(&self, to: &mut CpuCache, layer: usize, head: usize, from_slot: usize, to_slot: usize) {
        let (source, target) = (&self.layers[layer], &mut to.layers[layer]);
        source.keys.copy_to(&mut target.keys, head, from_slot, to_slot);
        source.values.copy_to(&mut target.values, head, from_slot, to_slot);
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        for layer in &mut self.layers {
            for head in 0..self.heads {
                layer.keys.copy(head, from, to);
                layer.values.copy(head, from, to);
            }
        }
    }

    /// Grow so that `more` slots fit after those in use.
    pub fn reserve(&mut self, more: usize) {
        let need = self.len + more;
        if need <= self.capacity {
            return;
        }
        let old = self.capacity;
        let new = need.next_multiple_of(GROW).max(old + old / 2).next_multiple_of(SLOTS);
        for layer in &mut self.layers {
            layer.keys.grow(self.heads, new);
            layer.values.grow(self.heads, new);
        }
        self.capacity = new;
    }

    /// Write one layer's keys and values of new rows to the reserved slots after those in use. `row(r)` returns the row's keys
    /// and its values, `heads × head_dim` each. The length changes only with [`CpuCache::advance`], after the last layer. Panics if
    /// the slots are not reserved.
    pub(crate) fn write<'a>(
        &mut self,
        layer: usize,
        rows: usize,
        row: impl Fn(usize) -> (&'a [f32], &'a [f32]),
    ) {
        let (d, capacity, len) = (self.head_dim, self.capacity, self.len);
        assert!(len + rows <= capacity, "the slots are not reserved");
        let (layer, mut buffer) = (&mut self.layers[layer], RowBuffer::default());
        for r in 0..rows {
            let (keys, values) = row(r);
            for head in 0..self.heads {
                layer.keys.write(head, len + r, &keys[head * d..][..d], &mut buffer);
                layer.values.write(head, len + r, &values[head * d..][..d], &mut buffer);
            }
        }
    }

    /// Count `rows` written rows as in use. Panics if the slots are not reserved.
    pub fn advance(&mut self, rows: usize) {
        assert!(self.len + rows <= self.capacity, "the slots are not reserved");
        self.len += rows;
    }

    pub(crate) fn head(&self, layer: usize, head: usize) -> HeadCache<'_> {
        let layer = &self.layers[layer];
        HeadCache { keys: layer.keys.head(head), values: layer.values.head(head) }
    }
}

impl DeviceCache for CpuCache {
    fn len(&self) -> usize {
        self.len
    }

    fn layout(&self) -> [usize; 3] {
        [self.layers.len(), self.heads, self.head_dim]
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn bytes(&self) -> usize {
        self.layers.iter().map(|layer| layer.keys.bytes() + layer.values.bytes()).sum()
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn keep(&mut self, base: usize, rows: &[usize]) {
        for (to, &row) in rows.iter().enumerate() {
            if to != row {
                self.copy_slot(base + row, base + to);
            }
        }
        self.len = base + rows.len();
    }

    fn first_layers(&self, layers: usize) -> CpuCache {
        CpuCache { layers: self.layers[..layers.min(self.layers.len())].to_vec(), ..*self }
    }

    fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> CpuCache {
        let mut cache =
            CpuCache::new(self.layers.len(), self.heads, self.head_dim, capacity.max(len), self.kind);
        for index in 0..self.layers.len() {
            for head in 0..self.heads {
                for (to, &from) in kept(index, head).iter().enumerate().take(len) {
                    self.copy_to(&mut cache, index, head, from, to);
                }
            }
        }
        cache.len = len;
        cache
    }

    fn append(&mut self, other: &CpuCache, range: std::ops::Range<usize>) -> Result<()> {
        if self.kind != other.kind {
            crate::bail!("the caches are of different types: {:?}, {:?}", self.kind, other.kind);
        }
        self.reserve(range.len());
        for index in 0..self.layers.len() {
            for head in 0..self.heads {
                for (to, from) in (self.len..).zip(range.clone()) {
                    other.copy_to(self, index, head, from, to);
                }
            }
        }
        self.len += range.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [KvType; 3] = KvType::ALL;

    /// Slot `s` holds `s * 100 + 0, 1, … 7` in two heads of four, in f16 and q8_0 rounded.
    fn filled(kind: KvType, slots: usize, capacity: usize) -> CpuCache {
        let mut cache = CpuCache::new(2, 2, 4, capacity, kind);
        for slot in 0..slots {
            cache.reserve(1);
            let row: Vec<f32> = (0..8).map(|i| (slot * 100 + i) as f32).collect();
            for layer in 0..2 {
                cache.write(layer, 1, |_| (&row, &row));
            }
            cache.advance(1);
        }
        cache
    }

    /// Key and value of a slot in the second layer and head, widened.
    fn slot(cache: &CpuCache, slot: usize) -> Vec<f32> {
        let head = cache.head(1, 1);
        let widened = |held: Held<'_>, lanes: usize| -> Vec<f32> {
            let at = |width: usize, i: usize| slot / lanes * lanes * width + i * lanes + slot % lanes;
            match held {
                Held::F32(values) => (0..4).map(|i| values[at(4, i)]).collect(),
                Held::F16(values) => {
                    (0..4).map(|i| half::f16::from_bits(values[at(4, i)]).to_f32()).collect()
                }
                Held::Fixed { .. } => unreachable!("heads of four values are not held so"),
                Held::Q8 { quants, scales } => quants[at(1, 0)]
                    .map(|q| f32::from((q ^ crate::cpu::kernels::SIGN) as i8) * scales[at(1, 0)])
                    .to_vec(),
            }
        };
        [widened(head.keys, SLOTS), widened(head.values, 1)].concat()
    }

    #[test]
    fn growing_keeps_what_was_written() {
        for kind in KINDS {
            let (small, large) = (filled(kind, 300, 8), filled(kind, 300, 400));
            for s in [0, 7, 8, 255, 256, 299] {
                assert_eq!(slot(&small, s), slot(&large, s), "{kind:?}");
                let want = (s * 100 + 4) as f32;
                // 8 bits: half of one of 127 steps to the head's largest value, which is 3 more.
                assert!((slot(&small, s)[0] - want).abs() <= (want + 3.0) / 250.0, "{kind:?} {s}");
            }
        }
    }

    #[test]
    fn slots_are_gathered_appended_and_cut_by_layer() {
        for kind in KINDS {
            let cache = filled(kind, 40, 64);
            let (even, odd): (Vec<usize>, Vec<usize>) = (0..40).partition(|s| s % 2 == 0);
            let mut some = cache.gather(20, 24, |_, head| if head == 1 { &odd } else { &even });
            assert_eq!((some.len(), some.kind(), slot(&some, 3)), (20, kind, slot(&cache, 7)));
            some.append(&cache, 30..40).unwrap();
            assert_eq!((some.len(), slot(&some, 29)), (30, slot(&cache, 39)));
            assert_eq!(slot(&some, 0), slot(&cache, 1));
            let first = cache.first_layers(1);
            assert_eq!((first.bytes() * 2, first.kind()), (cache.bytes(), kind));
        }
    }

    #[test]
    fn keeping_rows_compacts_a_path() {
        for kind in KINDS {
            let all = filled(kind, 20, 32);
            let mut cache = all.clone();
            cache.keep(10, &[0, 3, 7]);
            assert_eq!(cache.len(), 13);
            for (to, from) in [(9, 9), (10, 10), (11, 13), (12, 17)] {
                assert_eq!(slot(&cache, to), slot(&all, from), "{kind:?}");
            }
            cache.truncate(99);
            assert_eq!(cache.len(), 13);
        }
    }

    #[test]
    fn bytes_are_those_of_the_type() {
        for (kind, head) in [(KvType::F32, 16), (KvType::F16, 8), (KvType::Q8_0, 8)] {
            assert_eq!(filled(kind, 1, 32).bytes(), 2 * 2 * 2 * 32 * head);
            assert_eq!(kind.head_bytes(4), head);
            let mut cache = filled(kind, 20, 32);
            let (before, most) = (cache.bytes(), cache.growth(1000));
            assert_eq!(cache.growth(12), 0);
            cache.reserve(1000);
            let grown = cache.bytes() - before;
            assert!(grown <= most && most < 2 * grown, "{kind:?}: {grown} of {most}");
        }
    }

    #[test]
    fn values_that_are_not_finite_are_not_hidden() {
        for kind in KINDS {
            for bad in [f32::NAN, f32::INFINITY] {
                let mut cache = filled(kind, 0, 16);
                let row = [0.0, 1.0, 2.0, 3.0, 4.0, bad, 6.0, 7.0];
                cache.write(1, 1, |_| (&row, &row));
                assert!(slot(&cache, 0).iter().any(|v| !v.is_finite()), "{kind:?} {bad}");
            }
        }
        let mut cache = filled(KvType::F16, 0, 16);
        cache.write(1, 1, |_| (&[1e6; 8], &[-1e6; 8]));
        assert_eq!(slot(&cache, 0)[3..5], [65504.0, -65504.0]);
    }

    #[test]
    #[should_panic(expected = "not reserved")]
    fn a_write_beyond_the_capacity_panics() {
        let mut cache = filled(KvType::F32, 16, 16);
        cache.write(0, 1, |_| (&[0.0; 8], &[0.0; 8]));
    }
}
