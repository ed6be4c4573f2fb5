//! What only draft heads need of a decoder: a layer that begins after its queries, keys and values, and matrices beside it.

use specreel_tensor::Result;

use super::{Decoder, Held, Workspace};
use crate::{config::TextConfig, decoder::States};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    CheckpointError,
    fused::FusedMatrix,
    ops::{CpuOps, GpuOps, Ops, TensorOps},
};

/// A matrix on the device of the decoder that loaded it.
pub struct Matrix {
    inputs: usize,
    held: HeldMatrix,
}

enum HeldMatrix {
    Cpu(<CpuOps as Ops>::Matrix),
    Tensors(<TensorOps as Ops>::Matrix),
    Gpu(<GpuOps as Ops>::Matrix),
}

impl Matrix {
    /// Bytes of its weights.
    pub fn bytes(&self) -> usize {
        match &self.held {
            HeldMatrix::Cpu(matrix) => CpuOps::matrix_bytes(matrix),
            HeldMatrix::Tensors(matrix) => TensorOps::matrix_bytes(matrix),
            HeldMatrix::Gpu(matrix) => GpuOps::matrix_bytes(matrix),
        }
    }
}

impl Decoder {
    /// As [`Decoder::with_layer`], a layer whose queries, keys and values enter with its rows (EAGLE-3), and a head of its own
    /// with `outputs` rows, if it has one.
    ///
    /// A row that enters holds queries, keys and values, `(heads + 2 · kv_heads) · head_dim`, then the state beside the layer, `hidden`.
    pub fn with_entered_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
        outputs: Option<usize>,
    ) -> std::result::Result<Self, CheckpointError> {
        self.check(config)?;
        Ok(Self(
            same!(&self.0, Held => Held, decoder => decoder.with_entered_layer(checkpoint, config, outputs)?),
        ))
    }

    /// As [`Decoder::with_layer`], without the projection of its rows.
    pub fn with_inner_layer(
        &self,
        checkpoint: &Checkpoint,
        config: &TextConfig,
    ) -> std::result::Result<Self, CheckpointError> {
        self.check(config)?;
        Ok(Self(same!(&self.0, Held => Held, decoder => decoder.with_inner_layer(checkpoint, config)?)))
    }

    /// Bytes of the layers' matrices.
    pub fn layer_bytes(&self) -> usize {
        each!(&self.0, Held, decoder => decoder.layer_bytes())
    }

    /// Load a matrix onto this decoder's device, in its weight type.
    pub fn matrix(
        &self,
        list: &FusedMatrix,
        checkpoint: &Checkpoint,
    ) -> std::result::Result<Matrix, CheckpointError> {
        let held = same!(&self.0, Held => HeldMatrix, decoder => decoder.ops().matrix(list, checkpoint)?);
        Ok(Matrix { inputs: list.inputs, held })
    }

    /// `W x + b` of rows, `rows × outputs`. Fails if the rows have another width, or the matrix is of another device.
    pub fn project(&self, matrix: &Matrix, rows: &States, workspace: &mut Workspace) -> Result<States> {
        let width = rows.shape().1;
        if width != matrix.inputs {
            specreel_tensor::bail!("a matrix for rows of {} values got rows of {width}", matrix.inputs);
        }
        match (&self.0, &matrix.held) {
            (Held::Cpu(decoder), HeldMatrix::Cpu(matrix)) => {
                decoder.project(matrix, rows, &mut workspace.cpu)
            }
            (Held::Tensors(decoder), HeldMatrix::Tensors(matrix)) => {
                decoder.project(matrix, rows, &mut workspace.tensors)
            }
            (Held::Gpu(decoder), HeldMatrix::Gpu(matrix)) => {
                decoder.project(matrix, rows, &mut workspace.gpu)
            }
            _ => specreel_tensor::bail!("the decoder and the matrix are on different devices"),
        }
    }
}
