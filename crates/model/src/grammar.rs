//! Constraints on a text: a JSON schema, any JSON object, a regular expression or a Lark grammar, as masks over a tokenizer's ids.
//!
//! The grammars are [`llguidance`]'s. Three things are kept apart by how long they live: the [`GrammarVocabulary`] of a tokenizer,
//! a prefix tree of its tokens' bytes, is built once for a loaded model (0.2 s for 150,000 tokens); a [`Grammar`] is one constraint
//! compiled against it (under a millisecond for usual schemas); a [`Follower`] is the state along one text and its drafts.
//!
//! Where the bytes of a text are determined, so are its tokens: the tokenizer's own for these bytes. Such a place allows one id
//! ([`Allowed::only`]), which depends on the text before it and on nothing else.
//!
//! JSON is written on one line, with `, ` and `: ` between its parts and no other white space: a grammar that allows white space
//! anywhere lets a model write it endlessly.

mod error;
mod vocabulary;

use std::{collections::HashMap, sync::Arc};

use llguidance::{JsonCompileOptions, Matcher, TokenParser, api::TopLevelGrammar, toktrie::SimpleVob};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use error::GrammarError;
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

    /// True if what it allows is JSON.
    pub fn is_json(&self) -> bool {
        matches!(self, Self::JsonSchema { .. } | Self::JsonObject)
    }

    /// Check it without a tokenizer, before models are loaded.
    /// Errors: it is not valid, uses what is not supported, or allows no text.
    pub fn check(&self) -> Result<(), GrammarError> {
        GrammarVocabulary::of_bytes()?.compile(self).map(drop)
    }

    fn source(&self) -> TopLevelGrammar {
        match self {
            Self::JsonSchema { schema } => TopLevelGrammar::from_json_schema(on_one_line(schema.clone())),
            Self::JsonObject => TopLevelGrammar::from_json_schema(on_one_line(json!({ "type": "object" }))),
            Self::Regex { pattern } => TopLevelGrammar::from_regex(pattern),
            Self::Lark { grammar } => TopLevelGrammar::from_lark(grammar.clone()),
        }
    }
}

/// A schema with options for the white space of its values, unless it has its own.
fn on_one_line(mut schema: Value) -> Value {
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    let options = JsonCompileOptions {
        item_separator: ", ".into(),
        key_separator: ": ".into(),
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    };
    if schema.is_object() && schema.get("x-guidance").is_none() {
        options.apply_to(&mut schema);
    }
    schema
}

/// A constraint compiled against a tokenizer's vocabulary. Clones share it.
#[derive(Clone)]
pub struct Grammar {
    constraint: Arc<Constraint>,
    /// Its state before the first token.
    start: Arc<TokenParser>,
    ends: Arc<[u32]>,
    after: Option<u32>,
}

impl std::fmt::Debug for Grammar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammar").field("constraint", &self.constraint).finish_non_exhaustive()
    }
}

impl Grammar {
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// The same grammar for the text after this id; everything up to it is free. None is the whole text.
    #[must_use]
    pub fn after(self, id: Option<u32>) -> Self {
        Self { after: id, ..self }
    }

    /// The state at the beginning of a text.
    pub fn follow(&self) -> Follower {
        Follower {
            // Not a plain clone, which would share a growing cache of the lexer's states with every other text.
            matcher: Matcher::new(Ok(self.start.deep_clone())),
            ends: self.ends.clone(),
            after: self.after,
            ids: Vec::new(),
            kept: 0,
            answer: self.after.is_none().then_some(0),
            end: None,
            known: HashMap::new(),
        }
    }

    /// True if these ids, without an end token, are a whole text of the grammar.
    pub fn accepts(&self, ids: &[u32]) -> bool {
        let mut follower = self.follow();
        follower.advance(ids).is_ok() && follower.is_complete()
    }
}

/// The ids that may follow at one place of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowed {
    /// None = all.
    ids: Option<Arc<SimpleVob>>,
    only: Option<u32>,
}

impl Allowed {
    fn of(ids: SimpleVob) -> Self {
        let only = (ids.num_set() == 1).then(|| ids.first_bit_set()).flatten();
        Self { only: only.map(|id| id as u32), ids: Some(Arc::new(ids)) }
    }

