//! The decoder's matrices on the CPU: `y = x Wᵀ + b` for a few rows.

use candle_core::Result;

use super::{
    kernels::{self, BlockRows, Blocks, DisjointBlocksMut, HalfKind, Product, Rows8, Weights8},
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::model::WeightType;

/// Multiply-adds below which one thread is faster than several.
const SINGLE_THREADED: usize = 200_000;
/// Outputs of one unit of work.
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
    Half(HalfKind, Vec<u16>),
    Q8(Weights8),
    Blocks(Blocks),
}

/// A matrix that is read row by row; each row is converted at once, so that the whole matrix never exists in another type.
pub struct Builder {
    linear: Linear,
    /// Rows pushed so far.
    rows: usize,
}

impl Builder {
    /// An empty matrix of `outputs × inputs` weights of a type, or of its fallback (see [`WeightType::fitting`]).
    pub fn new(outputs: usize, inputs: usize, dtype: WeightType) -> Self {
        let values = outputs * inputs;
        let dtype = dtype.fitting(inputs);
        let weight = match (dtype, Blocks::empty(dtype)) {
            (_, Some(mut blocks)) => {
                blocks.reserve(values);
                Weight::Blocks(blocks)
            }
            (WeightType::F16, _) => Weight::Half(HalfKind::F16, Vec::with_capacity(values)),
            (WeightType::Bf16, _) => Weight::Half(HalfKind::Bf16, Vec::with_capacity(values)),
            (WeightType::Q8_0, _) => Weight::Q8(Weights8::empty(outputs, inputs)),
            _ => Weight::F32(Vec::with_capacity(values)),
        };
        Self { linear: Linear { weight, bias: None, inputs, outputs }, rows: 0 }
    }

    /// Convert and append rows, row-major.
    ///
    /// # Errors
    /// A message, if a value is too large for the type, the rows are not whole, or there are too many.
    pub fn push(&mut self, rows: &[f32]) -> std::result::Result<(), String> {
        let (inputs, outputs) = (self.linear.inputs, self.linear.outputs);
        let count = rows.len() / inputs.max(1);
        if !rows.len().is_multiple_of(inputs.max(1)) || self.rows + count > outputs {
            return Err(format!("{} values are not whole rows of a {outputs} × {inputs} matrix", rows.len()));
        }
        match &mut self.linear.weight {
            Weight::F32(weight) => weight.extend_from_slice(rows),
            Weight::Half(kind, weight) => {
                let at = weight.len();
                weight.extend(rows.iter().map(|&value| kind.narrow(value)));
                if let Some(value) = weight[at..].iter().position(|&bits| !kind.widen(bits).is_finite()) {
                    return Err(format!("{} is too large for a 16-bit float", rows[value]));
                }
            }
            Weight::Q8(weight) => weight.store(self.rows, rows, inputs),
            Weight::Blocks(blocks) => blocks.push(rows),
        }
        self.rows += count;
        Ok(())
    }

    /// The matrix, with a bias.
    ///
    /// # Panics
    /// If rows are missing, or the bias has another length.
    pub fn finish(self, bias: Option<Vec<f32>>) -> Linear {
        let outputs = self.linear.outputs;
        assert!(self.rows == outputs, "{} of {outputs} rows were read", self.rows);
        assert!(bias.as_ref().is_none_or(|bias| bias.len() == outputs), "the bias has another length");
        Linear { bias, ..self.linear }
    }
}

impl Linear {
    /// Bytes of a matrix of `outputs × inputs`.
    pub fn bytes_of(outputs: usize, inputs: usize, dtype: WeightType) -> usize {
        let dtype = dtype.fitting(inputs);
        match (dtype, Blocks::empty(dtype)) {
            (_, Some(blocks)) => {
                let (bytes, values) = blocks.shape();
                outputs * inputs / values * bytes
            }
            (WeightType::F16 | WeightType::Bf16, _) => outputs * inputs * 2,
            (WeightType::Q8_0, _) => Weights8::bytes_of(outputs, inputs),
            _ => outputs * inputs * 4,
        }
    }

