//! A checkpoint as the source of weights for a device: tensors are read chunk by chunk, so that none is in memory twice.

use super::{
    read::{combined, each_unit, half_kind},
    *,
};
use crate::gguf::{FileValues, RowLayout};
use specreel_tensor::{
    Weights,
    cpu::{kernels::HalfKind, linear::Weight, table::Values},
    kept::{Keep, KeptMatrix},
    weights::TakeRows,
};

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
        let mut all = vec![0f32; shape.iter().product()];
        let place = DisjointSliceMut::new(&mut all);
        self.values(name, shape, &|first, values| {
            // SAFETY: each unit has values of its own.
            unsafe { place.slice(first, values.len()) }.copy_from_slice(values);
            Ok(())
        })?;
        if self.adds_to_norms && adapted::is_added_to(name) {
            all.iter_mut().for_each(|value| *value -= 1.0);
        }
        Ok(all)
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
        let row = shape[1].max(1);
        self.values(name, &shape, &|first, values| take(first / row, values))
    }

    fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Option<Vec<(Weight, usize)>>, CheckpointError> {
        let Some(tensor) = self.find_mapped(name, &shape)?.filter(|_| !self.requantized) else {
            return Ok(None);
        };
        if tensor.layout == RowLayout::Frames || tensor.stored != FileValues::Values {
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
        let kind = self.half_kind(name, &shape)?;
        if let (Some(kind), false, Some((shard, info))) = (kind, self.is_adapted(name), self.find(name)) {
            let (bits, hash) = self.all_bits(name, shard, info)?;
            return Ok((Values::Half(kind, bits.into()), hash));
        }
        let count = shape.iter().product();
        match kind {
            Some(kind) => {
                let mut values = vec![0u16; count];
                let place = DisjointSliceMut::new(&mut values);
                let hash = self.rows_parallel(name, shape, &|first, rows| {
                    // SAFETY: each call has rows of its own.
                    let narrow = unsafe { place.slice(first * shape[1], rows.len()) };
                    narrow.iter_mut().zip(rows).for_each(|(bits, value)| *bits = kind.narrow(*value));
                    match narrow.iter().position(|bits| !kind.widen(*bits).is_finite()) {
                        Some(at) => Err(format!("{} is too large for a 16-bit float", rows[at])),
                        None => Ok(()),
                    }
                })?;
                Ok((Values::Half(kind, values.into()), hash))
            }
            None => {
                let mut values = vec![0f32; count];
                let place = DisjointSliceMut::new(&mut values);
                let hash = self.rows_parallel(name, shape, &|first, rows| {
                    // SAFETY: each call has rows of its own.
                    unsafe { place.slice(first * shape[1], rows.len()) }.copy_from_slice(rows);
                    Ok(())
                })?;
                Ok((Values::F32(values.into()), hash))
            }
        }
    }

    fn half_kind(&self, name: &str, shape: &[usize]) -> Result<Option<HalfKind>, CheckpointError> {
        if self.random || self.find_mapped(name, shape)?.is_some() {
            return Ok(None);
        }
        self.check(name, shape)?;
        Ok(self.native_kind(name))
    }

    fn keeps_types(&self) -> bool {
        self.keeps_own_types()
    }

    fn kept(&self, key: &str, shape: [usize; 2]) -> Option<KeptMatrix> {
        self.kept.get(key, shape)
    }

    fn keeps(&self) -> bool {
        self.kept.is_writing()
    }

    fn keep(&self, key: &str, matrix: Box<dyn Keep>, shape: [usize; 2], sources: Vec<(String, u64)>) {
        self.kept.put(key, matrix, shape, sources);
    }
}

impl Checkpoint {
    /// The type of the values of [`Weights::native`] if they are 16-bit floats: the type in the file, or the scales' type of a
    /// quantized matrix.
    pub(super) fn native_kind(&self, name: &str) -> Option<HalfKind> {
        match self.stored_in(name)? {
            TensorPlace::Plain(_, info) => half_kind(info.dtype),
            TensorPlace::Quantized(matrix) => matrix.half_kind(),
            TensorPlace::Transposed(matrix, _) => half_kind(matrix.stored.info.dtype),
        }
    }

