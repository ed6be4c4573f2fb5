//! What a GPU keeps between the passes of a sequence.

use std::sync::{Arc, Mutex};

use super::grids::TowerWork;
use crate::gpu::{
    Buffer, Gpu, GpuError, Result, Rows, Scratch,
    attention::{Attention, gaze::Gaze},
    experts::ExpertRows,
    logits,
    recurrent::mixing::Mixing,
    states::{GpuRows, SharedStream},
};

/// What is kept between the operations of one sequence.
#[derive(Default)]
pub struct GpuWork {
    pub(super) stream: Option<SharedStream>,
    pub(super) scratch: Scratch,
    pub(super) experts: ExpertRows,
    pub(super) tower: TowerWork,
    pub(super) attention: Option<Attention>,
    pub(super) gaze: Option<Gaze>,
    pub(super) mixing: Mixing,
    pub(super) ids: Option<Buffer>,
    pub(super) angles: Option<Buffer>,
    /// Memory that was given away with states; used again when nobody holds them.
    pub(super) given: Vec<Buffer>,
    pub(super) extracted: Arc<Mutex<logits::Scratch>>,
}

impl GpuWork {
    pub(super) fn stream(&mut self, gpu: &Gpu) -> SharedStream {
        self.stream.get_or_insert_with(|| SharedStream::new(gpu)).clone()
    }

    /// Rows to write, in memory that nobody holds any more, if there is some.
    pub(super) fn rows(&mut self, rows: usize, width: usize) -> Rows {
        let free = again(&mut self.given, (rows * width) as u64 * 4);
        free.map_or_else(Rows::default, |buffer| Rows::of(buffer, rows, width))
    }
}

/// Memory for rows in place of those that were given away: such that nobody holds any more, if there is some.
pub(super) fn again(given: &mut Vec<Buffer>, bytes: u64) -> Option<Buffer> {
    let free = given.iter().position(|buffer| buffer.is_unique() && buffer.bytes() >= bytes);
    let free = free.map(|at| given.swap_remove(at));
    // Of those that are too small, none is worth keeping.
    given.retain(|buffer| !buffer.is_unique() || buffer.bytes() >= bytes);
    free
}

/// Rows that leave a pass.
pub(super) fn given(stream: &SharedStream, given: &mut Vec<Buffer>, rows: &mut Rows) -> Result<GpuRows> {
    let (count, width) = (rows.rows(), rows.width());
    let Some(buffer) = rows.take() else {
        return Err(GpuError::Invalid("rows are used before they are written".into()));
    };
    given.push(buffer.clone());
    Ok(GpuRows::new(stream, buffer, count, width))
}
