//! What is said in the selected clip: a transcript, or a speech model that listens to it.

use std::path::Path;

use crate::look::Theme;
use crate::tui::effect::{Effect, SpeechNews, Wanted};
use crate::tui::line::{InputLine, PathLine};
use crate::tui::model::{Keys, Model, Screen, Tone, Turn};
use crate::tui::widgets::{Frame, path_box};

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
    model
        .screens
        .open(SpeechLine { path: PathLine { line, found: Vec::new(), wanted: Wanted::Transcripts } });
}

/// A transcript or a speech model was typed for the selected clip; nothing ends what is known.
fn choose(model: &mut Model, typed: &str) {
    let Some(entry) = model.library.selected() else { return };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let words = match typed {
        "" => format!("prompts about {title} are without speech"),
        typed => format!("reading {typed} …"),
    };
    model.note(Tone::Info, words);
    if typed.is_empty() {
        model.library.speech.remove(&video);
    }
    model.emit(Effect::Listen(video, typed.to_owned()));
}

/// A model has listened to a clip, or a transcript was read.
pub(crate) fn news(model: &mut Model, video: &Path, news: SpeechNews) {
    let entry = model.library.entries.iter().find(|entry| entry.path == video);
    let title = entry.map(|entry| entry.title.clone()).unwrap_or_default();
    match news {
        SpeechNews::Progress(share) => {
            model.note(Tone::Info, format!("listening to {title}: {:.0} %", share * 100.0));
        }
        SpeechNews::Heard(Ok(said)) => {
            let notes = said.notes(f64::INFINITY).into_iter().map(|note| format!("; {note}"));
            let notes: String = notes.collect();
            model.note(Tone::Info, format!("prompts about {title} have {}{notes}", said.words()));
            model.library.speech.insert(video.to_owned(), said);
        }
        SpeechNews::Heard(Err(problem)) => model.note(Tone::Bad, problem),
        SpeechNews::Cancelled => {}
    }
}

impl Screen for SpeechLine {
    fn keys(&self, _model: &Model) -> Keys {
        Keys::path("use")
    }

    fn choose(&mut self, model: &mut Model) -> Turn {
        choose(model, self.path.line.text.trim());
        Turn::Leave
    }

    fn path(&mut self) -> Option<&mut PathLine> {
        Some(&mut self.path)
    }

    fn draw(&self, _model: &Model, theme: &Theme, frame: &mut Frame<'_>) {
        path_box("What is said: a transcript, or a speech model", &self.path, theme, frame);
    }
}
