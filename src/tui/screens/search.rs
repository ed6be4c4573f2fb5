//! The search in the caption, on the pane's border.

use crate::tui::{
    action::Action,
    line::InputLine,
    model::{
        Model, Tone,
        search::Search,
        stack::{Screen, Turn},
    },
    pane::Pane,
    picker::Move,
    theme::Theme,
    update::search,
    widgets::Frame,
};

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
    fn verb(&self) -> &'static str {
        "search"
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Choose => {}
            Action::Back => model.caption.search = Search::default(),
            _ => return Turn::Pass,
        }
        Turn::leave()
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

    fn draw(&self, _model: &Model, _theme: &Theme, _frame: &mut Frame<'_>) {}
}
