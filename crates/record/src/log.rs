//! [`RunLog`]: one run put together from its events. This is the only place that folds the event stream; every face (command
//! line, studio, comparison, saved runs, exports) reads a `RunLog`, so they cannot disagree about what happened.
//!
//! A log keeps text as the models wrote it; it is escaped where it is shown.

use super::{
    Draft, Estimate, Event, EventKind, Failure, Interval, Limits, PairedRatio, PromptSeen, Stage, Started,
    Stats, Step, StopReason, Token, Verdict, Verification, paired,
};

mod parts;
mod rewind;

pub use parts::{Added, Chunk, Placed, RunState, Speed};

/// Tokens whose text has not appeared yet: a character whose bytes are spread over several tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pending {
    first: usize,
    deciding: usize,
    verdict: Verdict,
}

/// One run. Feed it every event: other runs' events are ignored; of run 0 (loading models) it takes notes, stages and failures.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunLog {
    run: u64,
    planned: Option<(String, bool)>,
    started: Option<Started>,
    state: RunState,
    stage: Option<(Stage, u64, u64)>,
    left_ms: Option<f64>,
    estimate: Option<Estimate>,
    prompt: Option<PromptSeen>,
    notes: Vec<String>,
    steps: Vec<Step>,
    draft: Option<Draft>,
    chunks: Vec<Chunk>,
    thinking: Vec<Chunk>,
    pending: Option<Pending>,
    tokens: usize,
    text: String,
    ids: Vec<u32>,
    stats: Stats,
    speed: Speed,
    verification: Option<Verification>,
    edited: Option<String>,
}

impl RunLog {
    /// The log of a run of which no event has arrived. Run 0 stands for the first run that the log gets an event of.
    pub fn new(run: u64) -> Self {
        Self { run, ..Self::default() }
    }

    /// The log of a run that is still to come, under a name of the caller's (a method may be compared twice with different
    /// parameters), and whether its method is lossless.
    pub fn planned(run: u64, name: &str, lossless: bool) -> Self {
        Self { run, planned: Some((name.to_owned(), lossless)), ..Self::default() }
    }

    /// Take in an event. Once the run is over, only `speed`, `verified` and `edited` change anything.
    ///
    /// Of a run that a stop text has ended, the chunks end where the caption does.
    ///
    /// Bytes that never become a character appear only in the whole text of the `done` event; they become a last chunk, whose
    /// verdict belongs to the tokens still waiting for text, or is `plain`.
    pub fn apply(&mut self, event: &Event) -> Added {
        let (chunks, notes) = (self.chunks.len(), self.notes.len());
        if self.run == 0 {
            self.run = event.run;
        }
        match &event.kind {
            EventKind::Speed { speedup, measuring } if event.run == self.run && self.is_finished() => {
                self.stats.speedup = speedup.clone().or(self.stats.speedup.take());
                self.speed = if *measuring { Speed::Measuring } else { Speed::Measured };
            }
            EventKind::Verified(verification) if event.run == self.run && self.is_finished() => {
                self.stats.equality = Some(verification.equality.clone());
                self.verification = Some(verification.clone());
            }
            EventKind::Edited { text } if event.run == self.run && self.is_finished() => {
                self.edited = Some(text.clone());
            }
            _ if (event.run == self.run || event.run == 0) && !self.is_over() => {
                self.fold(event);
                // Only a step follows a draft; a run that ended has none.
                self.draft.take_if(|_| self.state != RunState::Running);
            }
            _ => {}
        }
        Added { chunks: chunks.min(self.chunks.len())..self.chunks.len(), notes: notes..self.notes.len() }
    }

