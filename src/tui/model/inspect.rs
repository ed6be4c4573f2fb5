//! The inspector's token cursor.

use crate::tui::picker::cycle;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Heat {
    /// The visual tokens that resemble this token most.
    #[default]
    NearestVisual,
    Kept,
    /// The scores by which they were chosen.
    Scores,
}

impl Heat {
    pub fn next(self) -> Self {
        cycle(&[Heat::NearestVisual, Heat::Kept, Heat::Scores], self, 1)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inspector {
    pub token: usize,
    pub heat: Heat,
}
