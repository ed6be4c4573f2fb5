//! The panes.

use crate::tui::picker::cycle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pane {
    Library,
    Prompt,
    Caption,
    Steps,
    Meters,
}

impl Pane {
    pub const ALL: [Pane; 5] = [Pane::Library, Pane::Prompt, Pane::Caption, Pane::Steps, Pane::Meters];

    pub fn next(self, by: isize) -> Self {
        cycle(&Self::ALL, self, by)
    }
}
