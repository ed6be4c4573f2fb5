//! The target reads the prompt: from a kept prefix, in one pass, or in two parts around the drafter.

use std::time::Instant;

use crate::{
    cache::{Clip, ContextKey, DrafterContext, DrafterKey, Prefill, PrefixCache, kept_prefix},
    events::{Stop, internal, since},
    planner::RunPlan,
    stages::Runner,
    timing::Part,
};
use specreel_model::{
    decoder::Sequence,
    draft_head::{StateReader, TextStates},
    family::{ModelError, Prompt},
    mac_count,
};
use specreel_record::{Stage, Stats};
use specreel_speculate::{
    PrefetchedDraft, Schedule, VisualStates,
    context::{self, AtLayer, PrefillInput, Signals},
};

struct TargetRead {
    target: Sequence,
    variation: Option<(AtLayer, Vec<f32>)>,
    /// The drafter's context, if it read its share meanwhile.
    drafter: Option<(DrafterKey, DrafterContext)>,
    /// Time spent waiting for the drafter.
    drafter_ms: f64,
}

impl Runner<'_> {
    /// Make sure that the clip and prompt are prefilled. Returns how many of the prompt's tokens were kept from earlier runs: none,
    /// or at least the video's.
    pub(crate) fn ensure_context(
        &self,
        plan: &RunPlan,
        cache: &mut PrefixCache,
        key: &ContextKey,
        stats: &mut Stats,
    ) -> Result<usize, Stop> {
        if let Some(context) = cache.contexts.touch(key) {
            self.check_length(context.prompt.ids.len(), context.visual.len())?;
            // It may have been made for a shorter caption.
            let growth = context.target.growth(plan.room());
            let kept = context.target.len();
            self.make_room_in(plan, cache, key, growth as u64)?;
            return Ok(kept);
        }
        let clip = cache.clips.touch(&key.0).ok_or_else(|| internal("no clip".into()))?;
        let prompt = self.lay_out(&clip.facts)?;
        let work = self.work(prompt.ids.len(), clip.patches.grid, clip.facts.grid, clip.timestamps_s.len());
        self.make_room(cache, &key.0, &work)?;

        let PrefixCache { clips, contexts, .. } = cache;
        let clip = clips.touch(&key.0).ok_or_else(|| internal("no clip".into()))?;
        if clip.target.is_none() {
            let (embeddings, ms) = self.encode(&self.models.target, &clip.patches, true)?;
            stats.timings.encode_target_ms = ms;
            clip.target = Some((embeddings, ms));
        }
        let started = Instant::now();
        // A variation compares states inside of the pass over the video, which a kept prefix does not have.
        let varies = context::ContextNeeds::of(&plan.method.context).variation.is_some();
        let pruner = plan.pruner.as_deref();
        if let Some(kept) =
            (!varies && pruner.is_none()).then(|| kept_prefix(contexts, &key.0, &prompt)).flatten()
        {
            let (common, context) = (kept.1, self.extend(plan, kept, prompt, started)?);
            stats.timings.prefill_target_ms = since(started);
            contexts.insert(key.clone(), context);
            return Ok(common);
        }
        let context = match pruner {
            Some(pruner) => self.prefill_pruned(pruner, plan.room(), clip, prompt, started, stats)?,
            None => self.prefill(plan, clip, prompt, started, stats)?,
        };
        contexts.insert(key.clone(), context);
        Ok(0)
    }

    fn prefill(
        &self,
        plan: &RunPlan,
        clip: &mut Clip,
        prompt: Prompt,
        started: Instant,
        stats: &mut Stats,
    ) -> Result<Prefill, Stop> {
        let (target, method) = (&self.models.target, &plan.method);
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let width = target.decoder().config().hidden;
        let mut visual_states: Vec<f32> = Vec::with_capacity(clip.facts.grid.len() * width);
        let mut text_states = TextStates::new(width, prompt.visual.clone());
        let mut states = |first: usize, states: &[f32]| {
            text_states.push(first, states);
            for (row, state) in (first..).zip(states.chunks_exact(width)) {
                if prompt.visual.contains(row) {
                    visual_states.extend_from_slice(state);
                }
            }
        };
        let head = self.models.head_of(&method.drafter).filter(|head| head.reads_all_rows());
        let mut reader = head.map(|head| StateReader::new(head));
        let read = match context::ContextNeeds::of(&method.context).variation {
            Some(at) if method.drafter.reads() => {
                self.in_two_parts(plan, at, clip, &prompt, &mut states, stats)?
            }
            _ => {
                let config = target.decoder().config();
                let mut watch = self.watch(
                    Stage::Prefill,
                    Part::Prompt,
                    target,
                    mac_count::prompt(config, 0, rows.len()),
                );
                let visual = clip.target.as_ref().map(|t| &t.0);
                let sequence = PrefillInput::new(target, &prompt, visual, &rows, plan.room()).prefill(
                    reader.as_mut(),
                    &mut states,
                    &mut |done, total| watch.tick(done, total, mac_count::prompt(config, 0, done)),
                )?;
                let target = sequence.ok_or(Stop::Cancelled)?;
                watch.learn();
                TargetRead { target, variation: None, drafter: None, drafter_ms: 0.0 }
            }
        };
        if let Some(reader) = reader.filter(|reader| !reader.is_empty()) {
            text_states.read = Some(reader.finish().map_err(ModelError::from)?);
        }
        let prefill_ms = since(started) - read.drafter_ms;
        stats.timings.prefill_target_ms = prefill_ms;
        let visual = VisualStates::new(&visual_states, width);
        let mut context = Prefill::new(prompt, read.target, visual, text_states, prefill_ms);
        context.signals.variations.extend(read.variation);
        if let Some((key, drafter)) = read.drafter {
            context.drafters.insert(key, drafter);
        }
        Ok(context)
    }

    /// Prefill up to the layer at which tokens are compared, then the rest. Under the parallel schedule the drafter reads its
    /// share meanwhile and drafts its first window (ParallelVLM's first stage).
    fn in_two_parts(
        &self,
        plan: &RunPlan,
        at: AtLayer,
        clip: &mut Clip,
        prompt: &Prompt,
        states: &mut dyn FnMut(usize, &[f32]),
        stats: &mut Stats,
    ) -> Result<TargetRead, Stop> {
        let (target, method) = (&self.models.target, &plan.method);
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let preparation = self.preparation(prompt, clip);
        let embeddings = target.embed(prompt, preparation.visual, &rows)?;
        let positions = prompt.positions.select(&rows);
        let layers = at.of(target.decoder().config().layers);
        let mut sequence = Sequence::new(target.decoder().clone(), rows.len() + plan.room());
        let config = target.decoder().config();
        let all = |done: usize| mac_count::prompt(config, 0, done);
        let share = layers as f64 / config.layers.max(1) as f64;
        let mut watch = self.watch(Stage::Prefill, Part::Prompt, target, all(rows.len()));
        let mut progress = |done: usize, total: usize| watch.tick(done, 2 * total, all(done) * share);
        let below = sequence.prefill_below(&embeddings, &positions, layers, &mut progress);
        let below = below.map_err(ModelError::from)?.ok_or(Stop::Cancelled)?;
        let growth = preparation.growth(&embeddings, &below).map_err(ModelError::from)?;
        let mut finish = || {
            let mut progress = |done: usize, total: usize| {
                let work = all(total) * share + all(done) * (1.0 - share);
                watch.tick(total + done, 2 * total, work)
            };
            let whole =
                sequence.prefill_above(&below, &positions, layers, prompt.next - 1, states, &mut progress);
            if whole.map_err(ModelError::from)? { Ok(()) } else { Err(Stop::Cancelled) }
        };
        let variation = Some((at, growth.clone()));
        let Schedule::Parallel { .. } = method.schedule else {
            finish()?;
            watch.learn();
            return Ok(TargetRead { target: sequence, variation, drafter: None, drafter_ms: 0.0 });
        };
        let signals = Signals { variations: vec![(at, growth)], ..Signals::default() };
        let grid = clip.facts.grid.shape();
        let selection = preparation.select(&method.context, grid, &signals);
        let root = prompt.ids.last().copied().unwrap_or_default();
        let (grammar, history) = (self.grammar(&prompt.ids)?, plan.history(&prompt.ids));
        let began = Instant::now();
        let (finished, share, target_ms) = std::thread::scope(|scope| {
            let share = scope.spawn(|| -> Result<_, Stop> {
                let mut share = self.read_share(plan.reader(), clip, prompt, &selection, false)?;
                let changes = (grammar.as_ref(), history.as_ref());
                let length = (&plan.sampling, plan.max_new_tokens);
                let config = self.config(method, length, &|_| false, changes, None);
                let draft =
                    PrefetchedDraft::draft(&config, &mut share.sequence, root).map_err(ModelError::from)?;
                Ok((share, draft))
            });
            let finished = finish();
            let target_ms = since(began);
            let share = share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (finished, share, target_ms)
        });
        let wall_ms = since(began);
        finished?;
        let (share, draft) = share?;
        let reading_ms = share.prefill_ms + draft.ms();
        let drafter_ms = reading_ms + share.encoded.as_ref().map_or(0.0, |e| e.1);
        stats.timings.overlapped_ms = (target_ms + drafter_ms - wall_ms).max(0.0);
        stats.timings.prefill_drafter_ms = reading_ms;
        if let Some(encoded) = share.encoded {
            stats.timings.encode_drafter_ms = encoded.1;
            clip.drafter = Some(encoded);
        }
        let drafter = DrafterContext {
            sequence: share.sequence,
            prefill_ms: share.prefill_ms,
            prefetched: Some(draft),
            seen: Vec::new(),
        };
        Ok(TargetRead {
            target: sequence,
            variation,
            drafter: Some((DrafterKey::new(method, &selection), drafter)),
            // The wait for the drafter, which is not the target's time.
            drafter_ms: wall_ms - target_ms,
        })
    }
}
