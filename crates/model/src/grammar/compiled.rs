//! Grammars compiled by llguidance.

use std::{collections::HashMap, sync::Arc};

use llguidance::{JsonCompileOptions, Matcher, TokenParser, api::TopLevelGrammar, toktrie::SimpleVob};
use serde_json::{Value, json};

use super::{Allowed, Constraint, GrammarError};

/// A set of ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Ids(SimpleVob);

impl Ids {
    pub(super) fn allows(&self, id: u32) -> bool {
        (id as usize) < self.0.len() && self.0.is_allowed(id)
    }
}

pub(super) fn of(ids: SimpleVob) -> Allowed {
    let only = (ids.num_set() == 1).then(|| ids.first_bit_set()).flatten();
    Allowed { only: only.map(|id| id as u32), ids: Some(Arc::new(Ids(ids))) }
}

/// The constraint as a grammar.
pub(super) fn source(constraint: &Constraint) -> TopLevelGrammar {
    match constraint {
        Constraint::JsonSchema { schema } => TopLevelGrammar::from_json_schema(on_one_line(schema.clone())),
        Constraint::JsonObject => TopLevelGrammar::from_json_schema(on_one_line(json!({ "type": "object" }))),
        Constraint::Regex { pattern } => TopLevelGrammar::from_regex(pattern),
        Constraint::Lark { grammar } => TopLevelGrammar::from_lark(grammar.clone()),
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
    pub(super) constraint: Arc<Constraint>,
    /// Its state before the first token.
    pub(super) start: Arc<TokenParser>,
    pub(super) ends: Arc<[u32]>,
    pub(super) after: Option<u32>,
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
            (Some(_), None) => of(self.matcher.compute_mask_or_eos().map_err(GrammarError::state)?),
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