    fn fold(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Ready(ready) => self.note(&ready.notes),
            EventKind::Failed(failure) => self.state = RunState::Failed(failure.clone()),
            EventKind::Stage { stage, done, total, left_ms } => {
                (self.stage, self.left_ms) = (Some((*stage, *done, *total)), *left_ms);
            }
            _ if event.run != self.run => {}
            EventKind::Started(started) => {
                self.state = RunState::Running;
                self.started = Some(started.clone());
            }
            EventKind::Estimate(estimate) => {
                self.note(&estimate.notes);
                self.estimate = Some(estimate.clone());
            }
            EventKind::Prompt(prompt) => {
                self.note(&prompt.notes);
                if let (Some(started), Some(chosen)) = (&mut self.started, &prompt.chosen) {
                    started.method.clone_from(&chosen.method);
                    started.drafter.clone_from(&chosen.drafter);
                }
                self.prompt = Some(prompt.clone());
            }
            EventKind::Draft(draft) => self.draft = Some(draft.clone()),
            EventKind::Step(step) => self.step(step),
            EventKind::Retry { sampling, note, .. } => self.retry(sampling, note),
            EventKind::Done { reason, text, ids, stats } => {
                match reason {
                    StopReason::Stop | StopReason::Loop => self.cut(text),
                    _ => self.rest(text),
                }
                self.state = RunState::Done(*reason);
                self.text.clone_from(text);
                self.ids.clone_from(ids);
                self.stats = (**stats).clone();
            }
            EventKind::Speed { .. } | EventKind::Verified(_) | EventKind::Edited { .. } => {}
        }
    }

    /// Forget what was written.
    fn retry(&mut self, sampling: &serde_json::Value, note: &str) {
        let Self { run, planned, started, stage, estimate, prompt, notes, .. } = std::mem::take(self);
        let started =
            started.map(|started| Started { sampling: Some(Box::new(sampling.clone())), ..started });
        let state = RunState::Running;
        *self = Self { run, planned, started, state, stage, estimate, prompt, notes, ..Self::default() };
        self.note(&[note.to_owned()]);
    }

    fn note(&mut self, notes: &[String]) {
        for note in notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
    }

    fn step(&mut self, step: &Step) {
        for token in &step.tokens {
            let number = self.tokens;
            self.tokens += 1;
            let own = Pending { first: number, deciding: number, verdict: token.verdict };
            let merged = match self.pending.take() {
                None => own,
                Some(before) if Verdict::least_strict(before.verdict, own.verdict) == before.verdict => {
                    before
                }
                Some(before) => Pending { first: before.first, ..own },
            };
            if token.text.is_empty() {
                self.pending = Some(merged);
            } else {
                self.push(&token.text, merged, Some(merged.deciding), token.thinking);
            }
        }
        if step.beyond_stop > 0 {
            let shown: usize = self.chunks.iter().map(|chunk| chunk.text.len()).sum();
            self.keep(shown.saturating_sub(step.beyond_stop));
        }
        if let Some(switched) = &step.switched {
            self.note(&[switched.words()]);
        }
        self.stats.add(step);
        self.steps.push(step.clone());
        self.draft = None;
    }

    fn push(&mut self, text: &str, from: Pending, deciding: Option<usize>, thinking: bool) {
        let chunks = if thinking { &mut self.thinking } else { &mut self.chunks };
        let text = if chunks.is_empty() { text.trim_start() } else { text };
        if !text.is_empty() {
            chunks.push(Chunk {
                text: text.to_owned(),
                verdict: from.verdict,
                tokens: from.first..self.tokens,
                deciding,
            });
        }
    }

    fn rest(&mut self, whole: &str) {
        let shown = self.shown();
        let Some(rest) = whole.trim_start().strip_prefix(shown.as_str()).filter(|rest| !rest.is_empty())
        else {
            return;
        };
        let pending = self.pending.take();
        let deciding = pending.map(|pending| pending.deciding);
        let from = pending.unwrap_or(Pending { first: self.tokens, deciding: 0, verdict: Verdict::Plain });
        self.push(rest, from, deciding, false);
    }

    /// The caption ends before a stop text, within what the tokens wrote.
    fn cut(&mut self, whole: &str) {
        let whole = whole.trim_start();
        if !self.shown().starts_with(whole) {
            return;
        }
        self.keep(whole.len());
    }

    /// Keep so many bytes of the chunks.
    fn keep(&mut self, bytes: usize) {
        let mut left = bytes;
        self.chunks.retain_mut(|chunk| {
            chunk.text.truncate(left);
            left -= chunk.text.len();
            !chunk.text.is_empty()
        });
    }

    /// Mark the run as cut off: its recording ends before the run does.
    pub fn cut_off(&mut self) {
        if !self.is_over() {
            self.draft = None;
            self.state = RunState::CutOff;
        }
    }

    pub fn run(&self) -> u64 {
        self.run
    }

    /// The name given to [`RunLog::planned`], or else the method's; `?` until it is known.
    pub fn name(&self) -> &str {
        let planned = self.planned.as_ref().map(|(name, _)| name.as_str());
        planned.or_else(|| self.started.as_ref().map(Started::method_name)).unwrap_or("?")
    }

    /// True if the method emits exactly what autoregressive decoding would; also until it is known.
    pub fn is_lossless(&self) -> bool {
        let started = self.started.as_ref().map(|started| started.lossless);
        started.or(self.planned.as_ref().map(|(_, lossless)| *lossless)).unwrap_or(true)
    }

    /// Models, method, video and prompt; `None` until the run has started.
    pub fn started(&self) -> Option<&Started> {
        self.started.as_ref()
    }

    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The stage that was reported last, with units done and in total (0 where unknown).
    pub fn stage(&self) -> Option<(Stage, u64, u64)> {
        self.stage
    }

    /// Time left of that stage in milliseconds; `None` if it is not known.
    pub fn left_ms(&self) -> Option<f64> {
        self.left_ms
    }

    /// What the run takes, as it was expected; `None` until that is known.
    pub fn estimate(&self) -> Option<&Estimate> {
        self.estimate.as_ref()
    }

    /// What the models see of the video; `None` until it is known.
    pub fn prompt(&self) -> Option<&PromptSeen> {
        self.prompt.as_ref()
    }

    /// Notes about models and video, each once, in the order in which they came.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The drafts of the step that is being verified; `None` unless the engine reports them.
    pub fn draft(&self) -> Option<&Draft> {
        self.draft.as_ref()
    }

    /// The caption so far, in pieces of one verdict.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// What the target has thought so far before its answer, in pieces of one verdict; the last one holds the token that ends it.
    pub fn thinking(&self) -> &[Chunk] {
        &self.thinking
    }

    /// The caption so far, or what a person has made of it.
    pub fn shown(&self) -> String {
        match &self.edited {
            Some(text) => text.clone(),
            None => self.chunks.iter().map(|chunk| chunk.text.as_str()).collect(),
        }
    }

    /// The whole caption as the `done` event gave it, or what a person has made of it; empty before.
    pub fn text(&self) -> &str {
        self.edited.as_deref().unwrap_or(&self.text)
    }

    /// The caption if a person has changed it; its tokens are the models' still.
    pub fn edited(&self) -> Option<&str> {
        self.edited.as_deref()
    }

    /// All emitted ids as the `done` event gave them; empty before.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Counted from the steps while the run is active; the engine's own figures once it is done.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How far the measurement of its speed is.
    pub fn speed(&self) -> Speed {
        self.speed
    }

    /// How it compares with autoregressive decoding, if it was verified.
    pub fn verification(&self) -> Option<&Verification> {
        self.verification.as_ref()
    }

    /// The decode speedup so far and its interval, from the passes of the target alone that were timed between the steps; `None`
    /// until there are enough of them, and while they vary too much. See [`Stats::speedup`] once the run is done.
    pub fn speedup_so_far(&self) -> Option<(f64, Interval)> {
        let ratios = paired::Pace::of(&self.steps).ratios();
        let ratio = PairedRatio::of(&ratios)?.of_repetitions(0.0);
        let ratio = Limits::of(&self.stats, StopReason::Length).cut(ratio)?;
        let interval = Interval::from(ratio);
        (!interval.is_noisy(ratio.middle)).then_some((ratio.middle, interval))
    }

    /// Attach figures that another run provides: a speedup against its baseline.
    pub fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    pub fn token_count(&self) -> usize {
        self.tokens
    }

    /// True once no event can change anything.
    pub fn is_over(&self) -> bool {
        !matches!(self.state, RunState::Waiting | RunState::Running)
    }

    /// True if it ended normally: its figures and its text are complete.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, RunState::Done(reason) if reason.is_end())
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&Failure> {
        match &self.state {
            RunState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// The token of this number, counted over the run from 0.
    pub fn token(&self, number: usize) -> Option<Placed<'_>> {
        let mut at = number;
        for step in &self.steps {
            match step.tokens.get(at) {
                Some(token) => return Some(Placed { step, at, token }),
                None => at -= step.tokens.len(),
            }
        }
        None
    }

    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.steps.iter().flat_map(|step| &step.tokens)
    }

    /// The visual tokens that a token resembles most, with cosine similarities: reported with it, or, for the last token of a
    /// step, by the next step ([`Step::root_nearest_visual`]).
    pub fn nearest_visual(&self, number: usize) -> &[(u32, f32)] {
        let Some(placed) = self.token(number) else { return &[] };
        if !placed.token.nearest_visual.is_empty() || placed.at + 1 < placed.step.tokens.len() {
            return &placed.token.nearest_visual;
        }
        let next = self.steps.iter().skip_while(|step| !std::ptr::eq(*step, placed.step)).nth(1);
        next.map_or(&[], |step| &step.root_nearest_visual)
    }
}

#[cfg(test)]
mod tests;