    pub fn allows(&self, id: u32) -> bool {
        self.ids.as_ref().is_none_or(|ids| (id as usize) < ids.len() && ids.is_allowed(id))
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

/// The state of a grammar along a text and the drafts that may continue it.
///
/// Asking for another branch of the drafts goes back to where the branches part: a step costs as much as its drafts are long,
/// however long the text is.
pub struct Follower {
    matcher: Matcher,
    ends: Arc<[u32]>,
    after: Option<u32>,
    /// The text, then the branch of the drafts that was asked for last.
    ids: Vec<u32>,
    /// Length of the text.
    kept: usize,
    /// Where the constrained text begins, once that is known.
    answer: Option<usize>,
    /// Where the first end token is.
    end: Option<usize>,
    /// What follows the branches that were asked for since the text changed.
    known: HashMap<Vec<u32>, Allowed>,
}

impl Follower {
    /// The ids that may follow the text and these drafts; all before the constrained text and after an end token.
    /// Errors: the drafts leave the grammar, or it has grown too complex.
    pub fn allowed(&mut self, drafts: &[u32]) -> Result<Allowed, GrammarError> {
        if let Some(known) = self.known.get(drafts) {
            return Ok(known.clone());
        }
        let common = self.ids[self.kept..].iter().zip(drafts).take_while(|(a, b)| a == b).count();
        self.back_to(self.kept + common)?;
        drafts[common..].iter().try_for_each(|id| self.push(*id))?;
        let allowed = match (self.answer, self.end) {
            (Some(_), None) => Allowed::of(self.matcher.compute_mask_or_eos().map_err(GrammarError::state)?),
            _ => Allowed::default(),
        };
        self.known.insert(drafts.to_vec(), allowed.clone());
        Ok(allowed)
    }

    /// The tokens without a choice that follow the text, at most so many, and without an end token.
    pub fn forced(&mut self, most: usize) -> Result<Vec<u32>, GrammarError> {
        let mut forced = Vec::new();
        while forced.len() < most
            && let Some(id) = self.allowed(&forced)?.only()
            && !self.ends.contains(&id)
        {
            forced.push(id);
        }
        Ok(forced)
    }

    /// Add ids to the text. Those after an end token do not count.
    /// Errors: the grammar does not allow one of them.
    pub fn advance(&mut self, ids: &[u32]) -> Result<(), GrammarError> {
        self.known.clear();
        let common = self.ids[self.kept..].iter().zip(ids).take_while(|(a, b)| a == b).count();
        self.back_to(self.kept + common)?;
        ids[common..].iter().try_for_each(|id| self.push(*id))?;
        self.kept = self.ids.len();
        Ok(())
    }

    /// Cut the text to its first `length` ids.
    pub fn truncate(&mut self, length: usize) -> Result<(), GrammarError> {
        self.known.clear();
        self.kept = self.kept.min(length);
        self.back_to(self.kept)
    }

    /// Length of the text in tokens.
    pub fn len(&self) -> usize {
        self.kept
    }

    /// True if no text was written.
    pub fn is_empty(&self) -> bool {
        self.kept == 0
    }

    /// True if the text may end here.
    fn is_complete(&mut self) -> bool {
        self.answer.is_some() && self.matcher.is_accepting().unwrap_or(false)
    }

    fn push(&mut self, id: u32) -> Result<(), GrammarError> {
        if self.end.is_none() {
            if self.ends.contains(&id) {
                self.end = Some(self.ids.len());
            } else if self.answer.is_some() {
                self.matcher.consume_token(id).map_err(GrammarError::state)?;
            } else if self.after == Some(id) {
                self.answer = Some(self.ids.len() + 1);
            }
        }
        self.ids.push(id);
        Ok(())
    }

    fn back_to(&mut self, length: usize) -> Result<(), GrammarError> {
        if let Some(answer) = self.answer {
            let until = self.end.unwrap_or(self.ids.len());
            let consumed = until.saturating_sub(length.max(answer));
            self.matcher.rollback(consumed).map_err(GrammarError::state)?;
        }
        self.end.take_if(|end| *end >= length);
        self.answer.take_if(|answer| *answer > length);
        self.ids.truncate(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
