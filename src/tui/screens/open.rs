//! Opening a video or a directory by its path.

use crate::tui::{
    action::Action,
    effect::{Effect, Wanted},
    line::{InputLine, PathLine},
    model::{
        Model,
        stack::{Screen, Turn},
    },
    theme::Theme,
    widgets::{Frame, path_box},
};

#[derive(Debug, Default)]
pub(crate) struct OpenLine {
    pub path: PathLine,
}

/// A file or directory is there: the line closes if it has asked for it.
pub(crate) fn opened(model: &mut Model) {
    if std::mem::take(&mut model.library.opening) && model.screens.shown::<OpenLine>().is_some() {
        model.screens.close();
    }
}

impl Screen for OpenLine {
    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Choose, Action::Complete, Action::Back, Action::ClearLine]
    }

    fn verb(&self) -> &'static str {
        "open"
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        let PathLine { line, found } = &mut self.path;
        match action {
            Action::Choose if line.text.trim().is_empty() => Turn::leave(),
            Action::Choose => {
                // The line stays until the file is known to exist.
                model.library.opening = true;
                found.clear();
                Turn::Stay(vec![Effect::Open(line.text.trim().to_owned())])
            }
            Action::Complete => Turn::Stay(vec![Effect::Complete(line.split().0.to_owned(), Wanted::Videos)]),
            _ => Turn::Pass,
        }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.path.line)
    }

    fn typed(&mut self, _model: &mut Model) {
        self.path.found.clear();
    }

    fn path(&mut self) -> Option<&mut PathLine> {
        Some(&mut self.path)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        path_box("Open a video or a directory", &self.path.line, &self.path.found, theme, frame);
    }
}
