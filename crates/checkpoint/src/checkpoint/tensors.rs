//! A checkpoint as the source of weights for a device: tensors are read chunk by chunk, so that none is in memory twice.

use super::read::{each_unit, half_kind};
use super::*;
use crate::gguf::{Layout, Stored};
use specreel_tensor::{
    Weights,
    cpu::{kernels::HalfKind, linear::Weight, table::Values},
    weights::TakeRows,
};

/// Values that are read and converted at a time.
const CHUNK: usize = 1 << 20;

/// A patch kernel `[o, c, t, h, w]` may be requested as the matrix `[o, c·t·h·w]`: shapes agree if their first sizes and their
/// products do.
impl Weights for Checkpoint {
    fn verify(&self, name: &str, shape: &[usize]) -> Result<(), CheckpointError> {
        if self.random || self.find_mapped(name, shape)?.is_some() {
            return Ok(());
        }
        self.check(name, shape).map(|_| ())
    }

    fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        if self.random {
            return Ok(random_values(name, shape));
        }
        if let Some(tensor) = self.find_mapped(name, shape)? {
            return self.widen_all(name, tensor);
        }
        let (shard, info) = self.check(name, shape)?;
        self.all_f32(name, shard, info)
    }

    fn rows_parallel(
        &self,
        name: &str,
        shape: [usize; 2],
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        let owned = match (self.random, self.find_mapped(name, &shape)?) {
            (true, _) => Some(random_values(name, &shape)),
            (false, Some(tensor)) => Some(self.widen_all(name, tensor)?),
            (false, None) => None,
        };
        if let Some(values) = owned {
            // Not read from a file whose hash is wanted.
            return each_unit(&values, shape[1].max(1), take)
                .map(|()| 0)
                .map_err(|e| CheckpointError::tensor(name, &e));
        }
        let (shard, info) = self.check(name, &shape)?;
        let row = shape[1].max(1);
        self.widened(name, shard, info, &|first, values| take(first / row, values))
    }

    fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Option<Vec<(Weight, usize)>>, CheckpointError> {
        let Some(tensor) = self.find_mapped(name, &shape)? else { return Ok(None) };
        if tensor.layout == Layout::Frames || tensor.stored != Stored::Values {
            return Err(CheckpointError::tensor(name, "is no matrix"));
        }
        self.report()?;
        let parts = tensor.parts.iter();
        let parts = parts.map(|part| Some((Weight::Stored(self.stored(tensor, part)?), part.shape[0])));
        let parts = parts.collect::<Option<_>>();
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()?;
        parts.map(Some).ok_or_else(|| CheckpointError::tensor(name, "has parts of a block"))
    }

    fn native(&self, name: &str, shape: [usize; 2]) -> Result<(Values, u64), CheckpointError> {
        if let Some(tensor) = self.find_mapped(name, &shape)? {
            // Values of a GGUF file are mapped, not kept.
            return self.native_mapped(name, tensor).map(|values| (values, 0));
        }
        if let Some(kind) = self.half_kind(name, &shape)? {
            let (shard, info) = self.check(name, &shape)?;
            let (bits, hash) = self.all_bits(name, shard, info)?;
            return Ok((Values::Half(kind, bits.into()), hash));
        }
        let mut values = vec![0f32; shape.iter().product()];
        let place = DisjointSliceMut::new(&mut values);
        let hash = self.rows_parallel(name, shape, &|first, rows| {
            // SAFETY: each call has rows of its own.
            unsafe { place.slice(first * shape[1], rows.len()) }.copy_from_slice(rows);
            Ok(())
        })?;
        Ok((Values::F32(values.into()), hash))
    }

    fn half_kind(&self, name: &str, shape: &[usize]) -> Result<Option<HalfKind>, CheckpointError> {
        if self.random || self.find_mapped(name, shape)?.is_some() {
            return Ok(None);
        }
        Ok(half_kind(self.check(name, shape)?.1.dtype))
    }

    fn keeps_types(&self) -> bool {
        self.files.gguf().is_some()
    }

    fn kept(&self, key: &str, outputs: usize, inputs: usize) -> Option<Weight> {
        self.kept.get(key, outputs, inputs)
    }

    fn keep(&self, key: &str, weight: &Weight, shape: [usize; 2], sources: Vec<(String, u64)>) {
        self.kept.put(key, weight, shape, sources);
    }
}

impl Checkpoint {
    /// A matrix's rows as f32, a few whole rows at a time. Fails as [`Checkpoint::f32`], and with the errors of `take`.
    pub fn rows(
        &self,
        name: &str,
        shape: [usize; 2],
        take: &mut dyn FnMut(&[f32]) -> Result<(), String>,
    ) -> Result<(), CheckpointError> {
        if self.random {
            return take(&random_values(name, &shape)).map_err(|e| CheckpointError::tensor(name, &e));
        }
        if let Some(tensor) = self.find_mapped(name, &shape)? {
            return take(&self.widen_all(name, tensor)?).map_err(|e| CheckpointError::tensor(name, &e));
        }
        let (shard, info) = self.check(name, &shape)?;
        let row = shape[1].max(1);
        self.chunks(name, shard, info, (CHUNK / row).max(1) * row, take)
    }

