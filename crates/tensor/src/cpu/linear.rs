//! The decoder's matrices on the CPU: `y = x Wᵀ + b` for a few rows.

use std::ops::Range;

use crate::{
    BlockKind, Gate, Result, TensorType, WeightType,
    kept::{Keep, KeptMatrix},
};

pub use super::{
    builder::Builder,
    forms::{DisjointRowsMut, Forms, QuantizedRows},
};
use super::{
    kernels::{self, BlockPanels, FloatPanels, HalfKind, Product, Weights8},
    table::Values,
    thread_pool::{DisjointSliceMut, ThreadPool},
};

/// Multiply-adds below which one thread is faster than several.
const SINGLE_THREADED: usize = 200_000;
/// Outputs of one unit of work: a multiple of this, and at most [`LARGEST_UNIT`].
const UNIT: usize = 32;
/// Outputs that kernels compute together.
const PANELS: usize = 64;
/// Maximum outputs of one unit of work.
const LARGEST_UNIT: usize = 512;
/// Units for each thread.
const UNITS: usize = 8;

/// A matrix of `outputs × inputs` with an optional bias: one part, or several below each other that a file has apart.
pub struct Linear {
    parts: Vec<LinearPart>,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

/// Some outputs of a matrix.
struct LinearPart {
    weight: Weight,
    outputs: Range<usize>,
}

/// Weights in one type. Clones share them.
#[derive(Clone)]
pub enum Weight {
    /// As a file has them: floats (16-bit ones are multiplied with f32), or blocks.
    Stored(Values),
    /// Blocks in panels.
    BlockPanels(BlockPanels),
    /// Floats of 32 or 16 bits in panels, for many rows.
    Panels(FloatPanels),
    /// 8-bit blocks, arranged for this processor.
    Q8(Weights8),
}

impl Weight {
    pub fn bytes(&self) -> usize {
        match self {
            Weight::Stored(values) => values.bytes(),
            Weight::BlockPanels(w) => w.bytes(),
            Weight::Panels(w) => w.bytes(),
            Weight::Q8(w) => w.bytes(),
        }
    }

    /// The values; `None` if they are arranged for products.
    pub(crate) fn stored(self) -> Option<Values> {
        if let Self::Stored(values) = self { Some(values) } else { None }
    }

    /// The weights of a kept matrix, mapped; `None` if its format is not one of this processor, or its arrays are not in the file
    /// or have another size.
    pub fn mapped(kept: &KeptMatrix) -> Option<Self> {
        let KeptMatrix { format, map, shape: [outputs, inputs], arrays } = kept;
        let (outputs, inputs) = (*outputs, *inputs);
        let floats = |name| match name {
            "f32" => Some(TensorType::F32),
            "f16" => Some(TensorType::Half(HalfKind::F16)),
            "bf16" => Some(TensorType::Half(HalfKind::Bf16)),
            _ => None,
        };
        let weight = match arrays[..] {
            [place] => {
                if let Some(name) = format.strip_suffix(" in panels of floats") {
                    let kind = if let TensorType::Half(kind) = floats(name)? { Some(kind) } else { None };
                    Weight::Panels(FloatPanels::mapped(map, place, outputs, inputs, kind)?)
                } else {
                    let kind = match format.strip_prefix("blocks of ") {
                        Some(name) => TensorType::Blocks(BlockKind::named(name)?),
                        None => floats(format)?,
                    };
                    Weight::Stored(Values::mapped(kind, map, place)?)
                }
            }
            [quants, scales] if format.strip_prefix("q8_0 in ") == Some(Weights8::layout()) => {
                Weight::Q8(Weights8::mapped(map, [quants, scales], outputs, inputs)?)
            }
            _ => return None,
        };
        weight.has(outputs, inputs).then_some(weight)
    }

