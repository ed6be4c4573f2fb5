//! Matrices on a GPU: `y = x Wᵀ + b`.

pub(crate) mod load;
pub(crate) mod pack;
pub(crate) mod read;
use std::ops::Range;

use super::{
    Buffer, GpuError, Result, Rows, Stream, elements,
    products::{Grouped, Inputs, Piece, Product, Way},
};
use crate::{
    TensorType,
    gpu::products::input::{InputRows, Scratch, spread},
    quant::panels::blocks,
};

/// A matrix of `outputs × inputs` with an optional bias: pieces below each other, each in the format of its file or of the
/// device, and small enough for the device's bindings.
pub struct Matrix {
    pub(super) pieces: Vec<Piece>,
    pub(super) bias: Option<Buffer>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// Its rows are parts of others, and are stored as floats.
    pub(super) takes_parts: bool,
}

impl Matrix {
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    pub fn outputs(&self) -> usize {
        self.outputs
    }

    pub fn bytes(&self) -> u64 {
        self.pieces.iter().flat_map(|piece| &piece.arrays).map(Buffer::bytes).sum()
    }

    /// The format of its weights, if it is the same for all.
    pub fn format(&self) -> Option<TensorType> {
        let first = self.pieces.first()?.format;
        self.pieces.iter().all(|piece| piece.format == first).then_some(first)
    }

    /// Its first outputs: at most this many, on the same memory.
    pub(crate) fn first_outputs(&self, outputs: usize) -> Self {
        let piece = |piece: &Piece| Piece {
            format: piece.format,
            arrays: piece.arrays.clone(),
            first: piece.first,
            outputs: piece.outputs.min(outputs - piece.first),
        };
        Self {
            pieces: self.pieces.iter().take_while(|piece| piece.first < outputs).map(piece).collect(),
            bias: self.bias.clone(),
            inputs: self.inputs,
            outputs: self.outputs.min(outputs),
            takes_parts: self.takes_parts,
        }
    }

    /// `y[r] = W x[r] + b` for the first `rows` rows of `x`. Fails if `x` has other rows than the matrix takes, memory is
    /// missing, or the device is lost.
    pub fn forward(
        &self,
        stream: &mut Stream,
        x: &Rows,
        rows: usize,
        y: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.forward_range(stream, x, 0..rows, y, scratch)
    }

    /// `y[r] = W x[range.start + r] + b`.
    pub(crate) fn forward_range(
        &self,
        stream: &mut Stream,
        x: &Rows,
        range: Range<usize>,
        y: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.forward_by(Way::default(), stream, x, range, y, scratch)
    }

    pub(super) fn forward_by(
        &self,
        way: Way,
        stream: &mut Stream,
        x: &Rows,
        range: Range<usize>,
        y: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let rows = range.clone();
        let filled = x.in_blocks().map(|filling| scratch.filled(filling)).transpose()?;
        let source = self.source(x, range, self.inputs, false)?;
        if filled.is_some() && (rows.start > 0 || !self.takes_only_blocks()) {
            return Err(GpuError::Invalid("rows that are stored as blocks are used as others".into()));
        }
        self.products(way, stream, source, filled, y, scratch)
    }

    /// For a matrix whose outputs are gates and as many values: `out[r] = silu(gate[r]) · value[r]` for the first `rows` rows
    /// of `x`.
    pub(crate) fn forward_gated(
        &self,
        stream: &mut Stream,
        x: &Rows,
        rows: usize,
        out: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let mut both = std::mem::take(&mut scratch.gate_up);
        let made = self.forward(stream, x, rows, &mut both, scratch).and_then(|()| {
            let width = self.outputs / 2;
            let out = out.reserve(stream.gpu(), rows, width)?;
            match both.buffer() {
                Some(x) => spread(stream, InputRows { x, row: 0, rows, width, gated: true }, out, width),
                None => Ok(()),
            }
        });
        scratch.gate_up = both;
        made
    }

