//! The orders in which the library shows its entries.

use std::cmp::Ordering;

use super::library::Entry;

/// The order of the entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// As they were found.
    #[default]
    Found,
    Name,
    /// The longest first.
    Duration,
    /// The largest first.
    Size,
    /// The newest first.
    Modified,
}

impl Sort {
    pub fn next(self) -> Self {
        match self {
            Sort::Found => Sort::Name,
            Sort::Name => Sort::Duration,
            Sort::Duration => Sort::Size,
            Sort::Size => Sort::Modified,
            Sort::Modified => Sort::Found,
        }
    }

    /// Words for the title; none for the usual order.
    pub fn name(self) -> &'static str {
        match self {
            Sort::Found => "",
            Sort::Name => "by name",
            Sort::Duration => "longest",
            Sort::Size => "largest",
            Sort::Modified => "newest",
        }
    }

    /// For sorting; what is not known comes last.
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
