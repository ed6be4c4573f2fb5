//! Encoding a video in chunks of temporal grids, which never attend to each other: memory does not grow with the video's length.

use std::ops::Range;

use super::{EncodeProgress, VisionError};
use crate::processor::{Grid, Patches};
use specreel_tensor::{CheckpointError, states::States};

pub(super) fn on_tensor(name: &str, error: &specreel_tensor::Error) -> CheckpointError {
    CheckpointError::tensor(name, &error.to_string())
}

/// Check patches against their grid and the tower's `row` values a patch. `mismatch` is the tower's objection to the
/// grid.
/// Errors: [`VisionError::Patches`] if they do not agree.
pub(super) fn check(patches: &Patches, row: usize, mismatch: Option<String>) -> Result<(), VisionError> {
    let (grid, values) = (patches.grid, patches.row);
    let Grid { t, h, w } = grid;
    let rows = patches.data.len() / values.max(1);
    let reason = if values != row {
        format!("expected {row} values")
    } else if grid.checked_len() != Some(rows) || patches.data.len() != rows * row {
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
/// Errors: [`VisionError::Cancelled`] if `progress` breaks, and the errors of `forward`.
pub(super) fn encode(
    grid: Grid,
    layers: usize,
    patches: usize,
    progress: &mut EncodeProgress<'_>,
    mut forward: impl FnMut(
        Range<usize>,
        &mut dyn FnMut() -> Result<(), VisionError>,
    ) -> Result<States, VisionError>,
) -> Result<States, VisionError> {
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
    Ok(States::cat(&parts)?)
}
