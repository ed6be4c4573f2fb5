//! The decoder's matrices on the CPU: `y = x Wᵀ + b` for a few rows.

use std::ops::{BitOr, Range};

use candle_core::Result;

use super::{
    kernels::{
        self, BlockKind, BlockRows, Blocks, DisjointBlocksMut, DisjointRowsK, HalfKind, Product, Rows8,
        RowsK, WIDE, Weights8,
    },
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::model::{WeightType, store::Store};

/// Multiply-adds below which one thread is faster than several.
const SINGLE_THREADED: usize = 200_000;
/// Outputs of one unit of work: a multiple of this, and at most [`LARGEST_UNIT`].
const UNIT: usize = 32;
/// Maximum outputs of one unit of work.
const LARGEST_UNIT: usize = 512;
/// Units for each thread.
const UNITS: usize = 8;

/// A matrix of `outputs × inputs` with an optional bias: one part, or several below each other that a file has apart.
pub struct Linear {
    parts: Vec<Part>,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

/// Some outputs of a matrix.
struct Part {
    weight: Weight,
    outputs: Range<usize>,
}

/// Weights in one type.
pub enum Weight {
    /// 32-bit floats.
    F32(Store<f32>),
    /// 16-bit floats, multiplied with f32.
    Half(HalfKind, Store<u16>),
    /// 8-bit blocks, arranged for this processor.
    Q8(Weights8),
    /// Blocks as a GGUF file has them.
    Blocks(Blocks),
}

impl Weight {
    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Weight::F32(w) => w.len() * 4,
            Weight::Half(_, w) => w.len() * 2,
            Weight::Q8(w) => w.bytes(),
            Weight::Blocks(blocks) => blocks.bytes(),
        }
    }

    fn forms(&self) -> Forms {
        match self {
            Weight::F32(_) | Weight::Half(..) => Forms::default(),
            Weight::Q8(_) => Forms { q8: true, k: false },
            Weight::Blocks(blocks) => {
                let k = blocks.kind().takes_k();
                Forms { q8: !k, k }
            }
        }
    }

    /// True if there are `outputs × inputs` weights.
    fn has(&self, outputs: usize, inputs: usize) -> bool {
        let values = outputs.checked_mul(inputs);
        match self {
            Weight::F32(w) => Some(w.len()) == values,
            Weight::Half(_, w) => Some(w.len()) == values,
            Weight::Q8(w) => w.is(outputs, inputs),
            Weight::Blocks(blocks) => {
                Some(blocks.values()) == values && inputs.is_multiple_of(blocks.kind().values())
            }
        }
    }
}

/// The quantised forms of its input rows that a matrix needs, beside f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// 8-bit blocks of 32.
    pub q8: bool,
    /// 8-bit blocks of 256.
    pub k: bool,
}

impl Forms {
    /// True if some form is needed.
    pub fn any(self) -> bool {
        self.q8 || self.k
    }

    /// Values of which every part of a row that is quantised on its own must be a multiple.
    pub fn block(self) -> usize {
        match self {
            Forms { k: true, .. } => WIDE,
            Forms { q8: true, .. } => kernels::BLOCK,
            _ => 1,
        }
    }
}

impl BitOr for Forms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { q8: self.q8 || other.q8, k: self.k || other.k }
    }
}

/// Input rows in quantised forms; the buffers are kept between calls.
#[derive(Default)]
pub struct QuantizedRows {
    q8: Rows8,
    k: RowsK,
}

impl QuantizedRows {
    /// Quantise rows of finite values.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn quantize(&mut self, forms: Forms, x: &[f32]) {
        let rows = self.resize(forms, x.len());
        let chunk = 4096 * forms.block();
        let unit = |i: usize| {
            let at = i * chunk;
            // SAFETY: each unit has values of its own.
            unsafe { rows.quantize(at, &x[at..(at + chunk).min(x.len())]) };
        };
        match x.len().div_ceil(chunk) {
            0 | 1 => unit(0),
            units => ThreadPool::global().run(units, &unit),
        }
    }

    /// Resize to `values` values, to be quantised part by part.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn resize(&mut self, forms: Forms, values: usize) -> DisjointRowsMut<'_> {
        DisjointRowsMut {
            q8: forms.q8.then(|| self.q8.resize(values)),
            k: forms.k.then(|| self.k.resize(values)),
        }
    }
}

/// Rows that the units of one job quantise at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointRowsMut<'a> {
    q8: Option<DisjointBlocksMut<'a>>,
    k: Option<DisjointRowsK<'a>>,
}

