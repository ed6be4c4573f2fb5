//! The runs of this session: each a [`RunLog`] that is played, and what only the studio knows of it.

use std::{path::PathBuf, sync::Arc};

use super::{compare::Comparison, sampling::SamplingChoice};
use specreel_client::{Transcript, moments::LibraryQuestion, present::player::Player};
use specreel_record::{Event, Failure, RunLog, RunState, Segment, Span, Stage, Stats, StopReason, Turn};
use specreel_speculate::Method;

/// What an automatic method does in a run, if this note of the engine says it. It is no news: the meters have a line for it.
pub(crate) fn choice(note: &str) -> Option<&str> {
    note.strip_prefix("chosen for this run: ")
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subject {
    pub video: PathBuf,
    pub title: String,
    /// Earlier questions about the clip, and their answers.
    pub before: Vec<Turn>,
    pub prompt: String,
    /// What is said in the clip, if that goes in front of the first question.
    pub said: Option<Arc<Transcript>>,
    /// The part of the clip; none is all of it.
    pub span: Option<Span>,
    /// Which segment it is, where the clip is captioned segment by segment.
    pub segment: Option<Segment>,
    /// All segments that were requested.
    pub segments: Arc<[Span]>,
    /// The question about the library that it answers.
    pub question: Option<Arc<LibraryQuestion>>,
}

impl Subject {
    /// The clip, and which part of it.
    pub fn name(&self) -> String {
        self.span.map_or_else(|| self.title.clone(), |span| format!("{} · {span}", self.title))
    }
}

/// What a run does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Activity<'a> {
    /// Sent; the engine has not answered.
    Sent,
    /// In a stage, with units done and in total (0 where unknown).
    Working {
        stage: Stage,
        done: u64,
        total: u64,
        /// Milliseconds left of the stage.
        left_ms: Option<f64>,
    },
    /// Cancelled by the user, but not over yet.
    Cancelling,
    /// It ended normally, or was cancelled.
    Done(StopReason),
    Failed(&'a Failure),
    /// Its recording ends before its last event.
    CutOff,
}

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub subject: Subject,
    /// The method's name with the parameters that differ from its preset's.
    pub label: String,
    /// The method, if this version knows all of it.
    pub method: Option<Method>,
    /// How its text is sampled; of a saved run that is not known.
    pub sampling: Option<SamplingChoice>,
    pub autoregressive: bool,
    pub lossless: bool,
    /// It is played from a saved run.
    pub replayed: bool,
    /// The file of runs that it is played from, and its number there.
    pub saved: Option<(PathBuf, u64)>,
    /// What sums up the segments of which it is the last, in a saved run.
    pub summary: Option<String>,
    /// The user asked for its end.
    pub cancelling: bool,
    /// The log of its played part, and the rest of its events, all sanitized.
    pub log: Player,
}

impl Run {
    pub fn id(&self) -> u64 {
        self.log.run()
    }

    /// Take in an event. Returns the notes that it added.
    pub fn apply(&mut self, event: &Event) -> Vec<String> {
        let added = self.log.apply(event);
        if let Some(started) = self.log.started() {
            self.lossless = started.lossless;
        }
        self.log.whole().notes()[added.notes].to_vec()
    }

