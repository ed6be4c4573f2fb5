//! The tokenizer: text to ids and, token by token, back.
//!
//! Only byte-level tokenizers (the Qwen2 family's) are read: their tokens are byte strings, so a stream of ids becomes text
//! exactly when its bytes form characters. Text of the template and text of the user are encoded differently: only the
//! former may name special tokens.

use std::{
    collections::HashMap,
    path::Path,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use serde::Deserialize;
use tokenizers::{DecoderWrapper, Tokenizer};

use super::files;
use crate::record::{Failure, FailureClass};

/// What can go wrong with a checkpoint's tokenizer.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{path} cannot be used: {problem}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer lacks a token that is needed.
    #[error("{path} has no token {token}")]
    MissingToken {
        /// The tokenizer's file.
        path: PathBuf,
        /// The token.
        token: String,
    },
    /// No file says which tokens end a text.
    #[error("nothing in {dir} says which token ends a text")]
    NoEnd {
        /// The checkpoint.
        dir: PathBuf,
    },
    /// A token of `generation_config.json` or `config.json` that the tokenizer does not have.
    #[error("end token {id} is outside of the tokenizer's {vocabulary} ids")]
    EndOutside {
        /// The id.
        id: u32,
        /// Number of ids.
        vocabulary: usize,
    },
    /// A text could not be encoded.
    #[error("cannot encode the text: {0}")]
    Encode(String),
    /// The drafter has another vocabulary than the target.
    #[error("target and drafter do not share a vocabulary: {0}")]
    Mismatch(#[from] Mismatch),
}

impl From<TextError> for Failure {
    fn from(error: TextError) -> Self {
        let (class, hint) = match &error {
            TextError::Encode(_) => (FailureClass::Internal, None),
            TextError::Mismatch(_) => {
                (FailureClass::Input, Some("choose a drafter of the target's own family"))
            }
            _ => (FailureClass::Input, Some("fetch the checkpoint's tokenizer and config files again")),
        };
        Failure { class, error: error.to_string(), hint: hint.map(Into::into) }
    }
}

/// The first difference between two vocabularies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// They have different numbers of ids.
    #[error("one has {ours} ids, the other {theirs}")]
    Size {
        /// Ids of this one.
        ours: usize,
        /// Ids of the other.
        theirs: usize,
    },
    /// The lowest id that stands for different tokens.
    #[error("id {id} is {ours:?} in one and {theirs:?} in the other")]
    Token {
        /// The id.
        id: u32,
        /// Its token here.
        ours: String,
        /// Its token there.
        theirs: String,
    },
}

struct Inner {
    /// Knows the added tokens.
    full: Tokenizer,
    /// The same model without added tokens: whatever a text spells stays text.
    plain: Tokenizer,
    path: PathBuf,
    vocabulary: usize,
    ends: Vec<u32>,
    repetition_penalty: Option<f64>,
    /// Contents of all added tokens, special or not.
    added: HashMap<u32, (String, bool)>,
    /// The ids of the special ones, ascending.
    special: Vec<u32>,
    /// The bytes of each id, once it was asked for.
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

/// One id or several, as both files write `eos_token_id`.
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
    /// Any value: what is no number asks for nothing.
    #[serde(default)]
    repetition_penalty: serde_json::Value,
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

/// What a file says; one that is not there says nothing.
fn end_config(path: &Path) -> Result<EndConfig, TextError> {
    let text = match files::read(path, files::CONFIG) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(EndConfig::default()),
        Err(source) => return Err(TextError::Read { path: path.into(), source }),
    };
    serde_json::from_slice(&text).map_err(|e| TextError::Parse { path: path.into(), problem: e.to_string() })
}

/// Ids that may be left out beside four for each token: tables are made by id.
const GAPS: usize = 1 << 16;

