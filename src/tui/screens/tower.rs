//! The vision tower for a target in GGUF: its path is typed.

use std::path::PathBuf;

use crate::look::Theme;
use crate::tui::model::{Keys, Model, Screen, Turn};
use crate::tui::widgets::{Frame, line_box};
use crate::tui::{line::InputLine, update::models};
use specreel_client::catalog::ModelPair;

#[derive(Debug)]
pub(crate) struct TowerLine {
    target: PathBuf,
    line: InputLine,
}

impl TowerLine {
    pub fn new(target: PathBuf) -> Self {
        Self { target, line: InputLine::default() }
    }
}

impl Screen for TowerLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("keep")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let typed = self.line.text.trim();
        if typed.is_empty() {
            return Turn::Leave;
        }
        let target = Some(self.target.clone());
        let pair = ModelPair { target, mmproj: Some(typed.into()), ..ModelPair::default() };
        models::change(model, pair, false);
        Turn::Leave
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Vision tower (mmproj file)", &self.line, &[], theme, frame);
    }
}
