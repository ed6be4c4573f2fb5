//! One run from file to caption, reusing the prefix cache.

use std::time::Instant;

use crate::{
    cache::{ContextKey, PrefixCache},
    command::RunRequest,
    events::{Stop, internal, since},
    planner::RunPlan,
    stages::{Runner, generate::Generated},
};
use specreel_record::{EventKind, Failure, OnLoop, PromptSeen, Started, Stats, StopReason};
use specreel_speculate::{TextSampling, context::Selection};

/// How often a text is written at most that is to be written again if it repeats itself without end.
const TRIES: u32 = 3;

/// A finished run, with the state to repeat it in a measurement.
pub(crate) struct FinishedRun {
    pub request: RunRequest,
    pub plan: RunPlan,
    pub key: ContextKey,
    /// The context of autoregressive decoding: its own, unless it prunes the target.
    pub(crate) plain_key: ContextKey,
    pub selection: Selection,
    pub emitted: u64,
    pub(crate) generated: Generated,
}

impl Runner<'_> {
    /// From file to caption. Everything but a failure is reported as events. Returns the state to measure the run's speed,
    /// if that was requested and it finished.
    pub fn run(&self, cache: &mut PrefixCache) -> Result<Option<FinishedRun>, Failure> {
        self.validate()?;
        let (request, method) = (self.request, &self.request.method);
        self.sender.send(EventKind::Started(Started {
            method: serde_json::to_value(method).map_err(|e| internal(e.to_string()))?,
            lossless: request.is_lossless(),
            pruner: request.pruner.as_ref().map(|pruner| pruner.describe()),
            target: self.models.target.name().to_owned(),
            drafter: self.models.drafter_name(&method.drafter),
            device: self.models.device.clone(),
            dtype: self.models.dtype.clone(),
            video: request.video.display().to_string(),
            prompt: request.prompt.clone(),
            system: request.system.clone(),
            preset: request.preset.clone(),
            before: request.before.clone(),
            constraint: request.constraint.as_ref().and_then(|of| serde_json::to_value(of).ok()),
            sampling: self.sampling_report(),
            span: request.span,
            segment: request.segment,
            summary_of: request.summary_of,
        }));
        match self.caption(cache) {
            Ok(finished) => Ok(finished),
            Err(Stop::Failed(failure)) => Err(failure),
            Err(Stop::Cancelled) => {
                self.sender.send(EventKind::Done {
                    reason: StopReason::Cancelled,
                    text: String::new(),
                    ids: Vec::new(),
                    stats: Box::default(),
                });
                Ok(None)
            }
        }
    }

    /// How the text is sampled, unless it is plain greedy decoding.
    fn sampling_report(&self) -> Option<Box<serde_json::Value>> {
        let sampling = self.request.text.resolve(self.models.target.tokenizer().sampling());
        if sampling.is_plain() {
            return None;
        }
        serde_json::to_value(sampling.report()).ok().map(Box::new)
    }

    /// The sampling of the next try at a text that has repeated itself for so many tokens, after so many tries; it is reported.
    fn retry(&self, tokens: usize, tries: u32) -> Result<TextSampling, Failure> {
        let controls = self.request.text.retried(tries, self.models.target.tokenizer().sampling());
        let sampling = self.models.sampling(&controls);
        let report = serde_json::to_value(sampling.report()).map_err(|e| internal(e.to_string()))?;
        let how = sampling.describe();
        let note = format!("the text repeated itself, and is written again after {tokens} tokens: {how}");
        self.sender.send(EventKind::Retry { tokens: tokens as u64, sampling: Box::new(report), note });
        Ok(sampling)
    }

    fn caption(&self, cache: &mut PrefixCache) -> Result<Option<FinishedRun>, Stop> {
        let started = Instant::now();
        let mut stats = Stats::default();
        // Before the video is read: it may be refused.
        self.self_drafter(&self.request.method.drafter)?;
        let key = (self.clip_key(), self.request.reading());
        self.ensure_clip(cache, &key, &mut stats)?;
        let clip = cache.clips.touch(&key.0).ok_or_else(|| internal("no clip".into()))?;
        let prompt = self.lay_out(&clip.facts)?.ids.len();
        let mut plan = self.planner().begin(clip, prompt, self.new_tokens(prompt));
        if self.request.reuse_texts {
            plan.earlier = self.models.texts.before(&key);
        }
        self.models.mtp.load(&self.models.target, &plan.method.drafter, || self.load_progress())?;
        let cached_tokens = self.ensure_context(&plan, cache, &key, &mut stats)?;
        // From here on the context is changed in place: if the run fails, it is not trusted any more.
        cache.writing = Some(key.clone());
        let (clip, context) = cache.entry(&key)?;
        self.calibrate(&plan, clip, context, since(started))?;
        let plan = self.planner().complete(plan, clip, context)?;
        self.draft_and_verify(plan, cache, key, cached_tokens, stats)
    }

    /// From a prefilled context to the caption.
    fn draft_and_verify(
        &self,
        mut plan: RunPlan,
        cache: &mut PrefixCache,
        key: ContextKey,
        cached_tokens: usize,
        mut stats: Stats,
    ) -> Result<Option<FinishedRun>, Stop> {
        let selection = self.select(&plan, cache, &key, &mut stats)?;
        let drafter_key = self.ensure_drafter(&plan, cache, &key, &selection, &mut stats)?;
        cache.trim(&key);
        // Until this run has ended, so that both contexts can be changed.
        let plain_key = (key.0.clone(), self.request.conversation());
        let judges = plan.pruner.is_some() && plan.sampling.sampler.is_greedy();
        let mut whole = if judges { cache.contexts.take(&plain_key) } else { None };
        let (clip, context) = cache.entry(&key)?;
        // Without a drafter, the tokens that the target itself has left.
        let pruned = context.kept.clone();
        let kept = pruned.as_ref().or(selection.kept.as_ref().filter(|_| drafter_key.is_some()));
        stats.visual_tokens = clip.facts.grid.len();
        stats.drafter_visual_tokens = match (&drafter_key, kept) {
            (None, _) => 0,
            (Some(_), None) => clip.facts.grid.len(),
            (Some(_), Some(kept)) => kept.len(),
        };
        self.sender.send(EventKind::Prompt(PromptSeen {
            frames: clip.timestamps_s.clone(),
            grid: clip.facts.grid.shape(),
            visual_tokens: clip.facts.grid.len(),
            prompt_ids: context.prompt.ids.clone(),
            kept: kept.map(|kept| kept.iter().map(|&i| i as u32).collect()),
            scores: selection.scores.clone().filter(|_| drafter_key.is_some()),
            visual_spans: context.prompt.visual.ranges().map(|rows| [rows.start, rows.end]).collect(),
            dropped_stamps: selection.dropped_stamps.clone(),
            reused: cached_tokens > 0,
            cached_tokens,
            notes: clip.notes.iter().chain(&plan.notes).cloned().collect(),
            chosen: plan.chosen.clone(),
        }));
        let (judge, drafter) = (whole.as_mut(), drafter_key.as_ref());
        let mut tries = 1;
        let written = loop {
            let mut own = stats.clone();
            let written = self.write(&plan, clip, context, drafter, &mut own)?;
            match written.in_vain().filter(|_| self.request.on_loop == OnLoop::Retry && tries < TRIES) {
                Some(tokens) => plan.sampling = self.retry(tokens, tries)?,
                None => {
                    stats = own;
                    break written;
                }
            }
            tries += 1;
        };
        let generated = self.conclude(&plan, clip, context, judge, written, &mut stats)?;
        if self.request.reuse_texts && generated.reason != StopReason::Cancelled {
            self.models.texts.add(&key, &generated.ids);
        }
        if let Some(whole) = whole {
            cache.contexts.insert(plain_key.clone(), whole);
        }
        let is_measured = self.request.measure && !plan.is_baseline();
        let finished = generated.reason != StopReason::Cancelled && is_measured;
        let emitted = stats.emitted;
        Ok(finished.then(|| FinishedRun {
            request: self.request.clone(),
            plan,
            key,
            plain_key,
            selection,
            emitted,
            generated,
        }))
    }
}
