//! The mouse, where the user wants one: by default it is the terminal's own, for selecting text.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

/// Something done with the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
    /// What was done there.
    pub kind: MouseKind,
}

/// What is done with a mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    /// The left button was pressed.
    Click,
    /// The wheel went up by a notch.
    WheelUp,
    /// The wheel went down by a notch.
    WheelDown,
}

impl Mouse {
    /// From the terminal's words; none for what has no meaning here.
    pub(crate) fn from_terminal(event: &MouseEvent) -> Option<Self> {
        let kind = match event.kind {
            MouseEventKind::Down(MouseButton::Left) => MouseKind::Click,
            MouseEventKind::ScrollUp => MouseKind::WheelUp,
            MouseEventKind::ScrollDown => MouseKind::WheelDown,
            _ => return None,
        };
        Some(Self { column: event.column, row: event.row, kind })
    }
}
