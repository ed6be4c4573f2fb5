//! Encoding a video in chunks of temporal grids, which never attend to each other: memory does not grow with the video's length.

use std::ops::Range;

use candle_core::{DType, Device, Result as CandleResult, Tensor};

use super::{EncodeProgress, VisionError, layers::concatenate};
use crate::model::processor::Grid;

/// Patches of a chunk of a tower in tensors: more would only cost memory on the CPU, fewer would not fill an accelerator.
pub(super) fn max_patches(device: &Device) -> usize {
    if device.is_cpu() { 1024 } else { 8192 }
}

/// Check patches `[n, values]` against their grid and the tower's `row` values a patch. `mismatch` is what the tower finds wrong
/// with the grid.
///
/// # Errors
/// [`VisionError::Patches`] if they do not agree.
pub(super) fn check(
    patches: &Tensor,
    grid: Grid,
    row: usize,
    mismatch: Option<String>,
) -> Result<(), VisionError> {
    let Grid { t, h, w } = grid;
    let (rows, values) = patches.dims2()?;
    let reason = if values != row {
        format!("expected {row} values")
    } else if grid.checked_len() != Some(rows) {
        "the grid has another number of patches".to_owned()
    } else if rows == 0 {
        "there are no patches".to_owned()
    } else if let Some(mismatch) = mismatch {
        mismatch
    } else {
        return Ok(());
    };
    Err(VisionError::Patches { rows, values, t, h, w, reason })
}

/// Run `forward` on chunks of the grid's temporal grids, of up to `patches` patches, and concatenate its results. It gets a range
/// of temporal grids, and a function to call after each of its `layers` layers.
///
/// # Errors
/// [`VisionError::Cancelled`] if `progress` breaks, and the errors of `forward`.
pub(super) fn encode(
    grid: Grid,
    layers: usize,
    patches: usize,
    progress: &mut EncodeProgress<'_>,
    mut forward: impl FnMut(
        Range<usize>,
        &mut dyn FnMut() -> Result<(), VisionError>,
    ) -> Result<Tensor, VisionError>,
) -> Result<Tensor, VisionError> {
    let chunk = (patches / (grid.h * grid.w)).clamp(1, grid.t);
    let chunks = grid.t.div_ceil(chunk);
    let (mut done, mut parts) = (0, Vec::with_capacity(chunks));
    for start in (0..grid.t).step_by(chunk) {
        let after_layer = &mut || {
            done += 1;
            if progress(done, chunks * layers).is_break() { Err(VisionError::Cancelled) } else { Ok(()) }
        };
        parts.push(forward(start..grid.t.min(start + chunk), after_layer)?);
    }
    Ok(concatenate(parts, 0)?)
}

/// The patches of some temporal grids, in the tower's type on its device. Converted before the transfer, which is half as much
/// with a 16-bit type.
pub(super) fn select(
    patches: &Tensor,
    grid: Grid,
    grids: Range<usize>,
    dtype: DType,
    device: &Device,
) -> CandleResult<Tensor> {
    let per_grid = grid.h * grid.w;
    let chunk = patches.narrow(0, grids.start * per_grid, grids.len() * per_grid)?;
    match device.is_cpu() {
        true => chunk.to_dtype(dtype),
        false => chunk.force_contiguous()?.to_dtype(dtype)?.to_device(device),
    }
}
