//! Matrices and the embedding table from a checkpoint or the cache of converted weights.

use super::{
    builder::Builder,
    kernels::BLOCK,
    linear::{Linear, Weight},
    table::Values,
};
use crate::Weights;
use crate::{CheckpointError, WeightType, fused::FusedMatrix};

/// Load the matrix row by row into a weight type; a matrix of a GGUF file is mapped, and keeps the file's types.
pub fn matrix(
    list: &FusedMatrix,
    checkpoint: &dyn Weights,
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
    let weight = match checkpoint.kept(key, outputs, inputs) {
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
            checkpoint.keep(key, &weight, [outputs, inputs], sources);
            weight
        }
    };
    Linear::stack(vec![(weight, outputs)], inputs, bias).map_err(|e| CheckpointError::tensor(key, &e))
}

/// As [`matrix`], for products of many rows, and padded with zeros: the matrix takes rows of whole blocks, and with `pad` every
/// tensor gives whole blocks of outputs. A matrix of a GGUF file is converted.
pub fn padded_matrix(
    list: &FusedMatrix,
    pad: bool,
    checkpoint: &dyn Weights,
    dtype: WeightType,
) -> Result<Linear, CheckpointError> {
    let (key, inputs) = (list.name(), list.inputs);
    // Before memory is allocated for sizes that a configuration only claims.
    for (name, rows) in &list.tensors {
        checkpoint.verify(&format!("{name}.weight"), &[*rows, inputs])?;
    }
    let height = |rows: usize| if pad { rows.next_multiple_of(BLOCK) } else { rows };
    let width = inputs.next_multiple_of(BLOCK);
    let outputs = list.tensors.iter().map(|(_, rows)| height(*rows)).sum();
    let mut biases = Vec::new();
    for (name, rows) in list.tensors.iter().filter(|_| list.bias) {
        biases.extend(checkpoint.f32(&format!("{name}.bias"), &[*rows])?);
        biases.resize(biases.len() + height(*rows) - rows, 0.0);
    }
    let refuse = |problem: String| CheckpointError::tensor(key, &problem);
    let weight = match checkpoint.kept(key, outputs, width) {
        Some(weight) => weight,
        None => {
            let mut matrix = Builder::wide(outputs, width, dtype);
            let mut sources = Vec::with_capacity(list.tensors.len());
            for (name, rows) in &list.tensors {
                let name = format!("{name}.weight");
                let place = matrix.append(*rows).map_err(refuse)?;
                let hash = checkpoint.rows_parallel(&name, [*rows, inputs], &|first, values| {
                    let mut wide = Vec::new();
                    let values = if width == inputs {
                        values
                    } else {
                        wide.resize(values.len() / inputs * width, 0.0);
                        for (row, values) in wide.chunks_exact_mut(width).zip(values.chunks_exact(inputs)) {
                            row[..inputs].copy_from_slice(values);
                        }
                        &wide[..]
                    };
                    // SAFETY: each call has rows of its own.
                    unsafe { place.store(first, values) }
                })?;
                sources.push((name, hash));
                matrix.push(&vec![0f32; (height(*rows) - rows) * width]).map_err(refuse)?;
            }
            let weight = matrix.into_weight();
            checkpoint.keep(key, &weight, [outputs, width], sources);
            weight
        }
    };
    Linear::stack(vec![(weight, outputs)], width, list.bias.then_some(biases)).map_err(refuse)
}

/// The embedding table, in the checkpoint's type.
pub fn table(name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Result<Values, CheckpointError> {
    const KEY: &str = "table";
    checkpoint.verify(name, &shape)?;
    if let Some(values) = checkpoint.kept(KEY, shape[0], shape[1]).and_then(Values::of_weight) {
        return Ok(values);
    }
    let (values, hash) = checkpoint.native(name, shape)?;
    checkpoint.keep(KEY, &Weight::Stored(values.clone()), shape, vec![(name.to_owned(), hash)]);
    Ok(values)
}
