//! The sort orders of the library.

use std::cmp::Ordering;

use super::library::Entry;
use crate::tui::picker::cycle;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// In the order in which they were found.
    #[default]
    Found,
    Name,
    Duration,
    Size,
    Modified,
}

impl Sort {
    pub fn next(self) -> Self {
        cycle(&[Sort::Found, Sort::Name, Sort::Duration, Sort::Size, Sort::Modified], self, 1)
    }

    /// Its name in the title; empty for the default.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Found => "",
            Sort::Name => "by name",
            Sort::Duration => "longest",
            Sort::Size => "largest",
            Sort::Modified => "newest",
        }
    }

    /// For sorting; unknown values come last.
    pub fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        let length = |e: &Entry| e.facts().and_then(|f| f.seconds).unwrap_or(-1.0);
        match self {
            Sort::Found => a.kind.cmp(&b.kind),
            Sort::Name => a.title.to_lowercase().cmp(&b.title.to_lowercase()),
            Sort::Duration => length(b).total_cmp(&length(a)),
            Sort::Size => b.bytes.cmp(&a.bytes),
            Sort::Modified => b.modified.cmp(&a.modified),
        }
    }
}
