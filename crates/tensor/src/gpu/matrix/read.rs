//! Matrices and embedding tables of checkpoints on a GPU.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    CheckpointError, TensorType, WeightType, Weights,
    cpu::{linear::Weight, thread_pool::ThreadPool},
    fused::{FusedMatrix, Padding},
    gpu::{
        Gpu, GpuError,
        matrix::{
            Matrix,
            load::{Loader, StoreProblem},
            pack::StoredRows,
        },
        table::Table,
    },
};

/// Bytes of an array at most: kernels address bytes with 32 bits.
const LARGEST: u64 = 1 << 31;
/// Values that are moved at a time.
const UNIT: usize = 1 << 18;

impl Matrix {
    /// Load a matrix row by row into a weight type, or its fallback; a matrix of a GGUF file keeps the file's types. Fails if a
    /// tensor is missing, has the wrong shape, or values that are not finite, memory is missing, or the device is lost.
    pub fn load(
        gpu: &Gpu,
        list: &FusedMatrix,
        checkpoint: &dyn Weights,
        dtype: WeightType,
    ) -> Result<Self, CheckpointError> {
        load(gpu, list.name(), list, checkpoint, dtype.kept(list.importance).fitting(list.inputs))
    }

    /// Load a matrix into a weight type, padded with zeros: it takes rows of whole blocks, and with `pad` every tensor gives whole
    /// blocks of outputs. A matrix of a GGUF file is converted.
    pub(crate) fn load_padded(
        gpu: &Gpu,
        list: &FusedMatrix,
        pad: bool,
        checkpoint: &dyn Weights,
        dtype: WeightType,
    ) -> Result<Self, CheckpointError> {
        list.verify(checkpoint)?;
        let padding = Padding::blocks(pad);
        let [_, inputs] = list.padded(padding);
        let matrix = converted(gpu, list.name(), list, padding, checkpoint, dtype.fitting(inputs))?;
        Ok(Self { takes_parts: true, ..matrix })
    }
}

impl Table {
    /// Load the embedding table `name` in the checkpoint's type, and the head in a weight type, both `vocab × hidden`. With
    /// `tied` they are the same tensor, which is in memory once if the head has its type.
    pub(crate) fn load_with_head(
        gpu: &Gpu,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
        dtype: WeightType,
    ) -> Result<(Self, Arc<Matrix>), CheckpointError> {
        let shape = [head.outputs(), head.inputs];
        let kept = checkpoint.half_kind(name, &shape)?.map_or(TensorType::F32, TensorType::Half);
        let matrix = Arc::new(Matrix::load(gpu, head, checkpoint, dtype)?);
        if tied && (checkpoint.keeps_types() || matrix.format() == Some(kept)) {
            return Ok((Self::shared(Arc::clone(&matrix)), matrix));
        }
        let name = name.strip_suffix(".weight").unwrap_or(name).to_owned();
        let list = FusedMatrix {
            tensors: vec![(name, shape[0])],
            inputs: shape[1],
            bias: false,
            importance: head.importance,
        };
        Ok((Self::of(Arc::new(load(gpu, "table", &list, checkpoint, kept)?)), matrix))
    }
}

/// Load a matrix into a format, kept as `key`; a matrix of a GGUF file keeps the file's types.
fn load(
    gpu: &Gpu,
    key: &str,
    list: &FusedMatrix,
    checkpoint: &dyn Weights,
    format: TensorType,
) -> Result<Matrix, CheckpointError> {
    list.verify(checkpoint)?;
    let stored = list.stored(checkpoint)?;
    if stored.is_empty() {
        return converted(gpu, key, list, Padding::NONE, checkpoint, format);
    }
    let inputs = list.inputs;
    let refused = |error: GpuError| CheckpointError::tensor(key, &error.to_string());
    let bias = list.biases(checkpoint)?;
    let parts: Option<Vec<_>> =
        stored.iter().map(|(weight, outputs)| Some((rows(weight)?, *outputs))).collect();
    let Some(parts) =
        parts.filter(|parts| parts.iter().all(|(rows, outputs)| rows.count(inputs) == *outputs))
    else {
        return Err(CheckpointError::tensor(key, "its rows have another type or width than expected"));
    };
    let formats: Vec<_> = parts.iter().map(|(rows, outputs)| (rows.kind, *outputs)).collect();
    let loader = Loader::new(gpu, &formats, inputs, largest(gpu)).map_err(refused)?;
    let mut first = 0;
    for (rows, outputs) in parts {
        store(&loader, first, rows, outputs, inputs).map_err(|e| CheckpointError::tensor(key, &e))?;
        first += outputs;
    }
    loader.finish(bias.as_deref()).map_err(refused)
}

fn converted(
    gpu: &Gpu,
    key: &str,
    list: &FusedMatrix,
    padding: Padding,
    checkpoint: &dyn Weights,
    format: TensorType,
) -> Result<Matrix, CheckpointError> {
    let refused = |error: GpuError| CheckpointError::tensor(list.name(), &error.to_string());
    let [outputs, inputs] = list.padded(padding);
    let bias = list.padded_biases(padding, checkpoint)?;
    if let Some(kept) = checkpoint.kept(key, [outputs, inputs])
        && let Some(loader) =
            Loader::kept(gpu, &kept, format, [outputs, inputs], largest(gpu)).map_err(refused)?
    {
        return loader.finish(bias.as_deref()).map_err(refused);
    }
    let mut loader = Loader::new(gpu, &[(format, outputs)], inputs, largest(gpu)).map_err(refused)?;
    if checkpoint.keeps() {
        loader = loader.copying();
    }
    let sources = list.read(padding, checkpoint, &|first, values| {
        loader.store(first, StoredRows::floats(values)).map_err(|problem| problem.to_string())
    })?;
    if let Some(copy) = loader.copy() {
        checkpoint.keep(key, Box::new(copy), [outputs, inputs], sources);
    }
    loader.finish(bias.as_deref()).map_err(refused)
}

/// Bytes of an array at most.
fn largest(gpu: &Gpu) -> u64 {
    let limits = gpu.limits();
    limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(LARGEST)
}

/// The rows of a matrix of a GGUF file; `None` if they are arranged for this processor.
fn rows(weight: &Weight) -> Option<StoredRows<'_>> {
    let Weight::Stored(values) = weight else { return None };
    Some(StoredRows { kind: values.kind(), bytes: values.as_bytes() })
}

fn store(
    loader: &Loader<'_>,
    first: usize,
    rows: StoredRows<'_>,
    outputs: usize,
    inputs: usize,
) -> Result<(), String> {
    let unit = (UNIT / inputs.max(1)).max(1).next_multiple_of(16);
    let failure: Mutex<Option<StoreProblem>> = Mutex::default();
    let lock = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    ThreadPool::global().run(outputs.div_ceil(unit), &|index| {
        let (start, end) = (index * unit, ((index + 1) * unit).min(outputs));
        if lock().is_none()
            && let Err(problem) = loader.store(first + start, rows.slice(inputs, start..end))
        {
            lock().get_or_insert(problem);
        }
    });
    let failure = lock().take();
    failure.map_or(Ok(()), |problem| Err(problem.to_string()))
}

#[cfg(test)]
mod tests;
