//! Rows in host memory, as matrices take them.

use std::ops::Range;

use crate::Result;

use super::{forms::QuantizedRows, linear::Linear};

/// Rows of values, beside them the same rows as quantised matrices take them.
#[derive(Default)]
pub struct Rows {
    pub(super) values: Vec<f32>,
    pub(super) quantized: QuantizedRows,
}

impl Rows {
    /// Some columns of `count` rows, row by row.
    pub(super) fn columns(&self, count: usize, columns: Range<usize>) -> impl Iterator<Item = &[f32]> {
        let width = self.values.len() / count.max(1);
        self.values.chunks_exact(width.max(1)).map(move |row| &row[columns.clone()])
    }

    /// `x` = the chosen columns of `count` rows.
    pub(super) fn choose(&self, count: usize, columns: &[u32], x: &mut Self) {
        let width = self.values.len() / count.max(1);
        x.values.clear();
        for row in self.values.chunks_exact(width.max(1)) {
            x.values.extend(columns.iter().map(|&at| row[at as usize]));
        }
    }
}

/// `out = silu(gates) ∘ values` of some rows, as `next` takes them; `buffer` holds both.
pub(super) fn gated(
    matrix: &Linear,
    x: &Rows,
    rows: usize,
    buffer: &mut Rows,
    next: &Linear,
    out: &mut Rows,
) -> Result<()> {
    let width = matrix.outputs() / 2;
    buffer.values.resize(rows * 2 * width, 0.0);
    out.values.resize(rows * width, 0.0);
    let forms = next.forms();
    let in_place = forms.any() && Linear::quantizes_gated(forms);
    let quantized = in_place.then(|| out.quantized.resize(forms, rows * width));
    let (values, buffer) = (&mut out.values, &mut buffer.values);
    matrix.forward_gated(&x.values, &x.quantized, rows, buffer, values, quantized)?;
    if forms.any() && !in_place {
        out.quantized.quantize(forms, &out.values);
    }
    Ok(())
}
