//! The decoder's matrices on a device: `y = x Wᵀ + b`.

use candle_core::{
    Device, Module, Result, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor},
};

use crate::model::{Place, WeightType};

/// A matrix of `outputs × inputs` with an optional bias.
pub(super) struct Matrix {
    weight: Weight,
    bias: Option<Tensor>,
    bytes: usize,
}

enum Weight {
    /// `outputs × inputs`, in the type that is computed in.
    Float(Tensor),
    /// candle's blocks.
    Blocks(QMatMul),
}

impl Matrix {
    /// Take `weight` (row-major `outputs × inputs`) to the place in its type. Widths that do not divide into the type's blocks
    /// fall back: q4_k to q8_0, q8_0 to floats.
    ///
    /// # Errors
    /// If the device's memory does not suffice.
    pub fn new(
        weight: Vec<f32>,
        bias: Option<Vec<f32>>,
        outputs: usize,
        inputs: usize,
        place: &Place,
    ) -> Result<Self> {
        let bias = bias.map(|bias| place.tensor(bias, &[outputs])).transpose()?;
        let blocks = match place.dtype() {
            WeightType::Q4K if inputs.is_multiple_of(GgmlDType::Q4K.block_size()) => Some(GgmlDType::Q4K),
            WeightType::Q4K | WeightType::Q8_0 if inputs.is_multiple_of(GgmlDType::Q8_0.block_size()) => {
                Some(GgmlDType::Q8_0)
            }
            _ => None,
        };
        let Some(blocks) = blocks else {
            return Ok(Self { bias, ..Self::of(place.tensor(weight, &[outputs, inputs])?) });
        };
        let weight = Tensor::from_vec(weight, (outputs, inputs), &Device::Cpu)?;
        let weight = QTensor::quantize_onto(&weight, blocks, place.device())?;
        let bytes = weight.storage_size_in_bytes();
        Ok(Self { weight: Weight::Blocks(QMatMul::from_qtensor(weight)?), bias, bytes })
    }

    /// A matrix that is there already, without bias.
    pub fn of(weight: Tensor) -> Self {
        let bytes = weight.elem_count() * weight.dtype().size_in_bytes();
        Self { weight: Weight::Float(weight), bias: None, bytes }
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows `rows × inputs` to `rows × outputs`.
    ///
    /// # Errors
    /// If the rows have another width.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = match &self.weight {
            Weight::Float(weight) => x.matmul(&weight.t()?)?,
            Weight::Blocks(matmul) => matmul.forward(x)?,
        };
        match &self.bias {
            Some(bias) => y.broadcast_add(bias),
            None => Ok(y),
        }
    }
}
