//! Input rows of a draft head: each fuses a token with the state before it, the target's or the head's own.

use specreel_tensor::Result;

use specreel_model::{
    decoder::{Pass, States, Taps, with_slice},
    draft_head::{DraftHead, DraftVocabulary},
};

/// The draft head of a [`super::ModelDrafter`], and the states that it drafts from: the target's, and its own within a step.
pub struct DraftHeadState<'a> {
    layer: &'a DraftHead,
    width: usize,
    /// The target's states before each accepted token that was not fed yet.
    before: Vec<f32>,
    /// Own outputs of this step: the root's, then the fed nodes' in the order of their slots.
    own: Vec<f32>,
    /// What sums up the visual tokens, for a head with an adaptor; empty if it saw none.
    seen: Vec<f32>,
}

impl<'a> DraftHeadState<'a> {
    /// `before` is the target's final state before the first root.
    pub fn new(layer: &'a DraftHead, before: &[f32]) -> Self {
        let width = layer.decoder().config().hidden;
        Self { layer, width, before: before.to_vec(), own: Vec::new(), seen: Vec::new() }
    }

    /// With the vector of its prefill ([`HeadPrefill`](crate::context::HeadPrefill)).
    pub fn seeing(mut self, seen: &[f32]) -> Self {
        self.seen = seen.to_vec();
        self
    }

    /// Input rows of the accepted tokens that were not fed yet.
    pub(super) fn waiting(&mut self, ids: &[u32]) -> Result<States> {
        let before = self.layer.mix(std::mem::take(&mut self.before), &self.seen)?;
        let input = self.layer.fuse(ids, &before)?;
        self.own.clear();
        Ok(input)
    }

    /// Input rows of nodes whose parents are in these slots after the root's; `None` = the root.
    pub(super) fn nodes(&self, ids: &[u32], parents: impl Iterator<Item = Option<usize>>) -> Result<States> {
        let mut before = Vec::with_capacity(ids.len() * self.width);
        for parent in parents {
            let at = parent.map_or(0, |slot| slot + 1) * self.width;
            before.extend_from_slice(self.own.get(at..at + self.width).unwrap_or_default());
        }
        self.layer.fuse(ids, &self.layer.mix(before, &self.seen)?)
    }

    pub(super) fn taps(&self) -> Taps {
        self.layer.own_taps()
    }

    /// The ids of its LM head, if they are not the target's.
    pub(super) fn vocabulary(&self) -> Option<&'a DraftVocabulary> {
        self.layer.vocabulary()
    }

    pub fn layer(&self) -> &'a DraftHead {
        self.layer
    }

    /// Keep the outputs of the last `rows` rows of a pass.
    pub(super) fn keep(&mut self, pass: &Pass, rows: usize) -> Result<()> {
        with_slice(self.layer.own_states(pass), |states| {
            let from = states.len().saturating_sub(rows * self.width);
            self.own.extend_from_slice(&states[from..]);
        })
    }

    /// After a verify pass with these states, as [`DraftHead::reduce`] takes them: keep the state before each accepted node and before the
    /// new root.
    pub(super) fn apply(&mut self, path: &[usize], states: &States) -> Result<()> {
        let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
        let states = self.layer.reduce(&states.select(&rows)?)?;
        with_slice(&states, |states| self.before.extend_from_slice(states))
    }
}
