//! The tree that pays off: alternatives where drafts may fail.

use crate::{
    draft::Proposal,
    fit::{Place, RANKS},
    tree::Template,
};
use specreel_record::Token;

/// Deepest tree that is considered.
const DEEPEST: usize = 8;
/// Most nodes.
const MOST: usize = 31;
/// Time of a further row in a drafter's pass, relative to the first.
const FURTHER: f64 = 0.25;

/// The places that a step has judged: one for each accepted draft of `path`, and one for the target's own
/// token, the last of `tokens`, if something was drafted there. Tokens that a grammar forced first are left out.
pub(crate) fn places(proposal: &Proposal, path: &[usize], tokens: &[Token]) -> Vec<Place> {
    let Some(next) = tokens.last().map(|last| last.id) else { return Vec::new() };
    let Some(drafts) = path.get(proposal.forced..) else { return Vec::new() };
    let nodes = proposal.tree.nodes();
    let mut parent = proposal.forced.checked_sub(1);
    let mut places = Vec::with_capacity(drafts.len() + 1);
    let own = tokens.iter().skip(proposal.forced);
    for (accepted, token) in drafts.iter().copied().map(Some).chain([None]).zip(own) {
        let children: Vec<usize> = (0..nodes.len()).filter(|node| nodes[*node].parent == parent).collect();
        let Some(first) = children.first() else { break };
        let others = proposal.others.iter().find(|(node, _)| node == first);
        let probability = proposal.confidence(*first);
        let sure = token.probability.unwrap_or(1.0);
        let place = match (accepted, others.filter(|_| children.len() == 1)) {
            (None, Some((_, others))) => {
                let found = others.iter().position(|id| *id == next).map(|at| at + 1);
                Place { known: 1 + others.len(), found, probability, sure }
            }
            _ => Place {
                known: children.len(),
                found: accepted.and_then(|node| children.iter().position(|child| *child == node)),
                probability,
                sure,
            },
        };
        places.push(place);
        parent = accepted;
    }
    places
}

/// Times of a step's parts, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTimes {
    /// What drafting takes, however much is drafted.
    pub once: f64,
    /// A pass of the drafter over one row. A tree takes one for each level.
    pub level: f64,
    /// The target's pass over one row, and each further row.
    pub first: f64,
    pub more: f64,
}

/// The tree with the most tokens per millisecond, and that rate. `chances` are those that a place's token is the drafter's first,
/// second… choice, once the drafts before it have passed. A node is on the accepted branch with the product of the chances on the way
/// to it, so a step emits `1 + Σ over nodes` of these products on average. For each depth the likeliest nodes are taken, as many as pay
/// off. `None` where that is a chain.
pub(crate) fn best_tree(chances: &[f64; RANKS], times: &StepTimes) -> Option<(Template, f64)> {
    let mut best: Option<(Growing, f64)> = None;
    for depth in 1..=DEEPEST {
        let mut tree = Growing::default();
        let mut emitted = 1.0;
        while tree.nodes.len() < MOST
            && let Some(chance) = tree.grow(chances, depth)
        {
            emitted += chance;
            let rate = emitted / tree.ms(times);
            if best.as_ref().is_none_or(|best| rate > best.1) {
                best = Some((tree.clone(), rate));
            }
        }
    }
    let (Growing { nodes, .. }, rate) = best?;
    nodes.iter().any(|(_, rank)| *rank > 0).then(|| (Template::of(nodes), rate))
}

/// A tree that grows by its likeliest node.
#[derive(Clone, Default)]
struct Growing {
    /// Parent and rank of each node.
    nodes: Vec<(Option<usize>, usize)>,
    depths: Vec<usize>,
    /// For each level the nodes with children, which the drafter reads.
    inner: Vec<usize>,
    /// What may follow: parent, rank, and the chance of the parent.
    open: Vec<(Option<usize>, usize, f64)>,
}

impl Growing {
    /// Add the likeliest node that may follow, and return its chance; `None` if there is none.
    fn grow(&mut self, chances: &[f64; RANKS], deepest: usize) -> Option<f64> {
        if self.nodes.is_empty() {
            self.open.push((None, 0, 1.0));
        }
        let chance = |&(_, rank, before): &(Option<usize>, usize, f64)| before * chances[rank];
        let better = |a: &usize, b: &usize| chance(&self.open[*a]).total_cmp(&chance(&self.open[*b]));
        let at = (0..self.open.len()).max_by(better)?;
        let likeliest = self.open.swap_remove(at);
        let (chance, (parent, rank, before)) = (chance(&likeliest), likeliest);
        let depth = 1 + parent.map_or(0, |parent| self.depths[parent]);
        if depth > 1 && rank == 0 {
            self.inner.resize(self.inner.len().max(depth - 1), 0);
            self.inner[depth - 2] += 1;
        }
        let node = self.nodes.len();
        self.nodes.push((parent, rank));
        self.depths.push(depth);
        if rank + 1 < RANKS && chances[rank + 1] > 0.0 {
            self.open.push((parent, rank + 1, before));
        }
        if depth < deepest {
            self.open.push((Some(node), 0, chance));
        }
        Some(chance)
    }

    /// The time of a step with this tree.
    fn ms(&self, times: &StepTimes) -> f64 {
        let passes = self.inner.iter().map(|rows| 1.0 + FURTHER * rows.saturating_sub(1) as f64);
        let drafting = times.once + times.level * (1.0 + passes.sum::<f64>());
        (drafting + times.first + times.more * self.nodes.len() as f64).max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tree, auto::best_length};
    use specreel_record::Verdict;

