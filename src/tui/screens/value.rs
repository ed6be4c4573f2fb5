//! A value of the method in the editor, which is typed.

use crate::look::Theme;
use crate::tui::line::InputLine;
use crate::tui::model::edit::{self, rows};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, line_box};
use specreel_speculate::method::Value as Takes;

#[derive(Debug)]
pub(crate) struct ValueLine {
    /// The row of the editor.
    row: usize,
    pub line: InputLine,
}

impl ValueLine {
    pub fn new(row: usize, value: String) -> Self {
        Self { row, line: InputLine::suggested(value) }
    }
}

impl Screen for ValueLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("set")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let Some(method) = model.methods.current() else { return Turn::Leave };
        let Some(of) = rows(method).get(self.row).copied() else { return Turn::Leave };
        match edit::with_typed(method, of, &self.line.text) {
            Ok(method) => {
                model.methods.replace(method);
                Turn::Leave
            }
            Err(problem) => {
                model.note(Tone::Bad, problem);
                Turn::Stay
            }
        }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Some(method) = model.methods.current() else { return };
        let Some(edit::Row::Key(axis, key)) = rows(method).get(self.row).copied() else { return };
        let title = format!("{} · {}", axis.name, key.name.replace('_', " "));
        let takes = match key.value {
            Takes::Flag => "yes or no".into(),
            Takes::Words => "words separated by commas".into(),
            other => other.words(),
        };
        let empty = if key.required { "" } else { "; leave empty for the default" };
        let hint = format!("{takes}, for example {}{empty}", key.example);
        line_box(&title, &self.line, &[hint], theme, frame);
    }
}
