//! The CPU's cache of one sequence: allocated in blocks ahead of need, rolled back in O(1), compacted in place.

use super::kernels::SLOTS;

/// A full cache grows by a multiple of this number of slots.
const GROW: usize = 256;

/// The keys and values of one sequence in all layers, f32.
///
/// Keys of one head are interleaved in blocks of [`SLOTS`] slots (slot `j`, dimension `i` at `(j / 16, i, j % 16)`), so that
/// the scores of sixteen slots are computed at once; values of one head are rows of `head_dim`.
#[derive(Clone, Debug)]
pub struct Cache {
    layers: Vec<LayerCache>,
    len: usize,
    capacity: usize,
    heads: usize,
    head_dim: usize,
}

/// One layer: `heads × capacity` keys and values.
#[derive(Clone, Debug)]
struct LayerCache {
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// Keys and values of one head, in all slots.
pub(super) struct HeadCache<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
}

impl Cache {
    /// An empty cache with `capacity` slots; it grows when they are full.
    pub fn new(layers: usize, heads: usize, head_dim: usize, capacity: usize) -> Self {
        let capacity = capacity.next_multiple_of(SLOTS);
        let size = heads * capacity * head_dim;
        let layer = || LayerCache { keys: vec![0.0; size], values: vec![0.0; size] };
        Self { layers: (0..layers).map(|_| layer()).collect(), len: 0, capacity, heads, head_dim }
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of layers, key heads and values of a head.
    pub fn layout(&self) -> [usize; 3] {
        [self.layers.len(), self.heads, self.head_dim]
    }

    /// Allocated bytes.
    pub fn bytes(&self) -> usize {
        self.layers.len() * 2 * self.heads * self.capacity * self.head_dim * 4
    }

    /// Drop all slots from `len` on. O(1). A `len` larger than the current one has no effect.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// See [`super::Cache::keep`].
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        for (to, &row) in rows.iter().enumerate() {
            if to != row {
                self.copy_slot(base + row, base + to);
            }
        }
        self.len = base + rows.len();
    }

    /// See [`super::Cache::first_layers`].
    pub fn first_layers(&self, layers: usize) -> Cache {
        Cache { layers: self.layers[..layers.min(self.layers.len())].to_vec(), ..*self }
    }

    /// See [`super::Cache::gather`].
    pub fn gather<'a>(
        &self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Cache {
        let d = self.head_dim;
        let mut cache = Cache::new(self.layers.len(), self.heads, d, capacity.max(len));
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

    /// See [`super::Cache::append`].
    pub fn append(&mut self, other: &Cache, range: std::ops::Range<usize>) {
        self.reserve(range.len());
        for index in 0..self.layers.len() {
            for head in 0..self.heads {
                for (to, from) in (self.len..).zip(range.clone()) {
                    other.copy_to(self, index, head, from, to);
                }
            }
        }
        self.len += range.len();
    }

    fn copy_to(&self, to: &mut Cache, layer: usize, head: usize, from_slot: usize, to_slot: usize) {
        let d = self.head_dim;
        let (ours, theirs) = (head * self.capacity * d, head * to.capacity * d);
        let (source, target) = (&self.layers[layer], &mut to.layers[layer]);
        for i in 0..d {
            target.keys[theirs + key_at(to_slot, i, d)] = source.keys[ours + key_at(from_slot, i, d)];
        }
        target.values[theirs + to_slot * d..][..d]
            .copy_from_slice(&source.values[ours + from_slot * d..][..d]);
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        let (d, capacity) = (self.head_dim, self.capacity);
        for layer in &mut self.layers {
            for head in 0..self.heads {
                let base = head * capacity * d;
                for i in 0..d {
                    layer.keys[base + key_at(to, i, d)] = layer.keys[base + key_at(from, i, d)];
                }
                layer.values.copy_within(base + from * d..base + (from + 1) * d, base + to * d);
            }
        }
    }

    /// Grow so that `more` slots fit after those in use.
    pub(super) fn reserve(&mut self, more: usize) {
        let need = self.len + more;
        if need <= self.capacity {
            return;
        }
        let old = self.capacity;
        let new = need.next_multiple_of(GROW).max(old + old / 2).next_multiple_of(SLOTS);
        for layer in &mut self.layers {
            for store in [&mut layer.keys, &mut layer.values] {
                let mut grown = vec![0.0; self.heads * new * self.head_dim];
                for head in 0..self.heads {
                    let size = old * self.head_dim;
                    grown[head * new * self.head_dim..][..size]
                        .copy_from_slice(&store[head * size..][..size]);
                }
                *store = grown;
            }
        }
        self.capacity = new;
    }

    /// Write one layer's keys and values of new rows to the reserved slots after those in use. `row(r)` returns the row's keys
    /// and its values, `heads × head_dim` each. The length changes only with [`Cache::advance`], after the last layer.
    ///
    /// # Panics
    /// If the slots are not reserved.
    pub(super) fn write<'a>(
        &mut self,
        layer: usize,
        rows: usize,
        row: impl Fn(usize) -> (&'a [f32], &'a [f32]),
    ) {
        let (d, capacity, len) = (self.head_dim, self.capacity, self.len);
        assert!(len + rows <= capacity, "the slots are not reserved");
        let layer = &mut self.layers[layer];
        for r in 0..rows {
            let slot = len + r;
            let (keys, values) = row(r);
            for head in 0..self.heads {
                let base = head * capacity * d;
                for (i, &k) in keys[head * d..(head + 1) * d].iter().enumerate() {
                    layer.keys[base + key_at(slot, i, d)] = k;
                }
                layer.values[base + slot * d..][..d].copy_from_slice(&values[head * d..(head + 1) * d]);
            }
        }
    }

