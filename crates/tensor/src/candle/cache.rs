//! The cache of one sequence in tensors: allocated ahead of need, written in place, never concatenated.

use std::ops::Range;

use crate::Result;
use candle_core::{DType, Device, Tensor};

use crate::cache::{DeviceCache, GROW};

/// The keys and values of one sequence in all layers, each `kv_heads × capacity × head_dim`.
///
/// Memory is allocated by the first pass. `keep`, `gather` and `first_layers` cannot fail on the CPU; here their errors are reported
/// by the next pass.
pub struct TensorCache {
    layers: Vec<[Tensor; 2]>,
    count: usize,
    len: usize,
    capacity: usize,
    /// Slots to allocate at first.
    requested: usize,
    heads: usize,
    head_dim: usize,
    dtype: DType,
    device: Device,
    /// The first error; the contents are incomplete since then.
    failed: Option<String>,
}

impl TensorCache {
    /// An empty cache for `layers` layers, to be allocated with `capacity` slots.
    pub fn new(
        layers: usize,
        heads: usize,
        head_dim: usize,
        capacity: usize,
        dtype: DType,
        device: &Device,
    ) -> Self {
        Self {
            layers: Vec::new(),
            count: layers,
            len: 0,
            capacity: 0,
            requested: capacity,
            heads,
            head_dim,
            dtype,
            device: device.clone(),
            failed: None,
        }
    }

    fn like(&self, layers: usize, capacity: usize) -> Self {
        Self::new(layers, self.heads, self.head_dim, capacity, self.dtype, &self.device)
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    fn shift(&mut self, slots: &[u32], to: usize) -> Result<()> {
        if slots.is_empty() {
            return Ok(());
        }
        let index = Tensor::from_slice(slots, slots.len(), &self.device)?;
        for part in self.layers.iter().flatten() {
            part.slice_set(&part.index_select(&index, 1)?, 1, to)?;
        }
        Ok(())
    }

    fn gather_into<'a>(
        &self,
        cache: &mut Self,
        len: usize,
        kept: &dyn Fn(usize, usize) -> &'a [usize],
    ) -> Result<()> {
        cache.reserve(len)?;
        for (layer, (ours, theirs)) in self.layers.iter().zip(&cache.layers).enumerate() {
            for head in 0..self.heads {
                let slots: Vec<u32> = kept(layer, head).iter().take(len).map(|slot| *slot as u32).collect();
                let index = Tensor::from_vec(slots, len, &self.device)?;
                for (from, to) in ours.iter().zip(theirs) {
                    let rows = from.narrow(0, head, 1)?.squeeze(0)?.index_select(&index, 0)?;
                    // The rows of one head are contiguous.
                    let first_row = head * cache.capacity;
                    to.reshape((self.heads * cache.capacity, self.head_dim))?
                        .slice_set(&rows, 0, first_row)?;
                }
            }
        }
        cache.len = len;
        Ok(())
    }

    fn record(&mut self, result: Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error.to_string());
        }
    }

    fn usable(&self) -> Result<()> {
        match &self.failed {
            Some(error) => crate::bail!("the cache cannot be used after an error: {error}"),
            None => Ok(()),
        }
    }

    /// Grow so that `more` slots fit after those in use. Fails if memory does not suffice, or an earlier call failed.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        self.usable()?;
        let need = self.len + more;
        if need <= self.capacity {
            return Ok(());
        }
        let capacity = need.max(self.requested).max(self.capacity + self.capacity / 2).next_multiple_of(GROW);
        let grown = self.grow(capacity);
        if let Err(error) = &grown {
            // The layers differ in capacity.
            self.failed = Some(error.to_string());
        }
        grown
    }

    /// Layer by layer, so that only one layer has two copies at a time.
    fn grow(&mut self, capacity: usize) -> Result<()> {
        let (shape, len) = ((self.heads, capacity, self.head_dim), self.len);
        for _ in self.layers.len()..self.count {
            let zeros = || Tensor::zeros(shape, self.dtype, &self.device);
            self.layers.push([zeros()?, zeros()?]);
        }
        for part in self.layers.iter_mut().flatten().filter(|part| part.dims()[1] < capacity) {
            let larger = Tensor::zeros(shape, self.dtype, &self.device)?;
            if len > 0 {
                larger.slice_set(&part.narrow(1, 0, len)?.contiguous()?, 1, 0)?;
            }
            *part = larger;
        }
        self.capacity = capacity;
        Ok(())
    }

    /// Write one layer's keys and values of new rows, `kv_heads × rows × head_dim`, to the reserved slots after those in use. The
    /// length changes only with [`TensorCache::advance`]. Fails if the shapes do not agree, or the slots are not reserved.
    pub fn write(&mut self, layer: usize, keys: &Tensor, values: &Tensor) -> Result<()> {
        let [k, v] = &self.layers[layer];
        k.slice_set(&keys.contiguous()?, 1, self.len)?;
        v.slice_set(&values.contiguous()?, 1, self.len)?;
        Ok(())
    }

    /// Count `rows` written rows as in use.
    pub fn advance(&mut self, rows: usize) {
        self.len += rows;
    }

    /// Views of one layer's keys and values in the first `slots` slots, `kv_heads × slots × head_dim`. Fails if there are fewer
    /// slots.
    pub fn layer(&self, layer: usize, slots: usize) -> Result<(Tensor, Tensor)> {
        let [k, v] = &self.layers[layer];
        Ok((k.narrow(1, 0, slots)?, v.narrow(1, 0, slots)?))
    }
}

