//! A matrix as a checkpoint has it: the rows of some tensors, stacked.

use super::cpu::linear::Linear;
use crate::Weights;
use crate::{CheckpointError, WeightType};

/// A fused matrix: the rows of some tensors, stacked.
pub struct FusedMatrix {
    /// Names without `.weight`, with their number of rows.
    pub tensors: Vec<(String, usize)>,
    /// Width of its input rows.
    pub inputs: usize,
    /// True if every tensor has a bias.
    pub bias: bool,
}

impl FusedMatrix {
    /// Width of its output rows.
    pub fn outputs(&self) -> usize {
        self.tensors.iter().map(|t| t.1).sum()
    }

    /// Bytes of its weights in a type.
    pub fn bytes(&self, dtype: WeightType) -> usize {
        Linear::bytes_of(self.outputs(), self.inputs, dtype)
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
        let mut biases = Vec::new();
        for (name, rows) in self.tensors.iter().filter(|_| self.bias) {
            biases.extend(checkpoint.f32(&format!("{name}.bias"), &[*rows])?);
        }
        Ok(self.bias.then_some(biases))
    }
}
