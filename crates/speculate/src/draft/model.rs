//! A drafter that is a decoder: a smaller model, the target itself with fewer visual tokens or fewer layers, or a draft head on
//! the target's states.

use std::{sync::Arc, time::Instant};

use specreel_tensor::Result;

use super::{
    DraftHeadState, DraftRequest, Proposal, Proposer,
    choices::{self, Choices},
    growth::{self, Predictor},
};
use specreel_model::decoder::{DraftVocabulary, Input, Pass, Sequence, States, Taps};

/// Drafts with a decoder of its own.
///
/// The cache holds the prompt (as its context shows it) and the accepted tokens. Leaves of a tree are never fed; accepted
/// tokens that the cache lacks wait in `unseen` and are fed with the next root.
pub struct ModelDrafter<'a> {
    sequence: &'a mut Sequence,
    /// Accepted tokens that are not in the cache yet; the root comes last.
    unseen: Vec<u32>,
    /// Slots of prompt and accepted tokens, the root's included while drafting.
    base: usize,
    /// For each node of the running proposal its slot, counted from `base`, if it was fed.
    fed: Vec<Option<usize>>,
    /// Ids beyond this do not exist for the drafter.
    embeddable: usize,
    /// Take accepted tokens' keys and values from the target's cache: only where the two are one model.
    dense: bool,
    head: Option<DraftHeadState<'a>>,
}

impl<'a> ModelDrafter<'a> {
    /// A drafter whose sequence holds the prompt without its last token, `root`.
    pub fn new(sequence: &'a mut Sequence, root: u32, dense: bool) -> Self {
        let base = sequence.len();
        let embeddable = sequence.decoder().config().vocab;
        Self { sequence, unseen: vec![root], base, fed: Vec::new(), embeddable, dense, head: None }
    }

    /// Make it a draft head on the target's states.
    pub fn with_head(mut self, head: Option<DraftHeadState<'a>>) -> Self {
        self.head = head;
        self
    }

    /// The choices after each of these rows, which follow these drafts.
    fn choices(
        &mut self,
        pass: &Pass,
        rows: std::ops::Range<usize>,
        request: &DraftRequest<'_>,
        count: usize,
        branches: &[Vec<u32>],
    ) -> Result<Vec<Choices>> {
        let logits = self.sequence.logits(&pass.states.narrow(rows.start, rows.len())?)?;
        let own = vocabulary(self.head.as_ref(), self.sequence);
        choices::read(&logits, request, count, own, branches)
    }
}

