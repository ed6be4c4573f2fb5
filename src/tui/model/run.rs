//! One run as the studio knows it from its events.

use std::{path::PathBuf, sync::Arc};

use crate::{
    engine::Turn,
    record::{
        Baseline, BaselineKind, Event, EventKind, Failure, RunLog, Segment, Span, Stage, Stats, Step,
        StopReason, Verdict,
    },
    speculate::Method,
    tui::text,
};

/// Where a run stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunState {
    /// Sent, not begun.
    Sent,
    /// In a stage, with units done and in all (0 where unknown).
    Working { stage: Stage, done: u64, total: u64 },
    /// Asked to end, not ended.
    Cancelling,
    /// Ended.
    Done(StopReason),
    /// Ended badly.
    Failed(Failure),
    /// A recording ends here without a last word.
    CutOff,
}

/// What a run is about: known before its first event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    pub title: String,
    pub video: PathBuf,
    /// Earlier questions about the clip, and their answers.
    pub before: Vec<Turn>,
    pub prompt: String,
    /// The part of the clip; none is all of it.
    pub span: Option<Span>,
    /// Which piece it is, where the clip is captioned piece by piece.
    pub segment: Option<Segment>,
    /// All pieces that were asked for.
    pub pieces: Arc<[Span]>,
    /// The method's name with the numbers that differ from its preset's.
    pub label: String,
    /// The method, where this version knows all of it.
    pub method: Option<Method>,
    pub autoregressive: bool,
    pub lossless: bool,
    /// It is shown from a recording.
    pub replayed: bool,
}

impl About {
    /// The clip, and which part of it.
    pub fn name(&self) -> String {
        self.span.map_or_else(|| self.title.clone(), |span| format!("{} · {span}", self.title))
    }
}

/// What a run is to be about.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub video: PathBuf,
    pub title: String,
    pub before: Vec<Turn>,
    pub prompt: String,
    /// The part of the clip; none is all of it.
    pub span: Option<Span>,
    /// Which of the pieces that is.
    pub segment: Option<Segment>,
    /// All pieces, where it is captioned piece by piece.
    pub pieces: Arc<[Span]>,
}

/// A part of the caption with one verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub text: String,
    pub verdict: Verdict,
    /// Numbers of its first token and of the one after its last, counted over the run.
    pub tokens: std::ops::Range<usize>,
}

/// What the models see of the clip.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// Times of the frames in seconds.
    pub frames: Vec<f64>,
    /// Visual tokens as time × rows × columns.
    pub grid: [usize; 3],
    pub visual_tokens: usize,
    /// The visual tokens that the drafter sees; none = all.
    pub kept: Option<Vec<u32>>,
    /// Their scores, where they were chosen by score.
    pub scores: Option<Vec<f32>>,
    pub reused: bool,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub id: u64,
    pub log: RunLog,
    pub about: About,
    pub state: RunState,
    pub seen: Option<Seen>,
    pub steps: Vec<Step>,
    pub pieces: Vec<Piece>,
    /// Counted from the steps while the run goes on; the engine's own account at its end.
    pub stats: Stats,
    /// Both models, where they compute, and their weights; empty before it began.
    pub models: String,
    /// The first token that shows no text yet, and the least strict verdict since.
    pending: Option<(usize, Verdict)>,
}

impl Run {
    pub fn new(id: u64, about: About) -> Self {
        Self {
            id,
            log: RunLog::new(id),
            about,
            state: RunState::Sent,
            seen: None,
            steps: Vec::new(),
            pieces: Vec::new(),
            stats: Stats::default(),
            models: String::new(),
            pending: None,
        }
    }

    /// Take in one of its events. After its end it takes no more; while it is being cancelled, its stage does not change.
    pub fn take_in(&mut self, kind: EventKind) {
        if self.is_over() {
            return;
        }
        self.log.apply(&Event::new(self.id, kind.clone()));
        match kind {
            EventKind::Started { lossless, target, drafter, device, dtype, .. } => {
                self.about.lossless = lossless;
                let with = drafter.map(|name| format!(" with {name}")).unwrap_or_default();
                self.models = text::clean_line(&format!("{target}{with} on {device}, {dtype}"));
            }
            EventKind::Stage { stage, done, total } if self.state != RunState::Cancelling => {
                self.state = RunState::Working { stage, done, total };
            }
            EventKind::Prompt { frames, grid, visual_tokens, kept, scores, reused, .. } => {
                self.seen = Some(Seen { frames, grid, visual_tokens, kept, scores, reused });
            }
            EventKind::Step(step) => self.add_step(step),
            EventKind::Done { reason, text, stats, .. } => self.finish(reason, &text, *stats),
            EventKind::Failed(failure) => {
                self.state = RunState::Failed(Failure {
                    class: failure.class,
                    error: text::clean(&failure.error),
                    hint: failure.hint.map(|h| text::clean(&h)),
                });
            }
            EventKind::Stage { .. } | EventKind::Ready { .. } => {}
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state, RunState::Done(_) | RunState::Failed(_) | RunState::CutOff)
    }

