//! Prompt lookup: repeats what followed the same n-gram earlier, up to the next special token.
//!
//! The rule is vLLM's n-gram proposer's: the longest suffix of prompt and caption, of `min` to `max` tokens, that occurs earlier,
//! overlapping the suffix or not. vLLM takes its first occurrence; [`Occurrence`] says which is taken here. vLLM ends a draft where
//! the text ends. Here it continues with its own tokens, so that a text that repeats itself is continued at full length.
//!
//! A search follows the chain of earlier occurrences of the last token, as deflate does, and not the whole text. What an occurrence is worth
//! follows from its length, and from how many of the others that are as long agree with it ([`Found::probability`]).
//!
//! A text that is written again with changes (a table with other numbers, code with another name) differs from the first one in single
//! tokens. No long n-gram that includes such a token occurs earlier, but the text continues as the first one does. [`Occurrence::Frequent`]
//! remembers where that is ([`Revision`]) and takes what follows there where the n-grams that it finds say less.

use std::{collections::HashMap, ops::RangeInclusive};

use specreel_tensor::Result;

use super::{Branch, DraftRequest, Foreseen, Proposal, Proposer};
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
    /// What the text seems to repeat, if it is [`Occurrence::Frequent`].
    revision: Option<Revision>,
    /// What it would have drafted for the tokens that were committed last, if it is [`Occurrence::Frequent`].
    foreseen: Vec<Foreseen>,
}

/// An earlier part of the text that is written once more, with changes.
#[derive(Clone, Copy, Debug)]
struct Revision {
    /// The slot of the token that comes next.
    next: usize,
    /// How many of the latest tokens were the same as there, and how many were compared; older ones count less.
    same: f32,
    compared: f32,
}

impl Revision {
    /// Share by which a token counts less than the one after it.
    const MEMORY: f32 = 0.85;
    /// The least probability at which a revision is still followed.
    const LEAST: f32 = 0.5;
    /// An n-gram of so many tokens says where the text goes on, whatever it seemed to repeat.
    const CLEAR: usize = 4;

    /// After an n-gram of so many tokens that occurs before this slot.
    fn after(length: usize, next: usize) -> Self {
        let same = (1.0 - Self::MEMORY.powi(length as i32)) / (1.0 - Self::MEMORY);
        Self { next, same, compared: same }
    }

    /// The text goes on with a token, which is the same as there or not.
    fn step(&mut self, is_same: bool) {
        self.same = self.same * Self::MEMORY + f32::from(u8::from(is_same));
        self.compared = self.compared * Self::MEMORY + 1.0;
        self.next += 1;
    }

    /// How sure the token is that comes after so many others, see [`Found::probability`].
    fn probability(&self, index: usize) -> f32 {
        (self.same + index as f32) / (self.compared + index as f32 + 1.0)
    }
}

/// Most tokens of an occurrence that count for its probability.
const LONG: usize = 32;
/// Most occurrences that are counted.
const MOST_FOUND: usize = 64;

/// Where the end of the text occurs earlier.
struct Found {
    /// Tokens that are the same.
    length: usize,
    /// The slots after the occurrences, the latest first.
    starts: Vec<usize>,
}

impl Found {
    /// How sure a token is that follows `count` of `all` occurrences of so many tokens. Only its order matters: how often such tokens pass
    /// is counted.
    fn probability(length: usize, count: usize, all: usize) -> f32 {
        count as f32 / (all as f32 + 1.0 / length.max(1) as f32)
    }
}

impl Lookup {
    /// `ids` are the prompt's, its last the root, after earlier texts; n-grams of these lengths are searched for.
    pub fn new(ids: &[u32], ngram: RangeInclusive<usize>, occurrence: Occurrence) -> Self {
        let (previous, latest) = (Vec::with_capacity(ids.len()), HashMap::new());
        let ids_read = Vec::with_capacity(ids.len());
        let (revision, foreseen) = (None, Vec::new());
        let mut lookup = Self { ids: ids_read, previous, latest, ngram, occurrence, revision, foreseen };
        ids.iter().for_each(|&id| lookup.push(id));
        lookup
    }

    fn push(&mut self, id: u32) {
        self.previous.push(self.latest.insert(id, self.ids.len()));
        self.ids.push(id);
    }

    /// Add a token of the text, which may be one that is written once more.
    fn write(&mut self, id: u32) {
        if let Some(revision) = &mut self.revision {
            revision.step(self.ids.get(revision.next) == Some(&id));
        }
        self.push(id);
    }

    /// Take back the last token.
    fn pop(&mut self) {
        let (Some(id), Some(previous)) = (self.ids.pop(), self.previous.pop()) else { return };
        match previous {
            Some(slot) => self.latest.insert(id, slot),
            None => self.latest.remove(&id),
        };
    }

