//! The drafter's side of a prefill: its visual tokens, and its own reading of the prompt.

use std::{sync::Arc, time::Instant};

use crate::{
    cache::{Clip, ContextKey, DrafterContext, DrafterKey, KV_HEADROOM, PrefixCache, ReadPrompt},
    events::{Stop, since},
    models::Models,
    planner::{PromptReader, RunPlan},
    stages::Runner,
    timing::Part,
};
use specreel_model::{
    decoder::{Decoder, Sequence, States},
    family::{ModelError, Prompt, VideoLlm},
    mac_count,
    processor::Patches,
    vision::VisionError,
};
use specreel_record::{Stage, Stats};
use specreel_speculate::{
    Drafter,
    auto::Contender,
    context::{self, HeadInput, HeadPrefill, PrefillInput, Preparation, Selection, Signals},
};

pub(crate) struct Share {
    pub sequence: Sequence,
    pub prefill_ms: f64,
    /// Its visual embeddings and their time, if they were computed now.
    pub encoded: Option<(States, f64)>,
}

impl Runner<'_> {
    /// The quantized target that this drafter is, if it is one.
    pub(crate) fn self_drafter(&self, drafter: &Drafter) -> Result<Option<Arc<Decoder>>, Stop> {
        let Models { target, self_drafters, footprint, .. } = self.models;
        let fits = |bytes| {
            self.ignore_memory || footprint.as_ref().is_none_or(|footprint| footprint.check_available(bytes))
        };
        self_drafters.of(target, drafter, fits, || self.load_progress())
    }

    /// Select the drafter's visual tokens, computing the signals of the target's prefill that the method needs.
    pub(crate) fn select(
        &self,
        plan: &RunPlan,
        cache: &mut PrefixCache,
        key: &ContextKey,
        stats: &mut Stats,
    ) -> Result<Selection, Stop> {
        let method = &plan.method;
        if !method.drafter.reads() {
            return Ok(Selection { kept: Some(Vec::new()), ..Selection::default() });
        }
        let (clip, context) = cache.entry(key)?;
        let started = Instant::now();
        let complete = self.preparation(&context.prompt, clip).signals(
            context::ContextNeeds::of(&method.context),
            &mut context.target,
            &mut context.signals,
            &mut |done, total| self.progress(Stage::Select, done, total),
        )?;
        let grid = clip.facts.grid.shape();
        let selection =
            self.preparation(&context.prompt, clip).select(&method.context, grid, &context.signals);
        stats.timings.select_ms = since(started);
        if !complete || self.progress(Stage::Select, 1, 1).is_break() {
            return Err(Stop::Cancelled);
        }
        Ok(selection)
    }

    /// Let a drafter that takes over read its share of the prompt; `None` if it reads nothing.
    pub(crate) fn read_reserve(
        &self,
        contender: &Contender,
        clip: &Clip,
        read: ReadPrompt<'_>,
        max_new_tokens: usize,
    ) -> Result<Option<HeadPrefill>, Stop> {
        let Contender { drafter, context, .. } = contender;
        if !drafter.reads() {
            return Ok(None);
        }
        let preparation = self.preparation(read.prompt, clip);
        let selection = preparation.select(context, clip.facts.grid.shape(), &Signals::default());
        let (placing, room) = (context.placing(), max_new_tokens + KV_HEADROOM);
        let Some(head) = self.models.head_of(drafter) else {
            let reader = PromptReader { drafter, placing, room };
            let share = self.read_share(reader, clip, read.prompt, &selection, true)?;
            // Its stages were reported.
            let _ = self.progress(Stage::Generate, 0, max_new_tokens);
            return Ok(Some(share.sequence.into()));
        };
        let input = HeadInput { head, states: read.states, selection: &selection, placing, room };
        let go_on = &mut |_, _| self.progress(Stage::Generate, 1, max_new_tokens);
        Ok(Some(preparation.prefill_draft_head(&input, go_on)?.ok_or(Stop::Cancelled)?))
    }

    pub(crate) fn preparation<'p>(&'p self, prompt: &'p Prompt, clip: &'p Clip) -> Preparation<'p> {
        Preparation {
            target: &self.models.target,
            prompt,
            visual: clip.target.as_ref().map(|t| &t.0),
            grid: clip.facts.grid.shape(),
        }
    }

    /// Make sure that the drafter has read its share of the prompt. `None` if it reads nothing.
    pub(crate) fn ensure_drafter(
        &self,
        plan: &RunPlan,
        cache: &mut PrefixCache,
        key: &ContextKey,
        selection: &Selection,
        stats: &mut Stats,
    ) -> Result<Option<DrafterKey>, Stop> {
        let method = &plan.method;
        if !method.drafter.reads() {
            return Ok(None);
        }
        let (_, context) = cache.entry(key)?;
        let drafter_key = DrafterKey::new(method, selection);
        let room = plan.room();
        if let Some(drafter) = context.drafters.touch(&drafter_key) {
            let growth = drafter.sequence.growth(room);
            self.make_room_in(plan, cache, key, growth as u64)?;
            return Ok(Some(drafter_key));
        }
        // Where the target has read something, the drafter's share was counted with it.
        if stats.timings.prefill_target_ms == 0.0 {
            let slots = context.prompt.ids.len() + room;
            let bytes = self.models.drafter_bytes(&method.drafter, slots, plan.max_new_tokens);
            self.make_room_in(plan, cache, key, bytes)?;
        }
        let (clip, context) = cache.entry(key)?;
        let started = Instant::now();
        let shared =
            self.preparation(&context.prompt, clip).shared(&method.drafter, selection, &context.target, room);
        let mut seen = Vec::new();
        let (sequence, prefill_ms) = match (shared, self.models.head_of(&method.drafter)) {
            (Some(sequence), _) => (sequence, since(started)),
            (None, Some(head)) => {
                if head.reads_all_rows() && context.states.read_by(head).is_none() {
                    // The prompt was read for another method, or continues a kept one.
                    let states = self
                        .preparation(&context.prompt, clip)
                        .read_states(head, &mut |done, total| self.progress(Stage::Prefill, done, total))?;
                    context.states.read = Some(states.ok_or(Stop::Cancelled)?);
                }
                let (states, placing) = (&context.states, method.context.placing());
                let read = self.preparation(&context.prompt, clip).prefill_draft_head(
                    &HeadInput { head, states, selection, placing, room },
                    &mut |done, total| self.progress(Stage::Prefill, done, total),
                )?;
                let read = read.ok_or(Stop::Cancelled)?;
                seen = read.seen;
                (read.sequence, since(started))
            }
            (None, None) => {
                let share = self.read_share(plan.reader(), clip, &context.prompt, selection, true)?;
                if let Some(encoded) = share.encoded {
                    stats.timings.encode_drafter_ms = encoded.1;
                    clip.drafter = Some(encoded);
                }
                (share.sequence, share.prefill_ms)
            }
        };
        stats.timings.prefill_drafter_ms = prefill_ms;
        let drafter = DrafterContext { sequence, prefill_ms, prefetched: None, seen };
        context.drafters.insert(drafter_key.clone(), drafter);
        Ok(Some(drafter_key))
    }

    /// Let the drafter read its share of the prompt. A draft model encodes the clip first, unless that is done. `alone` is false
    /// while the target computes as well.
    pub(crate) fn read_share(
        &self,
        PromptReader { drafter, placing, room }: PromptReader<'_>,
        clip: &Clip,
        prompt: &Prompt,
        selection: &Selection,
        alone: bool,
    ) -> Result<Share, Stop> {
        let (model, own) = match (drafter, &self.models.drafter) {
            (Drafter::Model {}, Some(model)) => (model, false),
            _ => (&self.models.target, true),
        };
        let quantized = self.self_drafter(drafter)?;
        let decoder = quantized.as_ref().unwrap_or(model.decoder());
        let recut = clip.recut.as_ref().filter(|_| !own);
        let (own_prompt, own_selection);
        let (prompt, selection, patches) = match recut {
            None => (prompt, selection, &clip.patches),
            Some((facts, patches)) => {
                own_prompt = model.prompt_for(&self.request.question(), facts)?;
                own_selection = selection.onto(clip.facts.grid.shape(), facts.grid.shape());
                (&own_prompt, &own_selection, patches)
            }
        };
        let sees_any = selection.kept.as_ref().is_none_or(|kept| !kept.is_empty());
        let encoded = match !own && sees_any && clip.drafter.is_none() {
            true => Some(self.encode(model, patches, alone)?),
            false => None,
        };
        let kept = if own { &clip.target } else { &clip.drafter };
        let visual = encoded.as_ref().or(kept.as_ref()).map(|v| &v.0);
        let rows = self.preparation(prompt, clip).rows(selection);
        let started = Instant::now();
        let config = model.decoder().config();
        let mut watch =
            self.watch(Stage::Prefill, Part::Prompt, model, mac_count::prompt(config, 0, rows.len()));
        let input = PrefillInput { model, decoder, prompt, visual, rows: &rows, placing, room };
        let sequence = input.prefill(None, &mut |_, _| {}, &mut |done, total| {
            watch.tick(done, total, mac_count::prompt(config, 0, done))
        })?;
        let sequence = sequence.ok_or(Stop::Cancelled)?;
        // A quantized target says nothing of the target's own speed.
        if alone && quantized.is_none() {
            watch.learn();
        }
        Ok(Share { sequence, prefill_ms: since(started), encoded })
    }

    /// Visual embeddings of a clip, and the time that took.
    pub(crate) fn encode(
        &self,
        model: &VideoLlm,
        patches: &Patches,
        alone: bool,
    ) -> Result<(States, f64), Stop> {
        let started = Instant::now();
        let tower = model.tower_config().mac_count(patches.grid);
        let mut watch = self.watch(Stage::Encode, Part::Tower, model, tower.total());
        let embeddings =
            model.encode(patches, &mut |done, total| watch.tick(done, total, tower.after(done, total)));
        match embeddings {
            Ok(embeddings) => {
                if alone {
                    watch.learn();
                }
                Ok((embeddings, since(started)))
            }
            Err(ModelError::Vision(VisionError::Cancelled)) => Err(Stop::Cancelled),
            Err(error) => Err(error.into()),
        }
    }
}