    /// As [`Matrix::forward_gated`], for the product with `next`, the next one with this scratch: if that takes blocks, `out` is
    /// stored only as such.
    pub(crate) fn forward_gated_for(
        &self,
        next: &Matrix,
        stream: &mut Stream,
        x: &Rows,
        rows: usize,
        out: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if !next.takes_only_blocks() {
            return self.forward_gated(stream, x, rows, out, scratch);
        }
        let mut both = std::mem::take(&mut scratch.gate_up);
        let made = self.forward(stream, x, rows, &mut both, scratch).and_then(|()| {
            let source = next.source(&both, 0..rows, self.outputs / 2, true)?;
            scratch.gate(stream, source, out)
        });
        scratch.gate_up = both;
        made
    }

    /// As [`norm`](super::elements::norm), for the product with this matrix, the next one with this scratch: if it takes
    /// blocks, `out` is stored only as such.
    #[expect(clippy::too_many_arguments, reason = "two inputs, weights, an output, buffers")]
    pub(crate) fn norm_before(
        &self,
        stream: &mut Stream,
        x: &mut Rows,
        add: Option<&Rows>,
        weight: &Buffer,
        eps: f32,
        out: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        match self.takes_only_blocks() && x.width() == self.inputs {
            true => scratch.norm(stream, x, add, weight, eps, out),
            false => elements::norm(stream, x, add, (weight, None), eps, out),
        }
    }

    /// True if all of its weights are multiplied with quantized inputs, of whole rows.
    pub(super) fn takes_only_blocks(&self) -> bool {
        !self.takes_parts && self.pieces.iter().all(|piece| piece.format.takes_blocks())
    }

    /// The rows of a product, checked.
    fn source<'a>(
        &self,
        x: &'a Rows,
        range: Range<usize>,
        width: usize,
        gated: bool,
    ) -> Result<InputRows<'a>> {
        let wide = if gated { 2 * width } else { width };
        match x.memory() {
            Some(buffer) if width == self.inputs && x.width() == wide && range.end <= x.rows() => {
                Ok(InputRows { x: buffer, row: range.start, rows: range.len(), width, gated })
            }
            _ => Err(GpuError::Invalid(format!(
                "rows {range:?} of {} × {} values for a matrix of {} × {}",
                x.rows(),
                x.width(),
                self.outputs,
                self.inputs
            ))),
        }
    }

    /// For the matrices of all experts below each other: the products of pairs of a row and an expert. `y` has a row for each pair.
    /// Fails if memory is missing, or the device is lost.
    pub(super) fn forward_grouped(
        &self,
        stream: &mut Stream,
        source: InputRows<'_>,
        grouped: Grouped<'_>,
        y: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (rows, stride) = (source.rows, grouped.outputs);
        let y = y.reserve(stream.gpu(), grouped.pairs, stride)?;
        let (blocks, grouped) = (blocks(self.inputs), Some(grouped));
        let product = Product { rows, blocks, bias: None, y, stride, way: Way::default(), grouped };
        self.record(&product, stream, source, None, scratch)
    }

    fn products(
        &self,
        way: Way,
        stream: &mut Stream,
        source: InputRows<'_>,
        filled: Option<Inputs>,
        y: &mut Rows,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (rows, stride) = (source.rows, self.outputs);
        let y = y.reserve(stream.gpu(), rows, stride)?;
        let (blocks, bias) = (blocks(self.inputs), self.bias.as_ref());
        let product = Product { rows, blocks, bias, y, stride, way, grouped: None };
        self.record(&product, stream, source, filled, scratch)
    }

    /// Record a product with all pieces.
    fn record(
        &self,
        product: &Product<'_>,
        stream: &mut Stream,
        source: InputRows<'_>,
        filled: Option<Inputs>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        if product.rows == 0 {
            return Ok(());
        }
        // Each form is prepared once, if some piece takes it.
        let mut forms: [Option<Inputs>; 2] = [None, filled];
        for piece in &self.pieces {
            let quantized = piece.format.takes_blocks();
            let form = &mut forms[usize::from(quantized)];
            let inputs = match form {
                Some(inputs) => inputs,
                none if quantized => none.insert(scratch.quantized(stream, source)?),
                none => none.insert(scratch.floats(stream, source)?),
            };
            product.record(stream, piece, inputs)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