impl DeviceCache for TensorCache {
    fn len(&self) -> usize {
        self.len
    }

    fn layout(&self) -> [usize; 3] {
        [self.count, self.heads, self.head_dim]
    }

    fn capacity(&self) -> usize {
        if self.layers.is_empty() { self.requested } else { self.capacity }
    }

    fn bytes(&self) -> usize {
        self.count * 2 * self.heads * self.capacity() * self.head_dim * self.dtype.size_in_bytes()
    }

    fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    fn keep(&mut self, base: usize, rows: &[usize]) {
        let unmoved = rows.iter().enumerate().take_while(|(to, row)| to == *row).count();
        let moved: Vec<u32> = rows[unmoved..].iter().map(|row| (base + row) as u32).collect();
        let result = self.shift(&moved, base + unmoved);
        self.len = base + rows.len();
        self.record(result);
    }

    fn first_layers(&self, layers: usize) -> Self {
        let layers = layers.min(self.count);
        let mut cache = self.like(layers, self.requested);
        let copies = self.layers.iter().take(layers).map(|[k, v]| Ok([k.copy()?, v.copy()?]));
        match copies.collect() {
            Ok(copies) => {
                (cache.layers, cache.len, cache.capacity) = (copies, self.len, self.capacity);
            }
            Err(error) => cache.record(Err(error)),
        }
        cache
    }

    fn gather<'a>(&self, len: usize, capacity: usize, kept: impl Fn(usize, usize) -> &'a [usize]) -> Self {
        let mut cache = self.like(self.count, capacity.max(len));
        let result = self.gather_into(&mut cache, len, &kept);
        cache.record(result);
        cache
    }

    fn append(&mut self, other: &Self, range: Range<usize>) -> Result<()> {
        if !self.device.same_device(&other.device) {
            crate::bail!("the caches are on different devices");
        }
        other.usable()?;
        self.reserve(range.len())?;
        for (ours, theirs) in self.layers.iter().zip(&other.layers) {
            for (to, from) in ours.iter().zip(theirs) {
                let rows = from.narrow(1, range.start, range.len())?.contiguous()?;
                to.slice_set(&rows, 1, self.len)?;
            }
        }
        self.len += range.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slots: usize, capacity: usize) -> TensorCache {
        let mut cache = TensorCache::new(2, 2, 4, capacity, DType::F32, &Device::Cpu);
        for slot in 0..slots {
            cache.reserve(1).unwrap();
            let row = |more: f32| {
                let row: Vec<f32> = (0..8).map(|i| (slot * 100 + i) as f32 + more).collect();
                Tensor::from_vec(row, (2, 1, 4), &Device::Cpu).unwrap()
            };
            for layer in 0..2 {
                cache.write(layer, &row(0.0), &row(0.5)).unwrap();
            }
            cache.advance(1);
        }
        cache
    }

    #[test]
    fn a_copy_of_the_first_layers_is_its_own() {
        let cache = filled(40, 64);
        let mut half = cache.first_layers(1);
        assert_eq!(half.bytes() * 2, cache.bytes());
        let row = Tensor::zeros((2, 1, 4), DType::F32, &Device::Cpu).unwrap();
        half.truncate(0);
        half.write(0, &row, &row).unwrap();
        let (k, _) = cache.layer(0, 1).unwrap();
        assert_eq!(k.flatten_all().unwrap().to_vec1::<f32>().unwrap()[1], 1.0);
    }

    #[test]
    fn an_error_is_reported_by_the_next_pass() {
        let mut cache = filled(4, 8).gather(2, 8, |_, _| &[0, 999]);
        assert!(cache.reserve(1).is_err() && filled(4, 8).append(&cache, 0..0).is_err());
    }
}
