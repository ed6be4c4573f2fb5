//! What is said in the selected clip: a transcript, or a speech model that listens to it.

use crate::tui::{
    action::Action,
    effect::{Effect, Wanted},
    line::{InputLine, PathLine},
    model::{
        Model, Tone,
        stack::{Screen, Turn},
    },
    theme::Theme,
    widgets::{Frame, path_box},
};

#[derive(Debug)]
pub(crate) struct SpeechLine {
    path: PathLine,
}

pub(crate) fn open(model: &mut Model) {
    let Some(entry) = model.library.selected() else {
        return model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
    };
    let known = model.library.speech.get(&entry.path).map(|said| said.file.clone());
    let line = InputLine::suggested(known.unwrap_or_default());
    model.screens.open(SpeechLine { path: PathLine { line, found: Vec::new() } });
}

/// A transcript or a speech model was typed for the selected clip; nothing ends what is known.
fn choose(model: &mut Model, typed: &str) -> Vec<Effect> {
    let Some(entry) = model.library.selected() else { return Vec::new() };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let words = match typed {
        "" => format!("prompts about {title} are without speech"),
        typed => format!("reading {typed} …"),
    };
    model.note(Tone::Info, words);
    if typed.is_empty() {
        model.library.speech.remove(&video);
    }
    vec![Effect::Listen(video, typed.to_owned())]
}

impl Screen for SpeechLine {
    fn hints(&self, _model: &Model) -> &'static [Action] {
        &[Action::Choose, Action::Complete, Action::Back, Action::ClearLine]
    }

    fn verb(&self) -> &'static str {
        "use"
    }

    fn act(&mut self, action: Action, model: &mut Model) -> Turn {
        let line = &self.path.line;
        match action {
            Action::Choose => Turn::Leave(choose(model, line.text.trim())),
            Action::Complete => {
                Turn::Stay(vec![Effect::Complete(line.split().0.to_owned(), Wanted::Transcripts)])
            }
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
        let title = "What is said: a transcript, or a speech model";
        path_box(title, &self.path.line, &self.path.found, theme, frame);
    }
}
