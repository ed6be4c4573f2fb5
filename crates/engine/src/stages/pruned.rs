//! A target that reads a part of the visual tokens, and how the whole target judges what it writes.

use std::time::Instant;

use crate::{
    cache::{Clip, Prefill},
    events::{Stop, since},
    planner::RunPlan,
    stages::Runner,
    timing::Part,
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Taps},
    draft_head::TextStates,
    family::{ModelError, Prompt},
    mac_count,
};
use specreel_record::{Stage, Stats};
use specreel_speculate::{
    VisualStates,
    context::{PrunedPrompt, Pruner},
};

impl Runner<'_> {
    /// Read the prompt as `pruner` says.
    pub(crate) fn prefill_pruned(
        &self,
        pruner: &dyn Pruner,
        room: usize,
        clip: &Clip,
        prompt: Prompt,
        started: Instant,
        stats: &mut Stats,
    ) -> Result<Prefill, Stop> {
        let target = &self.models.target;
        let (config, last) = (target.decoder().config(), prompt.ids.len() - 1);
        let all = mac_count::prompt(config, 0, last);
        let mut watch = self.watch(Stage::Prefill, Part::Prompt, target, all);
        let read = self.preparation(&prompt, clip).prefill_pruned(pruner, room, &mut |done, total| {
            let share = done as f64 / total.max(1) as f64;
            watch.tick((share * last as f64) as usize, last, all * share)
        })?;
        let PrunedPrompt { target, kept, rows, states } = read.ok_or(Stop::Cancelled)?;
        let width = config.hidden;
        let mut text_states = TextStates::new(width, prompt.visual.clone());
        // Tokens that were dropped have no final states: nothing is similar to zeros.
        let mut visual_states = vec![0f32; prompt.visual.len() * width];
        let mut next = 0;
        for (&row, state) in rows.iter().zip(states.chunks_exact(width)) {
            let absent = vec![0f32; (row - next) * width];
            text_states.push(next, &absent);
            text_states.push(row, state);
            if let Some(token) = prompt.visual.token(row) {
                visual_states[token * width..(token + 1) * width].copy_from_slice(state);
            }
            next = row + 1;
        }
        let prefill_ms = since(started);
        stats.timings.prefill_target_ms = prefill_ms;
        let visual = VisualStates::new(&visual_states, width);
        let mut context = Prefill::new(prompt, target, visual, text_states, prefill_ms);
        context.kept = Some(kept);
        Ok(context)
    }

    /// The share of a pruned target's text that the whole target, of this context, would have written after the tokens before
    /// (A in ParallelVLM's table 2 and Appendix A); `None` without a text.
    pub(crate) fn accepted_share(
        &self,
        plan: &RunPlan,
        context: &mut Prefill,
        text: &[u32],
    ) -> Result<Option<f64>, Stop> {
        let (Some(&root), false) = (context.prompt.ids.last(), text.is_empty()) else { return Ok(None) };
        let base = context.target.len();
        let input: Vec<u32> = std::iter::once(root).chain(text.iter().copied()).take(text.len()).collect();
        let mut grammar = self.grammar(&context.prompt.ids)?.map(|grammar| grammar.follow());
        let mut history = plan.history(&context.prompt.ids);
        let mut place = 0..text.len();
        let needs = LogitNeeds {
            vocab: self.models.target.tokenizer().vocabulary(),
            whole: grammar.is_some() || history.is_some(),
            ..LogitNeeds::default()
        };
        // As decoding chose: among what the grammar allows, processed by the text.
        let mut choice = |row: LogitRow<'_>| -> specreel_tensor::Result<u32> {
            let Some(at) = place.next() else { return Ok(row.argmax()) };
            let row = match &mut grammar {
                None => row,
                Some(grammar) => {
                    let allowed = grammar.allowed(&[])?;
                    grammar.advance(&text[at..=at])?;
                    let Some(row) = allowed.restrict(row, |id| id)? else { return Ok(0) };
                    row
                }
            };
            let Some(history) = &mut history else { return Ok(row.argmax()) };
            let processed = history.process(&row, None, needs.vocab, &[])?.argmax();
            history.advance(&text[at..=at]);
            Ok(processed)
        };
        let (mut predicted, mut result) = (Vec::with_capacity(text.len()), Ok(()));
        // Within the room that was left for verify passes.
        for ids in input.chunks(16) {
            result = (|| -> specreel_tensor::Result<()> {
                let pass = context.target.feed(ids, &Taps::default())?;
                let logits = context.target.logits(&pass.states)?;
                let choices = logits.read(&needs, |rows| {
                    rows.into_iter().map(&mut choice).collect::<specreel_tensor::Result<Vec<u32>>>()
                })??;
                predicted.extend(choices);
                specreel_tensor::Result::Ok(())
            })();
            if result.is_err() {
                break;
            }
        }
        context.target.truncate(base);
        result.map_err(ModelError::from)?;
        let same = predicted.iter().zip(text).filter(|(a, b)| a == b).count();
        Ok(Some(same as f64 / text.len() as f64))
    }
}