impl TextTokenizer {
    /// Read `tokenizer.json` below `dir`, and the end tokens from `generation_config.json` or else `config.json`.
    ///
    /// # Errors
    /// A [`TextError`] that names the file; see its variants.
    pub fn load(dir: &Path) -> Result<Self, TextError> {
        let path = dir.join("tokenizer.json");
        let bytes = files::read(&path, files::TABLE)
            .map_err(|source| TextError::Read { path: path.clone(), source })?;
        let refuse = |problem: String| TextError::Parse { path: path.clone(), problem };
        // The reader of some decoders panics where a part is missing.
        let read = std::panic::catch_unwind(|| Tokenizer::from_bytes(&bytes));
        let read = read.map_err(|_| refuse("a part of it has not the form that it should have".into()))?;
        let mut full = read.map_err(|e| refuse(e.to_string()))?;
        if !decodes_bytes(full.get_decoder()) {
            return Err(refuse("it is not byte-level, as the Qwen2 family's are".into()));
        }
        full.with_padding(None);
        full.with_truncation(None).map_err(|e| refuse(e.to_string()))?;
        let mut plain = Tokenizer::new(full.get_model().clone());
        plain.with_pre_tokenizer(full.get_pre_tokenizer().cloned());
        plain.with_normalizer(full.get_normalizer().cloned()).map_err(|e| refuse(e.to_string()))?;
        let ids = full.get_vocab(true);
        let highest = ids.values().copied().max().ok_or_else(|| refuse("it is empty".into()))?;
        if highest as usize > GAPS + 4 * ids.len() {
            return Err(refuse(format!("it holds {} tokens, but one has the id {highest}", ids.len())));
        }
        let added = full.get_added_tokens_decoder().into_iter();
        let added: HashMap<_, _> = added.map(|(id, token)| (id, (token.content, token.special))).collect();
        let mut special: Vec<u32> = added.iter().filter(|(_, token)| token.1).map(|(id, _)| *id).collect();
        special.sort_unstable();
        let vocabulary = highest as usize + 1;
        let generation = end_config(&dir.join("generation_config.json"))?;
        let repetition_penalty = generation.repetition_penalty.as_f64();
        let ends = match generation.ids() {
            Some(ids) => Some(ids),
            None => end_config(&dir.join("config.json"))?.ids(),
        };
        let ends = ends.filter(|ids| !ids.is_empty()).ok_or_else(|| TextError::NoEnd { dir: dir.into() })?;
        if let Some(id) = ends.iter().find(|id| **id as usize >= vocabulary) {
            return Err(TextError::EndOutside { id: *id, vocabulary });
        }
        let bytes = (0..vocabulary).map(|_| OnceLock::new()).collect();
        let inner = Inner { full, plain, path, vocabulary, ends, repetition_penalty, added, special, bytes };
        Ok(Self(Arc::new(inner)))
    }

