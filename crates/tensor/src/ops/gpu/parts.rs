//! Parts of rows, and rows that are padded.

use std::sync::Arc;

use crate::{
    gpu::{
        Matrix, Result, Rows, Stream,
        products::input::{InputRows, spread},
        rows::filled,
    },
    ops::RowPart,
};

/// Copy the rows of a part to the beginning of `out`.
pub(super) fn copy_part(stream: &mut Stream, rows: &Rows, part: RowPart, out: &mut Rows) -> Result<()> {
    let row = rows.width() as u64 * 4;
    let to = out.reserve(&stream.gpu().clone(), part.rows, rows.width())?;
    stream.copy(filled(rows)?, part.start as u64 * row, to, 0, part.rows as u64 * row)
}

pub(super) fn copy_back(stream: &mut Stream, rows: &Rows, part: RowPart, out: &mut Rows) -> Result<()> {
    let row = rows.width() as u64 * 4;
    let to = out.reserve(&stream.gpu().clone(), part.of, rows.width())?;
    stream.copy(filled(rows)?, 0, to, part.start as u64 * row, part.rows as u64 * row)
}

/// Call `f` with the rows of a part, and write them back if `changed`.
pub(super) fn with_part(
    stream: &mut Stream,
    x: &mut Rows,
    part: RowPart,
    spare: &mut Rows,
    changed: bool,
    f: impl FnOnce(&mut Stream, &mut Rows) -> Result<()>,
) -> Result<()> {
    if part.rows == part.of {
        return f(stream, x);
    }
    copy_part(stream, x, part, spare)?;
    f(stream, spare)?;
    if changed { copy_back(stream, spare, part, x) } else { Ok(()) }
}

/// Pad rows to the width that a matrix takes.
pub(super) fn fit(
    stream: &mut Stream,
    rows: &mut Rows,
    next: Option<&Arc<Matrix>>,
    spare: &mut Rows,
) -> Result<()> {
    let (count, width) = (rows.rows(), rows.width());
    let Some(next) = next.filter(|next| next.inputs() != width) else { return Ok(()) };
    let to = spare.reserve(&stream.gpu().clone(), count, next.inputs())?;
    let source = InputRows { x: filled(rows)?, row: 0, rows: count, width, gated: false };
    spread(stream, source, to, next.inputs())?;
    std::mem::swap(rows, spare);
    Ok(())
}