    /// Width of the output rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        match &self.weight {
            Weight::F32(w) => w.len() * 4,
            Weight::Half(_, w) => w.len() * 2,
            Weight::Q8(w) => w.bytes(),
            Weight::Blocks(blocks) => blocks.bytes(),
        }
    }

    /// True if its input rows must be quantised to 8 bits.
    pub fn takes_q8(&self) -> bool {
        matches!(self.weight, Weight::Q8(_))
    }

    /// `y[r] = W x[r] + b` for `rows` rows; `x` is `rows × inputs`, `y` is `rows × outputs`. `quantized` is a buffer.
    ///
    /// # Errors
    /// If `x` or `y` has another length.
    pub fn forward(&self, x: &[f32], rows: usize, y: &mut [f32], quantized: &mut Rows8) -> Result<()> {
        self.check(x, rows, y)?;
        if self.takes_q8() {
            quantized.quantize(x);
        }
        self.forward_prepared(x, quantized, rows, y)
    }

    /// As [`Linear::forward`], for rows that are quantised already if [`Linear::takes_q8`].
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_prepared(&self, x: &[f32], quantized: &Rows8, rows: usize, y: &mut [f32]) -> Result<()> {
        self.columns(x, rows, self.outputs, y, quantized, &|_, _| {})
    }

    /// For a matrix whose outputs are gates and as many values: `out[r] = silu(gate[r]) * value[r]`; `y` is a buffer as in
    /// [`Linear::forward`]. With `next`, `out` is quantised too.
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
        next: Option<DisjointBlocksMut<'_>>,
    ) -> Result<()> {
        let width = self.outputs / 2;
        if out.len() != rows * width {
            candle_core::bail!("{} gated values for {rows} rows of {width}", out.len());
        }
        let out = DisjointSliceMut::new(out);
        self.columns(x, rows, width, y, quantized, &|columns, y| {
            for r in 0..rows {
                let part = |start: usize| (r * self.outputs + start + columns.start, columns.len());
                let ((gate, n), (up, _)) = (part(0), part(width));
                let at = r * width + columns.start;
                // SAFETY: these columns are this unit's. Units are whole blocks if the width is.
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

    fn check(&self, x: &[f32], rows: usize, y: &[f32]) -> Result<()> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        if x.len() != rows * inputs || y.len() != rows * outputs {
            candle_core::bail!(
                "{rows} rows of a {outputs} × {inputs} matrix got {} inputs and {} outputs",
                x.len(),
                y.len()
            );
        }
        Ok(())
    }

    /// Compute all columns of `y`, in units of `0..period` that include every `period`-th column; `then` follows each unit.
    fn columns(
        &self,
        x: &[f32],
        rows: usize,
        period: usize,
        y: &mut [f32],
        quantized: &Rows8,
        then: &(dyn Fn(std::ops::Range<usize>, &DisjointSliceMut<'_>) + Sync),
    ) -> Result<()> {
        self.check(x, rows, y)?;
        let (inputs, outputs) = (self.inputs, self.outputs);
        let whole = Product { inputs, outputs, rows, columns: 0..outputs };
        let block_rows = match &self.weight {
            Weight::Blocks(blocks) => Some(BlockRows::of(blocks, x)),
            _ => None,
        };
        let part: &(dyn Fn(&Product, &DisjointSliceMut<'_>) + Sync) = match (&self.weight, &block_rows) {
            // SAFETY: each unit has columns of its own.
            (Weight::F32(w), _) => &|product, y| unsafe { kernels::product_f32(product, w, x, y) },
            (Weight::Half(kind, w), _) => {
                // SAFETY: each unit has columns of its own.
                &|product, y| unsafe { kernels::product_half(product, *kind, w, x, y) }
            }
            // SAFETY: each unit has columns of its own.
            (Weight::Q8(w), _) => &|product, y| unsafe { kernels::product_q8(product, w, quantized, y) },
            (Weight::Blocks(w), Some(x)) => {
                // SAFETY: each unit has columns of its own.
                &|product, y| unsafe { kernels::product_blocks(product, w, x, y) }
            }
            (Weight::Blocks(_), None) => unreachable!("the rows were quantised above"),
        };
        let y = DisjointSliceMut::new(y);
        let unit = |columns: std::ops::Range<usize>| {
            for start in (0..outputs).step_by(period) {
                let columns = start + columns.start..start + columns.end;
                part(&Product { columns: columns.clone(), ..whole.clone() }, &y);
                if let Some(bias) = &self.bias {
                    for r in 0..rows {
                        // SAFETY: these columns are this unit's.
                        let y = unsafe { y.slice(r * outputs + columns.start, columns.len()) };
                        y.iter_mut().zip(&bias[columns.clone()]).for_each(|(y, b)| *y += b);
                    }
                }
            }
            then(columns, &y);
        };
        if rows * inputs * outputs < SINGLE_THREADED {
            unit(0..period);
        } else {
            ThreadPool::global()
                .run(period.div_ceil(UNIT), &|i| unit(i * UNIT..((i + 1) * UNIT).min(period)));
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

    fn matrix(dtype: WeightType, outputs: usize, inputs: usize) -> Linear {
        let mut builder = Builder::new(outputs, inputs, dtype);
        // In uneven chunks, as files are read.
        let weight = ramp(outputs * inputs, 0.37);
        for rows in weight.chunks(3 * inputs) {
            builder.push(rows).unwrap();
        }
        builder.finish(Some(ramp(outputs, 0.1)))
    }

    #[test]
    fn rows_are_bit_identical_for_any_number_of_rows() {
        use WeightType as W;
        for (dtype, inputs) in [
            (W::F32, 96),
            (W::F32, 100),
            (W::F16, 100),
            (W::Bf16, 96),
            (W::Q8_0, 96),
            (W::Q4_0, 96),
            (W::Q4K, 256),
            (W::Q5K, 256),
            (W::Q6K, 512),
        ] {
            let outputs = 70;
            let linear = matrix(dtype, outputs, inputs);
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

    #[test]
    fn bytes_of_predicts_the_size() {
        for dtype in WeightType::ALL {
            for inputs in [100, 96, 512] {
                let linear = matrix(dtype, 21, inputs);
                assert_eq!(linear.bytes(), Linear::bytes_of(21, inputs, dtype), "{dtype:?} {inputs}");
            }
        }
    }

    #[test]
    fn values_too_large_for_the_type_are_refused() {
        assert!(Builder::new(1, 2, WeightType::F16).push(&[1.0, 7e4]).unwrap_err().contains("70000"));
        assert!(Builder::new(1, 2, WeightType::Bf16).push(&[1.0, 7e4]).is_ok());
    }

    #[test]
    fn rows_of_another_width_are_refused() {
        for (dtype, inputs) in [(WeightType::F32, 64), (WeightType::Q8_0, 64), (WeightType::Q4K, 256)] {
            let (linear, mut quantized) = (matrix(dtype, 6, inputs), Rows8::default());
            let mut forward = |x: usize, rows: usize, y: usize| {
                linear.forward(&vec![1.0; x], rows, &mut vec![0.0; y], &mut quantized)
            };
            assert!(forward(2 * inputs, 2, 12).is_ok());
            for (x, rows, y) in
                [(2 * inputs + 1, 2, 12), (inputs, 2, 12), (2 * inputs, 2, 11), (2 * inputs, 1, 12)]
            {
                assert!(forward(x, rows, y).is_err(), "{dtype:?}: {x} inputs, {rows} rows, {y} outputs");
            }
            let (x, mut rows8) = (vec![1.0; inputs], Rows8::default());
            if linear.takes_q8() {
                rows8.quantize(&x);
            }
            let gated = linear.forward_gated(&x, &rows8, 1, &mut [0.0; 6], &mut [0.0; 2], None);
            assert!(gated.is_err(), "{dtype:?}");
        }
    }

    #[test]
    fn incomplete_matrices_are_refused() {
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            let mut builder = Builder::new(2, 32, dtype);
            assert!(builder.push(&[1.0; 33]).is_err() && builder.push(&[1.0; 96]).is_err());
            builder.push(&[1.0; 32]).unwrap();
            let finish = || builder.finish(None);
            let finished = std::panic::catch_unwind(std::panic::AssertUnwindSafe(finish));
            assert!(finished.is_err(), "{dtype:?}: a row is missing");
        }
    }
}