    pub fn activity(&self) -> Activity<'_> {
        match self.log.state() {
            RunState::Done(reason) => Activity::Done(*reason),
            RunState::Failed(failure) => Activity::Failed(failure),
            RunState::CutOff => Activity::CutOff,
            RunState::Waiting | RunState::Running if self.cancelling => Activity::Cancelling,
            RunState::Waiting | RunState::Running => match self.log.stage() {
                Some((stage, done, total)) => {
                    Activity::Working { stage, done, total, left_ms: self.log.left_ms() }
                }
                None => Activity::Sent,
            },
        }
    }

    /// True if it is over as far as it has been played.
    pub fn is_over(&self) -> bool {
        self.log.is_over()
    }

    /// True if the engine is done with it, regardless of the playback.
    pub fn has_ended(&self) -> bool {
        self.log.whole().is_over()
    }

    pub fn stats(&self) -> &Stats {
        self.log.stats()
    }

    /// True for runs on the same clip with the same prompt: those whose numbers may be compared.
    pub fn is_comparable(&self, other: &Run) -> bool {
        let key = |run: &Run| {
            let Subject { video, prompt, span, said, .. } = &run.subject;
            (video.clone(), prompt.clone(), *span, said.as_ref().map(Arc::as_ptr))
        };
        key(self) == key(other) && self.subject.before == other.subject.before
    }

    /// What the runs on the segments of one clip have in common; `None` for a run by itself.
    pub fn group(&self) -> Option<u64> {
        self.subject.segment.map(|segment| segment.first)
    }

    /// The number of the first token of the step after (or before) the one that this token is in.
    pub fn step_start(&self, number: usize, forward: bool) -> usize {
        let mut starts = Vec::with_capacity(self.log.steps().len());
        let mut n = 0;
        for step in self.log.steps().iter().filter(|s| !s.tokens.is_empty()) {
            starts.push(n);
            n += step.tokens.len();
        }
        let found = match forward {
            true => starts.iter().find(|s| **s > number),
            false => starts.iter().rev().find(|s| **s < number),
        };
        found.copied().unwrap_or(number)
    }
}

/// The runs of this session, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub all: Vec<Run>,
    pub shown: usize,
    /// Number of the next run.
    pub next: u64,
    /// The one that verifies another one.
    pub proof: Option<Proof>,
    /// The comparison that was made last.
    pub comparison: Option<Comparison>,
}

/// A run that verifies another one, and is not shown.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// Number of the run that it verifies.
    pub of: u64,
    pub tokens: usize,
    pub log: RunLog,
}

/// Older runs are forgotten.
const MAX_RUNS: usize = 100;

impl Runs {
    pub fn shown(&self) -> Option<&Run> {
        self.all.get(self.shown)
    }

    /// The run that the engine works on.
    pub fn active(&self) -> Option<&Run> {
        self.all.iter().rev().find(|r| !r.has_ended() && !r.replayed)
    }

    pub fn active_mut(&mut self) -> Option<&mut Run> {
        self.all.iter_mut().rev().find(|r| !r.has_ended() && !r.replayed)
    }

    pub fn get(&self, id: u64) -> Option<&Run> {
        self.all.iter().rev().find(|r| r.id() == id)
    }

    /// The index of a run.
    pub fn place(&self, id: u64) -> Option<usize> {
        self.all.iter().rposition(|run| run.id() == id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Run> {
        self.all.iter_mut().rev().find(|r| r.id() == id)
    }

    /// Forget the last run if it was cancelled before it wrote anything, because another run was requested.
    pub fn forget_unwritten(&mut self) {
        let empty =
            |r: &Run| r.activity() == Activity::Done(StopReason::Cancelled) && r.log.steps().is_empty();
        if self.all.last().is_some_and(empty) {
            self.all.pop();
        }
    }

    /// Add a run, and show it if it is to be followed. The oldest is forgotten, but no segment of the same clip.
    pub fn add(&mut self, run: Run, follow: bool) {
        let group = run.group();
        // A segment that is captioned again takes the place of its earlier run.
        let is_same = |old: &Run| old.subject.segment == run.subject.segment && old.has_ended();
        if let Some(at) = self.all.iter().position(is_same).filter(|_| group.is_some()) {
            self.all[at] = run;
            if follow {
                self.shown = at;
            }
            return;
        }
        self.all.push(run);
        while self.all.len() > MAX_RUNS && (group.is_none() || self.all[0].group() != group) {
            self.all.remove(0);
            self.shown = self.shown.saturating_sub(1);
        }
        if follow {
            self.shown = self.all.len() - 1;
        }
    }

    /// The runs that belong together with this one, in order: the segments of a clip, or itself alone.
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
}

#[cfg(test)]
mod tests {
    use crate::tui::testing;

    #[test]
    fn tokens_are_counted_over_the_steps() {
        let run = testing::after_a_run().model().runs.shown().unwrap().clone();
        assert_eq!(run.log.token_count(), 5);
        assert_eq!((run.step_start(4, false), run.step_start(1, true), run.step_start(0, false)), (3, 3, 0));
    }
}