    /// The first rows of a matrix, as f32. Only they are read.
    pub fn first_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: usize,
    ) -> Result<Vec<f32>, CheckpointError> {
        let (shard, info) = self.check(name, &shape)?;
        let count = rows.min(shape[0]) * shape[1];
        let size = if info.dtype == Dtype::F32 { 4 } else { 2 };
        let mut bytes = vec![0; count * size];
        shard.read_data(&mut bytes, info.data_offsets.0)?;
        let mut values = Vec::with_capacity(count);
        widen(&bytes, info.dtype, &mut values);
        Ok(values)
    }

    /// The values of a tensor of integers or booleans, row-major; none if there is no such tensor. Fails if it has another type,
    /// or the file cannot be read.
    pub fn integers(&self, name: &str) -> Result<Option<Vec<i64>>, CheckpointError> {
        let Some((shard, info)) = self.find(name) else { return Ok(None) };
        let (start, end) = info.data_offsets;
        let mut bytes = vec![0; end - start];
        shard.read_data(&mut bytes, start)?;
        Ok(Some(match info.dtype {
            Dtype::I64 => bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(),
            Dtype::I32 => bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()).collect(),
            Dtype::BOOL | Dtype::U8 => bytes.into_iter().map(i64::from).collect(),
            other => {
                let problem = format!("expected type I64, I32, U8 or BOOL, got {other:?}");
                return Err(CheckpointError::tensor(name, &problem));
            }
        }))
    }

    /// The location of a tensor, if it has this shape and a supported type.
    pub(super) fn check(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<(&Shard, &TensorInfo), CheckpointError> {
        let (shard, info) = self.find(name).ok_or_else(|| self.missing(name))?;
        self.check_shape(name, &info.shape, shape)?;
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let problem = format!("expected type F32, F16 or BF16, got {:?}", info.dtype);
            return Err(CheckpointError::tensor(name, &problem));
        }
        Ok((shard, info))
    }

    /// Check the shape of a tensor against the expected one.
    pub(super) fn check_shape(
        &self,
        name: &str,
        found: &[usize],
        expected: &[usize],
    ) -> Result<(), CheckpointError> {
        let same = found == expected
            || (found.first() == expected.first()
                && found.len() > expected.len()
                && found.iter().product::<usize>() == expected.iter().product::<usize>());
        if same {
            return Ok(());
        }
        let origin = if self.files.gguf().is_some() { "the metadata" } else { "config.json" };
        let problem = format!("expected shape {expected:?} (from {origin}), got {found:?}");
        Err(CheckpointError::tensor(name, &problem))
    }

    /// Call `take` with a tensor's values, `count` at a time.
    fn chunks(
        &self,
        name: &str,
        shard: &Shard,
        info: &TensorInfo,
        count: usize,
        take: &mut dyn FnMut(&[f32]) -> Result<(), String>,
    ) -> Result<(), CheckpointError> {
        let (start, end) = info.data_offsets;
        let size = if info.dtype == Dtype::F32 { 4 } else { 2 };
        let chunk = (count * size).min(end - start).max(1);
        let (mut bytes, mut values) = (vec![0; chunk], Vec::with_capacity(chunk / size));
        for (nth, at) in (start..end).step_by(chunk).enumerate() {
            self.report()?;
            let bytes = &mut bytes[..chunk.min(end - at)];
            shard.read_data(bytes, at)?;
            values.clear();
            widen(bytes, info.dtype, &mut values);
            if let Some(i) = values.iter().position(|v| !v.is_finite()) {
                let problem =
                    format!("value {} is {}, in {}", nth * count + i, values[i], shard.path.display());
                return Err(CheckpointError::tensor(name, &problem));
            }
            take(&values).map_err(|problem| CheckpointError::tensor(name, &problem))?;
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        self.report()
    }

    /// Call the progress callback.
    pub(super) fn report(&self) -> Result<(), CheckpointError> {
        let Some(progress) = &self.progress else { return Ok(()) };
        // A tied head is read twice.
        let total = self.names.len() + self.mapped.len();
        match progress(self.read.load(Ordering::Relaxed).min(total), total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                self.stopped.store(true, Ordering::Relaxed);
                Err(CheckpointError::Stopped)
            }
        }
    }

    pub(super) fn missing(&self, name: &str) -> CheckpointError {
        let files = self.files.path().display();
        let name = self.part.map_or(name.to_owned(), |part| names::in_part(part, name));
        CheckpointError::tensor(&name, &format!("not in the weight files of {files}"))
    }
}

/// Append values of a floating-point type as f32.
fn widen(bytes: &[u8], dtype: Dtype, values: &mut Vec<f32>) {
    match dtype {
        Dtype::F16 => {
            values.extend(bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()));
        }
        Dtype::BF16 => {
            values.extend(bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()));
        }
        _ => values.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
    }
}
