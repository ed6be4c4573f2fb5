//! Rows in host memory, as matrices take them.

use std::ops::Range;

use crate::{Gate, Result};

use super::{
    forms::{Forms, QuantizedRows},
    linear::Linear,
    thread_pool::{DisjointSliceMut, each_row},
};

/// Rows of values, with the same rows in the forms that quantized matrices need.
#[derive(Default)]
pub struct CpuRows {
    pub(crate) rows: usize,
    pub(crate) values: Vec<f32>,
    pub(crate) quantized: QuantizedRows,
}

impl CpuRows {
    /// Make it `rows × width`. Values that it holds stay.
    pub(crate) fn reserve(&mut self, rows: usize, width: usize) -> &mut [f32] {
        self.rows = rows;
        self.values.resize(rows * width, 0.0);
        &mut self.values
    }

    pub(crate) fn width(&self) -> usize {
        self.values.len() / self.rows.max(1)
    }

    pub(crate) fn row(&self, row: usize) -> &[f32] {
        let width = self.width();
        &self.values[row * width..][..width]
    }

    /// Some columns of all rows, row by row.
    pub(crate) fn columns(&self, columns: Range<usize>) -> impl Iterator<Item = &[f32]> {
        self.values.chunks_exact(self.width().max(1)).map(move |row| &row[columns.clone()])
    }

    /// Make it `rows` rows as `next` takes them; `fill` writes the first `width` values of a row, the others are zero.
    pub(crate) fn fill(
        &mut self,
        rows: usize,
        width: usize,
        next: Option<&Linear>,
        fill: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) {
        let (stride, forms) = next.map_or((width, Forms::default()), |next| (next.inputs(), next.forms()));
        self.reserve(rows, stride);
        let values = DisjointSliceMut::new(&mut self.values);
        let quantized = forms.any().then(|| self.quantized.resize(forms, rows, stride));
        each_row(rows, stride, &|r| {
            // SAFETY: each row belongs to one unit.
            unsafe {
                let row = values.slice(r * stride, stride);
                fill(r, &mut row[..width]);
                row[width..].fill(0.0);
                if let Some(quantized) = &quantized {
                    quantized.quantize(r * stride, row);
                }
            }
        });
        if let Some(quantized) = quantized {
            quantized.finish(&self.values, rows);
        }
    }

    /// Quantize all rows as `next` takes them.
    pub(crate) fn quantize(&mut self, next: Option<&Linear>) {
        let forms = next.map_or_else(Forms::default, Linear::forms);
        if forms.any() {
            self.quantized.quantize(forms, &self.values, self.rows);
        }
    }
}

/// `out = gate(gates) ∘ values` of `x`, as `next` takes them; `buffer` holds both.
pub(crate) fn gated(
    (matrix, gate): (&Linear, Gate),
    x: &CpuRows,
    buffer: &mut Vec<f32>,
    next: Option<&Linear>,
    out: &mut CpuRows,
) -> Result<()> {
    let (rows, width) = (x.rows, matrix.outputs() / 2);
    buffer.resize(rows * 2 * width, 0.0);
    out.reserve(rows, width);
    let forms = next.map_or_else(Forms::default, Linear::forms);
    let in_place = forms.any() && Linear::quantizes_gated(forms);
    let quantized = in_place.then(|| out.quantized.resize(forms, rows, width));
    matrix.forward_gated((&x.values, &x.quantized, rows), gate, buffer, &mut out.values, quantized)?;
    match quantized {
        Some(quantized) => quantized.finish(&out.values, rows),
        None => out.quantize(next),
    }
    Ok(())
}