    /// Count `rows` written rows as in use.
    ///
    /// # Panics
    /// If the slots are not reserved.
    pub(super) fn advance(&mut self, rows: usize) {
        assert!(self.len + rows <= self.capacity, "the slots are not reserved");
        self.len += rows;
    }

    pub(super) fn head(&self, layer: usize, head: usize) -> HeadCache<'_> {
        let size = self.capacity * self.head_dim;
        let layer = &self.layers[layer];
        HeadCache { keys: &layer.keys[head * size..][..size], values: &layer.values[head * size..][..size] }
    }
}

/// Index of dimension `i` of slot `slot` in one head's interleaved keys.
fn key_at(slot: usize, i: usize, d: usize) -> usize {
    (slot / SLOTS) * d * SLOTS + i * SLOTS + slot % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: usize, capacity: usize) -> Cache {
        let mut cache = Cache::new(2, 2, 4, capacity);
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

    fn slot(cache: &Cache, slot: usize) -> Vec<f32> {
        let head = cache.head(1, 1);
        let mut all: Vec<f32> = (0..4).map(|i| head.keys[key_at(slot, i, 4)]).collect();
        all.extend(&head.values[slot * 4..slot * 4 + 4]);
        all
    }

    #[test]
    fn growing_keeps_what_was_written() {
        let (small, large) = (filled(300, 8), filled(300, 400));
        for s in [0, 7, 8, 255, 256, 299] {
            assert_eq!(slot(&small, s), slot(&large, s));
            assert_eq!(slot(&small, s)[0], (s * 100 + 4) as f32);
        }
    }

    #[test]
    fn slots_are_gathered_appended_and_cut_by_layer() {
        let cache = filled(40, 64);
        let (even, odd): (Vec<usize>, Vec<usize>) = (0..40).partition(|s| s % 2 == 0);
        let mut some = cache.gather(20, 24, |_, head| if head == 1 { &odd } else { &even });
        assert_eq!((some.len(), slot(&some, 3)[0]), (20, 704.0));
        some.append(&cache, 30..40);
        assert_eq!((some.len(), slot(&some, 29)), (30, slot(&cache, 39)));
        assert_eq!(slot(&some, 0), slot(&cache, 1));
        assert_eq!(cache.first_layers(1).bytes() * 2, cache.bytes());
    }

    #[test]
    fn keeping_rows_compacts_a_path() {
        let mut cache = filled(20, 32);
        cache.keep(10, &[0, 3, 7]);
        assert_eq!(cache.len(), 13);
        assert_eq!(slot(&cache, 9)[0], 904.0);
        assert_eq!(slot(&cache, 11)[0], 1304.0);
        assert_eq!(slot(&cache, 12)[0], 1704.0);
        cache.truncate(99);
        assert_eq!(cache.len(), 13);
    }

    #[test]
    #[should_panic(expected = "not reserved")]
    fn a_write_beyond_the_capacity_panics() {
        let mut cache = filled(16, 16);
        cache.write(0, 1, |_| (&[0.0; 8], &[0.0; 8]));
    }
}
