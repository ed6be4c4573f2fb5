//! Columns of rows: copied to columns of other rows, or added to them.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{
    Access, Buffer, GpuError, Result, Rows, Stream, elements::grid, rows::filled, stream::ALIGNMENT,
};

/// Bytes of rows beyond which columns are copied in several parts: every device binds as much.
const BOUND: u64 = 64 << 20;

/// Columns of some rows: where the first value is, and how far the next row's is from it, in values.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    pub buffer: &'a Buffer,
    /// The first row's first value.
    pub first: u64,
    /// Values of a whole row.
    pub stride: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct ColumnParams {
    width: u32,
    rows: u32,
    source_first: u32,
    source_stride: u32,
    out_first: u32,
    out_stride: u32,
    unused: [u32; 2],
}

impl<'a> Columns<'a> {
    /// A view of `rows` rows from row `at` on, of which `width` values are used, and the index of the first value in it.
    fn view(&self, at: usize, rows: usize, width: usize) -> ((&'a Buffer, u64, u64), u32) {
        let first = 4 * (self.first + (at * self.stride) as u64);
        let end = first + 4 * ((rows - 1) * self.stride + width) as u64;
        let start = first / ALIGNMENT * ALIGNMENT;
        ((self.buffer, start, end - start), ((first - start) / 4) as u32)
    }
}

/// `to = from`, or `to += from`: `rows` rows of `width` values. Fails if the columns exceed their memory, or the device is lost.
pub(crate) fn copy_columns(
    stream: &mut Stream,
    from: Columns<'_>,
    to: Columns<'_>,
    rows: usize,
    width: usize,
    add: bool,
) -> Result<()> {
    use Access::{Read, Write};
    if rows == 0 || width == 0 {
        return Ok(());
    }
    let kernel = stream.gpu().clone().kernel(
        "columns",
        &|| include_str!("shaders/columns.wgsl").into(),
        &[Read, Write],
        &[("ADD", f64::from(u8::from(add)))],
    )?;
    let part = (BOUND / 4 / from.stride.max(to.stride).max(1) as u64).max(1) as usize;
    for at in (0..rows).step_by(part) {
        let count = part.min(rows - at);
        let ((source, source_first), (target, out_first)) =
            (from.view(at, count, width), to.view(at, count, width));
        let params = ColumnParams {
            width: width as u32,
            rows: count as u32,
            source_first,
            source_stride: from.stride as u32,
            out_first,
            out_stride: to.stride as u32,
            unused: [0; 2],
        };
        stream.dispatch_at(&kernel, &params, &[source, target], grid(count, width))?;
    }
    Ok(())
}

/// `x =` some columns of other rows, or `x +=` them.
pub fn between(stream: &mut Stream, from: &Rows, columns: Range<usize>, x: &Rows, add: bool) -> Result<()> {
    let source = Columns { buffer: filled(from)?, first: columns.start as u64, stride: from.width() };
    let to = Columns { buffer: filled(x)?, first: 0, stride: x.width() };
    copy_columns(stream, source, to, x.rows(), columns.len(), add)
}

/// `out[r][i] = x[r][columns[i]]` for `width` columns, all of which exist.
pub fn choose(stream: &mut Stream, x: &Rows, columns: &Buffer, width: usize, out: &mut Rows) -> Result<()> {
    use Access::{Read, Write};
    let gpu = stream.gpu().clone();
    let kernel = gpu.kernel(
        "choose columns",
        &|| include_str!("shaders/choose.wgsl").into(),
        &[Read, Read, Write],
        &[],
    )?;
    let params = [x.width(), width, x.rows(), 0].map(|size| size as u32);
    let out = out.reserve(&gpu, x.rows(), width)?;
    stream.dispatch(&kernel, &params, &[filled(x)?, columns, out], grid(x.rows(), width))
}

/// `x ← sigmoid(gates) ∘ x`.
pub fn gate(stream: &mut Stream, gates: &Rows, x: &Rows) -> Result<()> {
    use Access::{Read, Write};
    if (gates.rows(), gates.width()) != (x.rows(), x.width()) {
        let (ours, theirs) = ((x.rows(), x.width()), (gates.rows(), gates.width()));
        return Err(GpuError::Invalid(format!("gates {theirs:?} of rows {ours:?}")));
    }
    let kernel = stream.gpu().clone().kernel(
        "gate by sigmoid",
        &|| include_str!("shaders/gate.wgsl").into(),
        &[Read, Write],
        &[],
    )?;
    let params = [x.width(), x.rows(), 0, 0].map(|size| size as u32);
    stream.dispatch(&kernel, &params, &[filled(gates)?, filled(x)?], grid(x.rows(), x.width()))
}

#[cfg(test)]
mod tests;
