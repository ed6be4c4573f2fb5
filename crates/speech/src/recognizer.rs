//! A Whisper model, and how it hears a video.

mod files;
mod writing;

use std::{ops::ControlFlow, path::Path};

use specreel_record::{Failure, Span};
use specreel_video::{SAMPLE_RATE, Sound};
use tokenizers::Tokenizer;

use self::writing::Written;
use super::{
    languages,
    mel::{FRAMES, Mel, QUIETEST, scale},
    model::Whisper,
    rules::Ids,
    windows::{Windows, silent_samples},
};

/// What a hint names as an example.
const EXAMPLE: &str = "pass a Whisper model in Hugging Face's layout, for example openai/whisper-base";

/// What is said from one time of the video to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub span: Span,
    pub text: String,
}

/// What a recognizer heard.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// In order of time.
    pub lines: Vec<Line>,
    /// Code of the language, such as `en`, of a model that knows several; `None` where nothing is heard.
    pub language: Option<String>,
}

/// A Whisper model on the CPU.
pub struct Recognizer {
    model: Whisper,
    mel: Mel,
    bands: usize,
    tokenizer: Tokenizer,
    ids: Ids,
    start: u32,
    transcribe: Option<u32>,
    silence: Option<u32>,
    /// Tokens of a text, at most.
    longest: usize,
    /// Codes of the languages with their tokens; empty if the model knows English only.
    languages: Vec<(String, u32)>,
}

impl Recognizer {
    /// Write what is said from the beginning of the sound on, for at most so many seconds; times count from there. `language` is a
    /// code such as `en`, or a name; without one, the language of the first window is found. `progress` gets the seconds that were
    /// heard; a break ends with what was said so far. Fails if the model does not know the language, or computes no numbers.
    pub fn listen(
        &mut self,
        sound: Sound,
        seconds: f64,
        language: Option<&str>,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Said, Failure> {
        let language = language.map(languages::code);
        let mut spoken = language.as_deref().map(|code| self.language(code)).transpose()?.flatten();
        let mut said = Said { lines: Vec::new(), language };
        let mut windows = Windows::new(sound, seconds);
        let Some(loudest) = self.loudest(&mut windows, progress)? else { return Ok(said) };
        windows = windows.again()?;
        loop {
            let samples = windows.fill();
            if samples == 0 {
                break;
            }
            let (start_s, length_s) = (windows.start_s(), seconds_of(samples));
            let logarithms = windows.logarithms(&mut self.mel).map_err(failed)?;
            let silent = silent_samples(&logarithms, self.bands, loudest).min(samples);
            let next = match silent {
                0 => {
                    self.hear(logarithms, loudest).map_err(failed)?;
                    if spoken.is_none() && !self.languages.is_empty() {
                        let (code, id) = self.detect().map_err(failed)?;
                        (spoken, said.language) = (Some(id), Some(code));
                    }
                    let written = self.write(spoken, windows.heard() as u64).map_err(failed)?;
                    let (lines, next_s) = self.lines(&written, start_s, length_s);
                    said.lines.extend(lines);
                    ((next_s * f64::from(SAMPLE_RATE)) as usize).clamp(1, samples)
                }
                silent => silent,
            };
            windows.advance(next);
            if progress(windows.start_s()).is_break() {
                break;
            }
        }
        Ok(said)
    }

    /// The largest logarithm of a band's power; `None` if everything is silent, or if `progress` stopped it.
    fn loudest(
        &mut self,
        windows: &mut Windows,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Option<f32>, Failure> {
        let mut loudest = QUIETEST;
        loop {
            let samples = windows.fill();
            if samples == 0 {
                return Ok((loudest > QUIETEST).then_some(loudest));
            }
            let logarithms = windows.logarithms(&mut self.mel).map_err(failed)?;
            loudest = logarithms.into_iter().fold(loudest, f32::max);
            windows.advance(samples);
            if progress(0.0).is_break() {
                return Ok(None);
            }
        }
    }

    /// Hear a window of these logarithms, with silence behind them.
    fn hear(&mut self, mut logarithms: Vec<f32>, loudest: f32) -> specreel_tensor::Result<()> {
        logarithms.resize(FRAMES * self.bands, QUIETEST);
        scale(&mut logarithms, loudest);
        self.model.hear(&logarithms)
    }

    /// The token of a language; `None` of a model that knows English only.
    fn language(&self, code: &str) -> Result<Option<u32>, Failure> {
        let id = self.languages.iter().find(|(known, _)| known == code).map(|(_, id)| *id);
        match (id, self.languages.is_empty()) {
            (Some(id), _) => Ok(Some(id)),
            (None, true) if code == "en" => Ok(None),
            (None, true) => Err(Failure::usage(
                format!("the speech model knows English only, not `{code}`"),
                "use a model that knows several languages, for example openai/whisper-base",
            )),
            (None, false) => {
                let codes: Vec<&str> = self.languages.iter().map(|(code, _)| code.as_str()).collect();
                Err(Failure::usage(
                    format!("the speech model does not know the language `{code}`"),
                    format!("use one of: {}", codes.join(", ")),
                ))
            }
        }
    }

    /// The likeliest language of the window.
    fn detect(&mut self) -> specreel_tensor::Result<(String, u32)> {
        self.model.restart();
        let logits = self.model.next(&[self.start])?;
        let by_logit =
            |a: &&(String, u32), b: &&(String, u32)| logits[a.1 as usize].total_cmp(&logits[b.1 as usize]);
        match self.languages.iter().max_by(by_logit) {
            Some(found) => Ok(found.clone()),
            None => specreel_tensor::bail!("the model has no languages"),
        }
    }

    /// The lines of a window that begins at `start_s`, and how many of its seconds they cover.
    fn lines(&self, written: &Written, start_s: f64, length_s: f64) -> (Vec<Line>, f64) {
        if written.is_silence() {
            return (Vec::new(), length_s);
        }
        let (lines, next) = self.ids.lines(&written.ids, length_s);
        let line = |(span, ids): (Span, &[u32])| {
            let span = Span { start: start_s + span.start, end: start_s + span.end };
            let text = self.text(ids).trim().to_owned();
            // Of noise, models write dots or notes.
            let is_said = text.contains(char::is_alphanumeric);
            (span.end > span.start && is_said).then_some(Line { span, text })
        };
        (lines.into_iter().filter_map(line).collect(), next.min(length_s))
    }

    fn text(&self, ids: &[u32]) -> String {
        let words: Vec<u32> = ids.iter().copied().filter(|id| *id < self.ids.end).collect();
        self.tokenizer.decode(&words, true).unwrap_or_default()
    }
}

fn seconds_of(samples: usize) -> f64 {
    samples as f64 / f64::from(SAMPLE_RATE)
}

fn failed(error: specreel_tensor::Error) -> Failure {
    Failure::internal(error.to_string(), EXAMPLE)
}

#[cfg(test)]
mod tests;