impl Predictor for ModelDrafter<'_> {
    /// Feeds the unseen tokens, the root last, and what the grammar forces after it.
    fn begin(
        &mut self,
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Option<Choices>> {
        self.base = self.sequence.len();
        self.fed.clear();
        let own = vocabulary(self.head.as_ref(), self.sequence);
        let silent = own.is_some_and(|own| own.rows_below(request.vocab) == 0);
        let forced = request.forced;
        let mut ids = self.unseen.iter().chain(forced);
        if silent || ids.any(|&id| id as usize >= self.embeddable) || forced.len() >= request.depth {
            return Ok(None);
        }
        // A head drafts from the target's state before each token, which a forced one has only after the target's pass.
        if self.head.is_some() && !forced.is_empty() {
            return Ok(None);
        }
        let started = Instant::now();
        let pass = match &mut self.head {
            Some(head) => {
                let pass = {
                    let input = head.waiting(self.sequence, &self.unseen)?;
                    self.sequence.feed_input(&input, &head.taps())?
                };
                head.keep(&pass, 1)?;
                pass
            }
            None => {
                let ids: Vec<u32> = self.unseen.iter().chain(forced).copied().collect();
                self.sequence.feed(&ids, &Taps::default())?
            }
        };
        self.base += self.unseen.len();
        let rows = self.unseen.len() + forced.len();
        self.fed.extend((0..forced.len()).map(Some));
        self.unseen.clear();
        let choices = self.choices(&pass, rows - 1..rows, request, count, &[forced.to_vec()])?;
        if request.sampler.is_some() || request.distributions {
            proposal.distributions.resize_with(forced.len(), Arc::default);
        }
        if rows == 1 {
            proposal.pass_ms.push(growth::since(started));
        }
        Ok(choices.into_iter().next())
    }

    fn expand(
        &mut self,
        nodes: &[usize],
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Vec<Choices>> {
        let Some(&last) = nodes.last() else { return Ok(Vec::new()) };
        let started = Instant::now();
        let tree = &proposal.tree;
        let ids: Vec<u32> = nodes.iter().map(|&node| tree.nodes()[node].id).collect();
        self.fed.resize(tree.len(), None);
        let first = self.sequence.len() - self.base;
        for (slot, &node) in (first..).zip(nodes) {
            self.fed[node] = Some(slot);
        }
        let fused;
        let input = match &self.head {
            Some(head) => {
                let parent = |&node: &usize| tree.nodes()[node].parent.and_then(|parent| self.fed[parent]);
                fused = head.nodes(self.sequence, &ids, nodes.iter().map(parent))?;
                Input::States(&fused)
            }
            None => Input::Ids(&ids),
        };
        let taps = self.head.as_ref().map_or_else(Taps::default, DraftHeadState::taps);
        // All that was fed is on the way to the last node.
        let is_chain = tree.path(last).len() == self.fed.iter().flatten().count();
        let pass = if is_chain {
            self.sequence.feed_input(input, &taps)?
        } else {
            let path = |&node: &usize| tree.path(node).iter().filter_map(|&n| self.fed[n]).collect();
            let depths: Vec<usize> = nodes.iter().map(|&node| tree.nodes()[node].depth - 1).collect();
            let paths = nodes.iter().map(path).collect();
            self.sequence.feed_tree_input(input, self.base, &depths, paths, &taps)?
        };
        if let Some(head) = &mut self.head {
            head.keep(&pass, nodes.len())?;
        }
        let from = if is_chain { nodes.len() - 1 } else { 0 };
        let branches: Vec<Vec<u32>> = nodes[from..].iter().map(|&node| tree.ids(node)).collect();
        let choices = self.choices(&pass, from..nodes.len(), request, count, &branches)?;
        if nodes.len() == 1 {
            proposal.pass_ms.push(growth::since(started));
        }
        Ok(choices)
    }

    /// The drafter only has to read what is forced. A head cannot read several tokens at once.
    fn with_forced(
        &self,
        request: &DraftRequest<'_>,
        proposal: &mut Proposal,
        node: usize,
    ) -> Result<Vec<usize>> {
        let mut run = vec![node];
        if request.grammar.is_none() || self.head.is_some() || !proposal.tree.is_chain() {
            return Ok(run);
        }
        let mut drafts: Vec<u32> = proposal.tree.nodes().iter().map(|node| node.id).collect();
        while drafts.len() < request.room
            && let Some(id) = request.allowed(&drafts)?.only()
            && !request.ends.contains(&id)
            && self.has(id)
        {
            drafts.push(id);
            if !proposal.distributions.is_empty() {
                proposal.distributions.push(Arc::default());
            }
            run.push(proposal.tree.push(run.last().copied(), id, None));
        }
        Ok(run)
    }

    fn has(&self, id: u32) -> bool {
        (id as usize) < self.embeddable
    }

    fn keep(&mut self, nodes: &[usize], of: usize) {
        self.fed.resize(of, None);
        self.fed = nodes.iter().map(|&node| self.fed[node]).collect();
    }
}

impl Proposer for ModelDrafter<'_> {
    fn draft(&mut self, request: &DraftRequest<'_>, _: Option<&mut Sequence>) -> Result<Proposal> {
        growth::propose(self, request)
    }

    fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        target: &Sequence,
        base: usize,
        states: &States,
    ) -> Result<()> {
        let nodes = proposal.tree.nodes();
        if let Some(head) = &mut self.head {
            head.apply(path, states)?;
        }
        if !self.unseen.is_empty() {
            // Nothing was fed: the drafter lacks an id, or no draft was requested.
            self.unseen.extend(path.iter().map(|&node| nodes[node].id));
            self.unseen.push(root);
            return Ok(());
        }
        if self.head.is_some() {
            // The drafts were computed on the head's own outputs; they are fed again with the target's states.
            self.sequence.truncate(self.base);
            self.unseen = path.iter().map(|&node| nodes[node].id).chain([root]).collect();
            return Ok(());
        }
        if self.dense {
            // The step's root is the last slot before `base` here, and slot `base` of the target.
            self.sequence.truncate(self.base - 1);
            self.sequence.append(target, base..base + 1 + path.len())?;
            self.unseen = vec![root];
            return Ok(());
        }
        let seen: Vec<usize> = path.iter().map_while(|&node| self.fed.get(node).copied().flatten()).collect();
        self.sequence.keep(self.base, &seen);
        self.unseen = path[seen.len()..].iter().map(|&node| nodes[node].id).collect();
        self.unseen.push(root);
        Ok(())
    }
}