impl DisjointRowsMut<'_> {
    /// Quantise `x` to the values from `at` on.
    ///
    /// # Panics
    /// If `at` and `x` are not multiples of [`Forms::block`] within the rows.
    ///
    /// # Safety
    /// No two units may use overlapping places at the same time.
    pub unsafe fn quantize(&self, at: usize, x: &[f32]) {
        // SAFETY: the caller's places are disjoint.
        unsafe {
            if let Some(rows) = &self.q8 {
                rows.quantize(at, x);
            }
            if let Some(rows) = &self.k {
                rows.quantize(at, x);
            }
        }
    }
}

/// A matrix that is read row by row; each row is converted at once, so that the whole matrix never exists in another type.
pub struct Builder {
    weight: Weight,
    inputs: usize,
    outputs: usize,
    /// Rows pushed so far.
    rows: usize,
}

impl Builder {
    /// An empty matrix of `outputs × inputs` weights of a type, or of its fallback (see [`WeightType::fitting`]).
    pub fn new(outputs: usize, inputs: usize, dtype: WeightType) -> Self {
        let values = outputs * inputs;
        let weight = match dtype.fitting(inputs) {
            WeightType::F16 => Weight::Half(HalfKind::F16, Vec::with_capacity(values).into()),
            WeightType::Bf16 => Weight::Half(HalfKind::Bf16, Vec::with_capacity(values).into()),
            // Arranged for this processor, not as in a file.
            WeightType::Q8_0 => Weight::Q8(Weights8::empty(outputs, inputs)),
            dtype => match BlockKind::of(dtype) {
                Some(kind) => {
                    let mut blocks = Blocks::empty(kind);
                    blocks.reserve(values);
                    Weight::Blocks(blocks)
                }
                None => Weight::F32(Vec::with_capacity(values).into()),
            },
        };
        Self { weight, inputs, outputs, rows: 0 }
    }

    /// Convert and append rows, row-major.
    ///
    /// # Errors
    /// A message, if a value is too large for the type, the rows are not whole, or there are too many.
    pub fn push(&mut self, rows: &[f32]) -> std::result::Result<(), String> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        let count = rows.len() / inputs.max(1);
        if !rows.len().is_multiple_of(inputs.max(1)) || self.rows + count > outputs {
            return Err(format!("{} values are not whole rows of a {outputs} × {inputs} matrix", rows.len()));
        }
        match &mut self.weight {
            Weight::F32(weight) => weight.owned().extend_from_slice(rows),
            Weight::Half(kind, weight) => {
                let at = weight.len();
                weight.owned().extend(rows.iter().map(|&value| kind.narrow(value)));
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
        let Self { weight, inputs, outputs, rows } = self;
        assert!(rows == outputs, "{rows} of {outputs} rows were read");
        assert!(bias.as_ref().is_none_or(|bias| bias.len() == outputs), "the bias has another length");
        Linear { parts: vec![Part { weight, outputs: 0..outputs }], bias, inputs, outputs }
    }
}

impl Linear {
    /// A matrix of parts that lie below each other, each with its number of outputs; a part keeps its type.
    ///
    /// # Errors
    /// A message, if a part has another size, or the bias another length.
    pub fn stack(
        parts: Vec<(Weight, usize)>,
        inputs: usize,
        bias: Option<Vec<f32>>,
    ) -> std::result::Result<Self, String> {
        let mut outputs = 0;
        let mut stacked = Vec::with_capacity(parts.len());
        for (weight, count) in parts {
            if !weight.has(count, inputs) {
                return Err(format!("the weights are not a {count} × {inputs} matrix"));
            }
            stacked.push(Part { weight, outputs: outputs..outputs + count });
            outputs += count;
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != outputs) {
            return Err(format!("the bias has {} values, expected {outputs}", bias.len()));
        }
        Ok(Self { parts: stacked, bias, inputs, outputs })
    }

    /// Bytes of a matrix of `outputs × inputs`.
    pub fn bytes_of(outputs: usize, inputs: usize, dtype: WeightType) -> usize {
        match dtype.fitting(inputs) {
            WeightType::F16 | WeightType::Bf16 => outputs * inputs * 2,
            WeightType::Q8_0 => Weights8::bytes_of(outputs, inputs),
            dtype => match BlockKind::of(dtype) {
                Some(kind) => outputs * inputs / kind.values() * kind.bytes(),
                None => outputs * inputs * 4,
            },
        }
    }

    /// Width of the output rows.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.weight.bytes()).sum()
    }

