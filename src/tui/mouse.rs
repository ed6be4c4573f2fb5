//! The mouse, unless the user leaves it to the terminal.

use std::time::Duration;

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

/// The longest time between the clicks of a double click.
const DOUBLE: Duration = Duration::from_millis(400);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
    pub kind: MouseKind,
    /// Time since the studio was started.
    pub at: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// The left button was pressed.
    Click,
    WheelUp,
    WheelDown,
}

impl Mouse {
    /// True if this click and an earlier one are a double click.
    pub(crate) fn doubles(&self, earlier: &Mouse) -> bool {
        let is_here = (self.column, self.row) == (earlier.column, earlier.row);
        is_here && self.at.saturating_sub(earlier.at) <= DOUBLE
    }

    /// From a terminal event; `None` for unused ones.
    pub(crate) fn from_terminal(event: &MouseEvent, at: Duration) -> Option<Self> {
        let kind = match event.kind {
            MouseEventKind::Down(MouseButton::Left) => MouseKind::Click,
            MouseEventKind::ScrollUp => MouseKind::WheelUp,
            MouseEventKind::ScrollDown => MouseKind::WheelDown,
            _ => return None,
        };
        Some(Self { column: event.column, row: event.row, kind, at })
    }
}