    /// Ids of trusted text, in which added tokens (`<|im_start|>`) are recognised. None are put around it.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        encode(&self.0.full, text)
    }

    /// Ids of text that comes from outside: what looks like an added token is encoded as the characters it is made of.
    ///
    /// # Errors
    /// [`TextError::Encode`].
    pub fn encode_plain(&self, text: &str) -> Result<Vec<u32>, TextError> {
        encode(&self.0.plain, text)
    }

    /// The file it was read from.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Number of real ids: the highest one + 1. A model's output may be padded beyond it.
    pub fn vocabulary(&self) -> usize {
        self.0.vocabulary
    }

    /// The ids that end a text.
    pub fn end_ids(&self) -> &[u32] {
        &self.0.ends
    }

    /// The repetition penalty that `generation_config.json` asks for; 1 is none.
    pub fn repetition_penalty(&self) -> Option<f64> {
        self.0.repetition_penalty
    }

    /// True if `id` ends a text.
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

    /// The id of a token by its exact name.
    ///
    /// # Errors
    /// [`TextError::MissingToken`].
    pub fn id(&self, token: &str) -> Result<u32, TextError> {
        let missing = || TextError::MissingToken { path: self.0.path.clone(), token: token.into() };
        self.0.full.token_to_id(token).ok_or_else(missing)
    }

    /// Contents of the added tokens, in no order.
    pub(super) fn added(&self) -> impl Iterator<Item = &str> {
        self.0.added.values().map(|(content, _)| content.as_str()).filter(|content| !content.is_empty())
    }

    /// The bytes that a token stands for; unknown ids have none.
    fn bytes(&self, id: u32) -> &[u8] {
        let inner = &self.0;
        let Some(bytes) = inner.bytes.get(id as usize) else { return &[] };
        bytes.get_or_init(|| match inner.added.get(&id) {
            Some((content, _)) => content.as_bytes().into(),
            None => inner.full.id_to_token(id).map(|token| token_bytes(&token)).unwrap_or_default().into(),
        })
    }

    /// The bytes that a token adds to a text; special tokens add none.
    fn written(&self, id: u32) -> &[u8] {
        if self.is_special(id) { &[] } else { self.bytes(id) }
    }

    /// One token as text for people: special tokens by name, broken characters as U+FFFD.
    pub fn token_text(&self, id: u32) -> String {
        String::from_utf8_lossy(self.bytes(id)).into_owned()
    }

    /// The text of ids, without special tokens; broken characters as U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.written(*id)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new stream of tokens that becomes text.
    pub fn stream(&self) -> TextStream {
        TextStream { tokenizer: self.clone(), pending: Vec::new() }
    }

    /// Whether every id stands for the same token in both (a drafter's ids must mean the target's tokens).
    ///
    /// # Errors
    /// The first difference.
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

/// True if the decoder turns tokens into bytes and does nothing else.
fn decodes_bytes(decoder: Option<&DecoderWrapper>) -> bool {
    matches!(decoder, Some(DecoderWrapper::ByteLevel(_)))
}

/// The bytes of a byte-level token: printable Latin-1 stands for itself, the other bytes follow from U+0100 on in order.
fn token_bytes(token: &str) -> Vec<u8> {
    let stands_for_itself = |c: u32| matches!(c, 33..=126 | 161..=172 | 174..=255);
    let byte = |c: char| {
        let c = u32::from(c);
        if stands_for_itself(c) {
            return u8::try_from(c).ok();
        }
        let nth = c.checked_sub(256)? as usize;
        (0..=255u8).filter(|b| !stands_for_itself(u32::from(*b))).nth(nth)
    };
    // a token with any other character was never split into bytes: it stands for itself
    let bytes: Option<Vec<u8>> = token.chars().map(byte).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}

/// Tokens in, text out, as soon as bytes form characters.
///
/// A character that spans tokens comes out with its last token; the tokens before it give what was complete, often nothing.
/// Bytes that can never form a character come out as U+FFFD, and only once that is certain.
#[derive(Clone, Debug)]
pub struct TextStream {
    tokenizer: TextTokenizer,
    /// At most three bytes: the start of a character.
    pending: Vec<u8>,
}

impl TextStream {
    /// The text that `id` completes.
    pub fn push(&mut self, id: u32) -> String {
        self.pending.extend(self.tokenizer.written(id));
        let mut text = String::new();
        loop {
            match std::str::from_utf8(&self.pending) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.pending.clear();
                    return text;
                }
                Err(error) => {
                    let (whole, rest) = self.pending.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    let Some(broken) = error.error_len() else {
                        self.pending = rest.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.pending = rest[broken..].to_vec();
                }
            }
        }
    }

    /// What is left when no more tokens come: nothing, or one U+FFFD for a broken character.
    pub fn finish(&mut self) -> String {
        let left = String::from_utf8_lossy(&self.pending).into_owned();
        self.pending.clear();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::token_bytes;

    #[test]
    fn byte_level_names_become_bytes() {
        assert_eq!(token_bytes("Ġa"), b" a");
        assert_eq!(token_bytes("Ċ"), b"\n");
        assert_eq!(token_bytes("æĹ¥"), "日".as_bytes());
        assert_eq!(token_bytes("Ń"), [0xad]);
        // never split into bytes
        assert_eq!(token_bytes("日"), "日".as_bytes());
    }
}
