//! Drafters: a drafter proposes a tree of tokens and then learns which of them were accepted.

mod head_state;
mod lookup;
mod model;

pub use head_state::DraftHeadState;
pub use lookup::Lookup;
pub use model::ModelDrafter;

use std::sync::Arc;

use specreel_tensor::Result;

use super::{sampling::Sampler, tree::Tree};
use specreel_model::decoder::{Sequence, States};

/// The proposal of one step.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// The drafted tokens.
    pub tree: Tree,
    /// The drafter's distribution from which each node was taken, where requested; siblings share one.
    pub distributions: Vec<Arc<Vec<f32>>>,
    /// Time of each drafter pass of one row, in milliseconds.
    pub(crate) pass_ms: Vec<f64>,
}

/// The form of the requested tree.
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

/// A request for the drafts of one step.
pub struct DraftRequest<'a> {
    pub form: Form<'a>,
    /// Longest branch.
    pub depth: usize,
    /// Ids at which a branch stops.
    pub ends: &'a [u32],
    /// Special tokens, which are not words.
    pub special: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
    /// Draw a chain from the drafter's distribution instead of taking its best tokens.
    pub sampler: Option<Sampler>,
    pub distributions: bool,
    /// Output position of the first drafted token.
    pub position: usize,
}

/// Proposes draft tokens. The contract of one step: [`draft`](Self::draft), then [`commit`](Self::commit) with the result.
pub trait Proposer {
    /// Draft after the root.
    fn draft(&mut self, request: &DraftRequest<'_>) -> Result<Proposal>;

    /// Take in the outcome: the nodes of `path` of the last proposal were accepted, and `root` follows them. `target` has
    /// already rolled back to the accepted tokens; `base` is the slot of the step's root in it. `states` are the states of the
    /// verify pass that the drafter reads, final ones unless a draft head wants others, the root's row first.
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