    /// The quantised forms that its input rows must have.
    pub fn forms(&self) -> Forms {
        self.parts.iter().fold(Forms::default(), |forms, part| forms | part.weight.forms())
    }

    /// `y[r] = W x[r] + b` for `rows` rows; `x` is `rows × inputs`, `y` is `rows × outputs`. `quantized` is a buffer.
    ///
    /// # Errors
    /// If `x` or `y` has another length.
    pub fn forward(
        &self,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
        quantized: &mut QuantizedRows,
    ) -> Result<()> {
        self.check(x, rows, y)?;
        if self.forms().any() {
            quantized.quantize(self.forms(), x);
        }
        self.forward_prepared(x, quantized, rows, y)
    }

    /// As [`Linear::forward`], for rows that are quantised already in the forms of [`Linear::forms`].
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_prepared(
        &self,
        x: &[f32],
        quantized: &QuantizedRows,
        rows: usize,
        y: &mut [f32],
    ) -> Result<()> {
        self.columns(x, rows, self.outputs, y, quantized, &|_, _| {})
    }

    /// True if [`Linear::forward_gated`] can quantise its result in these forms: its units are whole blocks.
    pub fn quantizes_gated(forms: Forms) -> bool {
        UNIT.is_multiple_of(forms.block())
    }

    /// For a matrix whose outputs are gates and as many values: `out[r] = silu(gate[r]) * value[r]`; `y` is a buffer as in
    /// [`Linear::forward`]. With `next`, `out` is quantised too.
    ///
    /// # Errors
    /// As [`Linear::forward`].
    pub fn forward_gated(
        &self,
        x: &[f32],
        quantized: &QuantizedRows,
        rows: usize,
        y: &mut [f32],
        out: &mut [f32],
        next: Option<DisjointRowsMut<'_>>,
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
        quantized: &QuantizedRows,
        then: &(dyn Fn(Range<usize>, &DisjointSliceMut<'_>) + Sync),
    ) -> Result<()> {
        self.check(x, rows, y)?;
        let (inputs, outputs) = (self.inputs, self.outputs);
        let blocks = BlockRows { q8: &quantized.q8, k: &quantized.k };
        let product = |columns: Range<usize>, y: &DisjointSliceMut<'_>| {
            for part in &self.parts {
                let (from, to) = (columns.start.max(part.outputs.start), columns.end.min(part.outputs.end));
                if from < to {
                    let first = part.outputs.start;
                    let columns = from - first..to - first;
                    let product = Product {
                        inputs,
                        outputs: part.outputs.len(),
                        rows,
                        columns,
                        first,
                        stride: outputs,
                    };
                    // SAFETY: each unit has columns of its own.
                    unsafe {
                        match &part.weight {
                            Weight::F32(w) => kernels::product_f32(&product, w, x, y),
                            Weight::Half(kind, w) => kernels::product_half(&product, *kind, w, x, y),
                            Weight::Q8(w) => kernels::product_q8(&product, w, &quantized.q8, y),
                            Weight::Blocks(w) => kernels::product_blocks(&product, w, blocks, y),
                        }
                    }
                }
            }
        };
        let y = DisjointSliceMut::new(y);
        let unit = |columns: Range<usize>| {
            for start in (0..outputs).step_by(period) {
                let columns = start + columns.start..start + columns.end;
                product(columns.clone(), &y);
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
            let pool = ThreadPool::global();
            // Several units for each thread, so that they end at the same time; large ones, so that what is prefetched for the next
            // outputs is used by the same thread.
            let size = (period / (UNITS * pool.members())).next_multiple_of(UNIT).clamp(UNIT, LARGEST_UNIT);
            pool.run(period.div_ceil(size), &|i| unit(i * size..((i + 1) * size).min(period)));
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
            let mut q = QuantizedRows::default();
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
            let (linear, mut quantized) = (matrix(dtype, 6, inputs), QuantizedRows::default());
            let mut forward = |x: usize, rows: usize, y: usize| {
                linear.forward(&vec![1.0; x], rows, &mut vec![0.0; y], &mut quantized)
            };
            assert!(forward(2 * inputs, 2, 12).is_ok());
            for (x, rows, y) in
                [(2 * inputs + 1, 2, 12), (inputs, 2, 12), (2 * inputs, 2, 11), (2 * inputs, 1, 12)]
            {
                assert!(forward(x, rows, y).is_err(), "{dtype:?}: {x} inputs, {rows} rows, {y} outputs");
            }
            let (x, mut rows8) = (vec![1.0; inputs], QuantizedRows::default());
            rows8.quantize(linear.forms(), &x);
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
