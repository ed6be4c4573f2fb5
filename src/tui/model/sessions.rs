//! The saved sessions as they are listed.

use std::path::PathBuf;

use crate::tui::archive::SessionEntry;

/// The list; read afresh each time it is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    /// Where they are kept; none where there is no such place.
    pub folder: Option<PathBuf>,
    /// None until the folder was read.
    pub entries: Option<Vec<SessionEntry>>,
    pub cursor: usize,
    /// Asked whether the selected one may go.
    pub confirm: bool,
}

impl Sessions {
    pub fn selected(&self) -> Option<&SessionEntry> {
        self.entries.as_ref()?.get(self.cursor)
    }

    /// Take in a list; the selection stays on its file where that is still there.
    pub fn set(&mut self, entries: Vec<SessionEntry>) {
        let selected = self.selected().map(|e| e.path.clone());
        let at = selected.and_then(|path| entries.iter().position(|e| e.path == path));
        self.cursor = at.unwrap_or(self.cursor).min(entries.len().saturating_sub(1));
        self.entries = Some(entries);
        self.confirm = false;
    }
}
