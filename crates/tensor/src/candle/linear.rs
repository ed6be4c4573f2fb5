//! The decoder's matrices in tensors: `y = x Wᵀ + b`.

use candle_core::{
    Module, Tensor,
    quantized::{GgmlDType, QMatMul, QStorage, QTensor},
};

use crate::{BlockKind, ComputeDevice, Error, Result, TensorType, WeightType, cpu::kernels::quantize_blocks};

/// Rows for which a bias is stored repeated: a broadcast would send its strides to the device in each layer of each pass.
const REPEATED: usize = 32;

/// A matrix of `outputs × inputs` with an optional bias.
pub struct Matrix {
    weight: Weight,
    /// `REPEATED × outputs`, all rows equal.
    bias: Option<Tensor>,
    bytes: usize,
}

enum Weight {
    /// `outputs × inputs`, in the compute type.
    Float(Tensor),
    Blocks(QMatMul),
}

impl Weight {
    /// Convert `weight` (row-major) to a weight type, or its fallback, and move it to the device; also returns its size in bytes.
    /// What candle has no blocks for is in the compute type.
    fn new(
        weight: Vec<f32>,
        [outputs, inputs]: [usize; 2],
        dtype: WeightType,
        device: &ComputeDevice,
    ) -> Result<(Self, usize)> {
        let blocks = match dtype.fitting(inputs) {
            TensorType::Blocks(kind) if device.quantizes() => {
                block_type(kind).filter(|theirs| can_multiply(*theirs, inputs)).map(|theirs| (kind, theirs))
            }
            _ => None,
        };
        let Some((kind, theirs)) = blocks else {
            return Ok(Self::floats(device.tensor(weight, &[outputs, inputs])?));
        };
        let mut bytes = vec![0; weight.len() / kind.values() * kind.bytes()];
        quantize_blocks(kind, &weight, &mut bytes).map_err(Error::Message)?;
        let storage = QStorage::from_data(bytes.into(), device.device(), theirs)?;
        let weight = QTensor::new(storage, (outputs, inputs))?;
        let bytes = weight.storage_size_in_bytes();
        Ok((Self::Blocks(QMatMul::from_qtensor(weight)?), bytes))
    }

    fn floats(weight: Tensor) -> (Self, usize) {
        let bytes = weight.elem_count() * weight.dtype().size_in_bytes();
        (Self::Float(weight), bytes)
    }
}

/// candle's name of a type, if it has it.
pub(crate) fn block_type(kind: BlockKind) -> Option<GgmlDType> {
    match kind {
        BlockKind::Q8_0 => Some(GgmlDType::Q8_0),
        BlockKind::Q6K => Some(GgmlDType::Q6K),
        BlockKind::Q5_1 => Some(GgmlDType::Q5_1),
        BlockKind::Q5K => Some(GgmlDType::Q5K),
        BlockKind::Q5_0 => Some(GgmlDType::Q5_0),
        BlockKind::Q4_1 => Some(GgmlDType::Q4_1),
        BlockKind::Q4K => Some(GgmlDType::Q4K),
        BlockKind::Q4_0 => Some(GgmlDType::Q4_0),
        BlockKind::Q3K => Some(GgmlDType::Q3K),
        _ => None,
    }
}

/// Whether candle multiplies rows of `inputs` values: some of its products take blocks of 32 in pairs.
fn can_multiply(theirs: GgmlDType, inputs: usize) -> bool {
    !matches!(theirs, GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1) || inputs.is_multiple_of(64)
}

/// A bias in [`REPEATED`] rows on the device.
fn repeated(bias: Option<Vec<f32>>, device: &ComputeDevice) -> Result<Option<Tensor>> {
    let Some(bias) = bias else { return Ok(None) };
    let outputs = bias.len();
    let repeated = device.tensor(bias, &[1, outputs])?.broadcast_as((REPEATED, outputs))?.contiguous()?;
    Ok(Some(repeated))
}

impl Matrix {
    /// Move `weight` (row-major `outputs × inputs`) in a weight type and a bias to the device.
    pub fn new(
        weight: Vec<f32>,
        bias: Option<Vec<f32>>,
        shape: [usize; 2],
        dtype: WeightType,
        device: &ComputeDevice,
    ) -> Result<Self> {
        let (weight, bytes) = Weight::new(weight, shape, dtype, device)?;
        Ok(Self { weight, bias: repeated(bias, device)?, bytes })
    }

    /// As [`Matrix::new`], in the compute type.
    pub(crate) fn floats(
        weight: Vec<f32>,
        bias: Option<Vec<f32>>,
        [outputs, inputs]: [usize; 2],
        device: &ComputeDevice,
    ) -> Result<Self> {
        let (weight, bytes) = Weight::floats(device.tensor(weight, &[outputs, inputs])?);
        Ok(Self { weight, bias: repeated(bias, device)?, bytes })
    }

