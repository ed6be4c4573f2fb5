//! Whether the terminal has the focus, and what ended without it.

/// Work of the engine, from its request to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// The tick at which it began.
    pub since: usize,
    pub is_batch: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NotifyState {
    /// The terminal has reported that it lost the focus; some never report it.
    pub is_away: bool,
    pub work: Option<Work>,
    /// Work failed while the user was away.
    pub missed_failure: bool,
}
