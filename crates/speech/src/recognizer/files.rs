//! A model's files: which are read, and what is checked.

use serde::Deserialize;
use specreel_checkpoint::Checkpoint;

use super::*;
use crate::{model::Config, rules::TICK_S};

/// Time tokens: from 0 to 30 seconds.
const TIMES: u32 = 1501;
/// Tokens without a meaning that a model may have behind them, to round their number.
const MOST_UNUSED: u32 = 128;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generation {
    is_multilingual: Option<bool>,
    suppress_tokens: Option<Vec<i64>>,
    begin_suppress_tokens: Option<Vec<u32>>,
    max_initial_timestamp_index: Option<u32>,
}

impl Recognizer {
    /// Open a model: `config.json`, `tokenizer.json`, `model.safetensors` or its shards and, if it is there, `generation_config.json`.
    /// Fails (class input) if a file is missing or damaged, the tokenizer is another model's, or it is no Whisper model.
    pub fn open(dir: &Path) -> Result<Self, Failure> {
        let refuse = |problem: String| Failure::input(format!("{}: {problem}", dir.display()), EXAMPLE);
        let read = |name: &str| std::fs::read(dir.join(name)).map_err(|e| refuse(format!("{name}: {e}")));
        let config = Config::read(&read("config.json")?)
            .map_err(|problem| refuse(format!("config.json: {problem}")))?;
        let generation = match read("generation_config.json") {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map_err(|e| refuse(format!("generation_config.json: {e}")))?
            }
            Err(_) => Generation::default(),
        };
        let tokenizer = Tokenizer::from_bytes(read("tokenizer.json")?)
            .map_err(|e| refuse(format!("tokenizer.json: {e}")))?;
        let vocabulary = config.vocab_size as u32;
        let known = |token: &str| tokenizer.token_to_id(token).filter(|id| *id < vocabulary);
        let needed =
            |token: &str| known(token).ok_or_else(|| refuse(format!("tokenizer.json: no token {token}")));
        let first = tokenizer.token_to_id("<|notimestamps|>").map_or(0, |id| id + 1);
        if !(TIMES..=TIMES + MOST_UNUSED).contains(&vocabulary.saturating_sub(first)) {
            return Err(refuse(format!(
                "tokenizer.json: it is another model's: its times begin at token {first}, and of the model's {vocabulary} tokens \
                 {TIMES} are times"
            )));
        }
        let ids = Ids {
            end: needed("<|endoftext|>")?,
            no_times: first - 1,
            times: first..first + TIMES,
            latest_beginning: generation.max_initial_timestamp_index.unwrap_or((1.0 / TICK_S) as u32),
            // A negative one stands for the tokens that are no speech, which these lists name.
            never: match &generation.suppress_tokens {
                Some(ids) => ids.iter().filter_map(|id| u32::try_from(*id).ok()).collect(),
                None => config.suppress_tokens.clone(),
            },
            not_first: generation
                .begin_suppress_tokens
                .unwrap_or_else(|| config.begin_suppress_tokens.clone()),
        };
        let is_multilingual = generation.is_multilingual.unwrap_or(config.vocab_size >= 51_865);
        let languages = tokenizer.get_vocab(true).into_iter().filter_map(|(token, id)| {
            let code = token.strip_prefix("<|")?.strip_suffix("|>")?;
            let is_code = (2..=3).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_lowercase());
            (is_code && id < vocabulary).then(|| (code.to_owned(), id))
        });
        let mut languages: Vec<(String, u32)> = languages.filter(|_| is_multilingual).collect();
        languages.sort();
        let load = || Whisper::load(&config, &Checkpoint::open(dir)?);
        Ok(Self {
            start: needed("<|startoftranscript|>")?,
            transcribe: if languages.is_empty() { None } else { Some(needed("<|transcribe|>")?) },
            silence: known("<|nospeech|>").or_else(|| known("<|nocaptions|>")),
            model: load().map_err(|e| refuse(e.to_string()))?,
            mel: Mel::new(config.num_mel_bins).map_err(|e| Failure::internal(e.to_string(), EXAMPLE))?,
            bands: config.num_mel_bins,
            longest: config.max_target_positions / 2,
            tokenizer,
            ids,
            languages,
        })
    }
}
