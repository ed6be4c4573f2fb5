//! Prompts that begin as a kept one does: another question about the same clip, or one that goes on with the conversation. What
//! both have in common is taken over, so that the video is neither encoded nor read again.

use std::time::Instant;

use super::{
    run::{KV_HEADROOM, Runner, Stop, since},
    store::{ClipKey, Prefill, Recent},
};
use crate::{
    model::{
        decoder::{Taps, with_slice},
        family::{ModelError, Prompt},
    },
    record::Stage,
};

/// Tokens of a text that is added to what is kept, fed in one pass.
const READ_AT_ONCE: usize = 256;

/// A kept context over the same clip that begins as this prompt does, at least to the video's end; and how many ids they
/// have in common, the prompt's last not counted.
pub(super) fn kept_prefix<'a>(
    contexts: &'a Recent<(ClipKey, String), Prefill>,
    key: &ClipKey,
    prompt: &Prompt,
) -> Option<(&'a Prefill, usize)> {
    let common = |context: &Prefill| {
        let same = context.prompt.ids.iter().zip(&prompt.ids).take_while(|(a, b)| a == b).count();
        same.min(prompt.ids.len() - 1).min(context.target.len())
    };
    let will_do = |(clip, _): &(ClipKey, String), context: &Prefill| {
        let kept = &context.prompt;
        let same_video = (&kept.visual, kept.newline) == (&prompt.visual, prompt.newline);
        clip == key && same_video && common(context) >= prompt.video_end()
    };
    contexts.find(will_do).map(|context| (context, common(context)))
}

impl Runner<'_> {
    /// The context of a prompt that begins as a kept one does, video and all: only what is new is read.
    pub(super) fn read_on(
        &self,
        (kept, common): (&Prefill, usize),
        prompt: Prompt,
        started: Instant,
    ) -> Result<Prefill, Stop> {
        let last = prompt.ids.len() - 1;
        let capacity = last + self.request.max_new_tokens + KV_HEADROOM;
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
        // What the whole would have cost: the video was read for the kept one.
        let prefill_ms = kept.prefill_ms + since(started);
        Ok(Prefill::new(prompt, target, kept.visual.clone(), states, prefill_ms))
    }
}
