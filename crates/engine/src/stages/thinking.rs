//! Which tokens of an answer are thoughts: those between two marks at its beginning.

use specreel_model::text::TextTokenizer;

/// The marks around a model's thoughts: those of Qwen and others, and of Gemma.
const MARKS: [[&str; 2]; 2] = [["<think>", "</think>"], ["<|channel>", "<channel|>"]];

/// Follows the tokens of one answer.
pub(crate) struct Thinking {
    /// The ids of the marks; none in a vocabulary without them.
    marks: Option<[u32; 2]>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first token.
    Start,
    Thinking,
    Answer,
}

impl Thinking {
    /// For an answer to this prompt, which may end with an open `<think>`.
    pub fn after(prompt: &[u32], tokenizer: &TextTokenizer) -> Self {
        let ids = |marks: [&str; 2]| marks.map(|mark| tokenizer.id(mark).ok());
        let known = MARKS.map(ids).into_iter().find(|ids| ids.iter().all(Option::is_some));
        Self::with(known.unwrap_or_default(), prompt)
    }

    fn with(ids: [Option<u32>; 2], prompt: &[u32]) -> Self {
        let [Some(open), Some(close)] = ids else { return Self { marks: None, state: State::Answer } };
        let last = prompt.iter().rev().find(|id| [open, close].contains(id));
        let state = if last == Some(&open) { State::Thinking } else { State::Start };
        Self { marks: Some([open, close]), state }
    }

    /// Take the next token. True if it is part of the thoughts, or one of the marks around them.
    pub fn push(&mut self, id: u32) -> bool {
        let Some([open, close]) = self.marks else { return false };
        let thinking = self.is_open() || (self.state == State::Start && id == open);
        self.state = if thinking && id != close { State::Thinking } else { State::Answer };
        thinking
    }

    /// The id that ends what the model is thinking, if it is.
    pub(crate) fn end(&self) -> Option<u32> {
        self.marks.filter(|_| self.is_open()).map(|[_, close]| close)
    }

    /// True until the thoughts have ended.
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Thinking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Option<u32>; 2] = [Some(8), Some(9)];

    fn marked(ids: [Option<u32>; 2], prompt: &[u32], answer: &[u32]) -> (Vec<bool>, bool) {
        let mut thinking = Thinking::with(ids, prompt);
        (answer.iter().map(|id| thinking.push(*id)).collect(), thinking.is_open())
    }

    #[test]
    fn thoughts_end_with_their_mark() {
        // The prompt opens them.
        assert_eq!(marked(BOTH, &[1, 8, 2], &[3, 4, 9, 5, 6]), (vec![true, true, true, false, false], false));
        // The prompt opens and closes them.
        assert_eq!(marked(BOTH, &[1, 8, 2, 9], &[3, 4]), (vec![false, false], false));
        // The model opens them.
        assert_eq!(marked(BOTH, &[1], &[8, 4, 9, 5]), (vec![true, true, true, false], false));
        // They never end.
        assert_eq!(marked(BOTH, &[8], &[3, 8, 4]), (vec![true, true, true], true));
        assert_eq!(marked(BOTH, &[8], &[]), (vec![], true));
    }

    #[test]
    fn marks_within_an_answer_are_text() {
        assert_eq!(marked(BOTH, &[1], &[3, 8, 4, 9]), (vec![false; 4], false));
        assert_eq!(marked(BOTH, &[8], &[9, 9, 8, 4]), (vec![true, false, false, false], false));
        assert_eq!(marked(BOTH, &[1], &[9, 8, 4]), (vec![false; 3], false));
        // A vocabulary without them.
        assert_eq!(marked([Some(8), None], &[8], &[3, 8]), (vec![false; 2], false));
    }
}
