//! What comes before the first token: the clip, the target's context, the drafter's, each re-used where it is kept.

use std::{ops::ControlFlow, time::Instant};

use candle_core::Tensor;

use super::{
    models,
    prefix::kept_prefix,
    run::{KV_HEADROOM, Runner, Stop, since},
    store::{Clip, ClipKey, DrafterContext, DrafterKey, Prefill, PrefixCache},
    thread::internal,
};
use crate::{
    model::{
        decoder::Sequence,
        family::{ModelError, Prompt, VideoLlm},
        processor::PatchBuilder,
        sparrow::TextStates,
        vision::VisionError,
    },
    record::{Failure, FailureClass, Stage, Stats},
    speculate::{
        self, Drafter, PrefetchedDraft, Schedule, VisualStates,
        context::{self, Preparation, Selection, Signals},
    },
    video,
};

/// What the target's prefill left.
struct Read {
    target: Sequence,
    variation: Option<(f64, Vec<f32>)>,
    /// The drafter's context, where it read beside.
    drafter: Option<(DrafterKey, DrafterContext)>,
    /// Time spent waiting for it.
    drafter_ms: f64,
}

/// A drafter that has read its share.
struct Share {
    sequence: Sequence,
    prefill_ms: f64,
    /// Its visual embeddings and their time, where they were made now.
    encoded: Option<(Tensor, f64)>,
}

