//! The preset prompts.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::pane::Pane;
use crate::tui::widgets::{
    BELOW, Frame, around, below_list, cell_columns, dialog, list, named, popup, widest,
};

#[derive(Debug, Default)]
pub(crate) struct PresetList {
    pub cursor: usize,
}

impl Screen for PresetList {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::list("use")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        if let Some(preset) = model.config.presets.get(self.cursor) {
            model.prompt.set(&preset.text);
            model.focus = Pane::Prompt;
        }
        Turn::Leave
    }

    fn cursor(&mut self) -> Option<&mut usize> {
        Some(&mut self.cursor)
    }

    fn rows(&self, model: &Model) -> usize {
        model.config.presets.len()
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let presets = &model.config.presets;
        let columns = around(14 + widest("", presets.iter().map(|preset| preset.text.as_str())), 84);
        let rows = (presets.len() as u16).saturating_add(2 + BELOW);
        let inner = popup(frame, theme, columns, rows, dialog("Preset prompts", theme));
        let [above, below] = inner.layout(&Layout::vertical([Min(1), Length(BELOW)]));
        let widths = [Length(12), Fill(1)];
        let columns = cell_columns(above, &widths);
        list(frame, theme, above, (self.cursor, presets.len()), (None, &widths), |i| {
            named(&presets[i].name, &presets[i].text, &columns, theme)
        });
        if let Some(preset) = presets.get(self.cursor) {
            below_list(&preset.text, theme, frame, below);
        }
    }
}
