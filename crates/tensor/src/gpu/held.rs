//! The cache of a sequence together with the stream that writes to it.

use std::{ops::Range, sync::Mutex};

use super::{Gpu, Result, Stream, cache::Cache, lock, states::SharedStream};
use crate::{KvType, attention::AttentionShape, cache::DeviceCache};

/// Keys and values of one sequence.
///
/// Copies from one cache to another run on a stream of their own, after the sequences' recorded commands.
#[derive(Debug)]
pub struct GpuCache {
    /// Locked while it is copied from: recorded moves are done first.
    cache: Mutex<Cache>,
    stream: Option<SharedStream>,
}

impl GpuCache {
    /// An empty cache, to be allocated with `capacity` slots by the first pass.
    pub fn new(gpu: &Gpu, layers: usize, shape: AttentionShape, capacity: usize, kind: KvType) -> Self {
        Self::of(Cache::new(gpu, layers, shape.kv_heads, shape.head_dim, capacity, kind))
    }

    fn of(cache: Cache) -> Self {
        Self { cache: Mutex::new(cache), stream: None }
    }

    /// True if it is on this device.
    pub(crate) fn is_on(&self, gpu: &Gpu) -> bool {
        lock(&self.cache).gpu().is(gpu)
    }

    pub fn with<T>(&self, f: impl FnOnce(&Cache) -> T) -> T {
        f(&lock(&self.cache))
    }

    /// Begin a pass of `rows` rows, recorded in `recording`, which is `stream`'s. Returns the number of slots in use.
    pub fn begin(&mut self, stream: &SharedStream, recording: &mut Stream, rows: usize) -> Result<usize> {
        if let Some(before) = self.stream.replace(stream.clone()).filter(|before| !before.is(stream)) {
            before.lock().submit()?;
        }
        let mut cache = lock(&self.cache);
        cache.prepare(recording, rows)?;
        Ok(cache.len())
    }

    /// Count `rows` written rows as in use.
    pub fn advance(&mut self, rows: usize) {
        lock(&self.cache).advance(rows);
    }

    /// Submit the commands recorded for this cache; an error is reported by the next pass.
    fn submit(&self) {
        if let Some(stream) = &self.stream {
            drop(stream.lock().submit());
        }
    }
}

impl DeviceCache for GpuCache {
    fn len(&self) -> usize {
        lock(&self.cache).len()
    }

    fn layout(&self) -> [usize; 3] {
        lock(&self.cache).layout()
    }

    fn capacity(&self) -> usize {
        lock(&self.cache).slots()
    }

    fn bytes(&self) -> usize {
        lock(&self.cache).bytes()
    }

    fn truncate(&mut self, len: usize) {
        lock(&self.cache).truncate(len);
    }

    fn keep(&mut self, base: usize, rows: &[usize]) {
        lock(&self.cache).keep(base, rows);
    }

    fn first_layers(&self, layers: usize) -> Self {
        self.submit();
        Self::of(lock(&self.cache).first_layers(layers))
    }

    fn gather<'a>(&self, len: usize, capacity: usize, kept: impl Fn(usize, usize) -> &'a [usize]) -> Self {
        self.submit();
        Self::of(lock(&self.cache).gather(len, capacity, kept))
    }

    fn append(&mut self, other: &Self, range: Range<usize>) -> crate::Result<()> {
        self.submit();
        other.submit();
        Ok(lock(&self.cache).append(&mut lock(&other.cache), range)?)
    }
}
