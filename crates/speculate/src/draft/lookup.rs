//! Prompt lookup: repeats what followed the same n-gram earlier, up to the next special token.

use specreel_tensor::Result;

use super::{DraftRequest, Proposal, Proposer};
use specreel_model::decoder::{Sequence, States};

/// Drafts from the prompt and the text so far, without a model.
pub struct Lookup {
    ids: Vec<u32>,
    ngram: usize,
}

impl Lookup {
    /// `ids` are the prompt's, its last the root; n-grams of at most `ngram` tokens are searched for.
    pub fn new(ids: Vec<u32>, ngram: usize) -> Self {
        Self { ids, ngram }
    }

    /// The tokens after the latest earlier occurrence of the longest n-gram that occurs.
    fn continuation(&self, length: usize) -> &[u32] {
        let n = self.ids.len();
        for run in (1..=self.ngram.min(n.saturating_sub(1))).rev() {
            let last = &self.ids[n - run..];
            if let Some(at) = (0..n - run).rev().find(|&at| &self.ids[at..at + run] == last) {
                let start = at + run;
                return &self.ids[start..(start + length).min(n)];
            }
        }
        &[]
    }
}

impl Proposer for Lookup {
    fn draft(&mut self, request: &DraftRequest<'_>) -> Result<Proposal> {
        let mut proposal = Proposal::default();
        let mut parent = None;
        for &id in self.continuation(request.depth) {
            // Chat markup and video placeholders are not words. Where a turn ended, the caption may end, too.
            let word = !request.special.contains(&id) || request.ends.contains(&id);
            if id as usize >= request.vocab || !word {
                break;
            }
            parent = Some(proposal.tree.push(parent, id, None));
            if request.ends.contains(&id) {
                break;
            }
        }
        Ok(proposal)
    }

    fn commit(
        &mut self,
        proposal: &Proposal,
        path: &[usize],
        root: u32,
        _: &Sequence,
        _: usize,
        _: &States,
    ) -> Result<()> {
        let nodes = proposal.tree.nodes();
        self.ids.extend(path.iter().map(|&node| nodes[node].id));
        self.ids.push(root);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Form, *};

    fn drafted(ids: &[u32], ends: &[u32], special: &[u32]) -> Vec<u32> {
        let (form, sampler) = (Form::Chain, None);
        let request = DraftRequest {
            form,
            depth: 9,
            ends,
            special,
            vocab: 50,
            sampler,
            distributions: false,
            position: 0,
        };
        let proposal = Lookup::new(ids.into(), 3).draft(&request).unwrap();
        proposal.tree.nodes().iter().map(|node| node.id).collect()
    }

    #[test]
    fn nothing_is_repeated_beyond_the_next_special_token() {
        // After 1, 2 came 3, a special token and more.
        let ids = [1, 2, 3, 40, 4, 1, 2];
        assert_eq!(drafted(&ids, &[], &[]), [3, 40, 4, 1, 2]);
        assert_eq!(drafted(&ids, &[], &[40]), [3]);
        // An end token is drafted, and is the last.
        assert_eq!(drafted(&ids, &[40], &[40]), [3, 40]);
        assert_eq!(drafted(&[1, 2, 3, 50, 4, 1, 2], &[], &[]), [3]);
        assert!(drafted(&[1, 2, 40, 3, 1, 2], &[], &[40]).is_empty());
    }

    #[test]
    fn the_longest_and_latest_run_is_continued() {
        let of = |ids: &[u32], ngram, length| Lookup::new(ids.into(), ngram).continuation(length).to_vec();
        assert_eq!(of(&[1, 2, 3, 9, 1, 2, 4, 8, 1, 2], 3, 2), [4, 8]);
        assert_eq!(of(&[7, 1, 2, 3, 5, 1, 2, 4, 7, 1, 2], 3, 9), [3, 5, 1, 2, 4, 7, 1, 2]);
        assert_eq!(of(&[5, 5, 5], 2, 4), [5]);
        assert!(of(&[1, 2, 3], 3, 4).is_empty() && of(&[1], 3, 4).is_empty() && of(&[], 3, 4).is_empty());
    }
}
