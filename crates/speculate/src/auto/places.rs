//! What a step says about a drafter.

use crate::{draft::Proposal, fit::Place};
use specreel_record::Token;

/// The places that a step has judged: one for each accepted draft of `path`, and one for the target's own
/// token, the last of `tokens`, if something was drafted there. Tokens that a grammar forced first are left out.
pub(crate) fn places(proposal: &Proposal, path: &[usize], tokens: &[Token]) -> Vec<Place> {
    let Some(drafts) = path.get(proposal.forced..) else { return Vec::new() };
    let nodes = proposal.tree.nodes();
    let mut parent = proposal.forced.checked_sub(1);
    let mut places = Vec::with_capacity(drafts.len() + 1);
    let own = tokens.iter().skip(proposal.forced);
    for (accepted, token) in drafts.iter().copied().map(Some).chain([None]).zip(own) {
        let Some(first) = (0..nodes.len()).find(|node| nodes[*node].parent == parent) else { break };
        let (probability, sure) = (proposal.confidence(first), token.probability.unwrap_or(1.0));
        places.push(Place { passed: accepted == Some(first), probability, sure });
        parent = accepted;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use specreel_record::Verdict;

    #[test]
    fn places_say_whether_the_first_choice_was_the_target_s() {
        // root - 0 - 2, and 1 as a sibling of 0.
        let mut tree = Tree::default();
        let first = tree.push(None, 10, Some(0.75));
        tree.push(None, 11, None);
        tree.push(Some(first), 12, None);
        // The target is surer from token to token.
        let token = |at: usize| {
            let probability = Some(0.5 + 0.1 * at as f32);
            Token { probability, ..Token::new(50, "", Verdict::Plain) }
        };
        let place = |at: usize, passed, probability| Place {
            passed,
            probability,
            sure: token(at).probability.unwrap(),
        };
        let of = |proposal: &Proposal, path: &[usize]| {
            places(proposal, path, &(0..=path.len()).map(token).collect::<Vec<_>>())
        };
        let drafted = Proposal { tree, ..Proposal::default() };
        assert_eq!(of(&drafted, &[]), [place(0, false, Some(0.75))]);
        assert_eq!(of(&drafted, &[1]), [place(0, false, Some(0.75))]);
        assert_eq!(of(&drafted, &[0]), [place(0, true, Some(0.75)), place(1, false, None)]);
        assert_eq!(of(&drafted, &[0, 2]), [place(0, true, Some(0.75)), place(1, true, None)]);
        // A chain after a forced token.
        let chain = Proposal { tree: Tree::chain([5, 6, 7]), forced: 1, ..Proposal::default() };
        assert_eq!(of(&chain, &[0]), [place(1, false, None)]);
        assert_eq!(of(&chain, &[0, 1]), [place(1, true, None), place(2, false, None)]);
        assert_eq!(of(&Proposal::default(), &[]), []);
    }
}
