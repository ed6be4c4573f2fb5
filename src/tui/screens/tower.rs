//! The vision tower for a target in GGUF: its path is typed.

use std::path::PathBuf;

use crate::tui::{
    line::InputLine,
    model::{
        Model,
        stack::{Screen, Turn},
    },
    theme::Theme,
    update::models,
    widgets::{Frame, line_box},
};
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
    fn choose(&mut self, model: &mut Model) -> Turn {
        let typed = self.line.text.trim();
        if typed.is_empty() {
            return Turn::leave();
        }
        let target = Some(self.target.clone());
        Turn::Leave(models::change(
            model,
            ModelPair { target, mmproj: Some(typed.into()), ..ModelPair::default() },
            false,
        ))
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Vision tower (mmproj file)", &self.line, &[], theme, frame);
    }
}
