//! A Whisper model, and the windows in which it hears a video.

use std::{io::Write, ops::ControlFlow, path::Path};

use candle_core::{DType, Device, IndexOp, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::whisper::{Config, model::Whisper};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::{Map, Value};
use specreel_record::{Failure, Span};
use specreel_video::{SAMPLE_RATE, Sound};
use tokenizers::Tokenizer;

use super::{
    mel::{FRAMES, Mel, WINDOW},
    rules::{Ids, TICK_S},
};

/// A window is written again at the next of these temperatures where its text fails a check.
const TEMPERATURES: [f64; 6] = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0];
/// A text that a compressor makes this many times smaller repeats itself.
const MAX_COMPRESSION: f64 = 2.4;
/// A text whose tokens have a lower mean log-probability is uncertain.
const MIN_LOG_PROBABILITY: f64 = -1.0;
/// An uncertain text of a window that is silent with a higher probability is left out.
const SILENCE: f64 = 0.6;
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
    /// Code of the language, such as `en`, of a model that knows several.
    pub language: Option<String>,
}

/// A Whisper model on the CPU.
pub struct Recognizer {
    model: Whisper,
    mel: Mel,
    tokenizer: Tokenizer,
    ids: Ids,
    start: u32,
    transcribe: Option<u32>,
    silence: Option<u32>,
    /// Codes of the languages with their tokens; empty if the model knows English only.
    languages: Vec<(String, u32)>,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(default)]
    model_type: String,
    #[serde(default)]
    begin_suppress_tokens: Vec<u32>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generation {
    is_multilingual: Option<bool>,
    suppress_tokens: Option<Vec<i64>>,
    begin_suppress_tokens: Option<Vec<u32>>,
    max_initial_timestamp_index: Option<u32>,
}

/// A text of a window.
struct Written {
    ids: Vec<u32>,
    /// Mean over its tokens and its end.
    log_probability: f64,
    /// Probability that nothing is said.
    silence: f64,
}

impl Written {
    fn is_uncertain(&self) -> bool {
        self.log_probability < MIN_LOG_PROBABILITY
    }

    /// True if it is to be left out.
    fn is_silence(&self) -> bool {
        self.silence > SILENCE && self.is_uncertain()
    }
}

