//! Constraints on a text: a JSON schema, any JSON object, a regular expression or a Lark grammar, as masks over a tokenizer's ids.
//!
//! The grammars are llguidance's, with the feature `structured`. Three things are kept apart by how long they live: the [`GrammarVocabulary`] of a tokenizer,
//! a prefix tree of its tokens' bytes, is built once for a loaded model (0.2 s for 150,000 tokens); a [`Grammar`] is one constraint
//! compiled against it (under a millisecond for usual schemas); a [`Follower`] is the state along one text and its drafts.
//!
//! Where the bytes of a text are determined, so are its tokens: the tokenizer's own for these bytes. Such a place allows one id
//! ([`Allowed::only`]), which depends on the text before it and on nothing else.
//!
//! JSON is written on one line, with `, ` and `: ` between its parts and no other white space: a grammar that allows white space
//! anywhere lets a model write it endlessly.

#[cfg(not(feature = "structured"))]
mod absent;
#[cfg(feature = "structured")]
mod compiled;
mod error;
#[cfg(feature = "structured")]
mod vocabulary;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(not(feature = "structured"))]
use absent::Ids;
#[cfg(not(feature = "structured"))]
pub use absent::{Follower, Grammar, GrammarVocabulary};
#[cfg(feature = "structured")]
use compiled::Ids;
#[cfg(feature = "structured")]
pub use compiled::{Follower, Grammar};
pub use error::GrammarError;
#[cfg(feature = "structured")]
pub use vocabulary::GrammarVocabulary;

use crate::decoder::LogitRow;

/// What an answer has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Constraint {
    /// A JSON value of this schema.
    JsonSchema { schema: Value },
    /// Any JSON object.
    JsonObject,
    /// A text that matches a regular expression as a whole.
    Regex { pattern: String },
    /// A text of a grammar in llguidance's dialect of Lark.
    Lark { grammar: String },
}

impl Constraint {
    /// What it is called in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::JsonSchema { .. } | Self::JsonObject => "the schema",
            Self::Regex { .. } => "the regular expression",
            Self::Lark { .. } => "the grammar",
        }
    }

    /// Check it without a tokenizer, before models are loaded.
    /// Errors: it is not valid, uses what is not supported, or allows no text; this build has no grammars.
    pub fn check(&self) -> Result<(), GrammarError> {
        GrammarVocabulary::of_bytes()?.compile(self).map(drop)
    }
}

/// The ids that may follow at one place of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    /// None = all.
    ids: Option<Arc<Ids>>,
    only: Option<u32>,
}

impl Allowed {
    pub fn allows(&self, id: u32) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.allows(id))
    }

    /// The id, if there is just one.
    pub fn only(&self) -> Option<u32> {
        self.only
    }

    /// A row of logits in which the other ids are impossible. `id_of` gives the id of a logit. None if no id is left.
    /// Errors: the row lacks values ([`LogitNeeds::whole`](crate::decoder::LogitNeeds::whole)).
    pub fn restrict<'r>(
        &self,
        row: LogitRow<'r>,
        id_of: impl Fn(u32) -> u32,
    ) -> specreel_tensor::Result<Option<LogitRow<'r>>> {
        if self.ids.is_none() {
            return Ok(Some(row));
        }
        let mut left = false;
        let masked = row.values()?.iter().zip(0u32..).map(|(&logit, at)| {
            let allowed = self.allows(id_of(at));
            left |= allowed;
            if allowed { logit } else { f32::NEG_INFINITY }
        });
        let masked: Vec<f32> = masked.collect();
        Ok(left.then(|| LogitRow::Whole(masked.into(), std::cell::OnceCell::new())))
    }
}

#[cfg(test)]
#[cfg(feature = "structured")]
mod tests;
