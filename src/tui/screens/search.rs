//! The search in the caption, on the pane's border.

use crate::look::Action;
use crate::tui::model::{Keys, Model, Screen, Tone, Turn, search::Search};
use crate::tui::{line::InputLine, pane::Pane, picker::Move, update::search};

#[derive(Debug, Default)]
pub(crate) struct SearchLine {
    line: InputLine,
}

pub(crate) fn open(model: &mut Model) {
    if model.runs.shown().is_none() {
        return model.note(Tone::Info, "no caption to search yet");
    }
    model.caption.inspector = None;
    model.focus = Pane::Caption;
    model.caption.search = Search::default();
    model.screens.open(SearchLine::default());
}

impl Screen for SearchLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("search")
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action != Action::Back {
            return Turn::Pass;
        }
        model.caption.search = Search::default();
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn typed(&mut self, model: &mut Model) {
        model.caption.search.query.clone_from(&self.line.text);
        search::begin(model);
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        if let Move::By(by) = go {
            search::step(model, by);
        }
    }

    fn border(&self) -> Option<(Pane, &InputLine)> {
        Some((Pane::Caption, &self.line))
    }
}
