//! One run from file to caption, reusing the prefix cache.

use std::time::Instant;

use crate::{
    cache::{ContextKey, PrefixCache, ReadPrompt},
    command::RunRequest,
    events::{Stop, internal, since},
    stages::{Runner, generate::Generated},
    timing::choice::Answer,
};
use specreel_demo as assets;
use specreel_model::draft_head::Recipe;
use specreel_record::{Chosen, EventKind, Expected, Failure, PromptSeen, Started, Stats, StopReason};
use specreel_speculate::{Drafter, Method, Stamps, VisualContext, auto::Contender, context::Selection};

/// A finished run, with the state to repeat it in a measurement.
pub(crate) struct FinishedRun {
    pub request: RunRequest,
    pub key: ContextKey,
    /// The context of autoregressive decoding: its own, unless it prunes the target.
    pub(crate) plain_key: ContextKey,
    pub selection: Selection,
    pub emitted: u64,
    pub(crate) generated: Generated,
    /// As in [`Runner`].
    pub contenders: Vec<Contender>,
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
            Drafter::None {} | Drafter::Auto {} => None,
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
        let key = (self.clip_key(), self.request.reading());
        self.ensure_clip(cache, &key, &mut stats)?;
        let clip = cache.clips.touch(&key.0).ok_or_else(|| internal("no clip".into()))?;
        let cut = self.cut_request(&clip.facts)?;
        let run = Runner { request: cut.as_ref().unwrap_or(self.request), ..*self };
        run.choose_and_read(cache, key, (started, stats))
    }

    /// From a decoded clip to the caption, with a drafter that is chosen first where the method leaves it open.
    fn choose_and_read(
        &self,
        cache: &mut PrefixCache,
        key: ContextKey,
        (started, stats): (Instant, Stats),
    ) -> Result<Option<FinishedRun>, Stop> {
        let mut chosen = None;
        if self.request.method.drafter == (Drafter::Auto {}) {
            let clip = cache.clips.touch(&key.0).ok_or_else(|| internal("no clip".into()))?;
            let prompt = self.lay_out(&clip.facts)?.ids.len();
            if let Some(Answer { method, expected, .. }) = self.choose(clip, prompt, 0.0) {
                // The context is chosen once the target's speed is known.
                let method = Method { context: VisualContext::Auto {}, ..method };
                chosen = Some((RunRequest { method, ..self.request.clone() }, expected));
            }
        }
        let (request, expected) = chosen.unzip();
        let run = Runner { request: request.as_ref().unwrap_or(self.request), ..*self };
        run.read_and_draft(cache, key, (started, stats), (&self.request.method, expected))
    }

    /// From a decoded clip to the caption; `open` is the method before choices, and `expected` what each drafter would take, if the
    /// drafter was one of them.
    fn read_and_draft(
        &self,
        cache: &mut PrefixCache,
        key: ContextKey,
        (started, mut stats): (Instant, Stats),
        (open, expected): (&Method, Option<Vec<Expected>>),
    ) -> Result<Option<FinishedRun>, Stop> {
        self.models.mtp.load(&self.models.target, &self.request.method.drafter, || self.load_progress())?;
        let cached_tokens = self.ensure_context(cache, &key, &mut stats)?;
        // From here on the context is changed in place: if the run fails, it is not trusted any more.
        cache.writing = Some(key.clone());
        let (clip, context) = cache.entry(&key)?;
        self.calibrate(clip, context, since(started))?;
        let Some(answer) = self.choose(clip, context.prompt.ids.len(), context.t1_ms) else {
            return self.draft_and_verify(cache, key, cached_tokens, stats, None);
        };
        let read = ReadPrompt { prompt: &context.prompt, states: &context.states };
        let contenders = answer
            .contender
            .map_or_else(Vec::new, |chosen| self.contenders(open, chosen, clip, (read, context.t1_ms)));
        let request = RunRequest { method: answer.method, ..self.request.clone() };
        let run = Runner { request: &request, contenders: &contenders, ..*self };
        let note = run.choice_note(expected.as_deref());
        let chosen = run.chosen(expected.unwrap_or_default())?;
        run.draft_and_verify(cache, key, cached_tokens, stats, Some((chosen, note)))
    }

    /// The choices that were made for this run.
    fn chosen(&self, expected: Vec<Expected>) -> Result<Chosen, Failure> {
        let method = serde_json::to_value(&self.request.method).map_err(|e| internal(e.to_string()))?;
        Ok(Chosen { method, drafter: self.drafter_name(), expected })
    }

    /// From a prefilled context to the caption; `chosen` are the choices that were made for it, with a note about them.
    fn draft_and_verify(
        &self,
        cache: &mut PrefixCache,
        key: ContextKey,
        cached_tokens: usize,
        mut stats: Stats,
        chosen: Option<(Chosen, String)>,
    ) -> Result<Option<FinishedRun>, Stop> {
        let selection = self.select(cache, &key, &mut stats)?;
        let drafter_key = self.ensure_drafter(cache, &key, &selection, &mut stats)?;
        cache.trim(&key);
        // Until this run has ended, so that both contexts can be changed.
        let plain_key = (key.0.clone(), self.request.conversation());
        let judges = self.request.pruner.is_some() && self.request.text.is_greedy();
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
        let (chosen, choice_note) = chosen.unzip();
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
                .chain(choice_note)
                .collect(),
            chosen,
        }));
        let plain_front_ms = clip.decode_ms + clip.target.as_ref().map_or(0.0, |t| t.1) + context.prefill_ms;
        let generated =
            self.generate(clip, context, whole.as_mut(), drafter_key.as_ref(), &mut stats, plain_front_ms)?;
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
            contenders: self.contenders.to_vec(),
        }))
    }

    /// A note if the models cannot know the video's contents.
    fn demo_note(&self) -> Option<String> {
        let is_foreign = self.models.embedded && !assets::is_embedded_clip(&self.request.video);
        is_foreign.then(|| assets::LIMITS_NOTE.to_owned())
    }

    /// What an automatic method does in this run, and why; `expected` is `None` if the method names its drafter.
    fn choice_note(&self, expected: Option<&[Expected]>) -> String {
        let Method { drafter, context, .. } = &self.request.method;
        let sees = match drafter.reads() {
            true => format!(" that {}", context.describe()),
            false => String::new(),
        };
        let alone = Drafter::None {}.describe();
        let s = |of: &Expected| format!("{:.2} s", of.ms / 1e3);
        let why = match expected {
            // Each segment of a video has other figures: only another choice is news.
            _ if self.request.segment.is_some() => String::new(),
            None => String::new(),
            Some([]) => "; not timed yet".to_owned(),
            Some([first, second, ..]) if first.drafter == alone => {
                format!("; {} expected, {} with {}", s(first), s(second), second.drafter)
            }
            Some([first, rest @ ..]) => match rest.iter().find(|of| of.drafter == alone) {
                Some(without) => format!("; {} expected, {} without drafts", s(first), s(without)),
                None => String::new(),
            },
        };
        format!("chosen for this run: {}{sees}{why}", drafter.describe())
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
