//! What is said in a clip, for the prompts about it: a transcript, or what a speech model hears.

use std::path::Path;

use crate::tui::{
    effect::SpeechNews,
    model::{Model, Tone},
};

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
