//! Opening a video or a directory by its path.

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{Frame, path_box};
use crate::tui::{effect::Effect, line::PathLine};

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
    fn keys(&self, _model: &Model) -> Keys {
        Keys::path("open")
    }

    /// The line stays until the file is known to exist.
    fn choose(&mut self, model: &mut Model) -> Turn {
        let typed = self.path.line.text.trim();
        if typed.is_empty() {
            return Turn::Leave;
        }
        model.library.opening = true;
        model.emit(Effect::Open(typed.to_owned()));
        self.path.found.clear();
        Turn::Stay
    }

    fn path(&mut self) -> Option<&mut PathLine> {
        Some(&mut self.path)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        path_box("Open a video or a directory", &self.path, theme, frame);
    }
}
