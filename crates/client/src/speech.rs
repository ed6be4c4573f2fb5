//! What is said in a video, for its prompts: from a file, or heard by a speech model.

#[cfg_attr(feature = "speech", path = "speech/ear.rs")]
#[cfg_attr(not(feature = "speech"), path = "speech/absent.rs")]
mod ear;

use std::path::{Path, PathBuf};

pub use ear::Ear;

use crate::Transcript;
use specreel_record::Failure;
use specreel_video::cuts::Progress;

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
            Self::Model(ear) => ear.job(),
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
#[cfg(feature = "speech")]
mod tests {
    use std::ops::ControlFlow;

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