    /// True if the weights are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        match self {
            Weight::Stored(values) => values.is_mapped(),
            Weight::BlockPanels(_) => false,
            Weight::Panels(w) => w.is_mapped(),
            Weight::Q8(w) => w.is_mapped(),
        }
    }

    fn forms(&self) -> Forms {
        let of_blocks = |kind: BlockKind| {
            let k = kind.takes_k();
            Forms { q8: !k, k, outliers: false }
        };
        match self {
            Weight::Stored(Values::Blocks(blocks)) => of_blocks(blocks.kind()),
            Weight::BlockPanels(w) => of_blocks(w.kind()),
            Weight::Stored(_) | Weight::Panels(_) => Forms::default(),
            Weight::Q8(_) => Forms { q8: true, k: false, outliers: true },
        }
    }

    /// True if there are `outputs × inputs` weights.
    fn has(&self, outputs: usize, inputs: usize) -> bool {
        match self {
            Weight::Stored(values) => {
                Some(values.count()) == outputs.checked_mul(inputs)
                    && inputs.is_multiple_of(values.kind().block())
            }
            Weight::BlockPanels(w) => w.is(outputs, inputs),
            Weight::Panels(w) => w.is(outputs, inputs),
            Weight::Q8(w) => w.is(outputs, inputs),
        }
    }
}

impl Keep for Weight {
    fn format(&self) -> String {
        match self {
            Weight::Stored(Values::Blocks(blocks)) => format!("blocks of {}", blocks.kind().name()),
            Weight::Stored(values) => values.kind().name().into(),
            Weight::BlockPanels(w) => format!("panels of {}", w.kind().name()),
            Weight::Panels(panels) => {
                format!("{} in panels of floats", panels.half().map_or("f32", HalfKind::name))
            }
            Weight::Q8(_) => format!("q8_0 in {}", Weights8::layout()),
        }
    }

    fn arrays(&self) -> Vec<&[u8]> {
        match self {
            Weight::Stored(values) => vec![values.as_bytes()],
            Weight::BlockPanels(_) => unreachable!("weights are kept as a file has them"),
            Weight::Panels(w) => vec![w.as_bytes()],
            Weight::Q8(w) => w.arrays().to_vec(),
        }
    }
}

