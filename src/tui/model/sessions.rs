//! The list of saved runs.

use std::path::PathBuf;

use super::search::matches;
use crate::tui::archive::SessionEntry;

/// The list, which is read again each time it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Their directory; none if there is none.
    pub folder: Option<PathBuf>,
    /// None until the directory was read.
    pub entries: Option<Vec<SessionEntry>>,
    /// Words that must all appear in a run's texts.
    pub filter: String,
    /// Indices of the entries that match the filter.
    pub shown: Vec<usize>,
    pub cursor: usize,
    /// Asking whether to delete the selected one.
    pub confirm: bool,
}

impl Sessions {
    pub fn selected(&self) -> Option<&SessionEntry> {
        self.entries.as_ref()?.get(*self.shown.get(self.cursor)?)
    }

    /// Replace the list. The selection stays on its file if that still exists, and so does the question whether to delete it.
    pub fn set(&mut self, entries: Vec<SessionEntry>) {
        let selected = self.selected().map(|e| e.path.clone());
        self.entries = Some(entries);
        self.refresh(selected.clone());
        self.confirm &= self.selected().map(|e| &e.path) == selected.as_ref();
    }

    /// Set the filter; the selection stays if it matches.
    pub fn set_filter(&mut self, filter: String) {
        let selected = self.selected().map(|e| e.path.clone());
        self.filter = filter;
        self.refresh(selected);
    }

    fn refresh(&mut self, selected: Option<PathBuf>) {
        let entries = self.entries.as_deref().unwrap_or_default();
        let goes = |entry: &SessionEntry| {
            let says = |word| entry.texts().iter().any(|text| !matches(text, word).is_empty());
            self.filter.split_whitespace().all(says)
        };
        self.shown = (0..entries.len()).filter(|i| goes(&entries[*i])).collect();
        let at = selected.and_then(|path| self.shown.iter().position(|i| entries[*i].path == path));
        self.cursor = at.unwrap_or(self.cursor).min(self.shown.len().saturating_sub(1));
    }
}
