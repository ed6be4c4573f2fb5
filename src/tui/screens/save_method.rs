//! Saving the method in the editor as a file: its name is typed.

use std::path::PathBuf;

use super::methods::MethodPicker;
use crate::look::{Action, Theme};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn, edit};
use crate::tui::widgets::{Frame, line_box};
use crate::tui::{effect::Effect, line::InputLine};
use specreel_os::dirs::HOME;
use specreel_speculate::Method;

#[derive(Debug)]
pub(crate) struct SaveLine {
    line: InputLine,
}

/// Ask for the name of the chosen method.
pub(super) fn open(model: &Model) -> Turn {
    match model.methods.current() {
        Some(method) => Turn::open(SaveLine { line: InputLine::new(format!("my-{}", method.name)) }),
        None => Turn::Stay,
    }
}

pub(crate) fn saved(model: &mut Model, outcome: Result<(PathBuf, Method), String>) {
    match outcome {
        Ok((file, method)) => {
            model.methods.add(method);
            model.note(Tone::Info, format!("saved as {}", file.display()));
        }
        Err(problem) => model.note(Tone::Bad, problem),
    }
}

impl Screen for SaveLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::line("save")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        let name = self.line.text.trim().to_owned();
        if let Some(problem) = edit::name_problem(&name) {
            model.note(Tone::Bad, problem);
            self.line.text = name;
            return Turn::Stay;
        }
        let (Some(method), Some(folder)) = (model.methods.current(), &model.config.methods_dir) else {
            model.note(Tone::Bad, format!("no directory for methods: {HOME} is not set"));
            return Turn::Leave;
        };
        let file = folder.join(format!("{name}.toml"));
        let method = Method { name, ..method.clone() };
        model.emit(Effect::SaveMethod(file, Box::new(method)));
        Turn::Leave
    }

    /// One level back, to the picker.
    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        if action == Action::Back { Turn::open(MethodPicker::new(model)) } else { Turn::Pass }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Save method as", &self.line, &[], theme, frame);
    }
}
