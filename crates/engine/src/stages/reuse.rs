//! Prompts that share a prefix with a kept one: another question about the same clip, or the next one of a conversation. The
//! common prefix is copied, so that the video is neither encoded nor read again.

use std::time::Instant;

use crate::{
    cache::Prefill,
    events::{Stop, since},
    planner::RunPlan,
    stages::Runner,
};
use specreel_model::{
    decoder::{Taps, with_slice},
    family::{ModelError, Prompt},
};
use specreel_record::Stage;

/// Tokens fed in one pass when a kept prefix is extended.
const READ_AT_ONCE: usize = 256;

impl Runner<'_> {
    /// The context of a prompt that shares a prefix with a kept one: only the rest is read.
    pub(crate) fn extend(
        &self,
        plan: &RunPlan,
        (kept, common): (&Prefill, usize),
        prompt: Prompt,
        started: Instant,
    ) -> Result<Prefill, Stop> {
        let last = prompt.ids.len() - 1;
        let capacity = last + plan.room();
        let mut target = kept.target.fork(common, capacity).map_err(ModelError::from)?;
        let mut states = kept.states.first(common);
        for ids in prompt.ids[common..last].chunks(READ_AT_ONCE) {
            let row = target.len();
            let pass = target.feed(ids, &Taps::default()).map_err(ModelError::from)?;
            with_slice(&pass.states, |s| states.push(row, s)).map_err(ModelError::from)?;
            if self.progress(Stage::Prefill, target.len(), last).is_break() {
                return Err(Stop::Cancelled);
            }
        }
        // What the whole prompt would have cost: the kept context has paid for the video.
        let prefill_ms = kept.prefill_ms + since(started);
        Ok(Prefill::new(prompt, target, kept.visual.clone(), states, prefill_ms))
    }
}