    /// Call `take` with the index of the first value and the values of each unit, the adapter added. Returns a hash of the bytes
    /// of all sources. Errors: see [`Weights`].
    fn values(&self, name: &str, shape: &[usize], take: TakeRows<'_>) -> Result<u64, CheckpointError> {
        let origin = self.check(name, shape)?;
        let Some(delta) = self.delta(name)? else { return self.stored_values(name, origin, take) };
        let hash = self.stored_values(name, origin, &|first, values| {
            let mut sum = values.to_vec();
            delta.add(first, &mut sum)?;
            take(first, &sum)
        })?;
        Ok(combined(&[hash, delta.hash]))
    }

    fn stored_values(
        &self,
        name: &str,
        origin: TensorPlace<'_>,
        take: TakeRows<'_>,
    ) -> Result<u64, CheckpointError> {
        let (shard, info) = match origin {
            TensorPlace::Plain(shard, info) => (shard, info),
            TensorPlace::Quantized(matrix) => return self.unpacked(name, matrix, take),
            TensorPlace::Transposed(matrix, first) => return self.transposed(name, matrix, first, take),
        };
        if !adapted::is_channels_last(name, &info.shape) {
            return self.widened(name, shard, info, take);
        }
        self.widened(name, shard, info, &|first, values| {
            // Units are whole kernels.
            take(first, &adapted::channels_first(values, &info.shape))
        })
    }

    /// The first rows of a matrix, as f32. Only they are read.
    pub fn first_rows(
        &self,
        name: &str,
        shape: [usize; 2],
        rows: usize,
    ) -> Result<Vec<f32>, CheckpointError> {
        let TensorPlace::Plain(shard, info) = self.check(name, &shape)? else {
            return Err(CheckpointError::tensor(name, "is quantized, expected type F32, F16 or BF16"));
        };
        let count = rows.min(shape[0]) * shape[1];
        let size = if info.dtype == Dtype::F32 { 4 } else { 2 };
        let mut bytes = vec![0; count * size];
        shard.read_data(&mut bytes, info.data_offsets.0)?;
        let mut values = Vec::with_capacity(count);
        widen(&bytes, info.dtype, &mut values);
        Ok(values)
    }

    /// The values of a tensor of integers or booleans, row-major; `None` if the tensor is missing. Fails if it has another type,
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
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<TensorPlace<'_>, CheckpointError> {
        let origin = self.stored_in(name).ok_or_else(|| self.missing(name))?;
        self.check_shape(name, origin.shape(), shape)?;
        let dtype = match origin {
            TensorPlace::Quantized(_) => None,
            TensorPlace::Plain(_, info) => Some(info.dtype),
            TensorPlace::Transposed(matrix, _) => Some(matrix.stored.info.dtype),
        };
        let problem = match (origin, dtype) {
            (TensorPlace::Quantized(matrix), _) => matrix.check().err(),
            (_, Some(Dtype::F32 | Dtype::F16 | Dtype::BF16) | None) => None,
            (_, Some(other)) => Some(format!("expected type F32, F16 or BF16, got {other:?}")),
        };
        problem.map_or(Ok(origin), |problem| Err(CheckpointError::tensor(name, &problem)))
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

    /// Call the progress callback.
    pub(super) fn report(&self) -> Result<(), CheckpointError> {
        let Some(progress) = &self.progress else { return Ok(()) };
        // A tied head is read twice.
        let total = self.names.len() + self.quantized.len() + self.experts.len() + self.mapped.len();
        match progress(self.read.load(Ordering::Relaxed).min(total), total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                self.stopped.store(true, Ordering::Relaxed);
                Err(CheckpointError::Stopped)
            }
        }
    }

    pub(super) fn missing(&self, name: &str) -> CheckpointError {
        let name = self.part.map_or(name.to_owned(), |part| names::in_part(part, name));
        let known = self.names.keys().chain(self.mapped.keys()).chain(self.quantized.keys());
        let similar = names::similar(&name, known.map(String::as_str)).map(str::to_owned);
        CheckpointError::Missing { name, path: self.files.path().to_owned(), similar }
    }
}

/// Append values of a floating-point type as f32.
pub(super) fn widen(bytes: &[u8], dtype: Dtype, values: &mut Vec<f32>) {
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
