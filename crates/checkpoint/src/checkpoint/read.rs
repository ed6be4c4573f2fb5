//! Reading a tensor on all threads, in units of whole rows.

use std::sync::atomic::AtomicU64;

use twox_hash::XxHash3_64;

use specreel_tensor::weights::TakeRows;

use super::*;
use specreel_tensor::cpu::{kernels::HalfKind, thread_pool::ThreadPool};

/// Values of a unit: few enough for a processor's own cache.
const UNIT: usize = 1 << 17;
/// The rows of a unit are a multiple of this, so that the units of a matrix share no panel of outputs.
const ROWS: usize = 16;

#[derive(Default)]
pub(super) struct ReadBuffers {
    bytes: Vec<u8>,
    bits: Vec<u16>,
    pub values: Vec<f32>,
}

/// The values of a unit in the type of the file.
enum Native<'a> {
    F32(&'a [f32]),
    Half(HalfKind, &'a [u16]),
}

/// Takes the index of the first value of a unit, its values, and a buffer.
type TakeNative<'a> = &'a (dyn Fn(usize, Native<'_>, &mut Vec<f32>) -> Result<(), String> + Sync);

/// Takes the place and the bytes of a chunk, and two buffers.
pub(super) type TakeBytes<'a> =
    &'a (dyn Fn(usize, &[u8], &mut Vec<u16>, &mut Vec<f32>) -> Result<(), CheckpointError> + Sync);

pub(super) fn rows_per_unit(row: usize) -> usize {
    (UNIT / row).max(1).next_multiple_of(ROWS)
}

/// Do so many pieces of work on all threads, each with buffers. Returns the first failure in the order of the work.
pub(super) fn in_parallel<E: Send>(
    count: usize,
    work: &(dyn Fn(usize, &mut ReadBuffers) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let buffers: Mutex<Vec<ReadBuffers>> = Mutex::default();
    let failure: Mutex<Option<(usize, E)>> = Mutex::new(None);
    ThreadPool::global().run(count, &|index| {
        let lock = || failure.lock().unwrap_or_else(PoisonError::into_inner);
        if lock().is_some() {
            return;
        }
        let free = || buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = free().pop().unwrap_or_default();
        if let Err(error) = work(index, &mut own) {
            let mut failure = lock();
            if failure.as_ref().is_none_or(|(first, _)| index < *first) {
                *failure = Some((index, error));
            }
        }
        free().push(own);
        // A thread that draws a screen need not wait until the scheduler interrupts this one.
        std::thread::yield_now();
    });
    let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    failure.map_or(Ok(()), |(_, error)| Err(error))
}

/// Call `take` for the units of values in memory.
pub(super) fn each_unit(values: &[f32], row: usize, take: TakeRows<'_>) -> Result<(), String> {
    let rows = rows_per_unit(row);
    in_parallel(values.len().div_ceil(row * rows), &|index, _| {
        let unit = index * row * rows..((index + 1) * row * rows).min(values.len());
        take(index * rows, &values[unit])
    })
}

/// One hash of several.
pub(super) fn combined(hashes: &[u64]) -> u64 {
    let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
    XxHash3_64::oneshot(&bytes)
}

pub(super) fn half_kind(dtype: Dtype) -> Option<HalfKind> {
    match dtype {
        Dtype::F16 => Some(HalfKind::F16),
        Dtype::BF16 => Some(HalfKind::Bf16),
        _ => None,
    }
}

impl Checkpoint {
    /// All bit patterns of a tensor of 16-bit floats, and a hash of its bytes.
    pub(super) fn all_bits(
        &self,
        name: &str,
        shard: &Shard,
        info: &TensorInfo,
    ) -> Result<(Vec<u16>, u64), CheckpointError> {
        let mut all = vec![0u16; info.shape.iter().product()];
        let place = DisjointSliceMut::new(&mut all);
        let hash = self.units(name, shard, info, &|first, values, _| {
            if let Native::Half(_, bits) = values {
                // SAFETY: each unit has values of its own.
                unsafe { place.slice(first, bits.len()) }.copy_from_slice(bits);
            }
            Ok(())
        })?;
        Ok((all, hash))
    }

    /// A hash of a tensor's bytes, equal to the hash from the functions that read its values; `None` if the tensor is missing.
    pub fn hash(&self, name: &str) -> Result<Option<u64>, CheckpointError> {
        let hash = match self.stored_in(name) {
            None => return Ok(None),
            Some(TensorPlace::Plain(shard, info)) => self.units(name, shard, info, &|_, _, _| Ok(()))?,
            Some(TensorPlace::Quantized(matrix)) => self.quantized_hash(matrix)?,
            Some(TensorPlace::Transposed(matrix, _)) => self.whole(&matrix.stored)?.1,
        };
        Ok(Some(match self.delta(name)? {
            None => hash,
            Some(delta) => combined(&[hash, delta.hash]),
        }))
    }

    pub(super) fn widened(
        &self,
        name: &str,
        shard: &Shard,
        info: &TensorInfo,
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        self.units(name, shard, info, &|first, values, wide| match values {
            Native::F32(values) => take(first, values),
            Native::Half(kind, bits) => {
                wide.resize(bits.len(), 0.0);
                kind.widen_all(bits, wide);
                take(first, wide)
            }
        })
    }

    /// Call `take` with the index of the first value and the values of each unit, and a buffer. Values that are not finite are an
    /// error. Returns a hash of the bytes.
    fn units(
        &self,
        name: &str,
        shard: &Shard,
        info: &TensorInfo,
        take: TakeNative<'_>,
    ) -> Result<u64, CheckpointError> {
        let row = info.shape.iter().skip(1).product::<usize>().max(1);
        let half = half_kind(info.dtype);
        let size = if half.is_some() { 2 } else { 4 };
        let chunk = row.saturating_mul(rows_per_unit(row)).saturating_mul(size);
        let hash = self.chunks(shard, info, chunk, &|at, bytes, bits, values| {
            let first = at / size;
            let refuse = |i: usize, value: f32| {
                let problem = format!("value {} is {value}, in {}", first + i, shard.path.display());
                Err(CheckpointError::tensor(name, &problem))
            };
            let taken = if let Some(kind) = half {
                bits.clear();
                bits.extend(bytes.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)));
                if !kind.are_finite(bits)
                    && let Some(i) = bits.iter().position(|bits| !kind.widen(*bits).is_finite())
                {
                    return refuse(i, kind.widen(bits[i]));
                }
                take(first, Native::Half(kind, bits), values)
            } else {
                let mut wide = std::mem::take(values);
                wide.clear();
                wide.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)));
                if let Some(i) = wide.iter().position(|v| !v.is_finite()) {
                    return refuse(i, wide[i]);
                }
                let taken = take(first, Native::F32(&wide), values);
                *values = wide;
                taken
            };
            taken.map_err(|problem| CheckpointError::tensor(name, &problem))
        })?;
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()?;
        Ok(hash)
    }

    /// Call `take` with each `chunk` bytes of a tensor. Returns a hash of the bytes, which depends on the size of chunks.
    pub(super) fn chunks(
        &self,
        shard: &Shard,
        info: &TensorInfo,
        chunk: usize,
        take: TakeBytes<'_>,
    ) -> Result<u64, CheckpointError> {
        let (start, end) = info.data_offsets;
        let count = (end - start).div_ceil(chunk);
        shard.read_ahead(start, end);
        let hashes: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
        in_parallel(count, &|index, ReadBuffers { bytes, bits, values }| {
            self.report()?;
            let at = index * chunk;
            bytes.resize(chunk.min(end - start - at), 0);
            shard.read_data(bytes, start + at)?;
            hashes[index].store(XxHash3_64::oneshot(bytes), Ordering::Relaxed);
            take(at, bytes, bits, values)
        })?;
        Ok(combined(&hashes.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>()))
    }
}
