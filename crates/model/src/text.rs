//! The tokenizer: text to ids and, token by token, back.
//!
//! Supported are byte-level tokenizers (the Qwen2 family's) and pieces with bytes for what they lack (Gemma's): their tokens
//! are byte strings, so a stream of ids becomes text as soon as its bytes form characters. Special tokens are recognized in
//! the template's text, never in the user's.

mod error;
mod from_vocabulary;
mod sampling;
mod spelling;
mod stream;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

pub use error::{Mismatch, TextError};
pub use sampling::ModelSampling;
pub use stream::TextStream;

use specreel_checkpoint::{
    files,
    gguf::{Pieces, Vocabulary},
};

use spelling::Spelling;

struct Inner {
    /// Recognizes added tokens.
    full: Tokenizer,
    /// The same model without added tokens: all text is plain text.
    plain: Tokenizer,
    spelling: Spelling,
    path: PathBuf,
    vocabulary: usize,
    ends: Vec<u32>,
    sampling: ModelSampling,
    /// Contents of all added tokens, special or not.
    added: HashMap<u32, (String, bool)>,
    /// The ids of the special tokens, ascending.
    special: Vec<u32>,
    /// The bytes of each id, computed on first use.
    bytes: Box<[OnceLock<Box<[u8]>>]>,
}

/// A checkpoint's tokenizer; clones share it.
#[derive(Clone)]
pub struct TextTokenizer(Arc<Inner>);

impl std::fmt::Debug for TextTokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextTokenizer")
            .field("path", &self.0.path)
            .field("vocabulary", &self.0.vocabulary)
            .field("ends", &self.0.ends)
            .finish_non_exhaustive()
    }
}

/// `eos_token_id`: one id or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

#[derive(Default, Deserialize)]
struct EndConfig {
    #[serde(default)]
    eos_token_id: Option<Ids>,
    #[serde(default)]
    text_config: Option<Box<EndConfig>>,
}

impl EndConfig {
    fn ids(self) -> Option<Vec<u32>> {
        let ids = self.eos_token_id.or_else(|| self.text_config.and_then(|c| c.eos_token_id));
        ids.map(|ids| match ids {
            Ids::One(id) => vec![id],
            Ids::Many(ids) => ids,
        })
    }
}

/// The fields of a file; none if it does not exist.
fn fields(path: &Path) -> Result<Map<String, Value>, TextError> {
    let text = match files::read(path, files::CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(source) => return Err(TextError::Read { path: path.into(), source }),
    };
    serde_json::from_slice(&text).map_err(|e| refuse(path, &e))
}

/// The end tokens of a file's fields.
fn ends(path: &Path, fields: Map<String, Value>) -> Result<Option<Vec<u32>>, TextError> {
    let config: EndConfig = serde_json::from_value(fields.into()).map_err(|e| refuse(path, &e))?;
    Ok(config.ids())
}

fn refuse(path: &Path, error: &serde_json::Error) -> TextError {
    TextError::Parse { path: path.into(), problem: error.to_string() }
}

/// Limit of unused ids, besides three per token: tables are indexed by id.
const MAX_GAPS: usize = 1 << 16;

impl TextTokenizer {
    /// Read `tokenizer.json` in `dir`, and the end tokens from `generation_config.json` or else `config.json`.
    pub fn load(dir: &Path) -> Result<Self, TextError> {
        let path = dir.join("tokenizer.json");
        let bytes = files::read(&path, files::TABLE)
            .map_err(|source| TextError::Read { path: path.clone(), source })?;
        let refuse = |problem: String| TextError::Parse { path: path.clone(), problem };
        // The parser of some decoders panics on missing fields.
        let read = std::panic::catch_unwind(|| Tokenizer::from_bytes(&bytes));
        let read = read.map_err(|_| refuse("it has an unknown or incomplete decoder".into()))?;
        let mut full = read.map_err(|e| refuse(e.to_string()))?;
        let spelling = full.get_decoder().and_then(Spelling::of).ok_or_else(|| {
            refuse(
                "its tokens are neither byte-level (as in the Qwen2 family) nor pieces with bytes (as in Gemma)"
                    .into(),
            )
        })?;
        full.with_padding(None);
        full.with_truncation(None).map_err(|e| refuse(e.to_string()))?;
        let (generation, config) = (dir.join("generation_config.json"), dir.join("config.json"));
        let asked = fields(&generation)?;
        let sampling = ModelSampling::of_generation_config(&asked);
        let ends = match self::ends(&generation, asked)? {
            Some(ids) => Some(ids),
            None => self::ends(&config, fields(&config)?)?,
        };
        let ends = ends.filter(|ids| !ids.is_empty()).ok_or_else(|| TextError::NoEnd { dir: dir.into() })?;
        Self::assemble(full, spelling, path, ends, sampling)
    }

