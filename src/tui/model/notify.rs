//! Notices in the studio and, while the terminal does not have the focus, of the terminal.

use super::Tone;

/// Work of the engine, from its request to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// The tick at which it began.
    pub since: usize,
    pub is_batch: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    /// The notice in the last line.
    pub shown: Option<(Tone, String)>,
    /// Notes of the engine and its runs that were shown as a notice.
    pub announced: Vec<String>,
    /// The terminal has reported that it lost the focus; some never report it.
    pub is_away: bool,
    pub work: Option<Work>,
    /// Work failed while the user was away.
    pub missed_failure: bool,
}
