//! Tensors out of a checkpoint: portion by portion, so that no tensor is ever held twice.

use std::ops::Range;

use candle_core::{DType, Device, Shape, Tensor};
use candle_nn::{Init, VarBuilder, var_builder::SimpleBackend};

use super::*;
use crate::model::decoder::{HalfKind, Values};

/// Values that are converted at a time.
const PORTION: usize = 1 << 20;

impl Checkpoint {
    /// A tensor's values as f32, row-major, after checking its shape. A patch kernel `[o, c, t, h, w]` may be asked for as
    /// the matrix `[o, c·t·h·w]` that it is: shapes agree if the first sizes and the products do.
    ///
    /// # Errors
    /// If it is missing, has another shape, an integer type or values that are not finite, or the reading was stopped.
    pub fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        if self.random {
            return Ok(shapes::values(name, shape));
        }
        let (shard, info) = self.check(name, shape)?;
        let mut values = Vec::with_capacity(info.shape.iter().product());
        self.portions(name, shard, info, PORTION, &mut |portion| {
            values.extend_from_slice(portion);
            Ok(())
        })?;
        Ok(values)
    }

    /// A matrix's rows as f32, a few whole rows at a time.
    ///
    /// # Errors
    /// As of [`Checkpoint::f32`], and what `take` says of a portion.
    pub fn rows(
        &self,
        name: &str,
        shape: [usize; 2],
        take: &mut dyn FnMut(&[f32]) -> Result<(), String>,
    ) -> Result<(), CheckpointError> {
        if self.random {
            return take(&shapes::values(name, &shape)).map_err(|e| CheckpointError::tensor(name, &e));
        }
        let (shard, info) = self.check(name, &shape)?;
        let row = shape[1].max(1);
        self.portions(name, shard, info, (PORTION / row).max(1) * row, take)
    }

    /// A tensor's values in the type in which the file has them.
    ///
    /// # Errors
    /// As of [`Checkpoint::f32`].
    pub fn native(&self, name: &str, shape: &[usize]) -> Result<Values, CheckpointError> {
        if self.random {
            return self.f32(name, shape).map(Values::F32);
        }
        let (shard, info) = self.check(name, shape)?;
        let kind = match info.dtype {
            Dtype::F16 => HalfKind::F16,
            Dtype::BF16 => HalfKind::Bf16,
            _ => return self.f32(name, shape).map(Values::F32),
        };
        let mut bits = Vec::with_capacity(info.shape.iter().product());
        self.portions(name, shard, info, PORTION, &mut |portion| {
            // Narrowing what was widened gives the same bits.
            bits.extend(portion.iter().map(|&value| kind.narrow(value)));
            Ok(())
        })?;
        Ok(Values::Half(kind, bits))
    }

    /// All tensors under an original prefix (`visual`), in the floats of a place, names relative to it; each is read when it is
    /// asked for.
    ///
    /// # Errors
    /// If there are none.
    pub fn var_builder(
        &self,
        prefix: &str,
        place: &ComputeDevice,
    ) -> Result<VarBuilder<'_>, CheckpointError> {
        if !self.names.keys().any(|name| names::below(name, prefix).is_some()) {
            return Err(self.missing(&format!("{prefix}.*")));
        }
        let backend = Below { checkpoint: self, prefix: prefix.to_owned() };
        Ok(VarBuilder::from_backend(Box::new(backend), place.compute_type(), place.device().clone()))
    }

    /// Whether a tensor is there in this shape and a type that can be read; its values are not looked at.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn verify(&self, name: &str, shape: &[usize]) -> Result<(), CheckpointError> {
        if self.random { Ok(()) } else { self.check(name, shape).map(|_| ()) }
    }

    /// Where a tensor is, if it has this shape and a type that can be read.
    fn check(&self, name: &str, shape: &[usize]) -> Result<(&Shard, &TensorInfo), CheckpointError> {
        let (shard, info) = self.find(name).ok_or_else(|| self.missing(name))?;
        let same = info.shape == shape
            || (info.shape.first() == shape.first()
                && info.shape.len() > shape.len()
                && info.shape.iter().product::<usize>() == shape.iter().product::<usize>());
        if !same {
            let problem = format!("shape {:?} where config.json says {shape:?}", info.shape);
            return Err(CheckpointError::tensor(name, &problem));
        }
        if !matches!(info.dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let problem = format!("type {:?}; expected F32, F16 or BF16", info.dtype);
            return Err(CheckpointError::tensor(name, &problem));
        }
        Ok((shard, info))
    }

    /// Call `take` with a tensor's values, `portion` at a time.
    fn portions(
        &self,
        name: &str,
        shard: &Shard,
        info: &TensorInfo,
        portion: usize,
        take: &mut dyn FnMut(&[f32]) -> Result<(), String>,
    ) -> Result<(), CheckpointError> {
        let (from, to) = (shard.data + info.data_offsets.0, shard.data + info.data_offsets.1);
        let width = if info.dtype == Dtype::F32 { 4 } else { 2 };
        let mut values = Vec::with_capacity(portion.min((to - from) / width));
        for (nth, bytes) in shard.map[from..to].chunks(portion * width).enumerate() {
            self.look()?;
            values.clear();
            match info.dtype {
                Dtype::F16 => {
                    values.extend(bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()));
                }
                Dtype::BF16 => {
                    values.extend(bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()));
                }
                _ => values.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
            }
            if let Some(at) = values.iter().position(|v| !v.is_finite()) {
                let problem =
                    format!("value {} is {}, in {}", nth * portion + at, values[at], shard.path.display());
                return Err(CheckpointError::tensor(name, &problem));
            }
            take(&values).map_err(|problem| CheckpointError::tensor(name, &problem))?;
        }
        shard.forget(from..to);
        self.read.fetch_add(1, Ordering::Relaxed);
        self.look()
    }

    /// Tell the watch how far the reading is.
    fn look(&self) -> Result<(), CheckpointError> {
        let Some(watch) = &self.watch else { return Ok(()) };
        // A tied head is read twice.
        let total = self.names.len();
        match watch(self.read.load(Ordering::Relaxed).min(total), total) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => {
                self.stopped.store(true, Ordering::Relaxed);
                Err(CheckpointError::Stopped)
            }
        }
    }

    fn missing(&self, name: &str) -> CheckpointError {
        CheckpointError::tensor(name, &format!("not in the weight files of {}", self.dir.display()))
    }
}

