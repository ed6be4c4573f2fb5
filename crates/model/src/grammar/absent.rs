//! A build without grammars: nothing here can exist, and asking for it says so.

use std::convert::Infallible;

use super::{Allowed, Constraint, GrammarError};
use crate::text::TextTokenizer;

#[derive(Clone, Debug, PartialEq)]
pub enum Ids {}

/// The private field keeps other modules from seeing that it has no value: their code is not unreachable to the compiler.
#[derive(Clone, Debug)]
pub struct Grammar(Infallible);

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
        match self.0 {}
    }

    #[must_use]
    pub fn after(self, _: Option<u32>) -> Self {
        self
    }

    pub fn follow(&self) -> Follower {
        match self.0 {}
    }

    pub fn accepts(&self, _: &[u32]) -> bool {
        match self.0 {}
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
