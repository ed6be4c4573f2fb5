//! The bases of the sampling: the model's own, greedy, and the presets.

use ratatui::layout::Constraint::{Fill, Length};

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{Frame, around, cell_columns, dialog, list, named, popup, widest};

#[derive(Debug)]
pub(super) struct BaseList {
    cursor: usize,
}

impl BaseList {
    /// With the cursor at the chosen one.
    pub fn new(model: &Model) -> Self {
        let chosen = model.sampling.base();
        Self { cursor: model.sampling.bases().iter().position(|base| *base == chosen).unwrap_or(0) }
    }
}

impl Screen for BaseList {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::list("use")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let Some(base) = model.sampling.bases().get(self.cursor).copied() else { return Turn::Leave };
        let changed = model.sampling.on(base);
        if super::apply(model, changed) { Turn::Leave } else { Turn::Stay }
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, model: &Model) -> usize {
        model.sampling.bases().len()
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let bases = model.sampling.bases();
        let about: Vec<String> = bases.iter().map(|base| model.sampling.describe_base(base)).collect();
        let names = widest("", bases.iter().copied());
        let columns = around(names + 2 + widest("", about.iter().map(String::as_str)), 60);
        let inner =
            popup(frame, theme, columns, bases.len() as u16 + 2, dialog("Base of the sampling", theme));
        let widths = [Length(names as u16), Fill(1)];
        let columns = cell_columns(inner, &widths);
        list(frame, theme, inner, (self.cursor, bases.len()), (None, &widths), |at| {
            named(bases[at], &about[at], &columns, theme)
        });
    }
}