    /// The tokenizer of a GGUF file. [`TextError::Vocabulary`] if its parts do not agree with each other.
    pub(crate) fn from_vocabulary(vocabulary: &Vocabulary<'_>, path: &Path) -> Result<Self, TextError> {
        let refuse = |problem: String| TextError::Vocabulary { path: path.into(), problem };
        let full = from_vocabulary::tokenizer(vocabulary).map_err(refuse)?;
        Self::assemble(
            full,
            match vocabulary.pieces {
                Pieces::Bytes { .. } => Spelling::Bytes,
                Pieces::Characters { .. } => Spelling::Pieces,
            },
            path.into(),
            vocabulary.ends.clone(),
            ModelSampling::of_gguf(&vocabulary.sampling),
        )
    }

    fn assemble(
        full: Tokenizer,
        spelling: Spelling,
        path: PathBuf,
        ends: Vec<u32>,
        sampling: ModelSampling,
    ) -> Result<Self, TextError> {
        let refuse = |problem: String| TextError::Parse { path: path.clone(), problem };
        let mut plain = Tokenizer::new(full.get_model().clone());
        plain.with_pre_tokenizer(full.get_pre_tokenizer().cloned());
        plain.with_normalizer(full.get_normalizer().cloned()).map_err(|e| refuse(e.to_string()))?;
        let ids = full.get_vocab(true);
        let highest = ids.values().copied().max().ok_or_else(|| refuse("it has no tokens".into()))?;
        if highest as usize > MAX_GAPS + 4 * ids.len() {
            return Err(refuse(format!("it has {} tokens, but one of them has id {highest}", ids.len())));
        }
        let added = full.get_added_tokens_decoder().into_iter();
        let added: HashMap<_, _> = added.map(|(id, token)| (id, (token.content, token.special))).collect();
        let mut special: Vec<u32> = added.iter().filter(|(_, token)| token.1).map(|(id, _)| *id).collect();
        special.sort_unstable();
        let vocabulary = highest as usize + 1;
        if let Some(id) = ends.iter().find(|id| **id as usize >= vocabulary) {
            return Err(TextError::EndOutside { id: *id, vocabulary });
        }
        let bytes = (0..vocabulary).map(|_| OnceLock::new()).collect();
        let inner = Inner { full, plain, spelling, path, vocabulary, ends, sampling, added, special, bytes };
        Ok(Self(Arc::new(inner)))
    }

