//! A drafter whose layers attend to the target's keys and values.

use std::time::Instant;

use specreel_tensor::Result;

use super::{
    DraftHeadState, DraftRequest, Proposal, Proposer,
    choices::{self, Choices},
    growth::{self, Predictor},
};
use specreel_model::decoder::{Sequence, States};

/// Drafts with an assistant ([`specreel_model::draft_head::assistant`]).
///
/// It keeps no keys and values: all that it needs of the text is the target's state before the root.
pub struct AssistantDrafter<'a> {
    /// Empty. The assistant's passes are computed in its buffers.
    sequence: &'a mut Sequence,
    root: u32,
    head: DraftHeadState<'a>,
    /// For each node of the running proposal its place among those that were fed, if it was.
    fed: Vec<Option<usize>>,
}

impl<'a> AssistantDrafter<'a> {
    /// A drafter after a prompt whose last token is `root`. `sequence` is an empty one of the assistant's decoder.
    pub fn new(sequence: &'a mut Sequence, root: u32, head: DraftHeadState<'a>) -> Self {
        Self { sequence, root, head, fed: Vec::new() }
    }
}

impl Proposer for AssistantDrafter<'_> {
    fn draft(&mut self, request: &DraftRequest<'_>, target: Option<&mut Sequence>) -> Result<Proposal> {
        let Some(target) = target else { specreel_tensor::bail!("an assistant drafts without its target") };
        growth::propose(&mut Step { drafter: self, target }, request)
    }

    fn commit(
        &mut self,
        _: &Proposal,
        path: &[usize],
        root: u32,
        _: &Sequence,
        _: usize,
        states: &States,
    ) -> Result<()> {
        self.root = root;
        self.head.replace(path, states)
    }
}

/// One proposal over what the target has computed so far.
struct Step<'s, 'a> {
    drafter: &'s mut AssistantDrafter<'a>,
    target: &'s mut Sequence,
}

impl Step<'_, '_> {
    /// The choices after the last rows of these input rows, one for each branch.
    fn feed(
        &mut self,
        rows: &States,
        request: &DraftRequest<'_>,
        count: usize,
        branches: &[Vec<u32>],
    ) -> Result<Vec<Choices>> {
        let AssistantDrafter { sequence, head, .. } = &mut *self.drafter;
        let layer = head.layer();
        let pass = self.target.assist(layer.decoder(), rows, sequence.workspace())?;
        head.keep(&pass, rows.rows())?;
        let from = rows.rows().saturating_sub(branches.len());
        let logits = layer.logits(sequence, &pass.states.narrow(from, branches.len())?)?;
        choices::read(&logits, request, count, None, branches)
    }
}

impl Predictor for Step<'_, '_> {
    fn begin(
        &mut self,
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Option<Choices>> {
        self.drafter.fed.clear();
        // The target's state before a forced token is there only after its pass.
        if !self.has(self.drafter.root) || !request.forced.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let AssistantDrafter { sequence, head, root, .. } = &mut *self.drafter;
        let row = head.root(sequence, *root)?;
        let choices = self.feed(&row, request, count, &[Vec::new()])?;
        proposal.pass_ms.push(growth::since(started));
        Ok(choices.into_iter().next())
    }

    fn expand(
        &mut self,
        nodes: &[usize],
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Vec<Choices>> {
        let (started, tree) = (Instant::now(), &proposal.tree);
        let AssistantDrafter { sequence, head, fed, .. } = &mut *self.drafter;
        let first = fed.iter().flatten().count();
        fed.resize(tree.len(), None);
        for (place, &node) in (first..).zip(nodes) {
            fed[node] = Some(place);
        }
        let ids: Vec<u32> = nodes.iter().map(|&node| tree.nodes()[node].id).collect();
        let parents = nodes.iter().map(|&node| tree.nodes()[node].parent.and_then(|parent| fed[parent]));
        let rows = head.nodes(sequence, &ids, parents)?;
        let branches: Vec<Vec<u32>> = nodes.iter().map(|&node| tree.ids(node)).collect();
        let choices = self.feed(&rows, request, count, &branches)?;
        if nodes.len() == 1 {
            proposal.pass_ms.push(growth::since(started));
        }
        Ok(choices)
    }

    fn with_forced(&self, _: &DraftRequest<'_>, _: &mut Proposal, node: usize) -> Result<Vec<usize>> {
        Ok(vec![node])
    }

    fn has(&self, id: u32) -> bool {
        (id as usize) < self.drafter.head.layer().decoder().config().vocab
    }

    fn keep(&mut self, _: &[usize], _: usize) {}
}
