//! The filter of the library, on the pane's border.

use crate::look::Action;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::{line::InputLine, pane::Pane, picker::Move, update::panes};

#[derive(Debug)]
pub(crate) struct FilterLine {
    line: InputLine,
}

pub(crate) fn open(model: &mut Model) {
    panes::focus(model, Pane::Library);
    model.screens.open(FilterLine { line: InputLine::new(&model.library.filter) });
}

/// The library has dropped its filter, to show a file.
pub(crate) fn dropped(model: &mut Model) {
    if let Some(filter) = model.screens.shown_mut::<FilterLine>() {
        filter.line = InputLine::default();
    }
}

impl Screen for FilterLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("keep")
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action != Action::Back {
            return Turn::Pass;
        }
        model.library.clear_filter();
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn typed(&mut self, model: &mut Model) {
        model.library.set_filter(self.line.text.clone());
    }

    fn go(&mut self, go: Move, model: &mut Model) {
        panes::go_in_library(model, go);
    }

    fn border(&self) -> Option<(Pane, &InputLine)> {
        Some((Pane::Library, &self.line))
    }
}
