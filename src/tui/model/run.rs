//! One run as the studio knows it from its events.

use std::path::PathBuf;

use crate::{
    engine::RunRequest,
    record::{Baseline, BaselineKind, Failure, Stage, Stats, Step, StopReason, Verdict},
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
}

/// A part of the caption with one verdict.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub text: String,
    pub verdict: Verdict,
}

/// What the models see of the clip.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub frames: usize,
    pub visual_tokens: usize,
    pub kept: Option<usize>,
    pub reused: bool,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub id: u64,
    pub title: String,
    pub video: PathBuf,
    pub prompt: String,
    /// The method's name with the numbers that differ from its preset's.
    pub method: String,
    pub autoregressive: bool,
    pub lossless: bool,
    pub state: RunState,
    pub seen: Option<Seen>,
    pub steps: Vec<Step>,
    pub pieces: Vec<Piece>,
    /// Counted from the steps while the run goes on; the engine's own account at its end.
    pub stats: Stats,
    /// Tokens that show no text yet, as the least strict of their verdicts.
    pending: Option<Verdict>,
}

impl Run {
    pub fn new(
        request: &RunRequest,
        title: &str,
        method: &str,
        autoregressive: bool,
        lossless: bool,
    ) -> Self {
        Self {
            id: request.run,
            title: title.into(),
            video: request.video.clone(),
            prompt: request.prompt.clone(),
            method: method.into(),
            autoregressive,
            lossless,
            state: RunState::Sent,
            seen: None,
            steps: Vec::new(),
            pieces: Vec::new(),
            stats: Stats::default(),
            pending: None,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state, RunState::Done(_) | RunState::Failed(_))
    }

    /// True for runs on the same clip with the same prompt: those whose numbers may be compared.
    pub fn is_comparable(&self, other: &Run) -> bool {
        self.video == other.video && self.prompt == other.prompt
    }

    /// The caption so far.
    pub fn text(&self) -> String {
        self.pieces.iter().map(|p| p.text.as_str()).collect()
    }

    pub fn add_step(&mut self, step: Step) {
        for token in &step.tokens {
            let verdict = least_strict(self.pending, token.verdict);
            if token.text.is_empty() {
                self.pending = Some(verdict);
                continue;
            }
            self.pending = None;
            self.pieces.push(Piece { text: text::clean(&token.text), verdict });
        }
        self.stats.add(&step);
        self.steps.push(step);
    }

    pub fn finish(&mut self, reason: StopReason, whole: &str, stats: Stats) {
        // Bytes that never became a character show up only in the whole text.
        let whole = text::clean(whole);
        if let Some(rest) = whole.strip_prefix(&self.text()).filter(|r| !r.is_empty()) {
            let verdict = self.pending.take().unwrap_or(Verdict::Plain);
            self.pieces.push(Piece { text: rest.to_owned(), verdict });
        }
        self.stats = stats;
        self.state = RunState::Done(reason);
    }
}

/// Of two verdicts the one that is less strict: a piece that spans both belongs to it.
fn least_strict(pending: Option<Verdict>, verdict: Verdict) -> Verdict {
    match pending {
        Some(pending) if !pending.is_strict() && verdict.is_strict() => pending,
        _ => verdict,
    }
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
        self.all.iter().rev().find(|r| !r.is_over())
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Run> {
        self.all.iter_mut().rev().find(|r| r.id == id)
    }

    pub fn add(&mut self, run: Run) {
        self.all.push(run);
        if self.all.len() > MAX_RUNS {
            self.all.remove(0);
        }
        self.shown = self.all.len() - 1;
    }

    /// The runs on the same clip and prompt as this one, oldest first, itself included.
    pub fn comparable<'a>(&'a self, run: &'a Run) -> impl DoubleEndedIterator<Item = &'a Run> {
        self.all.iter().filter(move |r| r.is_comparable(run))
    }

    /// The newest finished autoregressive run on the same clip and prompt, as a baseline.
    pub fn measured_baseline(&self, run: &Run) -> Option<Baseline> {
        let ended = |r: &&Run| {
            r.id != run.id
                && r.autoregressive
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
        assert_eq!(least_strict(None, Verdict::Exact), Verdict::Exact);
        assert_eq!(least_strict(Some(Verdict::Loosened), Verdict::Exact), Verdict::Loosened);
        assert_eq!(least_strict(Some(Verdict::Exact), Verdict::Shifted), Verdict::Shifted);
        assert_eq!(least_strict(Some(Verdict::Loosened), Verdict::Shifted), Verdict::Shifted);
    }
}