impl Runner<'_> {
    pub(super) fn clip_key(&self) -> Result<ClipKey, Stop> {
        let path = &self.request.video;
        let about = std::fs::metadata(path).ok();
        Ok(ClipKey {
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()),
            bytes: about.as_ref().map_or(0, std::fs::Metadata::len),
            modified: about.and_then(|m| m.modified().ok()),
            span: self.request.span,
            sampling: self.request.sampling,
            max_pixels: self.request.max_pixels,
        })
    }

    pub(super) fn ensure_clip(
        &self,
        store: &mut PrefixCache,
        key: &ClipKey,
        stats: &mut Stats,
    ) -> Result<(), Stop> {
        if store.clips.touch(key).is_some() {
            return Ok(());
        }
        let started = Instant::now();
        let processor = self.models.target.processor();
        let mut builder: Option<PatchBuilder> = None;
        let mut problem: Option<Failure> = None;
        let total = std::cell::Cell::new(0);
        let decoded = {
            let builder = std::cell::RefCell::new(&mut builder);
            let problem = std::cell::RefCell::new(&mut problem);
            let fail = |failure: Failure| {
                **problem.borrow_mut() = Some(failure);
                ControlFlow::Break(())
            };
            video::decode_part(
                &self.request.video,
                self.request.span,
                models::frames(self.models.target.family()),
                self.request.sampling,
                &mut |probe, plan| {
                    let (height, width, frames) =
                        (probe.height as usize, probe.width as usize, plan.indices.len());
                    let made = processor
                        .target_size(height, width, frames, self.request.max_pixels)
                        .and_then(|size| processor.patches(size));
                    total.set(frames);
                    match made {
                        Ok(made) => **builder.borrow_mut() = Some(made),
                        Err(error) => return fail(error.into()),
                    }
                    self.progress(Stage::Decode, 0, frames)
                },
                &mut |frame| {
                    let mut builder = builder.borrow_mut();
                    let Some(builder) = builder.as_mut() else { return ControlFlow::Break(()) };
                    if let Err(error) = builder.push(&frame.rgb, frame.height as usize, frame.width as usize)
                    {
                        return fail(error.into());
                    }
                    self.progress(Stage::Decode, builder.frames(), total.get())
                },
            )?
        };
        if let Some(failure) = problem {
            return Err(Stop::Failed(failure));
        }
        let (Some(builder), false) = (builder, decoded.cancelled) else { return Err(Stop::Cancelled) };
        let patches = builder.finish()?;
        let grid = processor.visual_grid(patches.grid)?;
        let decode_ms = since(started);
        stats.timings.decode_video_ms = decode_ms;
        store.clips.insert(
            key.clone(),
            Clip {
                notes: decoded.notes(),
                timestamps_s: decoded.plan.timestamps_s,
                sample_fps: decoded.plan.sample_fps,
                patches,
                grid,
                decode_ms,
                target: None,
                drafter: None,
            },
        );
        Ok(())
    }

    /// True if the context was kept from an earlier run.
    pub(super) fn ensure_context(
        &self,
        store: &mut PrefixCache,
        key: &ClipKey,
        stats: &mut Stats,
    ) -> Result<bool, Stop> {
        let target = &self.models.target;
        let context_key = (key.clone(), self.request.asked());
        let Some(clip) = store.clips.touch(key) else { return Err(Stop::Failed(internal("no clip".into()))) };
        let limit = target.decoder().config().max_positions;
        let fits = |rows: usize| {
            if rows + self.request.max_new_tokens <= limit {
                return Ok(());
            }
            Err(Stop::Failed(Failure {
                class: FailureClass::Input,
                error: format!(
                    "the prompt takes {rows} tokens ({} of them visual) and the caption up to {}, but {} holds {limit}",
                    clip.grid.len(),
                    self.request.max_new_tokens,
                    target.name()
                ),
                hint: Some("use fewer frames (--frames), smaller ones (--max-pixels), a shorter prompt or --max-new-tokens".into()),
            }))
        };
        if let Some(context) = store.contexts.touch(&context_key) {
            fits(context.prompt.ids.len())?;
            return Ok(true);
        }
        let request = self.request;
        let prompt = target.prompt_after(&request.before, &request.prompt, clip.grid, clip.sample_fps)?;
        fits(prompt.ids.len())?;
        if clip.target.is_none() {
            let (embeddings, ms) = self.encode(target, &clip.patches)?;
            stats.timings.encode_target_ms = ms;
            clip.target = Some((embeddings, ms));
        }
        let started = Instant::now();
        let varies = context::Needs::of(&self.request.method.context).variation.is_some();
        if let Some(kept) = (!varies).then(|| kept_prefix(&store.contexts, key, &prompt)).flatten() {
            let context = self.read_on(kept, prompt, started)?;
            stats.timings.prefill_target_ms = since(started);
            store.contexts.insert(context_key, context);
            return Ok(true);
        }
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let width = target.decoder().config().hidden;
        let mut seen: Vec<f32> = Vec::with_capacity(clip.grid.len() * width);
        let mut before = TextStates::new(width, prompt.visual.clone());
        let mut states = |first: usize, states: &[f32]| {
            before.push(first, states);
            for (row, state) in (first..).zip(states.chunks_exact(width)) {
                if prompt.visual.contains(row) {
                    seen.extend_from_slice(state);
                }
            }
        };
        let method = &self.request.method;
        let read = match context::Needs::of(&method.context).variation {
            Some(depth) if method.drafter.reads() => {
                self.in_two_parts(depth, clip, &prompt, &mut states, stats)?
            }
            _ => {
                let visual = clip.target.as_ref().map(|t| &t.0);
                let sequence = context::prefill(
                    target,
                    &prompt,
                    visual,
                    &rows,
                    &speculate::VisualContext::Full {},
                    self.request.max_new_tokens + KV_HEADROOM,
                    &mut states,
                    &mut |done, total| self.progress(Stage::Prefill, done, total),
                )?;
                Read {
                    target: sequence.ok_or(Stop::Cancelled)?,
                    variation: None,
                    drafter: None,
                    drafter_ms: 0.0,
                }
            }
        };
        let prefill_ms = since(started) - read.drafter_ms;
        stats.timings.prefill_target_ms = prefill_ms;
        let mut context =
            Prefill::new(prompt, read.target, VisualStates::new(&seen, width), before, prefill_ms);
        context.signals.variations.extend(read.variation);
        if let Some((key, drafter)) = read.drafter {
            context.drafters.insert(key, drafter);
        }
        store.contexts.insert(context_key, context);
        Ok(false)
    }

    /// The target's prefill up to the layer at which tokens are compared, and then the rest; under the parallel schedule the
    /// drafter reads its share meanwhile, and drafts its first window (ParallelVLM's first stage).
    fn in_two_parts(
        &self,
        depth: f64,
        clip: &mut Clip,
        prompt: &Prompt,
        states: &mut dyn FnMut(usize, &[f32]),
        stats: &mut Stats,
    ) -> Result<Read, Stop> {
        let (target, method) = (&self.models.target, &self.request.method);
        let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
        let preparation = self.preparation(prompt, clip);
        let embeddings = target.embed(prompt, preparation.visual, &rows)?;
        let positions = prompt.positions.select(&rows);
        let layers = context::layers_of(target, depth);
        let mut sequence =
            Sequence::new(target.decoder().clone(), rows.len() + self.request.max_new_tokens + KV_HEADROOM);
        let mut progress = |done: usize, total: usize| self.progress(Stage::Prefill, done, 2 * total);
        let below = sequence.prefill_below(&embeddings, &positions, layers, &mut progress);
        let below = below.map_err(ModelError::from)?.ok_or(Stop::Cancelled)?;
        let growth = preparation.growth(&embeddings, &below).map_err(ModelError::from)?;
        let mut finish = || {
            let mut progress =
                |done: usize, total: usize| self.progress(Stage::Prefill, total + done, 2 * total);
            let whole =
                sequence.prefill_above(&below, &positions, layers, prompt.next - 1, states, &mut progress);
            if whole.map_err(ModelError::from)? { Ok(()) } else { Err(Stop::Cancelled) }
        };
        let variation = Some((depth, growth.clone()));
        let Schedule::Parallel { .. } = method.schedule else {
            finish()?;
            return Ok(Read { target: sequence, variation, drafter: None, drafter_ms: 0.0 });
        };
        let signals = Signals { variations: vec![(depth, growth)], ..Signals::default() };
        let grid = [clip.grid.t, clip.grid.h, clip.grid.w];
        let selection = context::select(&method.context, grid, &signals);
        let root = prompt.ids.last().copied().unwrap_or_default();
        let began = Instant::now();
        let (finished, share, target_ms) = std::thread::scope(|scope| {
            let share = scope.spawn(|| -> Result<_, Stop> {
                let mut share = self.read_share(clip, prompt, &selection)?;
                let rules = self.rules(method, self.request.max_new_tokens, &|_| false, None);
                let opening =
                    PrefetchedDraft::draft(&rules, &mut share.sequence, root).map_err(ModelError::from)?;
                Ok((share, opening))
            });
            let finished = finish();
            let target_ms = since(began);
            let share = share.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (finished, share, target_ms)
        });
        let wall_ms = since(began);
        finished?;
        let (share, opening) = share?;
        let reading_ms = share.prefill_ms + opening.ms();
        let drafter_ms = reading_ms + share.encoded.as_ref().map_or(0.0, |e| e.1);
        stats.timings.overlapped_ms = (target_ms + drafter_ms - wall_ms).max(0.0);
        stats.timings.prefill_drafter_ms = reading_ms;
        if let Some(encoded) = share.encoded {
            stats.timings.encode_drafter_ms = encoded.1;
            clip.drafter = Some(encoded);
        }
        let drafter =
            DrafterContext { sequence: share.sequence, prefill_ms: share.prefill_ms, opening: Some(opening) };
        Ok(Read {
            target: sequence,
            variation,
            drafter: Some((DrafterKey::new(method, &selection), drafter)),
            // What the target's own time must not be charged with: the wait for the drafter.
            drafter_ms: wall_ms - target_ms,
        })
    }

    /// The drafter's visual tokens, and whatever the choice needs to know of the target's prefill.
    pub(super) fn select(
        &self,
        store: &mut PrefixCache,
        key: &ClipKey,
        stats: &mut Stats,
    ) -> Result<Selection, Stop> {
        let method = &self.request.method;
        if !method.drafter.reads() {
            return Ok(Selection { kept: Some(Vec::new()), ..Selection::default() });
        }
        let PrefixCache { clips, contexts } = store;
        let (Some(clip), Some(context)) =
            (clips.touch(key), contexts.touch(&(key.clone(), self.request.asked())))
        else {
            return Err(Stop::Failed(internal("no context".into())));
        };
        let started = Instant::now();
        let preparation = self.preparation(&context.prompt, clip);
        let whole = preparation.signals(
            context::Needs::of(&method.context),
            &mut context.target,
            &mut context.signals,
            &mut |done, total| self.progress(Stage::Select, done, total),
        )?;
        let selection =
            context::select(&method.context, [clip.grid.t, clip.grid.h, clip.grid.w], &context.signals);
        stats.timings.select_ms = since(started);
        if !whole || self.progress(Stage::Select, 1, 1).is_break() {
            return Err(Stop::Cancelled);
        }
        Ok(selection)
    }

    fn preparation<'p>(&'p self, prompt: &'p Prompt, clip: &'p Clip) -> Preparation<'p> {
        Preparation { target: &self.models.target, prompt, visual: clip.target.as_ref().map(|t| &t.0) }
    }

    pub(super) fn ensure_drafter(
        &self,
        store: &mut PrefixCache,
        key: &ClipKey,
        selection: &Selection,
        stats: &mut Stats,
    ) -> Result<Option<DrafterKey>, Stop> {
        let method = &self.request.method;
        if !method.drafter.reads() {
            return Ok(None);
        }
        let PrefixCache { clips, contexts } = store;
        let (Some(clip), Some(context)) =
            (clips.touch(key), contexts.touch(&(key.clone(), self.request.asked())))
        else {
            return Err(Stop::Failed(internal("no context".into())));
        };
        let drafter_key = DrafterKey::new(method, selection);
        if context.drafters.touch(&drafter_key).is_some() {
            return Ok(Some(drafter_key));
        }
        let room = self.request.max_new_tokens + KV_HEADROOM;
        let started = Instant::now();
        let shared =
            self.preparation(&context.prompt, clip).shared(&method.drafter, selection, &context.target, room);
        let layer = match method.drafter {
            Drafter::Sparrow { recipe } => self.models.head(recipe),
            _ => None,
        };
        let drafter = match (shared, layer) {
            (Some(sequence), _) => DrafterContext { sequence, prefill_ms: since(started), opening: None },
            (None, Some(layer)) => {
                let sequence = self.preparation(&context.prompt, clip).prefill_layer(
                    layer,
                    &context.states,
                    selection,
                    method.context.placing(),
                    room,
                    &mut |done, total| self.progress(Stage::Prefill, done, total),
                )?;
                let sequence = sequence.ok_or(Stop::Cancelled)?;
                DrafterContext { sequence, prefill_ms: since(started), opening: None }
            }
            (None, None) => {
                let share = self.read_share(clip, &context.prompt, selection)?;
                if let Some(encoded) = share.encoded {
                    stats.timings.encode_drafter_ms = encoded.1;
                    clip.drafter = Some(encoded);
                }
                DrafterContext { sequence: share.sequence, prefill_ms: share.prefill_ms, opening: None }
            }
        };
        stats.timings.prefill_drafter_ms = drafter.prefill_ms;
        context.drafters.insert(drafter_key.clone(), drafter);
        Ok(Some(drafter_key))
    }

    /// Let the drafter read its share of the prompt, its own tower first where it has not seen the clip.
    fn read_share(&self, clip: &Clip, prompt: &Prompt, selection: &Selection) -> Result<Share, Stop> {
        let method = &self.request.method;
        let (model, own) = match (&method.drafter, &self.models.drafter) {
            (Drafter::Model {}, Some(drafter)) => (drafter, false),
            _ => (&self.models.target, true),
        };
        let sees_any = selection.kept.as_ref().is_none_or(|kept| !kept.is_empty());
        let encoded = match !own && sees_any && clip.drafter.is_none() {
            true => Some(self.encode(model, &clip.patches)?),
            false => None,
        };
        let kept = if own { &clip.target } else { &clip.drafter };
        let visual = encoded.as_ref().or(kept.as_ref()).map(|v| &v.0);
        let rows = self.preparation(prompt, clip).rows(selection);
        let started = Instant::now();
        let sequence = context::prefill(
            model,
            prompt,
            visual,
            &rows,
            &method.context,
            self.request.max_new_tokens + KV_HEADROOM,
            &mut |_, _| {},
            &mut |done, total| self.progress(Stage::Prefill, done, total),
        )?;
        Ok(Share { sequence: sequence.ok_or(Stop::Cancelled)?, prefill_ms: since(started), encoded })
    }

    fn encode(
        &self,
        model: &VideoLlm,
        patches: &crate::model::processor::Patches,
    ) -> Result<(Tensor, f64), Stop> {
        let started = Instant::now();
        let embeddings = model.encode(patches, &mut |done, total| self.progress(Stage::Encode, done, total));
        match embeddings {
            Ok(embeddings) => Ok((embeddings, since(started))),
            Err(ModelError::Vision(VisionError::Cancelled)) => Err(Stop::Cancelled),
            Err(error) => Err(error.into()),
        }
    }
}
