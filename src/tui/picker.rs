//! A list with a line that filters it, and how a cursor moves in a list.

use crate::tui::line::InputLine;

/// What comes after one of all, or before it; the first follows the last.
pub(crate) fn cycle<T: Copy + PartialEq>(all: &[T], one: T, by: isize) -> T {
    let at = all.iter().position(|other| *other == one).unwrap_or(0) as isize;
    all[(at + by).rem_euclid(all.len() as isize) as usize]
}

/// A move of a cursor in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    By(isize),
    Pages(isize),
    Top,
    Bottom,
    To(usize),
}

impl Move {
    /// The cursor after the move, in a list of `n` rows of which a page is shown.
    pub fn apply(self, at: usize, n: usize, page: usize) -> usize {
        let last = n.saturating_sub(1);
        let page = page.max(1) as isize;
        match self {
            Move::By(d) => at.saturating_add_signed(d).min(last),
            Move::Pages(d) => at.saturating_add_signed(d * page).min(last),
            Move::Top => 0,
            Move::Bottom => last,
            Move::To(at) => at.min(last),
        }
    }
}

/// What is typed to filter a list, and the cursor among the rows that match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picker {
    pub line: InputLine,
    pub cursor: usize,
}

impl Picker {
    /// Without a filter, at this row.
    pub fn at(cursor: usize) -> Self {
        Self { line: InputLine::default(), cursor }
    }

    pub fn query(&self) -> &str {
        &self.line.text
    }
}
