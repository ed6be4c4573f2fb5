//! A matrix as a checkpoint has it: the rows of some tensors, stacked.

use crate::{
    CheckpointError, Importance, WeightType, Weights,
    cpu::{
        kernels::BLOCK,
        linear::{Linear, Weight},
    },
    weights::TakeRows,
};

/// What the outputs of every tensor of a matrix, and its inputs, are multiples of: zeros are added.
#[derive(Clone, Copy)]
pub(crate) struct Padding {
    outputs: usize,
    inputs: usize,
}

impl Padding {
    /// Nothing is added.
    pub const NONE: Self = Self { outputs: 1, inputs: 1 };

    /// Inputs are whole blocks, and so are outputs with `outputs`.
    pub fn blocks(outputs: bool) -> Self {
        Self { outputs: if outputs { BLOCK } else { 1 }, inputs: BLOCK }
    }
}

/// A fused matrix: the rows of some tensors, stacked.
pub struct FusedMatrix {
    /// Names without `.weight`, with their number of rows.
    pub tensors: Vec<(String, usize)>,
    pub inputs: usize,
    /// True if every tensor has a bias.
    pub bias: bool,
    /// How much it matters, on which its type depends.
    pub importance: Importance,
}

impl FusedMatrix {
    pub fn outputs(&self) -> usize {
        self.tensors.iter().map(|t| t.1).sum()
    }

    /// Bytes of its weights if this type is requested.
    pub fn bytes(&self, dtype: WeightType) -> usize {
        Linear::bytes_of(self.outputs(), self.inputs, dtype.kept(self.importance))
    }

    /// The name of its first tensor.
    pub fn name(&self) -> &str {
        self.tensors.first().map_or("", |t| &t.0)
    }

    /// All weights as f32, `outputs × inputs`.
    pub fn weights(&self, checkpoint: &dyn Weights) -> Result<Vec<f32>, CheckpointError> {
        let mut weights = Vec::new();
        for (name, rows) in &self.tensors {
            weights.extend(checkpoint.f32(&format!("{name}.weight"), &[*rows, self.inputs])?);
        }
        Ok(weights)
    }

    /// The biases of all tensors, if they have some.
    pub fn biases(&self, checkpoint: &dyn Weights) -> Result<Option<Vec<f32>>, CheckpointError> {
        self.padded_biases(Padding::NONE, checkpoint)
    }

    /// As [`FusedMatrix::biases`], padded.
    pub(crate) fn padded_biases(
        &self,
        padding: Padding,
        checkpoint: &dyn Weights,
    ) -> Result<Option<Vec<f32>>, CheckpointError> {
        let mut biases = Vec::new();
        for (name, rows) in self.tensors.iter().filter(|_| self.bias) {
            biases.extend(checkpoint.f32(&format!("{name}.bias"), &[*rows])?);
            biases.resize(biases.len().next_multiple_of(padding.outputs), 0.0);
        }
        Ok(self.bias.then_some(biases))
    }

    /// Check that the checkpoint has the tensors, before memory is allocated for sizes that a configuration only claims.
    pub(crate) fn verify(&self, checkpoint: &dyn Weights) -> Result<(), CheckpointError> {
        for (name, rows) in &self.tensors {
            checkpoint.verify(&format!("{name}.weight"), &[*rows, self.inputs])?;
        }
        Ok(())
    }

    /// The parts of the matrix, each with its outputs, if the checkpoint's weights are used as they are; else `None`.
    pub(crate) fn stored(&self, checkpoint: &dyn Weights) -> Result<Vec<(Weight, usize)>, CheckpointError> {
        let mut stored = Vec::new();
        for (name, rows) in &self.tensors {
            match checkpoint.matrix(&format!("{name}.weight"), [*rows, self.inputs])? {
                Some(parts) => stored.extend(parts),
                None => break,
            }
        }
        Ok(stored)
    }

    /// Outputs and inputs of the padded matrix.
    pub(crate) fn padded(&self, padding: Padding) -> [usize; 2] {
        let outputs = self.tensors.iter().map(|(_, rows)| rows.next_multiple_of(padding.outputs)).sum();
        [outputs, self.inputs.next_multiple_of(padding.inputs)]
    }

    /// Read all rows, padded, on all threads: `store` gets the first row's number, and rows. Returns the name of each tensor and
    /// a hash of its bytes.
    pub(crate) fn read(
        &self,
        padding: Padding,
        checkpoint: &dyn Weights,
        store: TakeRows<'_>,
    ) -> Result<Vec<(String, u64)>, CheckpointError> {
        let (inputs, [_, width]) = (self.inputs, self.padded(padding));
        let (mut first, mut sources) = (0, Vec::with_capacity(self.tensors.len()));
        for (name, rows) in &self.tensors {
            let name = format!("{name}.weight");
            let hash = checkpoint.rows_parallel(&name, [*rows, inputs], &|row, values| {
                if width == inputs {
                    return store(first + row, values);
                }
                let mut wide = vec![0f32; values.len() / inputs * width];
                for (wide, values) in wide.chunks_exact_mut(width).zip(values.chunks_exact(inputs)) {
                    wide[..inputs].copy_from_slice(values);
                }
                store(first + row, &wide)
            })?;
            sources.push((name, hash));
            let height = rows.next_multiple_of(padding.outputs);
            store(first + rows, &vec![0f32; (height - rows) * width])
                .map_err(|problem| CheckpointError::tensor(self.name(), &problem))?;
            first += height;
        }
        Ok(sources)
    }
}
