//! Who proposes: a drafter is asked for a tree, and told what became of it.

mod head;
mod lookup;
mod model;

pub use head::Head;
pub use lookup::Lookup;
pub use model::ModelDrafter;

use std::sync::Arc;

use candle_core::{Result, Tensor};

use super::{sampling::Sampler, tree::Tree};
use crate::model::decoder::Sequence;

/// What a step proposes.
#[derive(Clone, Debug, Default)]
pub struct Proposal {
    /// The drafted tokens.
    pub tree: Tree,
    /// The drafter's distribution from which each node was taken, where it was asked for; siblings share one.
    pub distributions: Vec<Arc<Vec<f32>>>,
    /// Time of each drafter pass of one row, in milliseconds.
    pub pass_ms: Vec<f64>,
}

/// The form of the tree that a step asks for.
#[derive(Clone, Debug)]
pub enum Form<'a> {
    /// A chain.
    Chain,
    /// A tree of fixed form.
    Static(&'a super::tree::Template),
    /// Two chains.
    TwoBranch,
    /// The likeliest continuations: nodes kept without the root, and nodes expanded on each level.
    Dynamic {
        /// Nodes kept.
        nodes: usize,
        /// Nodes expanded on each level, and choices of each.
        width: usize,
    },
}

/// What one step asks of a drafter.
pub struct DraftRequest<'a> {
    /// The form.
    pub form: Form<'a>,
    /// No branch longer than this.
    pub depth: usize,
    /// Ids at which a branch stops.
    pub ends: &'a [u32],
    /// Special tokens: ids that are no words.
    pub special: &'a [u32],
    /// Logits from here on are padding.
    pub vocab: usize,
    /// Draw a chain from the drafter's distribution instead of taking its best tokens.
    pub sampler: Option<Sampler>,
    /// Keep the distributions.
    pub distributions: bool,
    /// Output position of the first drafted token.
    pub position: usize,
}

/// Somebody who proposes.
pub trait Draft {
    /// Draft after the root.
    ///
    /// # Errors
    /// If a forward pass fails.
    fn draft(&mut self, order: &DraftRequest<'_>) -> Result<Proposal>;

    /// The verdict: of the last proposal the nodes of `path` stand, and `root` follows them. `target` has rolled back to what
    /// stands already, `base` being the slot of the step's root; `states` are the final states of the verify pass, the root's
    /// row first.
    ///
    /// # Errors
    /// If the states cannot be read.
    fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        target: &Sequence,
        base: usize,
        states: &Tensor,
    ) -> Result<()>;
}
