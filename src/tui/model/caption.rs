//! What of the shown caption is in sight, and the cursors in it.

use super::{inspect::Inspector, search::Search, steps::StepCursor, tour::Tour};

#[derive(Debug, Default)]
pub(crate) struct CaptionPane {
    /// Lines between the end of the caption and the last line shown; 0 follows the stream.
    pub up: usize,
    /// Mark where steps end.
    pub boundaries: bool,
    pub search: Search,
    /// The token cursor.
    pub inspector: Option<Inspector>,
    pub step: Option<StepCursor>,
    /// The guided first run.
    pub tour: Option<Tour>,
}
