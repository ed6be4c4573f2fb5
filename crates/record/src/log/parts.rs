//! The parts of a log: state, the run's subject, the models' input, chunks of text.

use std::ops::Range;

use crate::{Failure, Step, StopReason, Token, Verdict};

#[derive(Clone, Debug, Default, PartialEq)]
pub enum RunState {
    #[default]
    Waiting,
    Running,
    /// It ended normally, or was cancelled.
    Done(StopReason),
    Failed(Failure),
    /// Its recording ends before its last event ([`RunLog::cut_off`](super::RunLog::cut_off)).
    CutOff,
}

/// Progress of the measurement of a run's speed, which continues after its `done` event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// No `speed` event has arrived; in files of earlier versions there is none.
    #[default]
    Unmeasured,
    /// The engine is measuring; the figure may change.
    Measuring,
    Measured,
}

/// A piece of the caption's text, and the tokens that made it together.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The text; never empty. The first chunk has no leading space: that space belongs to the end of the prompt.
    pub text: String,
    /// The least strict verdict of its tokens ([`Verdict::least_strict`]).
    pub verdict: Verdict,
    /// Numbers of its first token and of the one after its last, counted over the run.
    pub tokens: Range<usize>,
    /// Number of the token that has this verdict; `None` if the text came without a step (see [`RunLog::apply`](super::RunLog::apply)).
    pub deciding: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    pub step: &'a Step,
    /// Its index among the step's tokens.
    pub at: usize,
    pub token: &'a Token,
}

/// What one event added to a log: ranges of [`RunLog::chunks`](super::RunLog::chunks) and [`RunLog::notes`](super::RunLog::notes).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Added {
    pub chunks: Range<usize>,
    pub notes: Range<usize>,
}
