//! The mouse, if the user enables it; by default the terminal keeps it for selecting text.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mouse {
    /// Column of the cell, from 0.
    pub column: u16,
    /// Row of the cell, from 0.
    pub row: u16,
    pub kind: MouseKind,
}

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
    /// From a terminal event; none for unused ones.
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
