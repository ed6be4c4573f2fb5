//! Work that waits for the engine.

use std::collections::VecDeque;

use super::run::{Run, Subject};
use specreel_engine::RunRequest;

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub request: RunRequest,
    pub run: Run,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The request that replaces the active run.
    pub next: Option<Waiting>,
    /// Runs of a comparison, or segments of a clip, that wait for the one before them.
    pub runs: VecDeque<Waiting>,
    /// Clips that are captioned after all of those.
    pub clips: VecDeque<Waiting>,
    /// The subject of a run in segments, until the segments are known.
    pub cutting: Option<Subject>,
    /// Number of the last run that is shown when it is its turn: once the runs before it have been played.
    pub follows: Option<u64>,
}

impl Queue {
    /// True if anything waits.
    pub fn waits(&self) -> bool {
        let is_next = self.next.is_some() || self.cutting.is_some();
        is_next || !self.runs.is_empty() || !self.clips.is_empty()
    }
}
