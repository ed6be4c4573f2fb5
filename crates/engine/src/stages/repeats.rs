//! Where a caption that repeats itself is cut.

use crate::loop_guard::{Loop, LoopGuard};
use specreel_record::{OnLoop, Token};

/// Watches a caption for endless repetition.
pub(super) struct Repeats {
    guard: Option<LoopGuard>,
    found: Option<Loop>,
    /// For each token the length of the text up to its end in bytes, and whether a line or sentence ends there.
    ends: Vec<(usize, bool)>,
}

impl Repeats {
    /// Detects nothing if the caption should continue after a loop.
    pub fn new(on_loop: OnLoop) -> Self {
        let guard = (on_loop != OnLoop::Keep).then(LoopGuard::default);
        Self { guard, found: None, ends: Vec::new() }
    }

    /// Take the next token, with which the text has this length in bytes.
    pub fn push(&mut self, token: &Token, length: usize) {
        let Some(guard) = &mut self.guard else { return };
        self.ends.push((length, token.text.ends_with(['\n', '.', '!', '?'])));
        self.found = guard.push(token.id, &token.text);
    }

    /// True once the caption is in a loop.
    pub fn are_endless(&self) -> bool {
        self.found.is_some()
    }

    /// The length of the text up to the first repetition, in bytes.
    pub fn kept(&self) -> usize {
        let is_end = |tokens: usize| tokens.checked_sub(1).is_some_and(|last| self.ends[last].1);
        let tokens = self.found.map_or(self.ends.len(), |found| found.kept_until(is_end));
        tokens.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |(length, _)| *length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::Verdict;

    fn cut(words: &[&str], on_loop: OnLoop) -> Option<(usize, String)> {
        let (mut repeats, mut text) = (Repeats::new(on_loop), String::new());
        for (at, word) in words.iter().enumerate() {
            text.push_str(word);
            let id = words.iter().position(|other| other == word).unwrap() as u32;
            repeats.push(&Token::new(id, *word, Verdict::Plain), text.len());
            if repeats.are_endless() {
                return Some((at + 1, text[..repeats.kept()].to_owned()));
            }
        }
        None
    }

    #[test]
    fn a_text_keeps_the_first_of_the_passages_that_it_repeats() {
        let mut words = vec!["A", " red", " ball", "."];
        (0..200).for_each(|_| words.extend([" It", " rolls", "."]));
        let (tokens, text) = cut(&words, OnLoop::Stop).unwrap();
        assert_eq!(text, "A red ball. It rolls.");
        assert!(tokens < 120, "{tokens}");
        assert_eq!(cut(&words, OnLoop::Keep), None);
        assert_eq!(cut(&words[..40], OnLoop::Retry), None);
    }
}
