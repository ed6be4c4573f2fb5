//! A speech model.

use std::sync::{Mutex, PoisonError};
use std::{ops::ControlFlow, path::Path};

use super::{Between, SpeechModel};
use crate::{Transcript, catalog::local};
use specreel_record::Failure;
use specreel_speech::{Recognizer, Sound};
use specreel_video::{self as video, Video, cuts::Progress};

/// A speech model.
pub struct Ear {
    /// As it was named.
    name: String,
    language: Option<String>,
    track: Option<usize>,
    recognizer: Mutex<Recognizer>,
}

impl Ear {
    /// Load the model that the options name. Fails if it cannot be used (class input).
    pub fn open(named: &SpeechModel) -> Result<Option<Self>, Failure> {
        let Some(model) = &named.model else { return Ok(None) };
        let name = model.display().to_string();
        let refuse = |(problem, hint)| Failure::input(format!("speech model {name}: {problem}"), hint);
        let dir = local::speech_model(model).map_err(refuse)?;
        let recognizer = Mutex::new(Recognizer::open(&dir)?);
        let (language, track) = (named.language.clone(), named.track.map(usize::from));
        Ok(Some(Self { name, language, track, recognizer }))
    }

    /// What distinguishes captions with what it hears, see [`Speech::job`](super::Speech::job).
    pub(super) fn job(&self) -> String {
        format!(" {} {:?} {:?}", self.name, self.language, self.track)
    }

    /// What is said in a part of a video. `progress` gets the seconds that were heard, of how many; a break ends it. Fails if the
    /// sound cannot be decoded, or the model does not know the language.
    pub fn hear(&self, file: &Path, part: Between, progress: Progress<'_>) -> Result<Transcript, Failure> {
        let start = part.start.unwrap_or_default();
        let end = match part.end {
            Some(end) => end,
            None => Video::open(file)?.probe().end_s(),
        };
        let Some(sound) = Sound::open(file, start, self.track)? else {
            let note = "the video has no sound, so nothing is said in it".to_owned();
            return Ok(Transcript::heard(&self.name, Vec::new(), vec![note]));
        };
        let tracks = sound.tracks();
        let mut notes = Vec::new();
        if self.track.is_none() && tracks.len() > 1 {
            notes.push(format!(
                "the video has {} audio tracks: {}; --audio-track chooses one",
                tracks.len(),
                tracks.join(", ")
            ));
        }
        let mut flow = ControlFlow::Continue(());
        let mut heard = |seconds: f64| {
            flow = progress(start + seconds, end);
            flow
        };
        let mut recognizer = self.recognizer.lock().unwrap_or_else(PoisonError::into_inner);
        let said = recognizer.listen(sound, end - start, self.language.as_deref(), &mut heard)?;
        if flow.is_break() {
            return Err(video::Error::Interrupted.into());
        }
        let lines = said.lines.into_iter().map(|line| (line.span.later(start), line.text)).collect();
        if let (Some(code), None) = (&said.language, &self.language) {
            notes.push(format!("the spoken language is `{code}`; --language sets another"));
        }
        let mut heard = Transcript::heard(&self.name, lines, notes);
        heard.language = said.language;
        Ok(heard)
    }
}
