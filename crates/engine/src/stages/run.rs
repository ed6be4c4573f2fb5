//! One run from file to caption, reusing the prefix cache.

use std::time::Instant;

use crate::{
    cache::{ContextKey, PrefixCache},
    command::RunRequest,
    events::{Stop, internal, since},
    stages::{Runner, generate::Generated},
};
use specreel_demo as assets;
use specreel_model::draft_head::Recipe;
use specreel_record::{EventKind, Failure, PromptSeen, Started, Stats, StopReason};
use specreel_speculate::{Drafter, Stamps, context::Selection};

/// A finished run, with the state to repeat it in a measurement.
pub(crate) struct FinishedRun {
    pub request: RunRequest,
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
            lossless: method.lossless(),
            target: self.models.target.name().to_owned(),
            drafter: self.drafter_name(),
            device: self.models.device.clone(),
            dtype: self.models.dtype.clone(),
            video: request.video.display().to_string(),
            prompt: request.prompt.clone(),
            system: request.system.clone(),
            preset: request.preset.clone(),
            before: request.before.clone(),
            constraint: request.constraint.as_ref().and_then(|of| serde_json::to_value(of).ok()),
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

    fn drafter_name(&self) -> Option<String> {
        match self.request.method.drafter {
            Drafter::None {} => None,
            Drafter::Model {} => self.models.drafter.as_ref().map(|d| d.name().to_owned()),
            Drafter::Target { dtype } => {
                let name = self.models.target.name();
                Some(dtype.weights().map_or(name.to_owned(), |dtype| format!("{name} in {}", dtype.name())))
            }
            Drafter::EarlyExit { .. } => Some(self.models.target.name().to_owned()),
            // Loaded later.
            Drafter::Head { recipe: Recipe::Mtp } => {
                Some(format!("multi-token prediction of {}", self.models.target.name()))
            }
            Drafter::Head { recipe } => self.models.head(recipe).map(|head| head.name().to_owned()),
            Drafter::Lookup { .. } => Some("lookup".into()),
        }
    }

    fn caption(&self, cache: &mut PrefixCache) -> Result<Option<FinishedRun>, Stop> {
        let started = Instant::now();
        let mut stats = Stats::default();
        // Before the video is read: it may be refused.
        self.self_drafter()?;
        self.models.mtp.load(&self.models.target, &self.request.method.drafter, || self.load_progress())?;
        let key = (self.clip_key(), self.request.reading());
        self.ensure_clip(cache, &key, &mut stats)?;
        let cached_tokens = self.ensure_context(cache, &key, &mut stats)?;
        // From here on the context is changed in place: if the run fails, it is not trusted any more.
        cache.writing = Some(key.clone());
        let (clip, context) = cache.entry(&key)?;
        self.calibrate(context, since(started))?;
        let Some(chosen) = self.chosen_context(clip, context) else {
            return self.draft_and_verify(cache, key, cached_tokens, stats, None);
        };
        let request =
            &RunRequest { method: self.request.method.with_context(Some(chosen)), ..self.request.clone() };
        let note = format!("context = auto: the drafter {}", request.method.context.describe());
        Runner { request, ..*self }.draft_and_verify(cache, key, cached_tokens, stats, Some(note))
    }

    /// From a prefilled context to the caption, with a note on how the method was chosen.
    fn draft_and_verify(
        &self,
        cache: &mut PrefixCache,
        key: ContextKey,
        cached_tokens: usize,
        mut stats: Stats,
        chosen: Option<String>,
    ) -> Result<Option<FinishedRun>, Stop> {
        let selection = self.select(cache, &key, &mut stats)?;
        let drafter_key = self.ensure_drafter(cache, &key, &selection, &mut stats)?;
        cache.trim(&key);
        // Until this run has ended, so that both contexts can be changed.
        let plain_key = (key.0.clone(), self.request.conversation());
        let judges = self.request.method.prunes() && self.request.text.is_greedy();
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
            notes: clip
                .notes
                .iter()
                .cloned()
                .chain(self.demo_note())
                .chain(self.stamps_note())
                .chain(self.thinking_note())
                .chain(chosen)
                .collect(),
        }));
        let plain_front_ms = clip.decode_ms + clip.target.as_ref().map_or(0.0, |t| t.1) + context.prefill_ms;
        let generated =
            self.generate(context, whole.as_mut(), drafter_key.as_ref(), &mut stats, plain_front_ms)?;
        if let Some(whole) = whole {
            cache.contexts.insert(plain_key.clone(), whole);
        }
        let finished = generated.reason != StopReason::Cancelled && self.request.is_measured();
        let emitted = stats.emitted;
        Ok(finished.then(|| FinishedRun {
            request: self.request.clone(),
            key,
            plain_key,
            selection,
            emitted,
            generated,
        }))
    }

    /// A note if the models cannot know the video's contents.
    fn demo_note(&self) -> Option<String> {
        let is_foreign = self.models.embedded && !assets::is_embedded_clip(&self.request.video);
        is_foreign.then(|| assets::LIMITS_NOTE.to_owned())
    }

    /// A note if the method drops time stamps, and the prompt has none.
    fn stamps_note(&self) -> Option<String> {
        let family = self.models.target.family();
        let in_vain = self.request.method.context.stamps() == Stamps::Drop && !family.writes_stamps();
        in_vain.then(|| {
            format!("context.stamps=drop has no effect: prompts of {} have no time stamps", family.name)
        })
    }

    /// That the target cannot think, if it should, or not by an effort.
    fn thinking_note(&self) -> Option<String> {
        let (target, request) = (&self.models.target, &self.request);
        if request.thinking && !target.offers_thinking() {
            return Some(format!(
                "--thinking has no effect: {} cannot think before it answers",
                target.name()
            ));
        }
        let reason = match request.effort {
            None => return None,
            Some(_) if !target.offers_effort() => format!("the chat template of {} has none", target.name()),
            Some(_) if !request.thinking => "it needs --thinking".to_owned(),
            Some(_) => return None,
        };
        Some(format!("--reasoning-effort has no effect: {reason}"))
    }
}
