//! Input rows of a draft head: each fuses a token with the state before it, the target's or the head's own.

use specreel_tensor::Result;

use specreel_model::{
    decoder::{Pass, Sequence, States, Taps},
    draft_head::{DraftHead, DraftVocabulary},
};

/// The draft head of a [`super::ModelDrafter`], and the states that it drafts from: the target's, and its own within a step. They
/// stay on the device that computes them.
pub struct DraftHeadState<'a> {
    layer: &'a DraftHead,
    /// The target's state before the first root, until it is fed.
    first: Vec<f32>,
    /// The target's states before each accepted token that was not fed yet, after that.
    before: Vec<States>,
    /// Own outputs of this step: the root's, then the fed nodes' in the order of their slots.
    own: Vec<States>,
    /// What sums up the visual tokens, for a head with an adaptor; empty if it saw none.
    seen: Vec<f32>,
}

impl<'a> DraftHeadState<'a> {
    /// `before` is the target's final state before the first root.
    pub fn new(layer: &'a DraftHead, before: &[f32]) -> Self {
        Self { layer, first: before.to_vec(), before: Vec::new(), own: Vec::new(), seen: Vec::new() }
    }

    /// With the vector of its prefill ([`HeadPrefill`](crate::context::HeadPrefill)).
    pub fn seeing(mut self, seen: &[f32]) -> Self {
        self.seen = seen.to_vec();
        self
    }

    /// Input rows of the accepted tokens that were not fed yet, for the next pass of its sequence.
    pub(super) fn waiting(&mut self, sequence: &mut Sequence, ids: &[u32]) -> Result<States> {
        let mut before = std::mem::take(&mut self.before);
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            before.insert(0, States::new(first, self.layer.decoder().config().hidden)?);
        }
        let before = States::cat(&before)?;
        self.own.clear();
        self.layer.fuse_for(sequence, ids, &self.layer.mix(before, &self.seen)?)
    }

    /// Input rows of nodes whose parents are in these slots after the root's; `None` = the root.
    pub(super) fn nodes(
        &self,
        sequence: &mut Sequence,
        ids: &[u32],
        parents: impl Iterator<Item = Option<usize>>,
    ) -> Result<States> {
        // The pass and its row that computed each parent's output.
        let places: Vec<(usize, usize)> = parents
            .map(|parent| {
                let mut row = parent.map_or(0, |slot| slot + 1);
                let pass = self.own.iter().position(|states| {
                    let is_here = row < states.rows();
                    row -= if is_here { 0 } else { states.rows() };
                    is_here
                });
                (pass.unwrap_or(self.own.len()), row)
            })
            .collect();
        let mut parts = Vec::new();
        for run in places.chunk_by(|a, b| a.0 == b.0) {
            let Some(states) = self.own.get(run[0].0) else {
                specreel_tensor::bail!("the parent of a draft was not fed")
            };
            let rows: Vec<usize> = run.iter().map(|(_, row)| *row).collect();
            parts.push(match rows.is_sorted_by(|a, b| a + 1 == *b) {
                true => states.narrow(rows[0], rows.len())?,
                false => states.select(&rows)?,
            });
        }
        let before = self.layer.mix(States::cat(&parts)?, &self.seen)?;
        self.layer.fuse_for(sequence, ids, &before)
    }

    /// The input row of the root, of an assistant.
    pub(super) fn root(&mut self, sequence: &mut Sequence, root: u32) -> Result<States> {
        self.own.clear();
        let before = match self.before.last() {
            Some(states) => states.narrow(states.rows().saturating_sub(1), 1)?,
            None => States::new(self.first.clone(), self.first.len())?,
        };
        self.layer.fuse_for(sequence, &[root], &before)
    }

    /// As [`DraftHeadState::apply`]; the states before are no longer needed.
    pub(super) fn replace(&mut self, path: &[usize], states: &States) -> Result<()> {
        self.before.clear();
        self.apply(path, states)
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
        let states = self.layer.own_states(pass)?;
        self.own.push(states.narrow(states.rows().saturating_sub(rows), rows)?);
        Ok(())
    }

    /// After a verify pass with these states, as [`DraftHead::reduce`] takes them: keep the state before each accepted node and before the
    /// new root.
    pub(super) fn apply(&mut self, path: &[usize], states: &States) -> Result<()> {
        let rows: Vec<usize> = std::iter::once(0).chain(path.iter().map(|node| node + 1)).collect();
        self.before.push(self.layer.reduce(&states.select(&rows)?)?);
        Ok(())
    }
}
