//! One run from file to caption, reusing what the prefix cache has.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    command::RunRequest,
    measure::Trial,
    models::Models,
    prefix_cache::{ContextKey, PrefixCache},
    rates::Rates,
    thread::{Cancelled, EventSender, internal},
};
use specreel_checkpoint::LoadProgress;
use specreel_demo as assets;
use specreel_model::draft_head::Recipe;
use specreel_record::{EventKind, Failure, Stage, Stats, StopReason};
use specreel_speculate::{Drafter, Stamps};

/// Cache slots that a verify pass may need beyond the longest caption.
pub(super) const KV_HEADROOM: usize = 96;

/// Why the preparation of a run ended early.
pub(super) enum Stop {
    Cancelled,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// One run.
pub(super) struct Runner<'a> {
    pub request: &'a RunRequest,
    pub models: &'a Models,
    pub sender: &'a EventSender,
    pub cancelled: &'a Cancelled,
    /// Run even if the available memory seems too small.
    pub ignore_memory: bool,
    /// Speeds that are known, and that stages teach; none where the run is only repeated.
    pub rates: Option<&'a Mutex<Rates>>,
    /// Set where the run is only repeated to measure its speed: true as soon as that has to end. Nothing is reported then.
    pub idle: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl Runner<'_> {
    /// From file to caption. Everything but a failure is reported as events. Returns what is needed to measure the run's speed,
    /// if that was requested and it finished.
    pub fn run(&self, cache: &mut PrefixCache) -> Result<Option<Trial>, Failure> {
        self.validate()?;
        let (request, method) = (self.request, &self.request.method);
        self.sender.send(EventKind::Started {
            method: serde_json::to_value(method).map_err(|e| internal(e.to_string()))?,
            lossless: method.lossless(),
            target: self.models.target.name().to_owned(),
            drafter: self.drafter_name(),
            device: self.models.device.clone(),
            dtype: self.models.dtype.clone(),
            video: request.video.display().to_string(),
            prompt: request.prompt.clone(),
            before: request.before.clone(),
            span: request.span,
            segment: request.segment,
        });
        match self.caption(cache) {
            Ok(trial) => Ok(trial),
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

    fn caption(&self, cache: &mut PrefixCache) -> Result<Option<Trial>, Stop> {
        let started = Instant::now();
        let mut stats = Stats::default();
        // Before the video is read: it may be refused.
        self.twin()?;
        self.load_own_head()?;
        let key = (self.clip_key(), self.request.reading());
        self.ensure_clip(cache, &key, &mut stats)?;
        let reused = self.ensure_context(cache, &key, &mut stats)?;
        // From here on the context is changed in place: if the run fails, it is not trusted any more.
        cache.writing = Some(key.clone());
        let selection = self.select(cache, &key, &mut stats)?;
        let drafter_key = self.ensure_drafter(cache, &key, &selection, &mut stats)?;
        cache.trim(&key);
        let plain = self.plain_text(cache, &key);
        let (clip, context) = cache.entry(&key)?;
        if let Some(plain) = &plain {
            stats.accepted_share = self.accepted_share(context, plain)?;
        }
        // Without a drafter, the tokens that the target itself has left.
        let pruned = context.kept.clone();
        let kept = pruned.as_ref().or(selection.kept.as_ref().filter(|_| drafter_key.is_some()));
        stats.visual_tokens = clip.facts.grid.len();
        stats.drafter_visual_tokens = match (&drafter_key, kept) {
            (None, _) => 0,
            (Some(_), None) => clip.facts.grid.len(),
            (Some(_), Some(kept)) => kept.len(),
        };
        self.sender.send(EventKind::Prompt {
            frames: clip.timestamps_s.clone(),
            grid: clip.facts.grid.shape(),
            visual_tokens: clip.facts.grid.len(),
            prompt_ids: context.prompt.ids.clone(),
            kept: kept.map(|kept| kept.iter().map(|&i| i as u32).collect()),
            scores: selection.scores.clone().filter(|_| drafter_key.is_some()),
            visual_spans: context.prompt.visual.ranges().map(|rows| [rows.start, rows.end]).collect(),
            dropped_stamps: selection.dropped_stamps.clone(),
            reused,
            notes: clip
                .notes
                .iter()
                .cloned()
                .chain(self.limits())
                .chain(self.unstamped())
                .chain(self.thoughtless())
                .collect(),
        });
        let plain_front_ms = clip.decode_ms + clip.target.as_ref().map_or(0.0, |t| t.1) + context.prefill_ms;
        self.calibrate(context, since(started))?;
        let generated = self.generate(context, drafter_key.as_ref(), &mut stats, plain_front_ms)?;
        let finished = generated.reason != StopReason::Cancelled && self.request.is_measured();
        let plain_key = (key.0.clone(), self.request.conversation());
        Ok(finished.then(|| Trial::new(self.request.clone(), [key, plain_key], selection, stats, generated)))
    }

    /// The text of plain decoding on the same clip and prompt, if it is known and this method prunes the target. It counts as
    /// used: other prunings of the target need it, too.
    fn plain_text(&self, cache: &mut PrefixCache, key: &ContextKey) -> Option<Vec<u32>> {
        let plain = (key.0.clone(), self.request.conversation());
        if !self.request.method.prunes() {
            return None;
        }
        let context = cache.contexts.touch(&plain)?;
        let reference = context.reference.as_ref()?;
        let same = reference.sampler == self.sampler()
            && reference.sampler.is_greedy()
            && reference.max_new_tokens <= self.request.max_new_tokens;
        same.then(|| reference.ids.clone())
    }

    /// A note if the models cannot know what the video shows.
    fn limits(&self) -> Option<String> {
        let is_foreign = self.models.embedded && !assets::is_embedded_clip(&self.request.video);
        is_foreign.then(|| assets::LIMITS_NOTE.to_owned())
    }

    /// A note if the method drops time stamps, and the prompt has none.
    fn unstamped(&self) -> Option<String> {
        let family = self.models.target.family();
        let in_vain = self.request.method.context.stamps() == Stamps::Drop && !family.writes_stamps();
        in_vain.then(|| {
            format!("context.stamps=drop has no effect: prompts of {} have no time stamps", family.name)
        })
    }

    /// That the target cannot think, if it should.
    fn thoughtless(&self) -> Option<String> {
        let target = &self.models.target;
        (self.request.thinking && !target.offers_thinking())
            .then(|| format!("--thinking has no effect: {} cannot think before it answers", target.name()))
    }

    /// Report progress; break if the run is cancelled.
    pub(super) fn progress(&self, stage: Stage, done: usize, total: usize) -> ControlFlow<()> {
        self.report(stage, done, total, None)
    }

    /// Reports the progress of a load within a run, from another thread too; breaks if the run is cancelled.
    pub(super) fn load_progress(&self) -> LoadProgress {
        let (sender, cancelled, run) = (self.sender.clone(), self.cancelled.clone(), self.request.run);
        Arc::new(move |done, total| {
            if cancelled.contains(run) {
                return ControlFlow::Break(());
            }
            let (done, total) = (done as u64, total as u64);
            sender.offer(EventKind::Stage { stage: Stage::Load, done, total, left_ms: None });
            ControlFlow::Continue(())
        })
    }

    /// Report progress with the time left, if it is known; break if the run is cancelled.
    pub(super) fn report(
        &self,
        stage: Stage,
        done: usize,
        total: usize,
        left_ms: Option<f64>,
    ) -> ControlFlow<()> {
        #[cfg(test)]
        super::thread::tests::fail_point(&self.request.prompt, stage);
        if let Some(ends) = self.idle {
            return if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        if self.cancelled.contains(self.request.run) {
            return ControlFlow::Break(());
        }
        // Steps report themselves; only the beginning of the stage is sent.
        if stage != Stage::Generate || done == 0 {
            let left_ms = left_ms.map(f64::round);
            self.sender.offer(EventKind::Stage { stage, done: done as u64, total: total as u64, left_ms });
        }
        ControlFlow::Continue(())
    }
}

/// Milliseconds since then.
pub(super) fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}

/// The median; 0 of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
