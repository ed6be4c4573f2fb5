//! Trees that grow from what a drafter predicts.

use std::time::Instant;

use specreel_tensor::Result;

use super::{
    Branch, DraftRequest, Form, Proposal,
    choices::{Choices, add, grow},
};
use crate::tree::Tree;

/// A drafter that predicts what follows the nodes of its proposal.
pub(super) trait Predictor {
    /// Up to `count` choices after the root and what the grammar forces after it. `None` if the drafter lacks one of the ids, or has
    /// none to draft.
    fn begin(
        &mut self,
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Option<Choices>>;

    /// The choices after nodes of the tree, each one's parent before it; of a chain those after the last.
    fn expand(
        &mut self,
        nodes: &[usize],
        request: &DraftRequest<'_>,
        count: usize,
        proposal: &mut Proposal,
    ) -> Result<Vec<Choices>>;

    /// A chain with what the grammar forces after its last node: the nodes from that one on.
    fn with_forced(
        &self,
        request: &DraftRequest<'_>,
        proposal: &mut Proposal,
        node: usize,
    ) -> Result<Vec<usize>>;

    /// True if the drafter has this id.
    fn has(&self, id: u32) -> bool;

    /// Of the tree's `of` nodes these stay, in this order.
    fn keep(&mut self, nodes: &[usize], of: usize);
}

/// A proposal of the requested form.
pub(super) fn propose(predictor: &mut dyn Predictor, request: &DraftRequest<'_>) -> Result<Proposal> {
    if request.depth == 0 {
        return Ok(Proposal::forced(request.forced));
    }
    match request.form {
        Form::Chain => chains(predictor, request, 1),
        Form::TwoBranch => chains(predictor, request, 2),
        Form::Static(form) => template(predictor, request, form.nodes()),
        Form::Dynamic { nodes, width } => dynamic(predictor, request, nodes, width),
    }
}

/// True if the branch may continue after this node, up to this depth.
fn open(
    predictor: &dyn Predictor,
    request: &DraftRequest<'_>,
    depth: usize,
    tree: &Tree,
    node: usize,
) -> bool {
    let node = &tree.nodes()[node];
    node.depth < depth && !request.ends.contains(&node.id) && predictor.has(node.id)
}

/// A chain after each of the root's `branches` best tokens, level by level.
fn chains(predictor: &mut dyn Predictor, request: &DraftRequest<'_>, branches: usize) -> Result<Proposal> {
    let mut proposal = Proposal::forced(request.forced);
    let count = if branches > 1 { branches } else { request.chain_choices() };
    let Some(choices) = predictor.begin(request, count, &mut proposal)? else {
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
            branch.goes_on() && open(predictor, request, depth, &proposal.tree, *node)
        });
        if ends.is_empty() {
            return Ok(proposal);
        }
        if let [(end, mut branch)] = ends[..] {
            let run = predictor.with_forced(request, &mut proposal, end)?;
            depth = request.room.min(depth + run.len() - 1);
            let end = run[run.len() - 1];
            if proposal.tree.nodes()[end].depth >= request.room {
                return Ok(proposal);
            }
            let all = predictor.expand(&run, request, count, &mut proposal)?;
            let node = grow(&mut proposal, Some(end), &all[0], 0, &mut branch);
            ends = node.map(|node| (node, branch)).into_iter().collect();
            continue;
        }
        let nodes: Vec<usize> = ends.iter().map(|end| end.0).collect();
        let all = predictor.expand(&nodes, request, 1, &mut proposal)?;
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
fn template(
    predictor: &mut dyn Predictor,
    request: &DraftRequest<'_>,
    form: &[(Option<usize>, usize)],
) -> Result<Proposal> {
    let mut proposal = Proposal::forced(request.forced);
    let ranks = form.iter().map(|&(_, rank)| rank + 1).max().unwrap_or(1);
    let Some(root) = predictor.begin(request, ranks, &mut proposal)? else { return Ok(proposal) };
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
                if has_children && open(predictor, request, request.depth, &proposal.tree, node) {
                    inner.push(i);
                }
            }
            false
        });
        if inner.is_empty() {
            return Ok(proposal);
        }
        let nodes: Vec<usize> = inner.iter().filter_map(|&i| made[i]).collect();
        let all = predictor.expand(&nodes, request, ranks, &mut proposal)?;
        for (&i, choices) in inner.iter().zip(all) {
            after[i] = Some(choices);
        }
    }
}

/// EAGLE-2: on each level but the last, which is `request.depth`, the `width` most likely nodes get `width` children; of all
/// nodes the `kept` most likely stay. A node is never more likely than its parent, so the kept tree is connected.
fn dynamic(
    predictor: &mut dyn Predictor,
    request: &DraftRequest<'_>,
    kept: usize,
    width: usize,
) -> Result<Proposal> {
    let mut proposal = Proposal::forced(request.forced);
    let Some(root) = predictor.begin(request, width, &mut proposal)? else { return Ok(proposal) };
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
    let by = |likelihood: &[f32], a: usize, b: usize| likelihood[b].total_cmp(&likelihood[a]).then(a.cmp(&b));
    loop {
        level.retain(|&node| open(predictor, request, request.depth, &proposal.tree, node));
        level.sort_unstable_by(|&a, &b| by(&likelihood, a, b));
        level.truncate(width);
        level.sort_unstable();
        if level.is_empty() {
            break;
        }
        let all = predictor.expand(&level, request, width, &mut proposal)?;
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
    predictor.keep(&best, proposal.tree.len());
    proposal.tree = proposal.tree.select(&best);
    if !proposal.distributions.is_empty() {
        proposal.distributions = best.iter().map(|&node| proposal.distributions[node].clone()).collect();
    }
    Ok(proposal)
}

/// Milliseconds since then.
pub(super) fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}