    /// Ids of trusted text, in which added tokens (`<|im_start|>`) are recognized. Adds no start or end token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        encode(&self.0.full, text)
    }

    /// Ids of untrusted text: the spelling of an added token is encoded as plain characters.
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TextError> {
        encode(&self.0.plain, text)
    }

    /// The tokenizer's file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The same tokenizer, with another token that ends a text.
    pub(crate) fn ending_with(mut self, token: &str) -> Result<Self, TextError> {
        let id = self.id(token)?;
        if let (false, Some(inner)) = (self.is_end(id), Arc::get_mut(&mut self.0)) {
            inner.ends.push(id);
        }
        Ok(self)
    }

    /// Check that a token of prompts exists, and is recognized in their text.
    pub(crate) fn require(&self, token: &str) -> Result<u32, TextError> {
        let id = self.id(token)?;
        match self.encode(token)?[..] {
            [only] if only == id => Ok(id),
            _ => Err(TextError::MissingToken { path: self.0.path.clone(), token: token.into() }),
        }
    }

    /// Number of ids: the highest id + 1. A model's output may be padded beyond it.
    pub fn vocabulary(&self) -> usize {
        self.0.vocabulary
    }

    pub fn end_ids(&self) -> &[u32] {
        &self.0.ends
    }

    /// How the checkpoint wants its text sampled.
    pub fn sampling(&self) -> &ModelSampling {
        &self.0.sampling
    }

    /// The ids whose bytes contain one of these texts, ascending.
    pub fn ids_containing(&self, texts: &[String]) -> Vec<u32> {
        let has = |bytes: &[u8], text: &[u8]| bytes.windows(text.len().max(1)).any(|part| part == text);
        let is_any = |id: &u32| texts.iter().any(|text| has(self.bytes(*id), text.as_bytes()));
        (0..self.vocabulary() as u32).filter(is_any).collect()
    }

    pub fn is_end(&self, id: u32) -> bool {
        self.0.ends.contains(&id)
    }

    /// True for tokens that are not text: end, role and placeholder tokens.
    pub fn is_special(&self, id: u32) -> bool {
        self.0.added.get(&id).is_some_and(|(_, special)| *special)
    }

    /// The ids of all special tokens, ascending.
    pub fn special_ids(&self) -> &[u32] {
        &self.0.special
    }

    pub fn id(&self, token: &str) -> Result<u32, TextError> {
        let missing = || TextError::MissingToken { path: self.0.path.clone(), token: token.into() };
        self.0.full.token_to_id(token).ok_or_else(missing)
    }

    /// Contents of the added tokens, in no particular order.
    pub(super) fn added(&self) -> impl Iterator<Item = &str> {
        self.0.added.values().map(|(content, _)| content.as_str()).filter(|content| !content.is_empty())
    }

    /// The bytes of a token; empty for unknown ids.
    pub(crate) fn bytes(&self, id: u32) -> &[u8] {
        let inner = &self.0;
        let Some(bytes) = inner.bytes.get(id as usize) else { return &[] };
        bytes.get_or_init(|| match inner.added.get(&id) {
            Some((content, _)) => content.as_bytes().into(),
            None => inner
                .full
                .id_to_token(id)
                .map(|token| inner.spelling.bytes(&token))
                .unwrap_or_default()
                .into(),
        })
    }

    /// Number of ids at the end of `ids` that lie within their text's last part, `end`.
    pub(super) fn tokens_within(&self, ids: &[u32], end: &str) -> usize {
        let mut left = end.len();
        let inside = |id: &&u32| match left.checked_sub(self.bytes(**id).len()) {
            Some(less) => {
                left = less;
                true
            }
            None => false,
        };
        ids.iter().rev().take_while(inside).count()
    }

    /// The bytes that a token adds to a text; empty for special tokens.
    fn written(&self, id: u32) -> &[u8] {
        if self.is_special(id) { &[] } else { self.bytes(id) }
    }

    /// One token as display text: special tokens by name, broken characters as U+FFFD.
    pub fn token_text(&self, id: u32) -> String {
        String::from_utf8_lossy(self.bytes(id)).into_owned()
    }

    /// The text of ids, without special tokens; broken characters as U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.written(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A stream decoder: tokens in, text out.
    pub fn stream(&self) -> TextStream {
        TextStream::new(self.clone())
    }

    /// All tokens, in the order of their ids; empty where an id has none.
    pub fn tokens(&self) -> Vec<String> {
        let token = |id| self.0.full.id_to_token(id).unwrap_or_default();
        (0..self.vocabulary() as u32).map(token).collect()
    }

    /// Compare two vocabularies: a drafter's ids must be the target's tokens.
    pub fn same_vocabulary(&self, other: &Self) -> Result<(), Mismatch> {
        if Arc::ptr_eq(&self.0, &other.0) {
            return Ok(());
        }
        if self.vocabulary() != other.vocabulary() {
            return Err(Mismatch::Size { ours: self.vocabulary(), theirs: other.vocabulary() });
        }
        for id in 0..self.vocabulary() as u32 {
            let (ours, theirs) = (self.0.full.id_to_token(id), other.0.full.id_to_token(id));
            if ours != theirs {
                let [ours, theirs] = [ours, theirs].map(Option::unwrap_or_default);
                return Err(Mismatch::Token { id, ours, theirs });
            }
        }
        Ok(())
    }
}

fn encode(tokenizer: &Tokenizer, text: &str) -> Result<Vec<u32>, TextError> {
    let encoding = tokenizer.encode_fast(text, false).map_err(|e| TextError::Encode(e.to_string()))?;
    Ok(encoding.get_ids().to_vec())
}
