//! A target that reads a part of the visual tokens: in all layers, or in the later ones only.

use std::{cell::Cell, time::Instant};

use crate::{
    cache::{Clip, Prefill},
    events::{Stop, since},
    stages::{KV_HEADROOM, Runner},
    timing::Part,
};
use specreel_model::{
    decoder::{LogitNeeds, LogitRow, Sequence, Staged, Taps},
    draft_head::TextStates,
    family::{ModelError, Prompt},
    mac_count,
};
use specreel_record::{Stage, Stats};
use specreel_speculate::{
    VisualStates,
    context::{self, ContextNeeds, Cut, PrefillInput, Raters, Signals},
};
use specreel_tensor::VisualSpans;

struct PrunedRead {
    target: Sequence,
    /// The visual tokens that all layers read, ascending.
    kept: Vec<usize>,
    /// The prompt's rows that the last layer read, with their final states, one after the other.
    rows: Vec<usize>,
    states: Vec<f32>,
}

impl Runner<'_> {
    /// Read the prompt as the method prunes it.
    pub(crate) fn prefill_pruned(
        &self,
        clip: &Clip,
        prompt: Prompt,
        started: Instant,
        stats: &mut Stats,
    ) -> Result<Prefill, Stop> {
        let config = self.models.target.decoder().config();
        let cuts = context::cuts(&self.request.method.context, config.layers);
        let mut signals = Signals::default();
        let read = match cuts.is_empty() {
            true => self.read_part(clip, &prompt, &mut signals)?,
            false => self.read_in_stages(clip, &prompt, &cuts)?,
        };
        let width = config.hidden;
        let mut text_states = TextStates::new(width, prompt.visual.clone());
        // Tokens that were dropped have no final states: nothing is similar to zeros.
        let mut visual_states = vec![0f32; prompt.visual.len() * width];
        let mut next = 0;
        for (&row, state) in read.rows.iter().zip(read.states.chunks_exact(width)) {
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
        let mut context = Prefill::new(prompt, read.target, visual, text_states, prefill_ms);
        context.signals = signals;
        context.kept = Some(read.kept);
        Ok(context)
    }

    /// Visual tokens are chosen before the first layer.
    fn read_part(&self, clip: &Clip, prompt: &Prompt, signals: &mut Signals) -> Result<PrunedRead, Stop> {
        let (target, method) = (&self.models.target, &self.request.method);
        let preparation = self.preparation(prompt, clip);
        preparation.embedded(ContextNeeds::of(&method.context), signals).map_err(ModelError::from)?;
        let selection = preparation.select(&method.context, preparation.grid, signals);
        let rows = preparation.rows(&selection);
        let config = target.decoder().config();
        let mut watch =
            self.watch(Stage::Prefill, Part::Prompt, target, mac_count::prompt(config, 0, rows.len()));
        let mut states = Vec::with_capacity(rows.len() * config.hidden);
        let room = self.request.max_new_tokens + KV_HEADROOM;
        let input = PrefillInput {
            placing: method.context.placing(),
            ..PrefillInput::new(target, prompt, preparation.visual, &rows, room)
        };
        let sequence =
            input.prefill(None, &mut |_, chunk| states.extend_from_slice(chunk), &mut |done, total| {
                watch.tick(done, total, mac_count::prompt(config, 0, done))
            })?;
        let kept = selection.kept.unwrap_or_else(|| (0..prompt.visual.len()).collect());
        Ok(PrunedRead { target: sequence.ok_or(Stop::Cancelled)?, kept, rows, states })
    }

    /// Visual tokens are dropped between layers.
    fn read_in_stages(&self, clip: &Clip, prompt: &Prompt, cuts: &[Cut]) -> Result<PrunedRead, Stop> {
        let target = &self.models.target;
        let config = target.decoder().config();
        let last = prompt.ids.len() - 1;
        let mut rows: Vec<usize> = (0..last).collect();
        let embeddings = target.embed(prompt, clip.target.as_ref().map(|t| &t.0), &rows)?;
        let positions = prompt.positions.select(&rows);
        let room = self.request.max_new_tokens + KV_HEADROOM;
        let mut staged = Staged::new(target.decoder().clone(), embeddings, positions, room);
        let all = mac_count::prompt(config, 0, last);
        let watch = Cell::new(Some(self.watch(Stage::Prefill, Part::Prompt, target, all)));
        // Layers that have run, as a share of all.
        let share = |layers: usize| layers as f64 / config.layers.max(1) as f64;
        let progress = |from: usize, to: usize, done: usize, total: usize| {
            let part = done as f64 / total.max(1) as f64;
            let share = share(from) + (share(to) - share(from)) * part;
            let mut held = watch.take();
            let flow =
                held.as_mut().map(|watch| watch.tick((share * last as f64) as usize, last, all * share));
            watch.set(held);
            flow.unwrap_or(std::ops::ControlFlow::Continue(()))
        };
        let mut kept: Vec<usize> = (0..prompt.visual.len()).collect();
        let mut from = 0;
        for cut in cuts {
            let mut tick = |done: usize, total: usize| progress(from, cut.layer, done, total);
            if !staged.run_to(cut.layer, &mut tick).map_err(ModelError::from)? {
                return Err(Stop::Cancelled);
            }
            from = cut.layer;
            if kept.is_empty() {
                continue;
            }
            let scores = self.rate(&mut staged, prompt, &rows, cut.raters).map_err(ModelError::from)?;
            let best = context::largest(&scores, context::budget(kept.len(), cut.keep));
            kept = best.into_iter().map(|i| kept[i]).collect();
            let left = prompt.visual.rows_keeping(&kept, last);
            let wanted = left.iter().filter_map(|row| rows.binary_search(row).ok()).collect::<Vec<_>>();
            staged.keep(&wanted).map_err(ModelError::from)?;
            rows = left;
        }
        let mut states = Vec::with_capacity(rows.len() * config.hidden);
        let mut tick = |done: usize, total: usize| progress(from, config.layers, done, total);
        let sequence = staged
            .finish(prompt.next - 1, &mut |_, chunk| states.extend_from_slice(chunk), &mut tick)
            .map_err(ModelError::from)?;
        Ok(PrunedRead { target: sequence.ok_or(Stop::Cancelled)?, kept, rows, states })
    }

    /// The attention that the raters pay to the visual tokens among `rows`, the prompt's rows that the newest stage read.
    fn rate(
        &self,
        staged: &mut Staged,
        prompt: &Prompt,
        rows: &[usize],
        raters: Raters,
    ) -> specreel_tensor::Result<Vec<f32>> {
        let slots = rows.iter().enumerate().filter(|(_, row)| prompt.visual.contains(**row));
        let spans = VisualSpans::new(slots.map(|(slot, _)| slot..slot + 1), rows.len())?;
        let last = prompt.ids.len() - 1;
        let first = match raters {
            Raters::Last => last,
            Raters::Text => prompt.video_end().min(last),
        };
        let rated: Vec<usize> = (first..=last).collect();
        let positions = prompt.positions.select(&rated);
        let attention = staged.attention(&prompt.ids[first..], &positions, last - first, &spans)?;
        Ok(raters.rate(&attention))
    }

    /// The share of a pruned target's text that the whole target, of this context, would have written after the tokens before
    /// (A in ParallelVLM's table 2 and Appendix A); `None` without a text.
    pub(crate) fn accepted_share(&self, context: &mut Prefill, text: &[u32]) -> Result<Option<f64>, Stop> {
        let (Some(&root), false) = (context.prompt.ids.last(), text.is_empty()) else { return Ok(None) };
        let base = context.target.len();
        let input: Vec<u32> = std::iter::once(root).chain(text.iter().copied()).take(text.len()).collect();
        let mut grammar = self.grammar(&context.prompt.ids)?.map(|grammar| grammar.follow());
        let mut place = 0..text.len();
        let needs = LogitNeeds {
            vocab: self.models.target.tokenizer().vocabulary(),
            whole: grammar.is_some(),
            ..LogitNeeds::default()
        };
        // As decoding chose: among what the grammar allows.
        let mut choice = |row: LogitRow<'_>| -> specreel_tensor::Result<u32> {
            let (Some(grammar), Some(at)) = (&mut grammar, place.next()) else { return Ok(row.argmax()) };
            let allowed = grammar.allowed(&[])?;
            grammar.advance(&text[at..=at])?;
            Ok(allowed.restrict(row, |id| id)?.map_or(0, |row| row.argmax()))
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
