//! A follow-up question about the shown caption.

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, line_box};
use crate::tui::{line::InputLine, update::runs};

#[derive(Debug, Default)]
pub(crate) struct QuestionLine {
    line: InputLine,
}

pub(crate) fn open(model: &mut Model) {
    let done = model.runs.shown().is_some_and(|r| r.has_ended() && !r.log.whole().chunks().is_empty());
    match done {
        true => model.screens.open(QuestionLine::default()),
        false => model.note(Tone::Info, "no caption to ask about yet"),
    }
}

impl Screen for QuestionLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("ask")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let question = self.line.text.trim();
        if !question.is_empty() {
            runs::follow_up(model, question);
        }
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Follow-up question", &self.line, &[], theme, frame);
    }
}
