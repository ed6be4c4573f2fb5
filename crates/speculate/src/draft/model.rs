//! A drafter that is a decoder: a smaller model, the target itself with fewer visual tokens or fewer layers, or a draft head on
//! the target's states.

use std::{sync::Arc, time::Instant};

use specreel_tensor::Result;

use super::{Branch, DraftHeadState, DraftRequest, Form, Proposal, Proposer, choices};
use crate::tree::Tree;
use choices::{Choices, add, grow};
use specreel_model::{
    decoder::{DraftVocabulary, Input, Pass, Sequence, States, Taps},
    grammar::Allowed,
};

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

    /// Feed the unseen tokens, the root last, and what the grammar forces after it; the choices then. `None` if the drafter lacks one
    /// of the ids, or has none to draft.
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
            proposal.pass_ms.push(since(started));
        }
        Ok(choices.into_iter().next())
    }

    /// Feed nodes of the tree (each one's parent before it); the choices after each, of a chain those after the last.
    fn expand(
        &mut self,
        nodes: &[usize],
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Vec<Choices>> {
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
        let is_chain = tree.is_chain();
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
            proposal.pass_ms.push(since(started));
        }
        Ok(choices)
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
        let allowed = branches.iter().map(|branch| request.allowed(branch));
        let allowed: Vec<Allowed> = allowed.collect::<Result<_>>()?;
        logits.read(&choices::needs(request, count, own), |rows| {
            rows.into_iter()
                .zip(allowed.iter().zip(branches))
                .map(|(row, (allowed, branch))| Choices::of(row, allowed, branch, request, count, own))
                .collect()
        })?
    }

    /// A chain with what the grammar forces after its last node, which the drafter only has to read: the nodes from that one on. A
    /// head cannot read several at once.
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
            && (id as usize) < self.embeddable
        {
            drafts.push(id);
            if !proposal.distributions.is_empty() {
                proposal.distributions.push(Arc::default());
            }
            run.push(proposal.tree.push(run.last().copied(), id, None));
        }
        Ok(run)
    }

    /// True if the branch may continue after this node, up to this depth.
    fn open(&self, request: &DraftRequest<'_>, depth: usize, tree: &Tree, node: usize) -> bool {
        let node = &tree.nodes()[node];
        node.depth < depth && !request.ends.contains(&node.id) && (node.id as usize) < self.embeddable
    }

    /// A chain after each of the root's `branches` best tokens, level by level.
    fn chains(&mut self, request: &DraftRequest<'_>, branches: usize) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let ranks = request.ranks.max(1);
        let Some(choices) = self.begin(request, branches.max(ranks), &mut proposal)? else {
            return Ok(proposal);
        };
        let mut ends = Vec::new();
        let trunk = proposal.trunk();
        for rank in 0..branches {
            let mut branch = Branch::new(request.unsure);
            let first = grow(&mut proposal, trunk, &choices, rank, &mut branch);
            ends.extend(first.map(|node| (node, branch)));
        }
        // Forced tokens are no drafts: a chain may be longer by as many.
        let mut depth = request.depth;
        loop {
            ends.retain(|(node, branch)| {
                branch.goes_on() && self.open(request, depth, &proposal.tree, *node)
            });
            if ends.is_empty() {
                return Ok(proposal);
            }
            if let [(end, mut branch)] = ends[..] {
                let run = self.with_forced(request, &mut proposal, end)?;
                depth = request.room.min(depth + run.len() - 1);
                let end = run[run.len() - 1];
                if proposal.tree.nodes()[end].depth >= request.room {
                    return Ok(proposal);
                }
                let all = self.expand(&run, request, ranks, &mut proposal)?;
                ends = grow(&mut proposal, Some(end), &all[0], 0, &mut branch)
                    .map(|node| (node, branch))
                    .into_iter()
                    .collect();
                continue;
            }
            let nodes: Vec<usize> = ends.iter().map(|end| end.0).collect();
            let all = self.expand(&nodes, request, ranks, &mut proposal)?;
            ends = ends
                .into_iter()
                .zip(&all)
                .filter_map(|((end, mut branch), choices)| {
                    Some((grow(&mut proposal, Some(end), choices, 0, &mut branch)?, branch))
                })
                .collect();
        }
    }

    /// A tree of fixed form: each level's inner nodes are fed together.
    fn template(&mut self, request: &DraftRequest<'_>, form: &[(Option<usize>, usize)]) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let ranks = form.iter().map(|&(_, rank)| rank + 1).max().unwrap_or(1);
        let Some(root) = self.begin(request, ranks, &mut proposal)? else { return Ok(proposal) };
        // For each node of the form its node in the tree, and the choices after it.
        let mut made: Vec<Option<usize>> = vec![None; form.len()];
        let mut after: Vec<Option<Choices>> = (0..form.len()).map(|_| None).collect();
        let mut waiting: Vec<usize> = (0..form.len()).collect();
        loop {
            let mut inner = Vec::new();
            waiting.retain(|&i| {
                let (parent, rank) = form[i];
                let choices = match parent {
                    None => Some(&root),
                    Some(parent) => after[parent].as_ref(),
                };
                let Some(choices) = choices else { return true };
                if let Some(&choice) = choices.best.get(rank) {
                    if !request.unsure.admits(choice.1.exp()) {
                        return false;
                    }
                    let parent = parent.map_or(proposal.trunk(), |parent| made[parent]);
                    let node = add(&mut proposal, parent, choice, choices);
                    made[i] = Some(node);
                    let has_children = form.iter().any(|&(parent, _)| parent == Some(i));
                    if has_children && self.open(request, request.depth, &proposal.tree, node) {
                        inner.push(i);
                    }
                }
                false
            });
            if inner.is_empty() {
                return Ok(proposal);
            }
            let nodes: Vec<usize> = inner.iter().filter_map(|&i| made[i]).collect();
            let all = self.expand(&nodes, request, ranks, &mut proposal)?;
            for (&i, choices) in inner.iter().zip(all) {
                after[i] = Some(choices);
            }
        }
    }

    /// EAGLE-2: on each level but the last, which is `request.depth`, the `width` most likely nodes get `width` children; of all
    /// nodes the `kept` most likely stay. A node is never more likely than its parent, so the kept tree is connected.
    fn dynamic(&mut self, request: &DraftRequest<'_>, kept: usize, width: usize) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let Some(root) = self.begin(request, width, &mut proposal)? else { return Ok(proposal) };
        let mut likelihood: Vec<f32> = vec![0.0; proposal.forced];
        let grow =
            |proposal: &mut Proposal, likelihood: &mut Vec<f32>, parent: Option<usize>, choices: &Choices| {
                let before = parent.map_or(0.0, |parent| likelihood[parent]);
                let mut level = Vec::new();
                let sure = |choice: &&(u32, f32)| request.unsure.admits(choice.1.exp());
                for &choice in choices.best.iter().filter(sure) {
                    level.push(add(proposal, parent, choice, choices));
                    likelihood.push(before + choice.1);
                }
                level
            };
        let trunk = proposal.trunk();
        let mut level = grow(&mut proposal, &mut likelihood, trunk, &root);
        let by =
            |likelihood: &[f32], a: usize, b: usize| likelihood[b].total_cmp(&likelihood[a]).then(a.cmp(&b));
        loop {
            level.retain(|&node| self.open(request, request.depth, &proposal.tree, node));
            level.sort_unstable_by(|&a, &b| by(&likelihood, a, b));
            level.truncate(width);
            level.sort_unstable();
            if level.is_empty() {
                break;
            }
            let all = self.expand(&level, request, width, &mut proposal)?;
            level = level
                .iter()
                .zip(&all)
                .flat_map(|(&node, choices)| grow(&mut proposal, &mut likelihood, Some(node), choices))
                .collect();
        }
        let mut best: Vec<usize> = (0..proposal.tree.len()).collect();
        best.sort_unstable_by(|&a, &b| by(&likelihood, a, b));
        best.truncate(proposal.forced + kept);
        best.sort_unstable();
        self.fed.resize(proposal.tree.len(), None);
        self.fed = best.iter().map(|&node| self.fed[node]).collect();
        proposal.tree = proposal.tree.select(&best);
        if !proposal.distributions.is_empty() {
            proposal.distributions = best.iter().map(|&node| proposal.distributions[node].clone()).collect();
        }
        Ok(proposal)
    }
}

impl Proposer for ModelDrafter<'_> {
    fn draft(&mut self, request: &DraftRequest<'_>) -> Result<Proposal> {
        if request.depth == 0 {
            return Ok(Proposal::forced(request.forced));
        }
        match request.form {
            Form::Chain => self.chains(request, 1),
            Form::TwoBranch => self.chains(request, 2),
            Form::Static(template) => self.template(request, template.nodes()),
            Form::Dynamic { nodes, width } => self.dynamic(request, nodes, width),
        }
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

fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}
