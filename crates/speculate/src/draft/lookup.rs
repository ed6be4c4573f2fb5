//! Prompt lookup: repeats what followed the same n-gram earlier, up to the next special token.
//!
//! The rule is vLLM's n-gram proposer's: the longest suffix of prompt and caption, of `min` to `max` tokens, that occurs earlier,
//! overlapping the suffix or not. vLLM takes its first occurrence; [`Occurrence`] says which is taken here. vLLM ends a draft where
//! the text ends. Here it continues with its own tokens, so that a text that repeats itself is continued at full length.
//!
//! A search follows the chain of earlier occurrences of the last token, as deflate does, and not the whole text.

use std::{collections::HashMap, ops::RangeInclusive};

use specreel_tensor::Result;

use super::{DraftRequest, Proposal, Proposer};
use crate::Occurrence;
use specreel_model::decoder::{Sequence, States};

/// Drafts from the prompt and the text so far, without a model.
pub struct Lookup {
    ids: Vec<u32>,
    /// For each token the latest earlier slot of the same id.
    previous: Vec<Option<usize>>,
    /// The latest slot of each id.
    latest: HashMap<u32, usize>,
    ngram: RangeInclusive<usize>,
    occurrence: Occurrence,
}

impl Lookup {
    /// `ids` are the prompt's, its last the root; n-grams of these lengths are searched for.
    pub fn new(ids: &[u32], ngram: RangeInclusive<usize>, occurrence: Occurrence) -> Self {
        let (previous, latest) = (Vec::with_capacity(ids.len()), HashMap::new());
        let mut lookup = Self { ids: Vec::with_capacity(ids.len()), previous, latest, ngram, occurrence };
        ids.iter().for_each(|&id| lookup.push(id));
        lookup
    }

    fn push(&mut self, id: u32) {
        self.previous.push(self.latest.insert(id, self.ids.len()));
        self.ids.push(id);
    }

    /// Take back the last token.
    fn pop(&mut self) {
        let (Some(id), Some(previous)) = (self.ids.pop(), self.previous.pop()) else { return };
        match previous {
            Some(slot) => self.latest.insert(id, slot),
            None => self.latest.remove(&id),
        };
    }

    /// The slot after the occurrence that is continued.
    fn source(&self) -> Option<usize> {
        let (&shortest, &longest) = (self.ngram.start(), self.ngram.end());
        let last = self.ids.len().checked_sub(1)?;
        let earlier = std::iter::successors(self.previous[last], |&slot| self.previous[slot]);
        let mut best = None;
        for slot in earlier {
            let suffix = self.ids.iter().rev().take(longest);
            let shared = suffix.zip(self.ids[..=slot].iter().rev()).take_while(|(a, b)| a == b).count();
            let found = best.map_or(0, |(length, _)| length);
            // Slots descend: of equal lengths, the later ones are met first.
            let first = self.occurrence == Occurrence::First;
            if shared >= shortest && (shared > found || first && shared == found) {
                best = Some((shared, slot + 1));
            }
            if shared == longest && !first {
                break;
            }
        }
        best.map(|(_, start)| start)
    }

    /// At most `length` tokens: those after the occurrence, and after the end of the text the draft's own.
    fn continuation(&self, length: usize) -> Vec<u32> {
        let Some(start) = self.source() else { return Vec::new() };
        let period = self.ids.len() - start;
        (0..length).map(|index| self.ids[start + index % period]).collect()
    }
}

