//! What is said in a clip, for the prompts about it: a transcript, or what a speech model hears.

use super::*;
use crate::tui::SpeechNews;

pub(super) fn open(model: &mut Model) {
    let Some(entry) = model.library.selected() else {
        return model.note(Tone::Bad, "no clip selected: paste a path, or press o to open one");
    };
    let known = model.speech.get(&entry.path).map(|said| said.file.clone());
    model.overlay = Some(Overlay::Speech { line: known.unwrap_or_default(), found: Vec::new() });
}

/// A transcript or a speech model was typed for the selected clip; nothing ends what is known.
pub(super) fn choose(model: &mut Model, typed: &str) -> Vec<Effect> {
    let Some(entry) = model.library.selected() else { return Vec::new() };
    let (video, title) = (entry.path.clone(), entry.title.clone());
    let typed = typed.trim();
    let words = match typed {
        "" => format!("prompts about {title} are without speech"),
        typed => format!("reading {typed} …"),
    };
    model.note(Tone::Info, words);
    if typed.is_empty() {
        model.speech.remove(&video);
    }
    vec![Effect::Listen(video, typed.to_owned())]
}

pub(super) fn news(model: &mut Model, video: &Path, news: SpeechNews) {
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
            model.speech.insert(video.to_owned(), said);
        }
        SpeechNews::Heard(Err(problem)) => model.note(Tone::Bad, problem),
        SpeechNews::Cancelled => {}
    }
}