impl Linear {
    /// A matrix of parts that lie below each other, each with its number of outputs; a part keeps its type. Fails if a part has
    /// another size, or the bias another length.
    pub(crate) fn stack(
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
            stacked.push(LinearPart { weight, outputs: outputs..outputs + count });
            outputs += count;
        }
        if let Some(bias) = bias.as_ref().filter(|bias| bias.len() != outputs) {
            return Err(format!("the bias has {} values, expected {outputs}", bias.len()));
        }
        Ok(Self { parts: stacked, bias, inputs, outputs })
    }

    /// The same matrix with blocks in panels, where this processor multiplies them faster.
    #[must_use]
    pub fn in_panels(mut self) -> Self {
        for part in &mut self.parts {
            if let Weight::Stored(Values::Blocks(blocks)) = &part.weight
                && BlockPanels::has(blocks.kind())
                && !part.outputs.is_empty()
            {
                part.weight = Weight::BlockPanels(BlockPanels::new(blocks, part.outputs.len(), self.inputs));
            }
        }
        self
    }

    /// Bytes of a matrix of `outputs × inputs`.
    pub(crate) fn bytes_of(outputs: usize, inputs: usize, dtype: WeightType) -> usize {
        match dtype.fitting(inputs) {
            TensorType::Blocks(BlockKind::Q8_0) => Weights8::bytes_of(outputs, inputs),
            kind => outputs * inputs / kind.block() * kind.block_bytes(),
        }
    }

    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|part| part.weight.bytes()).sum()
    }

    /// Bytes of the weights that are parts of mapped files.
    pub fn mapped_bytes(&self) -> usize {
        self.parts.iter().filter(|part| part.weight.is_mapped()).map(|part| part.weight.bytes()).sum()
    }

    /// The quantized forms that its input rows must have.
    pub(crate) fn forms(&self) -> Forms {
        self.parts.iter().fold(Forms::default(), |forms, part| forms | part.weight.forms())
    }

    /// `y[r] = W x[r] + b` for `rows` rows; `x` is `rows × inputs`, `y` is `rows × outputs`. `quantized` is a buffer. Fails if
    /// `x` or `y` has another length.
    pub fn forward(
        &self,
        x: &[f32],
        rows: usize,
        y: &mut [f32],
        quantized: &mut QuantizedRows,
    ) -> Result<()> {
        self.check(x, rows, y)?;
        if self.forms().any() {
            quantized.quantize(self.forms(), x, rows);
        }
        self.forward_prepared(x, quantized, rows, y)
    }

    /// As [`Linear::forward`], for rows that are quantized already in the forms of [`Linear::forms`].
    pub(crate) fn forward_prepared(
        &self,
        x: &[f32],
        quantized: &QuantizedRows,
        rows: usize,
        y: &mut [f32],
    ) -> Result<()> {
        run(&[MatrixProduct::new(self, x, quantized, rows, y)?], &|_, _| {});
        Ok(())
    }

    /// True if [`Linear::forward_gated`] can quantize its result in these forms: its units are whole blocks.
    pub(crate) fn quantizes_gated(forms: Forms) -> bool {
        UNIT.is_multiple_of(forms.block())
    }

    /// For a matrix whose outputs are gates and as many values: `out[r] = gate(gate[r]) * value[r]`; rows and `y`, a buffer, are as in
    /// [`Linear::forward`]. With `next`, `out` is quantized too.
    pub(crate) fn forward_gated(
        &self,
        (x, quantized, rows): (&[f32], &QuantizedRows, usize),
        gate: Gate,
        y: &mut [f32],
        out: &mut [f32],
        next: Option<DisjointRowsMut<'_>>,
    ) -> Result<()> {
        let width = self.outputs / 2;
        if out.len() != rows * width {
            crate::bail!("{} gated values for {rows} rows of {width}", out.len());
        }
        let out = DisjointSliceMut::new(out);
        let jobs = [MatrixProduct::new(self, x, quantized, rows, y)?.of_pairs()];
        // SAFETY: these columns are a unit's. Units are whole blocks if the width is.
        run(&jobs, &|job, columns| unsafe {
            jobs[job].gate(gate, columns, &out, |at, out| {
                if let Some(next) = &next {
                    next.quantize(at, out);
                }
            });
        });
        Ok(())
    }

    fn check(&self, x: &[f32], rows: usize, y: &[f32]) -> Result<()> {
        let (inputs, outputs) = (self.inputs, self.outputs);
        if x.len() != rows * inputs || y.len() != rows * outputs {
            crate::bail!(
                "{rows} rows of a {outputs} × {inputs} matrix got {} inputs and {} outputs",
                x.len(),
                y.len()
            );
        }
        Ok(())
    }
}

/// The product of a matrix and some rows, `y = x Wᵀ + b`.
pub(super) struct MatrixProduct<'a> {
    matrix: &'a Linear,
    x: &'a [f32],
    quantized: &'a QuantizedRows,
    rows: usize,
    y: DisjointSliceMut<'a>,
    /// A unit computes some of so many columns, and those that follow them at this distance.
    period: usize,
}

impl<'a> MatrixProduct<'a> {
    /// The product for rows that are quantized already in the forms of the matrix. Fails if `x` or `y` has another length.
    pub fn new(
        matrix: &'a Linear,
        x: &'a [f32],
        quantized: &'a QuantizedRows,
        rows: usize,
        y: &'a mut [f32],
    ) -> Result<Self> {
        matrix.check(x, rows, y)?;
        Ok(Self { matrix, x, quantized, rows, y: DisjointSliceMut::new(y), period: matrix.outputs })
    }

    /// The same product, whose outputs are gates and as many values: a unit computes some of both.
    pub fn of_pairs(self) -> Self {
        Self { period: self.matrix.outputs / 2, ..self }
    }