impl Proposer for Lookup {
    fn draft(&mut self, request: &DraftRequest<'_>) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let mut parent = proposal.trunk();
        let mut drafts = request.forced.to_vec();
        drafts.iter().for_each(|&id| self.push(id));
        let continuation = self.continuation(request.depth - drafts.len());
        drafts.iter().for_each(|_| self.pop());
        for id in continuation {
            // Chat markup and video placeholders are not words. Where a turn ended, the caption may also end.
            let word = !request.special.contains(&id) || request.ends.contains(&id);
            if id as usize >= request.vocab || !word || !request.allowed(&drafts)?.allows(id) {
                break;
            }
            parent = Some(proposal.tree.push(parent, id, None));
            drafts.push(id);
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
        path.iter().for_each(|&node| self.push(nodes[node].id));
        self.push(root);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Form, Occurrence::*, *};

    fn drafted(ids: &[u32], ends: &[u32], special: &[u32]) -> Vec<u32> {
        let (form, sampler) = (Form::Chain, None);
        let request = DraftRequest {
            form,
            depth: 5,
            room: 5,
            ends,
            special,
            vocab: 50,
            sampler,
            distributions: false,
            ranks: 1,
            position: 0,
            grammar: None,
            forced: &[],
        };
        let proposal = Lookup::new(ids, 1..=3, Latest).draft(&request).unwrap();
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
    fn the_longest_ngram_is_continued() {
        type Row = (&'static [u32], RangeInclusive<usize>, [&'static [u32]; 2]);
        let table: &[Row] = &[
            // Text, lengths, and the tokens after the latest and the first occurrence.
            (&[1, 2, 3, 9, 1, 2, 4, 8, 1, 2], 1..=3, [&[4, 8], &[3, 9]]),
            (&[7, 1, 2, 3, 5, 1, 2, 4, 7, 1, 2], 1..=3, [&[3, 5], &[3, 5]]),
            (&[7, 1, 2, 3, 5, 1, 2, 4, 7, 1, 2], 1..=2, [&[4, 7], &[3, 5]]),
            (&[6, 2, 3, 1, 2], 1..=3, [&[3, 1], &[3, 1]]),
            (&[6, 2, 3, 1, 2], 2..=3, [&[], &[]]),
            (&[1, 2, 3, 1, 2], 2..=2, [&[3, 1], &[3, 1]]),
            (&[1, 2, 3, 1, 2], 3..=5, [&[], &[]]),
            // An occurrence may overlap the suffix, and the draft continues with itself.
            (&[5, 5, 5], 2..=2, [&[5, 5], &[5, 5]]),
            (&[4, 5, 5], 1..=2, [&[5, 5], &[5, 5]]),
            (&[1, 2, 3], 1..=3, [&[], &[]]),
            (&[1], 1..=3, [&[], &[]]),
            (&[], 1..=3, [&[], &[]]),
        ];
        for (ids, ngram, want) in table {
            let of = |occurrence| Lookup::new(ids, ngram.clone(), occurrence).continuation(2);
            assert_eq!([of(Latest), of(First)], want.map(<[u32]>::to_vec), "{ids:?} {ngram:?}");
        }
    }

    /// Every start of every length is tried.
    fn searched(ids: &[u32], ngram: RangeInclusive<usize>, occurrence: Occurrence) -> Option<usize> {
        ngram.rev().filter(|length| *length < ids.len()).find_map(|length| {
            let suffix = &ids[ids.len() - length..];
            let mut starts = (0..ids.len() - length).filter(|at| &ids[*at..at + length] == suffix);
            let at = if occurrence == First { starts.next() } else { starts.next_back() };
            at.map(|at| at + length)
        })
    }

    proptest! {
        #[test]
        fn the_chain_finds_what_a_search_of_the_whole_text_finds(
            ids in prop::collection::vec(0..4u32, 0..80),
            min in 1..4usize,
            more in 0..8usize,
        ) {
            for occurrence in [Latest, First] {
                let ngram = min..=min + more;
                let lookup = Lookup::new(&ids, ngram.clone(), occurrence);
                let source = searched(&ids, ngram, occurrence);
                prop_assert_eq!(lookup.source(), source);
                // The draft equals the continuation after appending it.
                let mut text = ids.clone();
                for (index, id) in lookup.continuation(9).into_iter().enumerate() {
                    text.push(id);
                    prop_assert_eq!(id, text[source.unwrap() + index]);
                }
            }
        }
    }
}
