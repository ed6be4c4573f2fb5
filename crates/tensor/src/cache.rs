//! Keys and values of one sequence, on any device.

use std::ops::Range;

use crate::Result;

/// A full cache grows by a multiple of this number of slots.
pub(crate) const GROW: usize = 256;

/// Keys and values of one sequence in all layers: slots are rolled back in O(1), compacted and copied. Slots are checked by the
/// caller.
pub trait DeviceCache: Send + Sized {
    /// Slots in use.
    fn len(&self) -> usize;

    /// True if no slot is in use.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of layers, key heads and values of a head.
    fn layout(&self) -> [usize; 3];

    fn bytes(&self) -> usize;

    /// Allocated slots, or those that the first pass allocates.
    fn capacity(&self) -> usize;

    /// Upper bound of the bytes that are allocated for `more` slots after those in use, besides [`DeviceCache::bytes`].
    fn growth(&self, more: usize) -> usize {
        let (need, capacity) = (self.len() + more, self.capacity().max(1));
        if need <= capacity {
            return 0;
        }
        // A cache grows by half at least, and for a moment has one layer twice.
        let grown = (need + GROW).max(capacity + capacity / 2);
        (self.bytes() / capacity) * (grown - capacity) + self.bytes() / self.layout()[0].max(1)
    }

    /// Drop all slots from `len` on. A `len` larger than the current one has no effect.
    fn truncate(&mut self, len: usize);

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together.
    fn keep(&mut self, base: usize, rows: &[usize]);

    /// The cache of the first `layers` layers.
    fn first_layers(&self, layers: usize) -> Self;

    /// A cache of `len` slots of each layer and head: `kept(layer, head)`.
    fn gather<'a>(&self, len: usize, capacity: usize, kept: impl Fn(usize, usize) -> &'a [usize]) -> Self;

    /// Append the slots `range` of a cache of the same model. Fails if the other cache is of another type or device, or memory
    /// does not suffice.
    fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()>;
}
