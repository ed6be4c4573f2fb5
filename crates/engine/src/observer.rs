//! A look into runs from outside, which may also disturb them. Programs have none; the engine's tests do.

use crate::{command::RunRequest, events::Stop, models::Models};
use specreel_record::Stage;

/// Who drafts in each step: 0 is the method's drafter, 1 the first of those that may take over.
pub(crate) type Turns = dyn Fn(usize) -> usize;

/// Called by the runs of an engine, from its threads.
pub(crate) trait Observer: Send + Sync {
    /// A run reports its progress.
    fn progress(&self, request: &RunRequest, models: &Models, stage: Stage);

    /// A finished run is about to be repeated in a measurement; `ends` is true once that has to end.
    fn repeats(&self, request: &RunRequest, ends: &(dyn Fn() -> bool + Sync)) -> Result<(), Stop>;

    /// The turns of a run's drafters, `count` of them, in place of those that pay off.
    fn turns(&self, request: &RunRequest, count: usize) -> Option<Box<Turns>>;
}
