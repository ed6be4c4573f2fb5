//! The projection that makes a draft head's input rows from embeddings and states, on the target's device.

use candle_core::{DType, Device, Result, Tensor};

use crate::model::{
    ComputeDevice,
    checkpoint::{Checkpoint, CheckpointError},
    decoder::with_slice,
    device::cpu::linear::{Builder, Linear, QuantizedRows},
};

/// FC of the paper's eq. 1, `width × 2 width`.
pub(super) enum Projection {
    /// On the CPU, in this crate's kernels.
    Cpu(Linear),
    /// In candle's tensors, in the device's compute type.
    Tensors {
        /// Transposed.
        weight: Tensor,
        bias: Tensor,
    },
}

impl Projection {
    pub fn load(
        checkpoint: &Checkpoint,
        width: usize,
        place: &ComputeDevice,
    ) -> std::result::Result<Self, CheckpointError> {
        let bias = checkpoint.f32("fc.bias", &[width])?;
        if place.is_batch_invariant() {
            checkpoint.verify("fc.weight", &[width, 2 * width])?;
            let mut builder = Builder::new(width, 2 * width, place.dtype());
            checkpoint.rows("fc.weight", [width, 2 * width], &mut |rows| builder.push(rows))?;
            return Ok(Self::Cpu(builder.finish(Some(bias))));
        }
        let weight = checkpoint.f32("fc.weight", &[width, 2 * width])?;
        let tensors = || {
            let weight = place.tensor(weight, &[width, 2 * width])?.t()?.contiguous()?;
            Ok(Self::Tensors { weight, bias: place.tensor(bias, &[width])? })
        };
        tensors().map_err(|e: candle_core::Error| {
            CheckpointError::tensor("fc.weight", &crate::model::tensor_error_text(&e))
        })
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Cpu(linear) => linear.bytes(),
            Self::Tensors { weight, .. } => weight.elem_count() * weight.dtype().size_in_bytes(),
        }
    }

    /// Input rows, `rows × width`, from embeddings (`rows × width`) and as many states.
    pub fn forward(&self, embeddings: &Tensor, states: &[f32]) -> Result<Tensor> {
        let (rows, width) = embeddings.dims2()?;
        match self {
            Self::Cpu(linear) => {
                let mut input = Vec::with_capacity(2 * rows * width);
                with_slice(embeddings, |embeddings| {
                    for (embedding, state) in embeddings.chunks_exact(width).zip(states.chunks_exact(width)) {
                        input.extend_from_slice(embedding);
                        input.extend_from_slice(state);
                    }
                })?;
                let mut out = vec![0f32; rows * width];
                linear.forward(&input, rows, &mut out, &mut QuantizedRows::default())?;
                Tensor::from_vec(out, (rows, width), &Device::Cpu)
            }
            Self::Tensors { weight, bias } => {
                let states = Tensor::from_slice(states, (rows, width), embeddings.device())?;
                let input = Tensor::cat(&[embeddings, &states], 1)?.to_dtype(weight.dtype())?;
                input.matmul(weight)?.broadcast_add(bias)?.to_dtype(DType::F32)
            }
        }
    }
}