    /// The occurrences of the longest n-gram before the end of the text; none if it is shorter than the shortest.
    fn found(&self) -> Found {
        let (&shortest, &longest) = (self.ngram.start(), self.ngram.end());
        let mut found = Found { length: shortest.max(1), starts: Vec::new() };
        let Some(last) = self.ids.len().checked_sub(1) else { return found };
        // Slots descend: the latest ones come first.
        for slot in std::iter::successors(self.previous[last], |&slot| self.previous[slot]) {
            let suffix = self.ids.iter().rev().take(longest);
            let shared = suffix.zip(self.ids[..=slot].iter().rev()).take_while(|(a, b)| a == b).count();
            if shared > found.length {
                found = Found { length: shared, starts: Vec::new() };
            }
            if shared == found.length {
                match self.occurrence {
                    Occurrence::Latest if !found.starts.is_empty() => {}
                    Occurrence::First => found.starts = vec![slot + 1],
                    _ => found.starts.push(slot + 1),
                }
            }
            let is_enough = match self.occurrence {
                Occurrence::Latest => shared == longest,
                Occurrence::First => false,
                Occurrence::Frequent => found.starts.len() == MOST_FOUND,
            };
            if is_enough {
                break;
            }
        }
        if let [start] = found.starts[..] {
            found.length = self.shared(start);
        }
        found
    }

    /// How many tokens before this slot are those at the end of the text, up to [`LONG`].
    fn shared(&self, start: usize) -> usize {
        let suffix = self.ids.iter().rev().take(LONG);
        suffix.zip(self.ids[..start].iter().rev()).take_while(|(a, b)| a == b).count()
    }

    /// The token so many places after an occurrence; after the end of the text come the draft's own tokens.
    fn after(&self, start: usize, index: usize) -> u32 {
        self.ids[start + index % (self.ids.len() - start)]
    }

    /// At most `length` tokens that seem to follow, each with a probability.
    fn continuation(&mut self, length: usize) -> Vec<(u32, f32)> {
        let found = self.found();
        let all: Vec<(u32, f32)> = self.after_found(&found, length).collect();
        if self.occurrence == Occurrence::Frequent
            && self.revision.is_none_or(|revision| !found.starts.contains(&revision.next))
        {
            let goes_on = self.revision.filter(|revision| {
                found.length < Revision::CLEAR && revision.probability(0) >= Revision::LEAST
            });
            if let Some(revision) = goes_on {
                if all.first().is_none_or(|first| first.1 < revision.probability(0)) {
                    let same = |at| (self.after(revision.next, at), revision.probability(at));
                    return (0..length).map(same).collect();
                }
            } else if let [latest, ..] = found.starts[..] {
                self.revision = Some(Revision::after(found.length, latest));
            }
        }
        all
    }

    /// At most `length` tokens that follow what was found, each with a probability.
    fn after_found(&self, found: &Found, length: usize) -> impl Iterator<Item = (u32, f32)> {
        let mut found = Found { length: found.length, starts: found.starts.clone() };
        (0..length).map_while(move |index| {
            let all = found.starts.len();
            let ids: Vec<u32> = found.starts.iter().map(|&start| self.after(start, index)).collect();
            let count = |id: u32| ids.iter().filter(|other| **other == id).count();
            // Of those that are as frequent, the latest.
            let id =
                ids.iter().copied().reduce(|best, id| if count(id) > count(best) { id } else { best })?;
            found.starts.retain(|&start| self.after(start, index) == id);
            Some((id, Found::probability(found.length + index, found.starts.len(), all)))
        })
    }
}

