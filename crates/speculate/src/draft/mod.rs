//! Drafters: a drafter proposes a tree of tokens and then learns which of them were accepted.

mod assistant;
mod block;
mod choices;
mod growth;
mod head_state;
mod lookup;
mod model;

pub use assistant::AssistantDrafter;
pub use block::BlockDrafter;
pub use head_state::DraftHeadState;
pub use lookup::Lookup;
pub use model::ModelDrafter;

use std::{cell::RefCell, sync::Arc};

use specreel_tensor::Result;

use super::{confidence::Stopping, processors::History, sampling::Sampler, tree::Tree};
use specreel_model::{
    decoder::{Sequence, States},
    grammar::{Allowed, Follower},
};

#[derive(Clone, Debug, Default)]
pub struct Proposal {
    pub tree: Tree,
    /// How many nodes at the beginning, one after the other, the grammar forced.
    pub forced: usize,
    /// The drafter's distribution from which each node was taken, where requested; siblings share one. Empty where the grammar
    /// forced a node without the drafter.
    pub distributions: Vec<Arc<Vec<f32>>>,
    /// How sure the drafter is of each node, where it has scores and no probabilities (prompt lookup).
    pub(crate) scores: Vec<f32>,
    /// Time of each drafter pass of one row, in milliseconds.
    pub(crate) pass_ms: Vec<f64>,
    /// What the drafter gave the token before which it stopped, as it was too unsure of it.
    pub unsure: Option<f32>,
}

#[derive(Clone, Debug)]
pub enum Form<'a> {
    Chain,
    /// A tree of fixed form.
    Static(&'a super::tree::Template),
    TwoBranch,
    /// The most likely continuations (EAGLE-2).
    Dynamic {
        /// Nodes that are kept, the root not counted.
        nodes: usize,
        /// Nodes that each expansion continues, and choices of each.
        width: usize,
    },
}

/// Where a branch ends before its longest, because the drafter is unsure of what follows.
#[derive(Clone, Copy, Debug)]
pub enum Unsure<'a> {
    /// The drafter's probabilities do not matter.
    Never,
    /// Before a draft to which the drafter gives less than this probability.
    Below(f32),
    /// Where another draft of a chain is not worth its time.
    Unprofitable(&'a Stopping),
}

impl Unsure<'_> {
    /// True if a tree has a draft of this probability, of whose branch nothing else counts.
    pub(crate) fn admits(self, probability: f32) -> bool {
        Branch::new(self).take(probability)
    }

    /// Before a draft to which the drafter gives less than this probability.
    pub(crate) fn below(probability: f64) -> Self {
        if probability > 0.0 { Self::Below(probability as f32) } else { Self::Never }
    }
}

pub struct DraftRequest<'a> {
    pub form: Form<'a>,
    pub unsure: Unsure<'a>,
    /// Longest branch, what is forced after the root included.
    pub depth: usize,
    /// Longest branch with all that is forced: the text has no room for more.
    pub room: usize,
    /// Ids at which a branch stops.
    pub ends: &'a [u32],
    /// Special tokens, which are not words.
    pub special: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
    /// Draw a chain from the drafter's distribution instead of taking its best tokens.
    pub sampler: Option<Sampler>,
    pub distributions: bool,
    /// Other choices may be drafted beside those of a chain, where they are worth verifying ([`Unsure::Unprofitable`]).
    pub others: bool,
    /// Output position of the first drafted token.
    pub position: usize,
    /// What the text has to be: nothing else is drafted.
    pub grammar: Option<&'a RefCell<Follower>>,
    /// The text up to the root, by which the drafter's rows are processed; `None` leaves them as they are.
    pub history: Option<&'a History>,
    /// The tokens that the grammar forces after the root. Drafts follow them.
    pub forced: &'a [u32],
}

/// How many of a drafter's likeliest tokens are considered at each place of a chain.
const RANKS: usize = 3;

