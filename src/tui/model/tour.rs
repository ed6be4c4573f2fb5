//! The guided first run: one thing to press after another, each said where the caption is, until all were seen or Esc ends it.

/// What the tour asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TourStep {
    /// Start the first run.
    Start,
    /// Watch it.
    Watch,
    /// Read what the colors mean, and open the methods.
    Colors,
    /// Compare methods.
    Compare,
    /// See where models for other videos come from.
    Models,
}

impl TourStep {
    const ALL: [Self; 5] = [Self::Start, Self::Watch, Self::Colors, Self::Compare, Self::Models];

    /// Counted from 1, and how many there are.
    pub fn number(self) -> (usize, usize) {
        (1 + self as usize, Self::ALL.len())
    }

    pub fn next(self) -> Option<Self> {
        Self::ALL.get(1 + self as usize).copied()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tour {
    pub step: TourStep,
    /// The screen that the step asks for was open.
    pub opened: bool,
}

impl Tour {
    pub fn start() -> Self {
        Self { step: TourStep::Start, opened: false }
    }
}