impl Shard {
    /// The mapped pages of these bytes are not needed soon: what was read has been put elsewhere.
    fn forget(&self, bytes: Range<usize>) {
        // SAFETY: the mapping is of a file and read-only; pages that are touched again are read from it again.
        let _ = unsafe {
            self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, bytes.start, bytes.len())
        };
    }
}

/// The tensors under a prefix, for a tower to ask for.
struct Below<'a> {
    checkpoint: &'a Checkpoint,
    prefix: String,
}

impl Below<'_> {
    fn name(&self, relative: &str) -> String {
        format!("{}.{relative}", self.prefix)
    }

    fn read(
        &self,
        relative: &str,
        shape: &[usize],
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor, CheckpointError> {
        let name = self.name(relative);
        let internal = |e: candle_core::Error| CheckpointError::tensor(&name, &crate::model::plain(&e));
        if let Some(noted) = &self.checkpoint.rehearsal {
            if let Err(error) = self.checkpoint.check(&name, shape) {
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(error);
            }
            // One zero, repeated without being written down.
            let zero = Tensor::zeros((), dtype, device).and_then(|zero| zero.broadcast_as(shape));
            return zero.map_err(internal);
        }
        // Rounded first: half as much to send.
        let tensor = Tensor::from_vec(self.checkpoint.f32(&name, shape)?, shape, &Device::Cpu);
        tensor.and_then(|tensor| tensor.to_dtype(dtype)?.to_device(device)).map_err(internal)
    }
}

impl SimpleBackend for Below<'_> {
    fn get(
        &self,
        shape: Shape,
        name: &str,
        _: Init,
        dtype: DType,
        device: &Device,
    ) -> candle_core::Result<Tensor> {
        self.read(name, shape.dims(), dtype, device).map_err(candle_core::Error::wrap)
    }

    fn get_unchecked(&self, name: &str, dtype: DType, device: &Device) -> candle_core::Result<Tensor> {
        let name_here = self.name(name);
        let shape = self.checkpoint.find(&name_here).map(|(_, info)| info.shape.clone());
        let shape = shape.ok_or_else(|| candle_core::Error::wrap(self.checkpoint.missing(&name_here)))?;
        self.read(name, &shape, dtype, device).map_err(candle_core::Error::wrap)
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.checkpoint.contains(&self.name(name))
    }
}