    /// A matrix that is on the device already, without bias.
    pub fn of(weight: Tensor) -> Self {
        let (weight, bytes) = Weight::floats(weight);
        Self { weight, bias: None, bytes }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Rows `rows × inputs` to `rows × outputs`. Fails if the rows have another width.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let y = match &self.weight {
            Weight::Float(weight) => x.matmul(&weight.t()?)?,
            Weight::Blocks(matmul) => matmul.forward(x)?,
        };
        Ok(match (&self.bias, y.dim(0)?) {
            (Some(bias), rows) if rows <= REPEATED => (y + bias.narrow(0, 0, rows)?)?,
            (Some(bias), _) => y.broadcast_add(&bias.narrow(0, 0, 1)?)?,
            (None, _) => y,
        })
    }

    /// For a matrix of gates `G` and then as many values `U`: `silu(G x) ∘ (U x)`, from `rows × inputs` to `rows × outputs / 2`.
    pub(crate) fn forward_gated(&self, x: &Tensor) -> Result<Tensor> {
        Ok(match &self.weight {
            // One batched product of two, so that gates and values are contiguous.
            Weight::Float(weight) if self.bias.is_none() => {
                let ((rows, inputs), outputs) = (x.dims2()?, weight.dim(0)?);
                let weight = weight.reshape((2, outputs / 2, inputs))?;
                let both =
                    x.unsqueeze(0)?.broadcast_as((2, rows, inputs))?.matmul(&weight.transpose(1, 2)?)?;
                (both.get(0)?.silu()? * both.get(1)?)?
            }
            _ => candle_nn::ops::swiglu(&self.forward(x)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn ramp(n: usize, k: f32) -> Vec<f32> {
        (0..n).map(|i| (i as f32 * k).sin()).collect()
    }

    #[test]
    fn products_match_a_loop_for_any_number_of_rows() {
        let (inputs, outputs) = (8, 6);
        let (w, b) = (ramp(outputs * inputs, 0.37), ramp(outputs, 0.9));
        let device = ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32);
        let matrix =
            Matrix::new(w.clone(), Some(b.clone()), [outputs, inputs], WeightType::F32, &device).unwrap();
        let gated = Matrix::new(w.clone(), None, [outputs, inputs], WeightType::F32, &device).unwrap();
        let with_bias = Matrix::floats(w.clone(), Some(b.clone()), [outputs, inputs], &device).unwrap();
        assert_eq!((matrix.bytes(), gated.bytes()), (outputs * inputs * 4, outputs * inputs * 4));
        for rows in [1, 2, REPEATED, REPEATED + 1] {
            let x = ramp(rows * inputs, 0.21);
            let dot = |r: usize, o: usize| -> f32 {
                (0..inputs).map(|i| x[r * inputs + i] * w[o * inputs + i]).sum()
            };
            let tensor = Tensor::from_slice(&x, (rows, inputs), &Device::Cpu).unwrap();
            let y = matrix.forward(&tensor).unwrap().to_vec2::<f32>().unwrap();
            let g = gated.forward_gated(&tensor).unwrap().to_vec2::<f32>().unwrap();
            let h = with_bias.forward_gated(&tensor).unwrap().to_vec2::<f32>().unwrap();
            for r in 0..rows {
                for (o, y) in y[r].iter().enumerate() {
                    assert!((y - dot(r, o) - b[o]).abs() < 1e-5, "{rows} rows: {r} {o}");
                }
                let silu = |gate: f32| gate / (1.0 + (-gate).exp());
                for (o, (g, h)) in g[r].iter().zip(&h[r]).enumerate() {
                    let up = o + outputs / 2;
                    let want = silu(dot(r, o)) * dot(r, up);
                    assert!((g - want).abs() < 1e-5, "{rows} rows: {r} {o}");
                    let want = silu(dot(r, o) + b[o]) * (dot(r, up) + b[up]);
                    assert!((h - want).abs() < 1e-5, "{rows} rows, with a bias: {r} {o}");
                }
            }
        }
    }

    #[test]
    fn widths_that_do_not_divide_fall_back() {
        for (dtype, inputs, bytes) in [
            (WeightType::Q4K, 256, 144),
            (WeightType::Q4K, 64, 44),
            (WeightType::Q8_0, 64, 68),
            (WeightType::Q8_0, 40, 160),
        ] {
            let device = ComputeDevice::tensors(Device::Cpu, "tensors", dtype);
            let matrix = Matrix::new(ramp(inputs, 0.3), None, [1, inputs], dtype, &device).unwrap();
            assert_eq!(matrix.bytes(), bytes, "{dtype:?} {inputs} wide");
        }
    }
}
