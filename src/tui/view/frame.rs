//! The frame that is drawn. Drawing also records the meaning of a click, so that both have one layout.

use super::*;

/// What a part of the screen is for the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
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
pub(crate) struct Frame<'a> {
    buffer: &'a mut Buffer,
    targets: Vec<(Rect, Target)>,
}

impl<'a> Frame<'a> {
    pub fn new(buffer: &'a mut Buffer) -> Self {
        Self { buffer, targets: Vec::new() }
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

    /// What is drawn in this area is a target.
    pub(super) fn mark(&mut self, area: Rect, target: Target) {
        self.targets.push((area, target));
    }

    /// What was drawn at a position; the last is on top.
    fn at(&self, position: Position) -> Hit {
        let here = self.targets.iter().filter(|(area, _)| area.contains(position));
        here.fold(Hit::default(), |hit, (_, target)| match *target {
            Target::Pane(pane) => Hit { pane: Some(pane), ..Hit::default() },
            Target::Box => Hit { is_box: true, ..Hit::default() },
            Target::Row(row) => Hit { row: Some(row), ..hit },
            Target::Key(key) => Hit { key: Some(key), ..hit },
        })
    }
}

/// What is at a position of the screen, which is drawn off the screen to find out.
pub(crate) fn hit(model: &Model, position: Position) -> Hit {
    let (columns, rows) = model.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    let mut frame = Frame::new(&mut buffer);
    draw(model, model.theme(), &mut frame);
    frame.at(position)
}
