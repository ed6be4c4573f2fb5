//! A value of the method in the editor, which is typed.

use crate::tui::{
    line::InputLine,
    model::{
        Model, Tone,
        edit::{self, rows},
        stack::{Screen, Turn},
    },
    theme::Theme,
    widgets::{Frame, line_box},
};
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

    fn set(&self, model: &mut Model) -> Turn {
        let Some(method) = model.methods.current() else { return Turn::leave() };
        let Some(of) = rows(method).get(self.row).copied() else { return Turn::leave() };
        match edit::with_typed(method, of, &self.line.text) {
            Ok(method) => {
                model.methods.replace(method);
                Turn::leave()
            }
            Err(problem) => {
                model.note(Tone::Bad, problem);
                Turn::stay()
            }
        }
    }
}

impl Screen for ValueLine {
    fn verb(&self) -> &'static str {
        "set"
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        self.set(model)
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