impl Recognizer {
    /// Open a model: `config.json`, `tokenizer.json`, `model.safetensors` and, if it is there, `generation_config.json`. Fails
    /// (class input) if a file is missing or damaged, or it is no Whisper model.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        let refuse = |problem: String| Failure::input(format!("{}: {problem}", dir.display()), EXAMPLE);
        let read = |name: &str| std::fs::read(dir.join(name)).map_err(|e| refuse(format!("{name}: {e}")));
        let bytes = read("config.json")?;
        let parse = |e: serde_json::Error| refuse(format!("config.json: {e}"));
        let mut values: Map<String, Value> = serde_json::from_slice(&bytes).map_err(parse)?;
        // What is null is as good as absent.
        values.retain(|_, value| !value.is_null());
        let kind: Kind = serde_json::from_value(values.clone().into()).map_err(parse)?;
        if kind.model_type != "whisper" {
            return Err(refuse(format!(
                "config.json: model_type is {:?}, expected \"whisper\"",
                kind.model_type
            )));
        }
        let config: Config = serde_json::from_value(values.into()).map_err(parse)?;
        check(&config).map_err(|problem| refuse(format!("config.json: {problem}")))?;
        let generation = match read("generation_config.json") {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|e| refuse(format!("generation_config.json: {e}")))?
            }
            Err(_) => Generation::default(),
        };
        let tokenizer = Tokenizer::from_bytes(read("tokenizer.json")?)
            .map_err(|e| refuse(format!("tokenizer.json: {e}")))?;
        let weights = || {
            let tensors = candle_core::safetensors::load(dir.join("model.safetensors"), &Device::Cpu)?;
            let tensors = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
            Whisper::load(&tensors, config.clone())
        };
        let model = weights().map_err(|e| refuse(format!("model.safetensors: {}", plain(&e))))?;
        let mel = Mel::new(config.num_mel_bins).map_err(|e| Failure::internal(e.to_string(), EXAMPLE))?;
        let known =
            |token: &str| tokenizer.token_to_id(token).filter(|id| (*id as usize) < config.vocab_size);
        let needed =
            |token: &str| known(token).ok_or_else(|| refuse(format!("tokenizer.json: no token {token}")));
        let no_times = needed("<|notimestamps|>")?;
        let ids = Ids {
            end: needed("<|endoftext|>")?,
            no_times,
            times: no_times + 1..config.vocab_size as u32,
            latest_beginning: generation.max_initial_timestamp_index.unwrap_or((1.0 / TICK_S) as u32),
            // A negative one stands for the tokens that are no speech, which these lists name.
            never: match &generation.suppress_tokens {
                Some(ids) => ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect(),
                None => config.suppress_tokens.clone(),
            },
            not_first: generation.begin_suppress_tokens.unwrap_or(kind.begin_suppress_tokens),
        };
        let is_multilingual = generation.is_multilingual.unwrap_or(config.vocab_size >= 51_865);
        let languages = tokenizer.get_vocab(true).into_iter().filter_map(|(token, id)| {
            let code = token.strip_prefix("<|")?.strip_suffix("|>")?;
            let is_code = (2..=3).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_lowercase());
            (is_code && (id as usize) < config.vocab_size).then(|| (code.to_owned(), id))
        });
        let mut languages: Vec<(String, u32)> = languages.filter(|_| is_multilingual).collect();
        languages.sort();
        Ok(Self {
            start: needed("<|startoftranscript|>")?,
            transcribe: if languages.is_empty() { None } else { Some(needed("<|transcribe|>")?) },
            silence: known("<|nospeech|>").or_else(|| known("<|nocaptions|>")),
            model,
            mel,
            tokenizer,
            ids,
            languages,
        })
    }

    /// Write what is said from the beginning of the sound on, for at most so many seconds; times count from there. `language` is a
    /// code such as `en`; without one, the language of the first window is found. `progress` gets the seconds that were heard; a break
    /// ends with what was said so far. Fails if the model does not know the language, or computes no numbers.
    pub fn listen(
        &mut self,
        mut sound: Sound,
        seconds: f64,
        language: Option<&str>,
        progress: &mut dyn FnMut(f64) -> ControlFlow<()>,
    ) -> Result<Said, Failure> {
        let mut spoken = language.map(|code| self.language(code)).transpose()?.flatten();
        let mut said = Said { lines: Vec::new(), language: language.map(str::to_owned) };
        let (mut heard, mut window) = (0usize, Vec::new());
        let seconds_of = |samples: usize| samples as f64 / f64::from(SAMPLE_RATE);
        loop {
            let wanted = (seconds * f64::from(SAMPLE_RATE)) as usize;
            window
                .extend(sound.read((WINDOW - window.len()).min(wanted.saturating_sub(heard + window.len()))));
            if window.is_empty() {
                break;
            }
            let (start_s, length_s) = (seconds_of(heard), seconds_of(window.len()));
            let mut hear = |recognizer: &mut Self| -> candle_core::Result<(Vec<Line>, f64)> {
                let features = recognizer.encode(&window)?;
                if spoken.is_none() && !recognizer.languages.is_empty() {
                    let (code, id) = recognizer.detect(&features)?;
                    (spoken, said.language) = (Some(id), Some(code));
                }
                let written = recognizer.write(&features, spoken, heard as u64)?;
                Ok(recognizer.lines(written, start_s, length_s))
            };
            let (lines, next_s) = hear(self).map_err(|e| Failure::internal(plain(&e), EXAMPLE))?;
            said.lines.extend(lines);
            let next = ((next_s * f64::from(SAMPLE_RATE)) as usize).clamp(1, window.len());
            window.drain(..next);
            heard += next;
            if progress(seconds_of(heard)).is_break() {
                break;
            }
        }
        Ok(said)
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

    fn encode(&mut self, samples: &[f32]) -> candle_core::Result<Tensor> {
        let mel = self.mel.spectrogram(samples)?;
        self.model.encoder.forward(&mel, true)
    }

    /// The decoder's states at these tokens: `1 × tokens × d_model`. `fresh` drops what was kept of the window before.
    fn states(&mut self, ids: &[u32], features: &Tensor, fresh: bool) -> candle_core::Result<Tensor> {
        let ids = Tensor::new(ids, &Device::Cpu)?.unsqueeze(0)?;
        self.model.decoder.forward(&ids, features, fresh)
    }

    /// The logits of what follows token `at`.
    fn logits(&self, states: &Tensor, at: usize) -> candle_core::Result<Vec<f32>> {
        let state = states.i((.., at..=at))?.contiguous()?;
        self.model.decoder.final_linear(&state)?.flatten_all()?.to_vec1()
    }

    /// The likeliest language of a window.
    fn detect(&mut self, features: &Tensor) -> candle_core::Result<(String, u32)> {
        let states = self.states(&[self.start], features, true)?;
        let logits = self.logits(&states, 0)?;
        let by_logit =
            |a: &&(String, u32), b: &&(String, u32)| logits[a.1 as usize].total_cmp(&logits[b.1 as usize]);
        match self.languages.iter().max_by(by_logit) {
            Some(found) => Ok(found.clone()),
            None => candle_core::bail!("the model has no languages"),
        }
    }

    /// The text of a window: at the lowest temperature at which it passes the checks.
    fn write(&mut self, features: &Tensor, language: Option<u32>, seed: u64) -> candle_core::Result<Written> {
        let mut last = self.write_once(features, language, 0.0, seed)?;
        for temperature in TEMPERATURES.into_iter().skip(1) {
            let fails = || last.is_uncertain() || compression(&self.text(&last.ids)) > MAX_COMPRESSION;
            if last.is_silence() || !fails() {
                break;
            }
            last = self.write_once(features, language, temperature, seed)?;
        }
        Ok(last)
    }

    fn write_once(
        &mut self,
        features: &Tensor,
        language: Option<u32>,
        temperature: f64,
        seed: u64,
    ) -> candle_core::Result<Written> {
        let mut ids: Vec<u32> = [Some(self.start), language, self.transcribe].into_iter().flatten().collect();
        let (prompt, longest) = (ids.len(), self.model.config.max_target_positions / 2);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut written = Written { ids: Vec::new(), log_probability: 0.0, silence: 0.0 };
        let mut sum = 0.0;
        loop {
            let states = self.states(&ids, features, written.ids.is_empty())?;
            if let (true, Some(silence)) = (written.ids.is_empty(), self.silence) {
                written.silence = log_probability(&self.logits(&states, 0)?, silence).exp();
            }
            let mut logits = self.logits(&states, ids.len() - 1)?;
            self.ids.apply(&ids[prompt..], &mut logits);
            let id = choose(&logits, temperature, &mut random);
            let Some(id) = id else { candle_core::bail!("the speech model computed no numbers") };
            sum += log_probability(&logits, id);
            if id == self.ids.end || written.ids.len() + 1 >= longest {
                break;
            }
            ids.push(id);
            written.ids.push(id);
        }
        written.log_probability = sum / (written.ids.len() + 1) as f64;
        Ok(written)
    }

    /// The lines of a window that begins at `start_s`, and how many of its seconds they cover.
    fn lines(&self, written: Written, start_s: f64, length_s: f64) -> (Vec<Line>, f64) {
        if written.is_silence() {
            return (Vec::new(), length_s);
        }
        let (lines, next) = self.ids.lines(&written.ids, length_s);
        let line = |(span, ids): (Span, &[u32])| {
            let span = Span { start: start_s + span.start, end: start_s + span.end };
            let text = self.text(ids).trim().to_owned();
            (span.end > span.start && !text.is_empty()).then_some(Line { span, text })
        };
        (lines.into_iter().filter_map(line).collect(), next.min(length_s))
    }

    fn text(&self, ids: &[u32]) -> String {
        let words: Vec<u32> = ids.iter().copied().filter(|id| *id < self.ids.end).collect();
        self.tokenizer.decode(&words, true).unwrap_or_default()
    }
}