impl DraftRequest<'_> {
    /// How many choices a place of a chain needs. What is drawn from a distribution, or forced by a grammar, has no others.
    fn chain_choices(&self) -> usize {
        if self.others && self.sampler.is_none() && self.grammar.is_none() { RANKS } else { 1 }
    }

    /// The ids that may follow these drafts.
    fn allowed(&self, drafts: &[u32]) -> Result<Allowed> {
        Ok(self.grammar.map(|grammar| grammar.borrow_mut().allowed(drafts)).transpose()?.unwrap_or_default())
    }
}

impl Proposal {
    /// A proposal that begins with what the grammar forces.
    pub(crate) fn forced(ids: &[u32]) -> Self {
        Self { tree: Tree::chain(ids.iter().copied()), forced: ids.len(), ..Self::default() }
    }

    /// The node that drafts begin after; none = the root.
    fn trunk(&self) -> Option<usize> {
        self.forced.checked_sub(1)
    }

    /// How sure the drafter was where it chose a node, without regard to what it drew: the largest of its probabilities there.
    pub(crate) fn confidence(&self, node: usize) -> Option<f32> {
        match (self.scores.get(node), self.distribution(node)) {
            (Some(score), _) => Some(*score),
            (None, Some(q)) => q.iter().copied().reduce(f32::max),
            (None, None) => self.tree.nodes()[node].probability,
        }
    }

    /// The distribution from which a node was taken, if it is known.
    pub(crate) fn distribution(&self, node: usize) -> Option<&Arc<Vec<f32>>> {
        self.distributions.get(node).filter(|q| !q.is_empty())
    }
}

/// A branch that grows: whether it ends because its drafter is unsure.
///
/// Where drafts are drawn from the drafter's distribution, only how sure it was before it drew may count: a draft that is left out because of
/// what was drawn would change the distribution of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Branch<'a> {
    unsure: Unsure<'a>,
    /// The chance that all drafts of the branch pass.
    passing: f64,
}

impl<'a> Branch<'a> {
    pub fn new(unsure: Unsure<'a>) -> Self {
        Self { unsure, passing: 1.0 }
    }

    /// True if it may grow by another draft, of which nothing is known yet.
    pub fn goes_on(&self) -> bool {
        match self.unsure {
            Unsure::Unprofitable(stopping) => stopping.goes_on(self.passing),
            _ => true,
        }
    }

    /// True if a drafter's other choice, of this probability, is worth verifying beside its first one.
    pub fn admits_other(&self, first: f32, other: f32) -> bool {
        match self.unsure {
            Unsure::Unprofitable(stopping) => stopping.admits_other(self.passing, first, other),
            _ => false,
        }
    }

    /// Grow by a draft of this probability; false if it is left out, and the branch ends.
    pub fn take(&mut self, probability: f32) -> bool {
        match self.unsure {
            Unsure::Never => true,
            Unsure::Below(least) => probability >= least,
            Unsure::Unprofitable(stopping) => {
                let next = stopping.take(self.passing, probability);
                self.passing = next.unwrap_or(self.passing);
                next.is_some()
            }
        }
    }
}

/// What a drafter would have drafted for a token of the text: how sure it was, and whether it was right; `None` if it had no draft.
pub(crate) type Foreseen = Option<(f32, bool)>;

/// Proposes draft tokens. The contract of one step: [`draft`](Self::draft), then [`commit`](Self::commit) with the result.
pub trait Proposer {
    /// `target` has read all tokens before the root; an assistant needs it, others do not.
    /// Errors: a pass fails, or the target is missing.
    fn draft(&mut self, request: &DraftRequest<'_>, target: Option<&mut Sequence>) -> Result<Proposal>;

    /// Take in the outcome: the nodes of `path` of the last proposal were accepted, and `root` follows them. `target` has
    /// already rolled back to the accepted tokens; `base` is the slot of the step's root in it. `states` are the states of the
    /// verify pass that the drafter reads, final ones unless a draft head wants others, the root's row first. Only draft heads read
    /// them: for others there may be none.
    /// Errors: if the states cannot be read.
    fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        target: &Sequence,
        base: usize,
        states: &States,
    ) -> Result<()>;

    /// What it would have drafted for each token that was committed last; nothing if that costs time.
    fn foreseen(&self) -> &[Foreseen] {
        &[]
    }
}
