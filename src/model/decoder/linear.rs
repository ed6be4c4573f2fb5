//! The decoder's matrices on the CPU: `y = x Wᵀ + b` for a few rows at a time.

use candle_core::{
    DType, Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QTensor},
};

use super::{
    kernels::{self, BLOCK, Product, Rows8, Shards8, Weights8},
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
    Q8(Weights8),
    /// candle's blocks; their products are bit-identical for any number of rows.
    Ggml(QMatMul),
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
                Weight::Q8(Weights8::new(&weight, outputs, inputs))
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
            Weight::Q8(w) => w.bytes(),
            Weight::Ggml(QMatMul::QTensor(q)) => q.storage_size_in_bytes(),
            Weight::Ggml(_) => self.inputs * self.outputs * 4,
        }
    }

    /// True if it multiplies 8-bit rows.
    pub fn takes_q8(&self) -> bool {
        matches!(self.weight, Weight::Q8(_))
    }

    /// `y[r] = W x[r] + b` for `rows` rows; `x` is `rows × inputs`, `y` is `rows × outputs`. `quantized` is for use in between.
    ///
    /// # Errors
    /// If candle fails on its own block types.
    pub fn forward(
        &self,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
        quantized: &mut Rows8,
    ) -> candle_core::Result<()> {
        if self.takes_q8() {
            quantized.quantize(x);
        }
        self.forward_prepared(x, quantized, rows, y)
    }

    /// As [`Linear::forward`], of rows that were quantised already where [`Linear::takes_q8`] says that they have to be.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_prepared(
        &self,
        x: &[f32],
        quantized: &Rows8,
        rows: usize,
        y: &mut [f32],
    ) -> candle_core::Result<()> {
        self.columns(x, rows, self.outputs, y, quantized, &|_, _| {})
    }

    /// A matrix whose outputs are gates and then as many values: `out[r] = silu(gate[r]) * value[r]`, computed in `y`. With
    /// `next`, `out` is quantised too.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_gated(
        &self,
        x: &[f32],
        quantized: &Rows8,
        rows: usize,
        y: &mut [f32],
        out: &mut [f32],
        next: Option<Shards8<'_>>,
    ) -> candle_core::Result<()> {
        let width = self.outputs / 2;
        debug_assert!(out.len() == rows * width);
        let out = Shards::new(out);
        self.columns(x, rows, width, y, quantized, &|columns, y| {
            for r in 0..rows {
                let part = |start: usize| (r * self.outputs + start + columns.start, columns.len());
                let ((gate, n), (up, _)) = (part(0), part(width));
                let at = r * width + columns.start;
                // SAFETY: these columns are this unit's. Units are whole blocks where the width is.
                unsafe {
                    let out = out.slice(at, n);
                    kernels::swiglu(y.slice(gate, n), y.slice(up, n), out);
                    if let Some(next) = &next {
                        next.quantize(at, out);
                    }
                }
            }
        })
    }

    /// Compute all columns of `y`, in units of `0..period` that hold every `period`-th column too; `then` follows each unit.
    fn columns(
        &self,
        x: &[f32],
        rows: usize,
        period: usize,
        y: &mut [f32],
        quantized: &Rows8,
        then: &(dyn Fn(std::ops::Range<usize>, &Shards<'_>) + Sync),
    ) -> candle_core::Result<()> {
        debug_assert!(x.len() == rows * self.inputs && y.len() == rows * self.outputs);
        let (inputs, outputs) = (self.inputs, self.outputs);
        let whole = Product { inputs, outputs, rows, columns: 0..outputs };
        let part: &(dyn Fn(&Product, &Shards<'_>) + Sync) = match &self.weight {
            // SAFETY: each unit has columns of its own.
            Weight::F32(w) => &|product, y| unsafe { kernels::product_f32(product, w, x, y) },
            // SAFETY: as above.
            Weight::Q8(w) => &|product, y| unsafe { kernels::product_q8(product, w, quantized, y) },
            Weight::Ggml(matmul) => {
                let x = Tensor::from_slice(x, (rows, inputs), &Device::Cpu)?;
                let out = matmul.forward(&x)?.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
                y.copy_from_slice(&out);
                &|_, _| {}
            }
        };
        let shards = Shards::new(y);
        let unit = |columns: std::ops::Range<usize>| {
            for start in (0..outputs).step_by(period) {
                let columns = start + columns.start..start + columns.end;
                part(&Product { columns: columns.clone(), ..whole.clone() }, &shards);
                if let Some(bias) = &self.bias {
                    for r in 0..rows {
                        // SAFETY: these columns are this unit's.
                        let y = unsafe { shards.slice(r * outputs + columns.start, columns.len()) };
                        y.iter_mut().zip(&bias[columns.clone()]).for_each(|(y, b)| *y += b);
                    }
                }
            }
            then(columns, &shards);
        };
        if rows * inputs * outputs < ALONE {
            unit(0..period);
        } else {
            Team::global().run(period.div_ceil(UNIT), &|i| unit(i * UNIT..((i + 1) * UNIT).min(period)));
        }
        Ok(())
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
            let mut q = Rows8::default();
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