/// Why a configuration cannot be a model's.
fn check(config: &Config) -> Result<(), String> {
    let expect = |name: &str, value: usize, is_valid: bool, expected: &str| match is_valid {
        true => Ok(()),
        false => Err(format!("{name} is {value}, expected {expected}")),
    };
    let Config { num_mel_bins, max_source_positions, d_model, vocab_size, max_target_positions, .. } =
        *config;
    expect("num_mel_bins", num_mel_bins, matches!(num_mel_bins, 80 | 128), "80 or 128")?;
    let positions = FRAMES / 2;
    expect(
        "max_source_positions",
        max_source_positions,
        max_source_positions == positions,
        "1500 (30 seconds)",
    )?;
    expect(
        "max_target_positions",
        max_target_positions,
        (8..=4096).contains(&max_target_positions),
        "8 to 4096",
    )?;
    expect("vocab_size", vocab_size, (16..=1 << 20).contains(&vocab_size), "16 to 1048576")?;
    expect("d_model", d_model, (4..=1 << 14).contains(&d_model), "4 to 16384")?;
    for (name, heads) in [
        ("encoder_attention_heads", config.encoder_attention_heads),
        ("decoder_attention_heads", config.decoder_attention_heads),
    ] {
        expect(name, heads, heads > 0 && d_model.is_multiple_of(heads), "a divisor of d_model")?;
    }
    for (name, layers) in
        [("encoder_layers", config.encoder_layers), ("decoder_layers", config.decoder_layers)]
    {
        expect(name, layers, (1..=1024).contains(&layers), "1 to 1024")?;
    }
    Ok(())
}

/// The message of an error, without its backtrace.
fn plain(error: &candle_core::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// The likeliest token, or one that is drawn; `None` if no logit is a number.
fn choose(logits: &[f32], temperature: f64, random: &mut ChaCha8Rng) -> Option<u32> {
    let numbers = || (0..).zip(logits).filter(|(_, logit)| logit.is_finite());
    let (best, largest) = numbers().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)))?;
    if temperature == 0.0 {
        return Some(best);
    }
    let weight = |logit: f32| ((f64::from(logit) - f64::from(*largest)) / temperature).exp();
    let all: f64 = numbers().map(|(_, logit)| weight(*logit)).sum();
    let mut left = random.random::<f64>() * all;
    for (id, logit) in numbers() {
        left -= weight(*logit);
        if left < 0.0 {
            return Some(id);
        }
    }
    Some(best)
}

fn log_probability(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(logit - largest).exp()).sum();
    f64::from(logits[id as usize] - largest) - sum.ln()
}

/// How many times smaller a compressor makes a text.
fn compression(text: &str) -> f64 {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let compressed = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish());
    compressed.map_or(1.0, |bytes| text.len() as f64 / bytes.len().max(1) as f64)
}

#[cfg(test)]
mod tests;
