//! Matrices and the embedding table from a checkpoint or the cache of converted weights.

use super::{builder::Builder, linear::Linear, table::Values};
use crate::model::{
    WeightType,
    checkpoint::{Checkpoint, CheckpointError},
    device::fused::FusedMatrix,
};

/// Load the matrix row by row into a weight type; a matrix of a GGUF file is mapped, and keeps the file's types.
pub fn matrix(
    list: &FusedMatrix,
    checkpoint: &Checkpoint,
    dtype: WeightType,
) -> Result<Linear, CheckpointError> {
    // Before memory is allocated for sizes that a configuration only claims.
    for (name, rows) in &list.tensors {
        checkpoint.verify(&format!("{name}.weight"), &[*rows, list.inputs])?;
    }
    let mut stored = Vec::new();
    for (name, rows) in &list.tensors {
        match checkpoint.matrix(&format!("{name}.weight"), [*rows, list.inputs])? {
            Some(parts) => stored.extend(parts),
            None => break,
        }
    }
    let (key, outputs, inputs) = (list.name(), list.outputs(), list.inputs);
    let bias = list.biases(checkpoint)?;
    if !stored.is_empty() {
        return Linear::stack(stored, inputs, bias).map_err(|e| CheckpointError::tensor(key, &e));
    }
    let weight = match checkpoint.kept().get(key, outputs, inputs) {
        Some(weight) => weight,
        None => {
            let mut builder = Builder::new(outputs, inputs, dtype);
            let mut sources = Vec::with_capacity(list.tensors.len());
            for (name, rows) in &list.tensors {
                let name = format!("{name}.weight");
                let place = builder.append(*rows).map_err(|e| CheckpointError::tensor(&name, &e))?;
                let hash = checkpoint.rows_parallel(&name, [*rows, inputs], &|first, rows| {
                    // SAFETY: each call has rows of its own.
                    unsafe { place.store(first, rows) }
                })?;
                sources.push((name, hash));
            }
            let weight = builder.into_weight();
            checkpoint.kept().put(key, &weight, [outputs, inputs], sources);
            weight
        }
    };
    Linear::stack(vec![(weight, outputs)], inputs, bias).map_err(|e| CheckpointError::tensor(key, &e))
}

/// The embedding table, in the checkpoint's type.
pub fn table(name: &str, shape: [usize; 2], checkpoint: &Checkpoint) -> Result<Values, CheckpointError> {
    const KEY: &str = "table";
    checkpoint.verify(name, &shape)?;
    if let Some(values) = checkpoint.kept().get(KEY, shape[0], shape[1]).and_then(Values::of_weight) {
        return Ok(values);
    }
    let (values, hash) = checkpoint.native(name, shape)?;
    checkpoint.kept().put(KEY, &values.to_weight(), shape, vec![(name.to_owned(), hash)]);
    Ok(values)
}
