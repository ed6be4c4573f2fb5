//! A value of the sampling, which is typed.

use crate::look::Theme;
use crate::tui::line::InputLine;
use crate::tui::model::sampling::{Control, Row};
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{Frame, line_box};

#[derive(Debug)]
pub(super) struct ControlLine {
    control: &'static Control,
    pub line: InputLine,
}

impl ControlLine {
    pub fn new(control: &'static Control, model: &Model) -> Self {
        let value = model.sampling.value(Row::Value(control));
        Self { control, line: InputLine::suggested(value.unwrap_or_default()) }
    }
}

impl Screen for ControlLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("set")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let changed = model.sampling.typed(self.control, &self.line.text);
        if super::apply(model, changed) { Turn::Leave } else { Turn::Stay }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        let Control { name, about, example, .. } = self.control;
        let hints =
            [(*about).to_owned(), format!("for example {example}; leave empty for the value of the base")];
        line_box(&format!("Sampling · {name}"), &self.line, &hints, theme, frame);
    }
}
