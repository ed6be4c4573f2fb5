//! What is said in a video, for its prompts: from a file, or heard by a speech model.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use crate::{Transcript, catalog::local};
use specreel_record::Failure;
use specreel_speech::{Recognizer, Sound};
use specreel_video::{self as video, Video, cuts::Progress};

/// What is known of it: a transcript, or the model that recognizes it.
#[derive(Clone, Debug, Default)]
pub struct SpeechSource {
    /// SubRip, WebVTT, or Whisper's JSON.
    pub transcript: Option<PathBuf>,
    pub model: SpeechModel,
}

#[derive(Clone, Debug, Default)]
pub struct SpeechModel {
    /// A Whisper model: a directory, or the id of a cached model.
    pub model: Option<PathBuf>,
    /// Its language; `None` detects it.
    pub language: Option<String>,
    /// Number of the audio track, from 1; `None` is the one that players choose.
    pub track: Option<u16>,
}

/// A part of a video in seconds; `None` is its beginning or end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Between {
    pub start: Option<f64>,
    pub end: Option<f64>,
}

/// Where what is said comes from.
pub enum Speech {
    Nothing,
    File(Transcript),
    Model(Box<Ear>),
}

/// A speech model.
pub struct Ear {
    /// As it was named.
    name: String,
    language: Option<String>,
    track: Option<usize>,
    recognizer: Mutex<Recognizer>,
}

impl Speech {
    /// Read the file, or load the model, that the options name. Fails if it cannot be used (class input).
    pub fn of(source: &SpeechSource) -> Result<Self, Failure> {
        if let Some(file) = &source.transcript {
            return Ok(Self::File(Transcript::read(file)?));
        }
        Ok(Ear::open(&source.model)?.map_or(Self::Nothing, |ear| Self::Model(Box::new(ear))))
    }

    /// What distinguishes the captions with this from those without, for a run that is resumed.
    pub fn job(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::File(transcript) => format!(" {transcript:?}"),
            Self::Model(ear) => format!(" {} {:?} {:?}", ear.name, ear.language, ear.track),
        }
    }

    /// What is said in a part of a video; `None` if nothing is known. Fails as [`Ear::hear`].
    pub fn in_video(
        &self,
        file: &Path,
        part: Between,
        progress: Progress<'_>,
    ) -> Result<Option<Transcript>, Failure> {
        match self {
            Self::Nothing => Ok(None),
            Self::File(transcript) => Ok(Some(transcript.clone())),
            Self::Model(ear) => ear.hear(file, part, progress).map(Some),
        }
    }
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

/// What is said in a whole video: read from a transcript, or heard by a speech model (`MODEL`, with `--language` and `--audio-track`
/// behind it). Fails as [`Speech::of`] and [`Speech::in_video`], and for options that do not fit (class usage).
pub fn listen(video: &Path, typed: &Path, progress: Progress<'_>) -> Result<Transcript, Failure> {
    let text = typed.to_str().unwrap_or_default();
    let (named, options) = match text.find(" --") {
        Some(at) => (Path::new(text[..at].trim_end()), &text[at..]),
        None => (typed, ""),
    };
    let mut model = SpeechModel::default();
    for option in options.split(" --").skip(1) {
        let (name, value) = option.split_once([' ', '=']).unwrap_or((option, ""));
        let (value, hint) = (value.trim(), "type MODEL --language de, or MODEL --audio-track 2");
        match (name, value.parse()) {
            ("language", _) if !value.is_empty() => model.language = Some(value.to_owned()),
            ("audio-track", Ok(track)) if track > 0 => model.track = Some(track),
            _ => return Err(Failure::usage(format!("invalid option `--{option}`"), hint)),
        }
    }
    let extension = named.extension().and_then(|extension| extension.to_str());
    let is_transcript = named.is_file() || matches!(extension, Some("srt" | "vtt" | "json"));
    if is_transcript && !options.is_empty() {
        let error = format!("{}: language and audio track of a transcript cannot be set", named.display());
        return Err(Failure::usage(error, format!("leave `{}` out", options.trim())));
    }
    let name = Some(named.to_owned());
    let transcript = if is_transcript { name.clone() } else { None };
    model.model = name.filter(|_| !is_transcript);
    let source = SpeechSource { transcript, model };
    let said = Speech::of(&source)?.in_video(video, Between::default(), progress)?;
    let mut said = said.unwrap_or_default();
    said.file = typed.display().to_string();
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_studio_names_a_transcript_or_a_model_and_its_language() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/parity/fixtures/whisper");
        let (video, model) = (fixtures.join("sound.mp4"), fixtures.display().to_string());
        let heard = |typed: &str| listen(&video, Path::new(typed), &mut |_, _| ControlFlow::Continue(()));
        let detected = heard(&model).unwrap();
        assert!(detected.notes(1e9).iter().any(|note| note.contains("--language sets another")));
        let typed = format!("{model} --language de");
        let german = heard(&typed).unwrap();
        assert_eq!((german.file.as_str(), german.notes(1e9).len()), (typed.as_str(), 0));
        for (typed, words) in [
            (format!("{model} --language xx"), "xx"),
            ("said.srt --language de".into(), "cannot be set"),
            ("said.srt".into(), "no such file"),
            (format!("{model} --audio-track 0"), "invalid option `--audio-track 0`"),
            (format!("{model} --audio-track 2"), "no audio track 2"),
        ] {
            assert!(heard(&typed).unwrap_err().error.contains(words), "{typed}");
        }
    }
}