    /// True for runs on the same clip with the same prompt: those whose numbers may be compared.
    pub fn is_comparable(&self, other: &Run) -> bool {
        let (a, b) = (&self.about, &other.about);
        (&a.video, &a.before, &a.prompt, a.span) == (&b.video, &b.before, &b.prompt, b.span)
    }

    /// What the runs on the pieces of one clip have in common; none for a run by itself.
    pub fn group(&self) -> Option<u64> {
        self.about.segment.map(|segment| segment.first)
    }

    /// The caption so far.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|p| p.text.as_str()).collect()
    }

    fn add_step(&mut self, step: Step) {
        for (number, token) in (self.token_count()..).zip(&step.tokens) {
            let (first, verdict) = match self.pending {
                Some((first, pending)) => (first, least_strict(pending, token.verdict)),
                None => (number, token.verdict),
            };
            if token.text.is_empty() {
                self.pending = Some((first, verdict));
                continue;
            }
            self.pending = None;
            self.pieces.push(Piece { text: text::clean(&token.text), verdict, tokens: first..number + 1 });
        }
        self.stats.add(&step);
        self.steps.push(step);
    }

    fn finish(&mut self, reason: StopReason, whole: &str, stats: Stats) {
        // Bytes that never became a character show up only in the whole text.
        let whole = text::clean(whole);
        if let Some(rest) = whole.strip_prefix(&self.text()).filter(|r| !r.is_empty()) {
            let n = self.token_count();
            let (first, verdict) = self.pending.take().unwrap_or((n, Verdict::Plain));
            self.pieces.push(Piece { text: rest.to_owned(), verdict, tokens: first..n });
        }
        self.stats = stats;
        self.state = RunState::Done(reason);
    }

    /// Tokens so far.
    pub fn token_count(&self) -> usize {
        self.steps.iter().map(|s| s.tokens.len()).sum()
    }
}

/// Of two verdicts the one that is less strict: a piece that spans both belongs to it.
fn least_strict(pending: Verdict, verdict: Verdict) -> Verdict {
    if !pending.is_strict() && verdict.is_strict() { pending } else { verdict }
}

/// The runs of this sitting, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub all: Vec<Run>,
    /// The one that is shown.
    pub shown: usize,
    /// Number of the next run.
    pub next: u64,
}

/// Older runs are forgotten.
const MAX_RUNS: usize = 100;

impl Runs {
    pub fn shown(&self) -> Option<&Run> {
        self.all.get(self.shown)
    }

    /// The run that is going on.
    pub fn active(&self) -> Option<&Run> {
        self.all.iter().rev().find(|r| !r.is_over() && !r.about.replayed)
    }

    pub fn get(&self, id: u64) -> Option<&Run> {
        self.all.iter().rev().find(|r| r.id == id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Run> {
        self.all.iter_mut().rev().find(|r| r.id == id)
    }

    /// Forget the last run if it was cancelled before it wrote anything: another wish came in between.
    pub fn forget_unwritten(&mut self) {
        let nothing = |r: &Run| r.state == RunState::Done(StopReason::Cancelled) && r.steps.is_empty();
        if self.all.last().is_some_and(nothing) {
            self.all.pop();
        }
    }

    /// Add a run, and show it if it is to be followed. The oldest is forgotten, but no piece of what is being captioned.
    pub fn add(&mut self, run: Run, follow: bool) {
        let group = run.group();
        self.all.push(run);
        while self.all.len() > MAX_RUNS && (group.is_none() || self.all[0].group() != group) {
            self.all.remove(0);
            self.shown = self.shown.saturating_sub(1);
        }
        if follow {
            self.shown = self.all.len() - 1;
        }
    }

    /// The runs that belong together with this one, in order: the pieces of a clip, or itself alone.
    pub fn together<'a>(&'a self, run: &'a Run) -> Vec<&'a Run> {
        match run.group() {
            Some(_) => self.all.iter().filter(|r| r.group() == run.group()).collect(),
            None => vec![run],
        }
    }

    /// The runs on the same clip and prompt as this one, oldest first, itself included.
    pub fn comparable<'a>(&'a self, run: &'a Run) -> impl DoubleEndedIterator<Item = &'a Run> {
        self.all.iter().filter(move |r| r.is_comparable(run))
    }

    /// The newest finished autoregressive run on the same clip and prompt, as a baseline.
    pub fn measured_baseline(&self, run: &Run) -> Option<Baseline> {
        let ended = |r: &&Run| {
            r.id != run.id
                // A recording is of another day: its speed is no measure for a run of now.
                && r.about.replayed == run.about.replayed
                && r.about.autoregressive
                && matches!(r.state, RunState::Done(StopReason::Eos | StopReason::Length))
                && r.stats.tokens_per_second > 0.0
        };
        self.comparable(run).rev().find(ended).map(|r| Baseline {
            name: "autoregressive".into(),
            kind: BaselineKind::Measured,
            tokens_per_second: r.stats.tokens_per_second,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_strict_verdict_wins() {
        assert_eq!(least_strict(Verdict::Loosened, Verdict::Exact), Verdict::Loosened);
        assert_eq!(least_strict(Verdict::Exact, Verdict::Shifted), Verdict::Shifted);
        assert_eq!(least_strict(Verdict::Loosened, Verdict::Shifted), Verdict::Shifted);
    }
}