impl Proposer for Lookup {
    fn draft(&mut self, request: &DraftRequest<'_>, _: Option<&mut Sequence>) -> Result<Proposal> {
        let mut proposal = Proposal::forced(request.forced);
        let mut parent = proposal.trunk();
        let mut drafts = request.forced.to_vec();
        let before = self.revision;
        drafts.iter().for_each(|&id| self.write(id));
        let continuation = self.continuation(request.depth - drafts.len());
        drafts.iter().for_each(|_| self.pop());
        if !drafts.is_empty() {
            self.revision = before;
        }
        proposal.scores = vec![1.0; proposal.forced];
        let mut branch = Branch::new(request.unsure);
        for (id, probability) in continuation {
            // Chat markup and video placeholders are not words. Where a turn ended, the caption may also end.
            let word = !request.special.contains(&id) || request.ends.contains(&id);
            if id as usize >= request.vocab || !word || !request.allowed(&drafts)?.allows(id) {
                break;
            }
            if !branch.take(probability) {
                proposal.unsure = Some(probability);
                break;
            }
            parent = Some(proposal.tree.push(parent, id, None));
            proposal.scores.push(probability);
            drafts.push(id);
            if request.ends.contains(&id) || !branch.goes_on() {
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
        self.foreseen.clear();
        for id in path.iter().map(|&node| nodes[node].id).chain([root]) {
            if self.occurrence == Occurrence::Frequent {
                let draft = self.continuation(1).pop();
                self.foreseen.push(draft.map(|(draft, probability)| (probability, draft == id)));
            }
            self.write(id);
        }
        Ok(())
    }

    fn foreseen(&self) -> &[Foreseen] {
        &self.foreseen
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{Form, Unsure},
        Occurrence::*,
        *,
    };

    fn drafted(ids: &[u32], ends: &[u32], special: &[u32]) -> Vec<u32> {
        let (form, sampler) = (Form::Chain, None);
        let request = DraftRequest {
            form,
            unsure: Unsure::Never,
            depth: 5,
            room: 5,
            ends,
            special,
            vocab: 50,
            sampler,
            distributions: false,
            others: false,
            position: 0,
            grammar: None,
            history: None,
            forced: &[],
        };
        let proposal = Lookup::new(ids, 1..=3, Latest).draft(&request, None).unwrap();
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
            let of = |occurrence| -> Vec<u32> {
                let continuation = Lookup::new(ids, ngram.clone(), occurrence).continuation(2);
                continuation.into_iter().map(|(id, _)| id).collect()
            };
            assert_eq!([of(Latest), of(First)], want.map(<[u32]>::to_vec), "{ids:?} {ngram:?}");
        }
    }

    #[test]
    fn the_most_frequent_continuation_is_taken_with_its_share() {
        // After 1, 2 came 3 twice and 4 once, at last.
        let ids = [1, 2, 3, 6, 1, 2, 3, 7, 1, 2, 4, 8, 1, 2];
        let of = |occurrence| Lookup::new(&ids, 1..=2, occurrence).continuation(3);
        let (frequent, latest) = (of(Frequent), of(Latest));
        let ids = |all: &[(u32, f32)]| all.iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!((ids(&frequent), ids(&latest)), (vec![3, 7, 1], vec![4, 8, 1]));
        // Two of three; then one of two; then the only one, surer with each token.
        let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
        assert!(
            near(frequent[0].1, 2.0 / 3.5) && near(frequent[1].1, 1.0 / (2.0 + 1.0 / 3.0)),
            "{frequent:?}"
        );
        assert!(frequent[2].1 > 0.79 && latest.is_sorted_by(|a, b| a.1 < b.1), "{frequent:?} {latest:?}");
    }

    /// A table that is written again with other numbers. After each new number the rest of its row is drafted, though "| 32" occurs
    /// nowhere; the vLLM rules draft nothing of it.
    #[test]
    fn a_text_that_is_written_again_with_changes_is_followed() {
        let row = |name: u32, age: u32, city: u32| [1, name, 2, age, 3, city, 4];
        let rows = [(10, 31, 20), (11, 27, 21), (12, 45, 22), (13, 38, 23)];
        let table = |more: u32| rows.map(|(name, age, city)| row(name, age + more, city)).concat();
        let prompt = [vec![9, 8], table(0), vec![7, 1]].concat();
        let text = table(50);
        let steps = |occurrence| {
            let mut lookup = Lookup::new(&prompt, 1..=16, occurrence);
            let (mut written, mut steps) = (1, 0);
            while written < text.len() {
                let drafts = lookup.continuation(8);
                let rest = &text[written..text.len() - 1];
                let accepted = drafts.iter().zip(rest).take_while(|(draft, id)| draft.0 == **id).count();
                text[written..=written + accepted].iter().for_each(|&id| lookup.write(id));
                (written, steps) = (written + accepted + 1, steps + 1);
            }
            steps
        };
        // The name of the first row, and up to each number and through to the next.
        assert_eq!(steps(Frequent), rows.len() + 2);
        assert!(steps(Latest) > 2 * rows.len());
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
                let mut lookup = Lookup::new(&ids, ngram.clone(), occurrence);
                let source = searched(&ids, ngram, occurrence);
                prop_assert_eq!(lookup.found().starts.first().copied(), source);
                // The draft equals the continuation after appending it.
                let mut text = ids.clone();
                for (index, (id, _)) in lookup.continuation(9).into_iter().enumerate() {
                    text.push(id);
                    prop_assert_eq!(id, text[source.unwrap() + index]);
                }
            }
        }
    }
}
