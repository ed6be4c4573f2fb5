//! From tokens to words, and to what the words say.
//!
//! A word begins with a token that starts with anything but a letter or digit (a space, a comma), or that follows such a
//! character. The word in the place of a draft goes to the next such token among the drafts; the word that the target
//! wanted is the draft's word so far and the wanted token, whose end is unknown: it is taken as it is.

use specreel_model::text::TextTokenizer;
use specreel_scenes::words::{Says, says};

pub struct Words {
    texts: Vec<String>,
}

/// What the word of a draft says, and what the word of the target.
#[derive(Clone, Copy)]
pub struct Meaning {
    pub draft: Option<Says>,
    pub wanted: Option<Says>,
}

impl Meaning {
    /// One of the two says something.
    pub fn tells(self) -> bool {
        self.draft.is_some() || self.wanted.is_some()
    }

    /// The two say different things.
    pub fn changes(self) -> bool {
        self.draft != self.wanted
    }
}

impl Words {
    pub fn new(tokenizer: &TextTokenizer) -> Self {
        let ids = 0..tokenizer.vocabulary() as u32;
        Self { texts: ids.map(|id| tokenizer.token_text(id)).collect() }
    }

    pub fn text(&self, id: u32) -> &str {
        self.texts.get(id as usize).map_or("", String::as_str)
    }

    /// True if a word begins with `id`, which follows `before`.
    fn begins(&self, before: Option<u32>, id: u32) -> bool {
        let open = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        open(self.text(id).chars().next()) || before.is_none_or(|id| open(self.text(id).chars().next_back()))
    }

    /// What is said in the place of `draft`, after `before` and followed by `after`, and what `wanted` would say there.
    pub fn meaning(&self, before: &[u32], draft: u32, after: &[u32], wanted: u32) -> Meaning {
        Meaning { draft: self.says(before, draft, after), wanted: self.says(before, wanted, &[]) }
    }

    fn says(&self, before: &[u32], id: u32, after: &[u32]) -> Option<Says> {
        let mut word = Vec::new();
        let mut next = id;
        for place in (0..before.len()).rev() {
            if self.begins(Some(before[place]), next) {
                break;
            }
            next = before[place];
            word.insert(0, next);
        }
        word.push(id);
        for &more in after {
            if self.begins(word.last().copied(), more) {
                break;
            }
            word.push(more);
        }
        let word: String = word.iter().map(|&id| self.text(id)).collect();
        says(word.trim_matches(|c: char| !c.is_alphanumeric()))
    }

    /// The words that a chain of drafts consists of, as ranges; the first may have begun before the chain.
    pub fn ranges(&self, last: Option<u32>, drafts: &[u32]) -> Vec<std::ops::Range<usize>> {
        let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
        for (place, &id) in drafts.iter().enumerate() {
            let before = place.checked_sub(1).map_or(last, |before| Some(drafts[before]));
            match ranges.last_mut() {
                Some(range) if !self.begins(before, id) => range.end = place + 1,
                _ => ranges.push(place..place + 1),
            }
        }
        ranges
    }
}
