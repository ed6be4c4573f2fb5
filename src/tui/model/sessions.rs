//! The saved sessions as they are listed.

use std::path::PathBuf;

use super::search::matches;
use crate::tui::archive::SessionEntry;

/// The list; read afresh each time it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Where they are kept; none where there is no such place.
    pub folder: Option<PathBuf>,
    /// None until the folder was read.
    pub entries: Option<Vec<SessionEntry>>,
    /// What a session must say somewhere to be shown: every word of it.
    pub filter: String,
    /// The places of those that go with the filter.
    pub shown: Vec<usize>,
    pub cursor: usize,
    /// Asked whether the selected one may go.
    pub confirm: bool,
}

impl Sessions {
    pub fn selected(&self) -> Option<&SessionEntry> {
        self.entries.as_ref()?.get(*self.shown.get(self.cursor)?)
    }

    /// Take in a list; the selection stays on its file where that is still there.
    pub fn set(&mut self, entries: Vec<SessionEntry>) {
        let selected = self.selected().map(|e| e.path.clone());
        self.entries = Some(entries);
        self.confirm = false;
        self.refresh(selected);
    }

    /// Show only what says this; the selection stays where it can.
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
