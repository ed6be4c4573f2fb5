//! Keys and values of one sequence on a GPU: allocated ahead of need, rolled back in O(1), compacted in place.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Access, Buffer, Gpu, GpuError, Result, Stream};
use crate::{KvType, cache::GROW};

/// Slots of a block of keys (see `shaders/kv_f32.wgsl`).
const BLOCK: usize = 32;

/// The keys and values of one sequence in all layers.
///
/// Memory is allocated by the first pass. [`Cache::keep`] is recorded and done by the next use; what cannot return an error reports
/// it there as well.
#[derive(Debug)]
pub struct Cache {
    gpu: Gpu,
    layers: Vec<LayerCache>,
    count: usize,
    kind: KvType,
    len: usize,
    capacity: usize,
    /// Slots to allocate at first.
    requested: usize,
    heads: usize,
    head_dim: usize,
    /// Slots to move, in order: from, to.
    moves: Vec<[u32; 2]>,
    /// The first error; the contents are incomplete since then.
    failed: Option<GpuError>,
}

/// One layer: `heads × capacity` keys and values.
#[derive(Clone, Debug)]
pub(super) struct LayerCache {
    pub(super) keys: Buffer,
    pub(super) values: Buffer,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct MoveParams {
    heads: u32,
    pieces: u32,
    capacity: u32,
    moves: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CopyParams {
    heads: u32,
    pieces: u32,
    from_capacity: u32,
    to_capacity: u32,
    first: u32,
    to: u32,
    count: u32,
    unused: u32,
}

/// The type that is held where this one is asked for.
pub(super) fn held(kind: KvType) -> KvType {
    if kind == KvType::Auto { KvType::F32 } else { kind }
}

/// Bytes of a head's keys of one token, or of its values.
pub(crate) fn slot_bytes(kind: KvType, head_dim: usize) -> usize {
    16 * slot_pieces(kind, head_dim)
}

/// 16-byte pieces of a head's slot. In q8_0 bytes and scales (`shaders/kv_q8_0.wgsl`) fill whole pieces each.
fn slot_pieces(kind: KvType, head_dim: usize) -> usize {
    match kind {
        KvType::Auto | KvType::F32 => head_dim / 4,
        KvType::F16 => head_dim / 8,
        KvType::Q8_0 => head_dim.div_ceil(16) + head_dim.div_ceil(128),
    }
}

impl Cache {
    /// An empty cache, to be allocated with `capacity` slots; it grows when they are full. `Auto` is f32.
    pub fn new(
        gpu: &Gpu,
        layers: usize,
        heads: usize,
        head_dim: usize,
        capacity: usize,
        kind: KvType,
    ) -> Self {
        let kind = held(kind);
        Self {
            gpu: gpu.clone(),
            layers: Vec::new(),
            count: layers,
            kind,
            len: 0,
            capacity: 0,
            requested: capacity,
            heads,
            head_dim,
            moves: Vec::new(),
            failed: None,
        }
    }

    fn like(&self, layers: usize, capacity: usize) -> Self {
        Self::new(&self.gpu, layers, self.heads, self.head_dim, capacity, self.kind)
    }

    pub fn kind(&self) -> KvType {
        self.kind
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Slots in use.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of layers, key heads and values of a head.
    pub fn layout(&self) -> [usize; 3] {
        [self.count, self.heads, self.head_dim]
    }

    /// Slots, allocated or to be allocated.
    pub fn slots(&self) -> usize {
        if self.layers.is_empty() { self.requested } else { self.capacity }
    }

    /// Bytes of these slots.
    pub fn bytes(&self) -> usize {
        self.count * 2 * self.heads * self.slots().next_multiple_of(BLOCK) * self.slot_bytes()
    }

    /// Drop all slots from `len` on. O(1). A `len` larger than the current one has no effect.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Of the slots from `base` on, keep those at `base + rows[0], base + rows[1], …` (ascending), moved together. Recorded only:
    /// they are moved by the next use.
    pub fn keep(&mut self, base: usize, rows: &[usize]) {
        let moved = rows.iter().enumerate().filter(|(to, row)| to != *row);
        self.moves.extend(moved.map(|(to, row)| [(base + row) as u32, (base + to) as u32]));
        self.len = base + rows.len();
    }

    /// Do what [`Cache::keep`] recorded, and grow so that `more` slots fit after those in use. To be called at the beginning of a
    /// pass. Fails if memory is missing, or an operation since the last pass failed.
    pub fn prepare(&mut self, stream: &mut Stream, more: usize) -> Result<()> {
        self.usable()?;
        self.settle(stream)?;
        self.reserve(stream, more)
    }

    /// Count `rows` written rows as in use. Panics if the slots are not reserved.
    pub fn advance(&mut self, rows: usize) {
        assert!(self.len + rows <= self.capacity, "the slots are not reserved");
        self.len += rows;
    }

    pub fn first_layers(&mut self, layers: usize) -> Self {
        let mut cache = self.like(layers.min(self.count), self.requested);
        let result = self.copy_layers(&mut cache);
        cache.record(result);
        cache
    }

    fn copy_layers(&mut self, cache: &mut Self) -> Result<()> {
        self.usable()?;
        if self.layers.is_empty() {
            return Ok(());
        }
        let mut stream = self.gpu.stream();
        self.settle(&mut stream)?;
        for layer in self.layers.iter().take(cache.count) {
            let copy = LayerCache {
                keys: self.gpu.buffer(layer.keys.bytes())?,
                values: self.gpu.buffer(layer.values.bytes())?,
            };
            stream.copy(&layer.keys, 0, &copy.keys, 0, layer.keys.bytes())?;
            stream.copy(&layer.values, 0, &copy.values, 0, layer.values.bytes())?;
            cache.layers.push(copy);
        }
        (cache.len, cache.capacity) = (self.len, self.capacity);
        stream.submit()
    }

    /// A cache of some of this cache's slots, chosen for each layer and head: `kept(layer, head)`, `len` slots each.
    pub fn gather<'a>(
        &mut self,
        len: usize,
        capacity: usize,
        kept: impl Fn(usize, usize) -> &'a [usize],
    ) -> Self {
        let mut cache = self.like(self.count, capacity.max(len));
        let result = self.gather_into(&mut cache, len, &kept);
        cache.record(result);
        cache
    }

    fn gather_into<'a>(
        &mut self,
        cache: &mut Self,
        len: usize,
        kept: &dyn Fn(usize, usize) -> &'a [usize],
    ) -> Result<()> {
        self.usable()?;
        let mut stream = self.gpu.stream();
        self.settle(&mut stream)?;
        cache.reserve(&mut stream, len)?;
        for (index, (ours, theirs)) in self.layers.iter().zip(&cache.layers).enumerate() {
            let lists = (0..self.heads).flat_map(|head| kept(index, head).iter().take(len));
            let slots: Vec<u32> = lists.map(|slot| *slot as u32).collect();
            if len == 0 || slots.len() != self.heads * len {
                continue;
            }
            let slots = self.gpu.upload(bytemuck::cast_slice(&slots))?;
            let params = CopyParams { count: len as u32, ..self.copy_params(cache) };
            self.copy_slots(&mut stream, ours, theirs, Some(&slots), &params)?;
        }
        cache.len = len;
        stream.submit()
    }

    /// Append the slots `range` of a cache of the same model. Fails if the other cache has failed, or memory is missing.
    pub fn append(&mut self, other: &mut Self, range: Range<usize>) -> Result<()> {
        self.usable()?;
        other.usable()?;
        if self.layout() != other.layout() || self.kind != other.kind {
            return Err(GpuError::Invalid("the caches are of different models".into()));
        }
        let mut stream = self.gpu.stream();
        other.settle(&mut stream)?;
        self.settle(&mut stream)?;
        self.reserve(&mut stream, range.len())?;
        for (ours, theirs) in self.layers.iter().zip(&other.layers) {
            let params = CopyParams {
                first: range.start as u32,
                to: self.len as u32,
                count: range.len() as u32,
                ..other.copy_params(self)
            };
            other.copy_slots(&mut stream, theirs, ours, None, &params)?;
        }
        self.len += range.len();
        stream.submit()
    }

    /// One layer's memory; none before the first pass.
    pub(super) fn layer(&self, layer: usize) -> Result<&LayerCache> {
        self.layers.get(layer).ok_or_else(|| GpuError::Invalid("the cache is not allocated".into()))
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn record(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }

    fn slot_bytes(&self) -> usize {
        slot_bytes(self.kind, self.head_dim)
    }

    /// 16-byte pieces of a head's slot.
    fn pieces(&self) -> u32 {
        slot_pieces(self.kind, self.head_dim) as u32
    }

    fn copy_params(&self, to: &Self) -> CopyParams {
        CopyParams {
            heads: self.heads as u32,
            pieces: self.pieces(),
            from_capacity: self.capacity as u32,
            to_capacity: to.capacity as u32,
            ..CopyParams::zeroed()
        }
    }

    fn copy_slots(
        &self,
        stream: &mut Stream,
        from: &LayerCache,
        to: &LayerCache,
        slots: Option<&Buffer>,
        params: &CopyParams,
    ) -> Result<()> {
        use Access::{Read, Write};
        let kernel = self.gpu.kernel(
            "copy slots",
            &|| include_str!("shaders/copy_slots.wgsl").into(),
            &[Read, Read, Read, Write, Write],
            &[("LISTED", f64::from(u8::from(slots.is_some())))],
        )?;
        let slots = slots.unwrap_or(&from.keys);
        let groups = [(params.count * params.pieces).div_ceil(64), params.heads, 1];
        let buffers = [slots, &from.keys, &from.values, &to.keys, &to.values];
        stream.dispatch(&kernel, params, &buffers, groups)
    }

    fn settle(&mut self, stream: &mut Stream) -> Result<()> {
        let result = self.move_slots(stream);
        self.moves.clear();
        self.record(result.clone());
        result
    }

    fn move_slots(&self, stream: &mut Stream) -> Result<()> {
        if self.moves.is_empty() || self.layers.is_empty() {
            return Ok(());
        }
        use Access::{Read, Write};
        let kernel = self.gpu.kernel(
            "move slots",
            &|| include_str!("shaders/move.wgsl").into(),
            &[Read, Write, Write],
            &[],
        )?;
        let moves = self.gpu.upload(bytemuck::cast_slice(&self.moves))?;
        let params = MoveParams {
            heads: self.heads as u32,
            pieces: self.pieces(),
            capacity: self.capacity as u32,
            moves: self.moves.len() as u32,
        };
        let groups = [(params.heads * params.pieces).div_ceil(64), 1, 1];
        for layer in &self.layers {
            stream.dispatch(&kernel, &params, &[&moves, &layer.keys, &layer.values], groups)?;
        }
        Ok(())
    }

    /// Grow so that `more` slots fit after those in use.
    fn reserve(&mut self, stream: &mut Stream, more: usize) -> Result<()> {
        let (need, old) = (self.len + more, self.capacity);
        if need <= old && !self.layers.is_empty() {
            return Ok(());
        }
        let new = match self.layers.is_empty() {
            true => need.max(self.requested).max(1).next_multiple_of(BLOCK),
            false => need.next_multiple_of(GROW).max(old + old / 2).next_multiple_of(BLOCK),
        };
        let result = self.grow(stream, new);
        self.record(result.clone());
        result
    }

    fn grow(&mut self, stream: &mut Stream, new: usize) -> Result<()> {
        let head = self.slot_bytes() as u64;
        let (old, bytes) = (self.capacity as u64 * head, new as u64 * head);
        let limit = self.gpu.limits().max_storage_buffer_binding_size;
        let size = bytes * self.heads as u64;
        if size > limit {
            let what = format!("a layer's keys of {new} tokens (bytes)");
            return Err(GpuError::TooLarge { what, size, limit });
        }
        let mut grown = Vec::with_capacity(self.count);
        for index in 0..self.count {
            let layer = LayerCache { keys: self.gpu.buffer(size)?, values: self.gpu.buffer(size)? };
            if let Some(before) = self.layers.get(index).filter(|_| self.len > 0) {
                for at in 0..self.heads as u64 {
                    stream.copy(&before.keys, at * old, &layer.keys, at * bytes, old)?;
                    stream.copy(&before.values, at * old, &layer.values, at * bytes, old)?;
                }
            }
            grown.push(layer);
        }
        (self.layers, self.capacity) = (grown, new);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
