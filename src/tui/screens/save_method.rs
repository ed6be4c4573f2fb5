//! Saving the method in the editor as a file: its name is typed.

use std::path::PathBuf;

use super::methods::MethodPicker;
use crate::tui::{
    action::Action,
    effect::Effect,
    line::InputLine,
    model::{
        Model, Tone, edit,
        stack::{Screen, Turn},
    },
    theme::Theme,
    widgets::{Frame, line_box},
};
use specreel_speculate::Method;

#[derive(Debug)]
pub(crate) struct SaveLine {
    line: InputLine,
}

/// Ask for the name of the chosen method.
pub(super) fn open(model: &Model) -> Turn {
    match model.methods.current() {
        Some(method) => Turn::open(SaveLine { line: InputLine::new(format!("my-{}", method.name)) }),
        None => Turn::stay(),
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

impl SaveLine {
    fn save(&mut self, model: &mut Model) -> Turn {
        let name = self.line.text.trim().to_owned();
        if let Some(problem) = edit::name_problem(&name) {
            model.note(Tone::Bad, problem);
            self.line.text = name;
            return Turn::stay();
        }
        let (Some(method), Some(folder)) = (model.methods.current(), &model.config.methods_dir) else {
            model.note(Tone::Bad, "no directory for methods: neither HOME nor XDG_CONFIG_HOME is set");
            return Turn::leave();
        };
        let file = folder.join(format!("{name}.toml"));
        Turn::Leave(vec![Effect::SaveMethod(file, Box::new(Method { name, ..method.clone() }))])
    }
}

impl Screen for SaveLine {
    fn verb(&self) -> &'static str {
        "save"
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        match action {
            Action::Choose => self.save(model),
            // One level back, to the picker.
            Action::Back => Turn::open(MethodPicker::new(model)),
            _ => Turn::Pass,
        }
    }

    fn line(&mut self) -> Option<&mut InputLine> {
        Some(&mut self.line)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        line_box("Save method as", &self.line, &[], theme, frame);
    }
}
