//! A tokenizer's ids as byte strings, in a prefix tree.

use std::sync::Arc;

use llguidance::{
    Matcher, ParserFactory,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv},
};

use super::{Constraint, Grammar, GrammarError, compiled::source};
use crate::text::TextTokenizer;

/// Longer tokens do not fit the tree; they are never allowed.
const LONGEST: usize = 1000;

/// A tokenizer's vocabulary, prepared for grammars.
pub struct GrammarVocabulary {
    factory: ParserFactory,
    ends: Arc<[u32]>,
}

impl std::fmt::Debug for GrammarVocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GrammarVocabulary").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl GrammarVocabulary {
    /// Errors: the tokenizer lacks some bytes as tokens, so that there are texts that it cannot write.
    pub fn new(tokenizer: &TextTokenizer) -> Result<Self, GrammarError> {
        let ends: Arc<[u32]> = tokenizer.end_ids().into();
        let marker = TokTrie::SPECIAL_TOKEN_MARKER;
        let word = |id: u32| -> Vec<u8> {
            let bytes = tokenizer.bytes(id);
            if tokenizer.is_special(id) || ends.contains(&id) {
                return std::iter::once(marker).chain(bytes.iter().copied()).collect();
            }
            // No text has this byte.
            let usable = bytes.len() <= LONGEST && bytes.first() != Some(&marker);
            if usable { bytes.to_vec() } else { Vec::new() }
        };
        let words: Vec<Vec<u8>> = (0..tokenizer.vocabulary() as u32).map(word).collect();
        // Of printable ASCII, which all of JSON can be written with.
        if let Some(byte) = (b' '..=b'~').find(|byte| !words.iter().any(|word| word == &[*byte])) {
            let character = char::from(byte);
            return Err(GrammarError::Tokenizer(format!("it has no token for the character {character:?}")));
        }
        let first = ends.first().copied().unwrap_or_default();
        let info = TokRxInfo::new(words.len() as u32, first);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(&ends);
        Self::with(Arc::new(Tokens { trie, tokenizer: tokenizer.clone() }), ends)
    }

    /// Every byte is a token.
    pub(super) fn of_bytes() -> Result<Self, GrammarError> {
        let tokens = ApproximateTokEnv::single_byte_env();
        let ends = tokens.tok_trie().eos_tokens().into();
        Self::with(tokens, ends)
    }

    fn with(tokens: TokEnv, ends: Arc<[u32]>) -> Result<Self, GrammarError> {
        // Slices of the vocabulary would make the first mask of a string faster by a millisecond, and take three times as long
        // as all the rest to prepare.
        let factory = ParserFactory::new(&tokens, InferenceCapabilities::default(), &[]);
        let mut factory = factory.map_err(|error| GrammarError::Tokenizer(error.to_string()))?;
        factory.quiet().limits_mut().verbose_errors = false;
        Ok(Self { factory, ends })
    }

    /// Compile a constraint.
    /// Errors: it is not valid, uses what is not supported, or allows no text.
    pub fn compile(&self, constraint: &Constraint) -> Result<Grammar, GrammarError> {
        let start = self.factory.create_parser(source(constraint));
        let start = start.map_err(|error| GrammarError::invalid(&error.to_string()))?;
        // Drafts that were rejected are taken back.
        if start.parser.grammar().lexer_spec().check_rollback().is_err() {
            return Err(GrammarError::invalid("max_tokens= and stop= are not supported"));
        }
        if Matcher::new(Ok(start.deep_clone())).compute_mask_or_eos().is_err() {
            return Err(GrammarError::invalid("it allows no text"));
        }
        let constraint = Arc::new(constraint.clone());
        Ok(Grammar { constraint, start: Arc::new(start), ends: self.ends.clone(), after: None })
    }
}

struct Tokens {
    trie: TokTrie,
    tokenizer: TextTokenizer,
}

impl TokenizerEnv for Tokens {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let encode = |text: &str| {
            let ids = self.tokenizer.encode_plain(text).unwrap_or_default();
            // A tokenizer may normalize what it reads.
            match self.trie.decode_raw(&ids) == text.as_bytes() {
                true => ids,
                false => self.trie.greedy_tokenize(text.as_bytes()),
            }
        };
        self.trie.tokenize_with_greedy_fallback(bytes, encode)
    }
}