/// The ids of the drafter's logits, if they are not all.
fn vocabulary<'v>(head: Option<&DraftHeadState<'v>>, sequence: &'v Sequence) -> Option<&'v DraftVocabulary> {
    head.and_then(DraftHeadState::vocabulary).or(sequence.decoder().vocabulary())
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};
    use crate::{
        auto::{CLASSES, Calibration},
        confidence::{ChainTimes, Stopping},
        fit::RowTimes,
    };
    use specreel_model::family::VideoLlm;
    use specreel_tensor::WeightType;

    /// Other choices beside a chain change nothing of the chain, and one that is accepted is followed as if it had been written before.
    #[test]
    fn other_choices_stand_beside_the_chain() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parity/fixtures/gqa_tied");
        let model = VideoLlm::load(dir.as_ref(), WeightType::F32, &mut |_, _| {}).unwrap();
        let read = |ids: &[u32]| {
            let mut sequence = Sequence::new(model.decoder().clone(), 32);
            sequence.feed(ids, &Taps::default()).unwrap();
            sequence
        };
        // A random model gives all tokens about the same; a row costs nothing.
        let target = RowTimes { alone: 1.0, first: 1.0, more: 1e-9 };
        let times = ChainTimes { row: 1e-9, once: 0.0, target, offers: 1.0, others: true };
        let known = Calibration::of([0.5; CLASSES], [1.0; CLASSES]).unwrap();
        let stopping = Stopping::new(&known, &times, None);
        let draft = |drafter: &mut ModelDrafter<'_>, others: bool| {
            let request = DraftRequest {
                form: Form::Chain,
                unsure: Unsure::Unprofitable(&stopping),
                depth: 4,
                room: 4,
                ends: &[],
                special: &[],
                vocab: model.decoder().config().vocab,
                sampler: None,
                distributions: false,
                others,
                position: 0,
                grammar: None,
                history: None,
                forced: &[],
            };
            drafter.draft(&request, None).unwrap()
        };
        let first = |proposal: &Proposal| -> Vec<u32> {
            let nodes = proposal.tree.nodes();
            let next = |parent: Option<usize>| (0..nodes.len()).find(|node| nodes[*node].parent == parent);
            std::iter::successors(next(None), |node| next(Some(*node))).map(|node| nodes[node].id).collect()
        };
        let prompt = [9, 31, 44];
        let (mut alone, mut beside) = (read(&prompt), read(&prompt));
        let chain = draft(&mut ModelDrafter::new(&mut alone, 17, false), false);
        let mut drafter = ModelDrafter::new(&mut beside, 17, false);
        let tree = draft(&mut drafter, true);
        assert!(chain.tree.is_chain() && chain.tree.len() == 4 && tree.tree.len() > 8, "{tree:?}");
        assert_eq!(first(&tree), first(&chain));
        // The second draft's other choice is accepted.
        let nodes = tree.tree.nodes();
        let other = (2..nodes.len()).find(|node| nodes[*node].depth == 2 && *node > 3).unwrap();
        let path = tree.tree.path(other);
        let (target, states) = (read(&prompt), States::new(Vec::new(), model.decoder().width()).unwrap());
        drafter.commit(&tree, &path, 5, &target, 0, &states).unwrap();
        let written: Vec<u32> = [9, 31, 44, 17].into_iter().chain(tree.tree.ids(other)).collect();
        let mut fresh = read(&written);
        assert_eq!(
            first(&draft(&mut drafter, true)),
            first(&draft(&mut ModelDrafter::new(&mut fresh, 5, false), false))
        );
    }
}