    /// For a product of gates and as many values: `out[r] = gate(gate[r]) * value[r]`, some columns of all rows. `then` gets the
    /// index of the first value of each row, and its values.
    ///
    /// # Safety
    /// The columns are those of one unit, which were computed.
    pub unsafe fn gate(
        &self,
        gate: Gate,
        columns: Range<usize>,
        out: &DisjointSliceMut<'_>,
        then: impl Fn(usize, &[f32]),
    ) {
        let (outputs, width, n) = (self.matrix.outputs, self.period, columns.len());
        for r in 0..self.rows {
            let (gates, at) = (r * outputs + columns.start, r * width + columns.start);
            // SAFETY: these columns are this unit's.
            unsafe {
                let out = out.slice(at, n);
                kernels::gated(gate, self.y.slice(gates, n), self.y.slice(gates + width, n), out);
                then(at, out);
            }
        }
    }

    /// Compute the columns of one unit.
    pub fn unit(&self, columns: &Range<usize>) {
        let outputs = self.matrix.outputs;
        for start in (0..outputs).step_by(self.period) {
            let columns = start + columns.start..start + columns.end;
            self.product(columns.clone());
            if let Some(bias) = &self.matrix.bias {
                for r in 0..self.rows {
                    // SAFETY: these columns are this unit's.
                    let y = unsafe { self.y.slice(r * outputs + columns.start, columns.len()) };
                    y.iter_mut().zip(&bias[columns.clone()]).for_each(|(y, b)| *y += b);
                }
            }
        }
    }

    fn product(&self, columns: Range<usize>) {
        let Self { matrix, x, rows, ref y, .. } = *self;
        let blocks = self.quantized.blocks();
        for part in &matrix.parts {
            let (from, to) = (columns.start.max(part.outputs.start), columns.end.min(part.outputs.end));
            if from < to {
                let first = part.outputs.start;
                let product = Product {
                    inputs: matrix.inputs,
                    outputs: part.outputs.len(),
                    rows,
                    columns: from - first..to - first,
                    first,
                    stride: matrix.outputs,
                };
                // SAFETY: each unit has columns of its own.
                unsafe {
                    match &part.weight {
                        Weight::Stored(Values::F32(w)) => kernels::product_f32(&product, w, x, y),
                        Weight::Stored(Values::Half(kind, w)) => {
                            kernels::product_half(&product, *kind, w, x, y);
                        }
                        Weight::Stored(Values::Blocks(w)) => kernels::product_blocks(&product, w, blocks, y),
                        Weight::BlockPanels(w) => kernels::product_block_panels(&product, w, blocks, y),
                        Weight::Panels(w) => kernels::product_panels(&product, w, x, y),
                        Weight::Q8(w) => kernels::product_q8(&product, w, blocks.q8, y),
                    }
                }
            }
        }
    }
}

/// Columns of a unit, of so many in all.
fn unit_size(columns: usize, members: usize) -> usize {
    let size = columns / (UNITS * members);
    if size < PANELS {
        size.next_multiple_of(UNIT).max(UNIT)
    } else {
        (size / PANELS * PANELS).min(LARGEST_UNIT)
    }
}

/// Compute all columns of all jobs, in units that any thread takes; `then` follows each unit, with the number of its job.
pub(super) fn run(jobs: &[MatrixProduct<'_>], then: &(dyn Fn(usize, Range<usize>) + Sync)) {
    let unit = |job: usize, columns: Range<usize>| {
        jobs[job].unit(&columns);
        then(job, columns);
    };
    let macs: usize = jobs.iter().map(|job| job.rows * job.matrix.inputs * job.matrix.outputs).sum();
    if macs < SINGLE_THREADED {
        jobs.iter().enumerate().for_each(|(at, job)| unit(at, 0..job.period));
        return;
    }
    let pool = ThreadPool::global();
    // Several units for each thread, so that they end at the same time; large ones, so that data prefetched for the next
    // outputs is used by the same thread.
    let columns: usize = jobs.iter().map(|job| job.period).sum();
    let size = unit_size(columns, pool.members());
    let mut units = 0;
    let ends: Vec<usize> = jobs
        .iter()
        .map(|job| {
            units += job.period.div_ceil(size);
            units
        })
        .collect();
    pool.run(units, &|i| {
        let job = ends.partition_point(|end| *end <= i);
        let start = (i - job.checked_sub(1).map_or(0, |before| ends[before])) * size;
        unit(job, start..(start + size).min(jobs[job].period));
    });
}

#[cfg(test)]
mod tests;
