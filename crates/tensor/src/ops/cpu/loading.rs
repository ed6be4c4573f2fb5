//! Matrices and the embedding table from a checkpoint or the cache of converted weights.

use specreel_os::memory;

use crate::{
    CheckpointError, WeightType, Weights,
    cpu::{
        builder::Builder,
        linear::{Linear, Weight},
        table::Values,
    },
    fused::{FusedMatrix, Padding},
};

/// Load the matrix row by row into a weight type; a matrix of a GGUF file is mapped, and keeps the file's types.
pub fn matrix(
    list: &FusedMatrix,
    checkpoint: &dyn Weights,
    dtype: WeightType,
) -> Result<Linear, CheckpointError> {
    list.verify(checkpoint)?;
    let stored = list.stored(checkpoint)?;
    if stored.is_empty() {
        return converted(list, Padding::NONE, checkpoint, |outputs, inputs| {
            Builder::new(outputs, inputs, dtype.kept(list.importance))
        });
    }
    let bias = list.biases(checkpoint)?;
    Linear::stack(stored, list.inputs, bias).map_err(|e| CheckpointError::tensor(list.name(), &e))
}

/// Memory that stays free when mapped matrices are copied.
const RESERVE: u64 = 1 << 30;

/// A matrix with blocks in panels, which are multiplied faster; a mapped one stays as it is where memory is short.
pub fn in_panels(matrix: Linear) -> Linear {
    let fits = |free| free > matrix.mapped_bytes() as u64 + RESERVE;
    if matrix.mapped_bytes() == 0 || memory::available().is_none_or(fits) {
        return matrix.in_panels();
    }
    matrix
}

/// As [`matrix`], for products of many rows, and padded with zeros: the matrix takes rows of whole blocks, and with `pad` every
/// tensor gives whole blocks of outputs. A matrix of a GGUF file is converted.
pub(crate) fn padded_matrix(
    list: &FusedMatrix,
    pad: bool,
    checkpoint: &dyn Weights,
    dtype: WeightType,
) -> Result<Linear, CheckpointError> {
    list.verify(checkpoint)?;
    converted(list, Padding::blocks(pad), checkpoint, |outputs, inputs| Builder::wide(outputs, inputs, dtype))
}

fn converted(
    list: &FusedMatrix,
    padding: Padding,
    checkpoint: &dyn Weights,
    builder: impl FnOnce(usize, usize) -> Builder,
) -> Result<Linear, CheckpointError> {
    let (key, [outputs, inputs]) = (list.name(), list.padded(padding));
    let refuse = |problem: String| CheckpointError::tensor(key, &problem);
    let bias = list.padded_biases(padding, checkpoint)?;
    let weight = match checkpoint.kept(key, [outputs, inputs]).and_then(|kept| Weight::mapped(&kept)) {
        Some(weight) => weight,
        None => {
            let mut builder = builder(outputs, inputs);
            let place = builder.append(outputs).map_err(refuse)?;
            // SAFETY: each call has rows of its own.
            let store = |first: usize, rows: &[f32]| unsafe { place.store(first, rows) };
            let sources = list.read(padding, checkpoint, &store)?;
            let weight = builder.into_weight();
            checkpoint.keep(key, Box::new(weight.clone()), [outputs, inputs], sources);
            weight
        }
    };
    Linear::stack(vec![(weight, outputs)], inputs, bias).map_err(refuse)
}

/// The embedding table, in the checkpoint's type.
pub fn table(name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Result<Values, CheckpointError> {
    const KEY: &str = "table";
    checkpoint.verify(name, &shape)?;
    let kept = checkpoint.kept(KEY, shape).and_then(|kept| Weight::mapped(&kept));
    if let Some(values) = kept.and_then(Weight::stored) {
        return Ok(values);
    }
    let (values, hash) = checkpoint.native(name, shape)?;
    let weight = Weight::Stored(values.clone());
    checkpoint.keep(KEY, Box::new(weight), shape, vec![(name.to_owned(), hash)]);
    Ok(values)
}
