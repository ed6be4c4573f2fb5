//! The frame that is drawn. Drawing also records the meaning of a click, so that both have one layout.

use std::sync::Arc;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{Block, StatefulWidget, Widget};

use crate::{look::Action, tui::pane::Pane};
use specreel_video as video;

/// An area for a picture, filled with half-blocks until a graphics protocol draws over them.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub area: Rect,
    pub frame: Arc<video::Frame>,
}

/// What a part of the screen is for the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Pane(Pane),
    /// A box, which covers the screen below it.
    Box,
    /// A row of the list in the pane or box, by its index.
    Row(usize),
    /// The hint of a key.
    Key(Action),
}

/// What is at a position of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hit {
    pub pane: Option<Pane>,
    pub is_box: bool,
    pub row: Option<usize>,
    pub key: Option<Action>,
}

/// A screen that is being drawn, as ratatui's frame, with its targets.
pub struct Frame<'a> {
    buffer: &'a mut Buffer,
    targets: Vec<(Rect, Target)>,
    /// The picture that is shown.
    pub(crate) slot: Option<Slot>,
}

impl<'a> Frame<'a> {
    pub fn new(buffer: &'a mut Buffer) -> Self {
        Self { buffer, targets: Vec::new(), slot: None }
    }

    pub fn area(&self) -> Rect {
        self.buffer.area
    }

    pub fn buffer_mut(&mut self) -> &mut Buffer {
        self.buffer
    }

    pub fn render_widget(&mut self, widget: impl Widget, area: Rect) {
        widget.render(area, self.buffer);
    }

    pub fn render_stateful_widget<W: StatefulWidget>(&mut self, widget: W, area: Rect, state: &mut W::State) {
        widget.render(area, self.buffer, state);
    }

    /// Draw a border. Returns the area inside.
    pub fn border(&mut self, block: Block<'_>, area: Rect) -> Rect {
        let inner = block.inner(area);
        self.render_widget(block, area);
        inner
    }

    /// What is drawn in this area is a target.
    pub(crate) fn mark(&mut self, area: Rect, target: Target) {
        self.targets.push((area, target));
    }

    /// What was drawn at a position; the last is on top.
    pub(crate) fn at(&self, position: Position) -> Hit {
        let here = self.targets.iter().filter(|(area, _)| area.contains(position));
        here.fold(Hit::default(), |hit, (_, target)| match *target {
            Target::Pane(pane) => Hit { pane: Some(pane), ..Hit::default() },
            Target::Box => Hit { is_box: true, ..Hit::default() },
            Target::Row(row) => Hit { row: Some(row), ..hit },
            Target::Key(key) => Hit { key: Some(key), ..hit },
        })
    }
}