    fn times(level: f64, more: f64) -> StepTimes {
        StepTimes { once: 0.0, level, first: 1.0, more }
    }

    #[test]
    fn without_a_second_choice_it_is_a_chain() {
        assert!(best_tree(&[0.8, 0.0, 0.0], &times(0.1, 0.1)).is_none());
        // Nor where further rows cost as much as the tokens are worth, as experts and small models on a processor.
        assert!(best_tree(&[0.8, 0.05, 0.01], &times(0.05, 0.5)).is_none());
    }

    /// Passes as measured: on the embedded pair and its draft head no tree is faster than a chain; on Qwen3-VL-4B with a 2B drafter one is
    /// where half of the drafts fail, and none is where few do.
    #[test]
    fn measured_passes_decide() {
        let later = |chance: f64| [chance, 0.4 * (1.0 - chance), 0.1 * (1.0 - chance)];
        let gain = |chance: f64, level: f64, first: f64, more: f64| {
            let chain = best_length(24, chance, level, first, more).1;
            best_tree(&later(chance), &StepTimes { once: 0.0, level, first, more })
                .map_or(1.0, |tree| tree.1 / chain)
        };
        for chance in [0.5, 0.65, 0.8, 0.95] {
            for level in [0.037, 0.03] {
                assert!(gain(chance, level, 0.17, 0.066) <= 1.0, "{chance} {level}");
            }
        }
        let large = |chance: f64| gain(chance, 66.0, 147.0, 10.6);
        assert!(large(0.5) > 1.03 && large(0.9) < 1.01, "{} and {}", large(0.5), large(0.9));
    }

    /// Rows that cost next to nothing, and a drafter that does not: each place gets alternatives, which the drafter need not read.
    #[test]
    fn alternatives_pay_off_where_rows_are_cheap_and_drafts_are_not() {
        for (chances, level, more) in [([0.5, 0.25, 0.1], 0.3, 0.01), ([0.7, 0.15, 0.05], 0.5, 0.02)] {
            let (tree, rate) = best_tree(&chances, &times(level, more)).unwrap();
            let chain = best_length(24, chances[0], level, 1.0, more).1;
            assert!(rate > 1.05 * chain, "{chances:?}: {rate} and {chain} tokens per millisecond");
            // The rate matches the nodes: with made-up outcomes, as many tokens are emitted on average.
            let chance = |mut node: Option<usize>| {
                let mut product = 1.0;
                while let Some((parent, rank)) = node.map(|node| tree.nodes()[node]) {
                    (product, node) = (product * chances[rank], parent);
                }
                product
            };
            let emitted: f64 = 1.0 + (0..tree.nodes().len()).map(|node| chance(Some(node))).sum::<f64>();
            let ms = emitted / rate;
            assert!(ms > 1.0 + level + more * tree.nodes().len() as f64 - 1e-9, "{ms}");
            assert!(
                tree.nodes().iter().enumerate().all(|(at, node)| node.0.is_none_or(|parent| parent < at))
            );
        }
    }

    #[test]
    fn places_say_which_choice_was_the_target_s() {
        // root - 0 - 2, and 1 as a sibling of 0.
        let mut tree = Tree::default();
        let first = tree.push(None, 10, None);
        tree.push(None, 11, None);
        tree.push(Some(first), 12, None);
        // The target is surer from token to token.
        let token = |at: usize| {
            let probability = Some(0.5 + 0.1 * at as f32);
            Token { probability, ..Token::new(50, "", Verdict::Plain) }
        };
        let place = |at: usize, known, found| Place {
            known,
            found,
            probability: None,
            sure: token(at).probability.unwrap(),
        };
        let of = |proposal: &Proposal, path: &[usize]| {
            places(proposal, path, &(0..=path.len()).map(token).collect::<Vec<_>>())
        };
        let drafted = Proposal { tree, ..Proposal::default() };
        assert_eq!(of(&drafted, &[]), [place(0, 2, None)]);
        assert_eq!(of(&drafted, &[1]), [place(0, 2, Some(1))]);
        assert_eq!(of(&drafted, &[0]), [place(0, 2, Some(0)), place(1, 1, None)]);
        assert_eq!(of(&drafted, &[0, 2]), [place(0, 2, Some(0)), place(1, 1, Some(0))]);
        // A chain whose other choices are known, after a forced token.
        let tree = Tree::chain([5, 6, 7]);
        let chain = Proposal { tree, forced: 1, others: vec![(2, vec![8, 50])], ..Proposal::default() };
        assert_eq!(of(&chain, &[0]), [place(1, 1, None)]);
        assert_eq!(of(&chain, &[0, 1]), [place(1, 1, Some(0)), place(2, 3, Some(2))]);
        assert_eq!(of(&Proposal::default(), &[]), []);
    }

    #[test]
    fn what_drafts_at_once_gets_wider_trees() {
        let chances = [0.6, 0.2, 0.1];
        let once = StepTimes { once: 0.5, ..times(0.0, 0.02) };
        let (at_once, _) = best_tree(&chances, &once).unwrap();
        let (by_level, _) = best_tree(&chances, &times(0.5, 0.02)).unwrap();
        assert!(at_once.nodes().len() > by_level.nodes().len());
    }
}
