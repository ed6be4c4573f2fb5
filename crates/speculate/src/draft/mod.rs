//! Drafters: a drafter proposes a tree of tokens and then learns which of them were accepted.

mod block;
mod choices;
mod head_state;
mod lookup;
mod model;

pub use block::BlockDrafter;
pub use head_state::DraftHeadState;
pub use lookup::Lookup;
pub use model::ModelDrafter;

use std::{cell::RefCell, sync::Arc};

use specreel_tensor::Result;

use super::{sampling::Sampler, tree::Tree};
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
    /// Of nodes of a chain, where requested: the drafter's next choices for the place, the likeliest first.
    pub(crate) others: Vec<(usize, Vec<u32>)>,
    /// Time of each drafter pass of one row, in milliseconds.
    pub(crate) pass_ms: Vec<f64>,
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

pub struct DraftRequest<'a> {
    pub form: Form<'a>,
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
    /// How many of the drafter's choices at each place of a chain are noted (`others` of a [`Proposal`]); 1 = those that it drafts.
    pub ranks: usize,
    /// Output position of the first drafted token.
    pub position: usize,
    /// What the text has to be: nothing else is drafted.
    pub grammar: Option<&'a RefCell<Follower>>,
    /// The tokens that the grammar forces after the root. Drafts follow them.
    pub forced: &'a [u32],
}

impl DraftRequest<'_> {
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

    /// The distribution from which a node was taken, if it is known.
    pub(crate) fn distribution(&self, node: usize) -> Option<&Arc<Vec<f32>>> {
        self.distributions.get(node).filter(|q| !q.is_empty())
    }
}

/// Proposes draft tokens. The contract of one step: [`draft`](Self::draft), then [`commit`](Self::commit) with the result.
pub trait Proposer {
    fn draft(&mut self, request: &DraftRequest<'_>) -> Result<Proposal>;

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
}
