//! The decoder's matrices on the CPU: `y = x Wᵀ + b` for a few rows at a time.

use candle_core::{
    DType, Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor},
};

use super::{
    kernels::{self, BLOCK, Product, Q8},
    team::{Shards, Team},
};
use crate::model::WeightType;

/// Multiplications below which one thread is faster than several.
const ALONE: usize = 200_000;
/// Outputs per unit of work.
const UNIT: usize = 32;

/// A matrix of `outputs × inputs` with an optional bias.
pub struct Linear {
    weight: Weight,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

enum Weight {
    F32(Vec<f32>),
    Q8 {
        quants: Vec<i8>,
        scales: Vec<f32>,
    },
    /// candle's blocks; their products are bit-identical for any number of rows.
    Ggml(QMatMul),
}

/// Quantised input rows, re-used between calls.
#[derive(Default)]
pub struct Quantized {
    quants: Vec<i8>,
    scales: Vec<f32>,
}

impl Linear {
    /// Take `weight` (row-major `outputs × inputs`) in the given type. Widths that do not divide into the type's blocks fall
    /// back: q4_k to q8_0, q8_0 to f32.
    ///
    /// # Errors
    /// If candle cannot quantise the tensor.
    pub fn new(
        weight: Vec<f32>,
        bias: Option<Vec<f32>>,
        outputs: usize,
        inputs: usize,
        dtype: WeightType,
    ) -> candle_core::Result<Self> {
        let weight = match dtype {
            WeightType::Q4K if inputs.is_multiple_of(256) => {
                let tensor = Tensor::from_vec(weight, (outputs, inputs), &Device::Cpu)?;
                Weight::Ggml(QMatMul::from_qtensor(QTensor::quantize(&tensor, GgmlDType::Q4K)?)?)
            }
            WeightType::Q4K | WeightType::Q8_0 | WeightType::Auto if inputs.is_multiple_of(BLOCK) => {
                let mut quants = vec![0i8; weight.len()];
                let mut scales = vec![0f32; weight.len() / BLOCK];
                kernels::quantize_q8(&weight, &mut quants, &mut scales);
                Weight::Q8 { quants, scales }
            }
            _ => Weight::F32(weight),
        };
        Ok(Self { weight, bias, inputs, outputs })
    }

    /// Width of the output rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes that the weights take.
    pub fn bytes(&self) -> usize {
        match &self.weight {
            Weight::F32(w) => w.len() * 4,
            Weight::Q8 { quants, scales } => quants.len() + scales.len() * 4,
            Weight::Ggml(QMatMul::QTensor(q)) => q.storage_size_in_bytes(),
            Weight::Ggml(_) => self.inputs * self.outputs * 4,
        }
    }

    /// `y[r] = W x[r] + b` for `rows` rows; `x` is `rows × inputs`, `y` is `rows × outputs`.
    ///
    /// # Errors
    /// If candle fails on its own block types.
    pub fn forward(
        &self,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
        quantized: &mut Quantized,
    ) -> candle_core::Result<()> {
        debug_assert!(x.len() == rows * self.inputs && y.len() == rows * self.outputs);
        match &self.weight {
            Weight::F32(w) => {
                // SAFETY: each unit has columns of its own.
                self.split(rows, y, &|product, y| unsafe { kernels::product_f32(product, w, x, y) });
            }
            Weight::Q8 { quants, scales } => {
                quantized.quants.resize(rows * self.inputs, 0);
                quantized.scales.resize(rows * self.inputs / BLOCK, 0.0);
                kernels::quantize_q8(x, &mut quantized.quants, &mut quantized.scales);
                let (w, x) =
                    (Q8 { quants, scales }, Q8 { quants: &quantized.quants, scales: &quantized.scales });
                // SAFETY: each unit has columns of its own.
                self.split(rows, y, &|product, y| unsafe { kernels::product_q8(product, w, x, y) });
            }
            Weight::Ggml(matmul) => {
                let x = Tensor::from_slice(x, (rows, self.inputs), &Device::Cpu)?;
                let out = matmul.forward(&x)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
                y.copy_from_slice(&out);
            }
        }
        if let Some(bias) = &self.bias {
            for row in y.chunks_exact_mut(self.outputs) {
                for (y, b) in row.iter_mut().zip(bias) {
                    *y += b;
                }
            }
        }
        Ok(())
    }

    /// Compute the columns of `y` in one go, or, where that pays, in units on all threads.
    fn split(&self, rows: usize, y: &mut [f32], part: &(dyn Fn(&Product, &Shards<'_>) + Sync)) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let shards = Shards::new(y);
        let whole = Product { inputs, outputs, rows, columns: 0..outputs };
        if rows * inputs * outputs < ALONE {
            return part(&whole, &shards);
        }
        Team::global().run(outputs.div_ceil(UNIT), &|unit| {
            let columns = unit * UNIT..((unit + 1) * UNIT).min(outputs);
            part(&Product { columns, ..whole.clone() }, &shards);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(n: usize, k: f32) -> Vec<f32> {
        (0..n).map(|i| (i as f32 * k).sin()).collect()
    }

    #[test]
    fn rows_are_bit_identical_whatever_their_number() {
        for (dtype, inputs) in
            [(WeightType::F32, 96), (WeightType::F32, 100), (WeightType::Q8_0, 96), (WeightType::Q4K, 256)]
        {
            let outputs = 70;
            let linear =
                Linear::new(ramp(outputs * inputs, 0.37), Some(ramp(outputs, 0.1)), outputs, inputs, dtype)
                    .unwrap();
            let rows = 32;
            let x = ramp(rows * inputs, 0.91);
            let mut q = Quantized::default();
            let mut single = vec![0f32; rows * outputs];
            for r in 0..rows {
                let (x, y) = (&x[r * inputs..(r + 1) * inputs], &mut single[r * outputs..(r + 1) * outputs]);
                linear.forward(x, 1, y, &mut q).unwrap();
            }
            for n in 2..=rows {
                let mut y = vec![0f32; n * outputs];
                linear.forward(&x[..n * inputs], n, &mut y, &mut q).unwrap();
                assert!(
                    y.iter().zip(&single).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "{dtype:?} {inputs} wide, {n} rows"
                );
            }
        }
    }
}
