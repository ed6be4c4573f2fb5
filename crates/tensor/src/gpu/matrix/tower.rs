//! Matrices of vision towers on a GPU.

use crate::Weights;
use crate::gpu::{
    Gpu, GpuError,
    matrix::{Matrix, format::BLOCK, load::Loader, pack::Rows, read::LARGEST},
};
use crate::{CheckpointError, WeightType, fused::FusedMatrix};

impl Matrix {
    /// Load a matrix into a weight type, padded with zeros: it takes rows of whole blocks, and with `pad` every tensor gives whole
    /// blocks of outputs. A matrix of a GGUF file is converted.
    ///
    /// # Errors
    /// As [`Matrix::load`].
    pub fn load_padded(
        gpu: &Gpu,
        list: &FusedMatrix,
        pad: bool,
        checkpoint: &dyn Weights,
        dtype: WeightType,
    ) -> Result<Self, CheckpointError> {
        let (key, inputs) = (list.name(), list.inputs);
        let refused = |error: GpuError| CheckpointError::tensor(key, &error.to_string());
        // Before memory is allocated for sizes that a configuration only claims.
        for (name, rows) in &list.tensors {
            checkpoint.verify(&format!("{name}.weight"), &[*rows, inputs])?;
        }
        let limits = gpu.limits();
        let limit = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size).min(LARGEST);
        let height = |rows: usize| if pad { rows.next_multiple_of(BLOCK) } else { rows };
        let width = inputs.next_multiple_of(BLOCK);
        let outputs = list.tensors.iter().map(|(_, rows)| height(*rows)).sum();
        let loader = Loader::new(gpu, &[(dtype.fitting(width), outputs)], width, limit).map_err(refused)?;
        let (mut first, mut biases) = (0, Vec::new());
        for (name, rows) in &list.tensors {
            checkpoint.rows_parallel(&format!("{name}.weight"), [*rows, inputs], &|row, values| {
                let mut wide = Vec::new();
                let values = if width == inputs {
                    values
                } else {
                    for values in values.chunks_exact(inputs) {
                        wide.extend_from_slice(values);
                        wide.resize(wide.len() + width - inputs, 0.0);
                    }
                    &wide[..]
                };
                loader.store(first + row, Rows::F32(values)).map_err(|problem| problem.to_string())
            })?;
            if list.bias {
                biases.extend(checkpoint.f32(&format!("{name}.bias"), &[*rows])?);
                biases.resize(biases.len() + height(*rows) - rows, 0.0);
            }
            let zeros = vec![0f32; (height(*rows) - rows) * width];
            let stored = loader.store(first + rows, Rows::F32(&zeros));
            stored.map_err(|problem| CheckpointError::tensor(key, &problem.to_string()))?;
            first += height(*rows);
        }
        loader.finish(list.bias.then_some(&biases[..])).map_err(refused)
    }
}
