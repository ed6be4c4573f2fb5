//! A follow-up question about the shown caption.

use crate::tui::{
    line::InputLine,
    model::{
        Model, Tone,
        stack::{Screen, Turn},
    },
    theme::Theme,
    update::runs,
    widgets::{Frame, line_box},
};

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
    fn verb(&self) -> &'static str {
        "ask"
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        match self.line.text.trim() {
            "" => Turn::leave(),
            question => Turn::Leave(runs::follow_up(model, question)),
        }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Follow-up question", &self.line, &[], theme, frame);
    }
}
