//! Earlier prompts, with a search.

use ratatui::layout::Constraint::{Fill, Length, Min};
use ratatui::layout::Layout;
use ratatui::{text::Line, widgets::Row};

use crate::look::{Role, Theme};
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{BELOW, Frame, below_list, dialog, list, popup, typed_after};
use crate::tui::{pane::Pane, picker::Picker, text};

#[derive(Debug, Default)]
pub(crate) struct PromptHistory {
    picker: Picker,
}

impl Screen for PromptHistory {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("use")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let found = model.prompt.found(self.picker.query());
        if let Some(prompt) = found.get(self.picker.cursor).map(|prompt| (*prompt).to_owned()) {
            model.prompt.set(&prompt);
        }
        model.focus = Pane::Prompt;
        Turn::Leave
    }

    fn picker(&mut self) -> Option<&mut Picker> {
        Some(&mut self.picker)
    }

    fn rows(&self, model: &Model) -> usize {
        model.prompt.found(self.picker.query()).len()
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Picker { line, cursor } = &self.picker;
        let found = model.prompt.found(&line.text);
        let rows = 22.min(found.len().max(1) as u16 + 3 + BELOW);
        let inner = popup(frame, theme, 96, rows, dialog("Earlier prompts", theme));
        let [above, middle, below] = inner.layout(&Layout::vertical([Length(1), Min(1), Length(BELOW)]));
        typed_after("search ", line, theme, frame, above);
        if found.is_empty() {
            let words = if line.text.is_empty() { "no earlier prompts" } else { "no match" };
            frame.render_widget(Line::styled(words, theme.style(Role::Dim)), middle);
        }
        list(frame, theme, middle, (*cursor, found.len()), (None, &[Fill(1)]), |i| {
            Row::new([text::fit(&text::clean_line(found[i]), middle.width.into())])
        });
        if let Some(prompt) = found.get(*cursor) {
            below_list(prompt, theme, frame, below);
        }
    }
}
