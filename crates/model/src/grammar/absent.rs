//! A build without grammars: nothing here can exist, and asking for it says so.

use super::{Allowed, Constraint, GrammarError};
use crate::text::TextTokenizer;

#[derive(Clone, Debug, PartialEq)]
pub enum Ids {}

#[derive(Clone, Debug)]
pub enum Grammar {}

pub enum Follower {}

#[derive(Debug)]
pub enum GrammarVocabulary {}

impl Ids {
    pub(super) fn allows(&self, _: u32) -> bool {
        match *self {}
    }
}

impl GrammarVocabulary {
    pub fn new(_: &TextTokenizer) -> Result<Self, GrammarError> {
        Err(GrammarError::Absent)
    }

    pub(super) fn of_bytes() -> Result<Self, GrammarError> {
        Err(GrammarError::Absent)
    }

    pub fn compile(&self, _: &Constraint) -> Result<Grammar, GrammarError> {
        match *self {}
    }
}

impl Grammar {
    pub fn constraint(&self) -> &Constraint {
        match *self {}
    }

    #[must_use]
    pub fn after(self, _: Option<u32>) -> Self {
        self
    }

    pub fn follow(&self) -> Follower {
        match *self {}
    }

    pub fn accepts(&self, _: &[u32]) -> bool {
        match *self {}
    }
}

impl Follower {
    pub fn allowed(&mut self, _: &[u32]) -> Result<Allowed, GrammarError> {
        match *self {}
    }

    pub fn forced(&mut self, _: usize) -> Result<Vec<u32>, GrammarError> {
        match *self {}
    }

    pub fn advance(&mut self, _: &[u32]) -> Result<(), GrammarError> {
        match *self {}
    }

    pub fn truncate(&mut self, _: usize) -> Result<(), GrammarError> {
        match *self {}
    }

    pub fn len(&self) -> usize {
        match *self {}
    }

    pub fn is_empty(&self) -> bool {
        match *self {}
    }
}
