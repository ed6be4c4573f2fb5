//! Constraints, compiled against the loaded target's vocabulary.

use std::sync::{Mutex, OnceLock, PoisonError};

use specreel_model::{
    grammar::{Constraint, Grammar, GrammarError, GrammarVocabulary},
    text::TextTokenizer,
};

/// The target's vocabulary, prepared when the first constraint needs it, and the latest constraint: runs repeat it.
#[derive(Default)]
pub(crate) struct Grammars {
    vocabulary: OnceLock<Result<GrammarVocabulary, GrammarError>>,
    latest: Mutex<Option<Grammar>>,
}

impl Grammars {
    pub fn of(&self, constraint: &Constraint, tokenizer: &TextTokenizer) -> Result<Grammar, GrammarError> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = latest.as_ref().filter(|known| known.constraint() == constraint) {
            return Ok(known.clone());
        }
        let vocabulary = self.vocabulary.get_or_init(|| GrammarVocabulary::new(tokenizer));
        let grammar = vocabulary.as_ref().map_err(Clone::clone)?.compile(constraint)?;
        Ok(latest.insert(grammar).clone())
    }
}
