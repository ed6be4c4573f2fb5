//! What differs between two texts, word by word.
//!
//! Words, numbers and punctuation marks are compared one by one; white space is ignored. Scripts without spaces are split at
//! Unicode word boundaries (UAX #29). The result is a shortest edit script (Myers, 1986).

use similar::{Algorithm, DiffOp, capture_diff_slices};
use unicode_segmentation::UnicodeSegmentation;

/// Whether words are in both texts or in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Same,
    /// In the old text only.
    Deleted,
    /// In the new text only.
    Inserted,
}

/// One operation of the edit script: neighboring words with the same [`Change`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub change: Change,
    /// The words, with one space where white space separates them.
    pub text: String,
    /// White space precedes them.
    pub spaced: bool,
}

/// The edit script that turns `old` into `new`, in reading order; of replaced words, the old ones come first.
///
/// ```
/// use specreel_record::{Change, difference};
///
/// let edits = difference("A red disc.", "A blue disc.");
/// let changes: Vec<_> = edits.iter().map(|p| (p.change, p.text.as_str())).collect();
/// assert_eq!(
///     changes,
///     [(Change::Same, "A"), (Change::Deleted, "red"), (Change::Inserted, "blue"), (Change::Same, "disc.")]
/// );
/// ```
pub fn difference(old: &str, new: &str) -> Vec<Edit> {
    let (old, new) = (words(old), words(new));
    let texts = |words: &[Word<'_>]| -> Vec<String> { words.iter().map(|w| w.text.to_owned()).collect() };
    let mut edits = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &texts(&old), &texts(&new)) {
        match op {
            DiffOp::Equal { old_index, new_index, len } => {
                let mut same = edit(Change::Same, &new[new_index..new_index + len]);
                // At the beginning of one text, in the middle of the other.
                same.spaced |= old[old_index].spaced;
                edits.push(same);
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                edits.push(edit(Change::Deleted, &old[old_index..old_index + old_len]));
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                edits.push(edit(Change::Inserted, &new[new_index..new_index + new_len]));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                edits.push(edit(Change::Deleted, &old[old_index..old_index + old_len]));
                edits.push(edit(Change::Inserted, &new[new_index..new_index + new_len]));
            }
        }
    }
    edits
}

/// A word, and whether white space precedes it.
struct Word<'a> {
    text: &'a str,
    spaced: bool,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut spaced = false;
    let mut words = Vec::new();
    // The space before a caption belongs to the end of the prompt.
    for segment in text.trim().split_word_bounds() {
        if segment.chars().all(char::is_whitespace) {
            spaced = true;
        } else {
            words.push(Word { text: segment, spaced });
            spaced = false;
        }
    }
    words
}

fn edit(change: Change, words: &[Word<'_>]) -> Edit {
    let mut text = String::new();
    for word in words {
        if word.spaced && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word.text);
    }
    Edit { change, text, spaced: words.first().is_some_and(|w| w.spaced) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As people see it: `[-old-]`, `{+new+}`.
    fn marked(old: &str, new: &str) -> String {
        let mut out = String::new();
        for edit in difference(old, new) {
            let space = if edit.spaced { " " } else { "" };
            out += &match edit.change {
                Change::Same => format!("{space}{}", edit.text),
                Change::Deleted => format!("{space}[-{}-]", edit.text),
                Change::Inserted => format!("{space}{{+{}+}}", edit.text),
            };
        }
        out
    }

    #[test]
    fn words_are_replaced_added_and_left_out() {
        assert_eq!(marked("A red disc moves.", "A blue disc moves."), "A [-red-] {+blue+} disc moves.");
        assert_eq!(marked("A disc moves.", "A big disc moves."), "A {+big+} disc moves.");
        assert_eq!(marked("A big disc moves.", "A disc moves."), "A [-big-] disc moves.");
        assert_eq!(marked("A disc.", "A disc. It moves."), "A disc. {+It moves.+}");
    }

    #[test]
    fn punctuation_is_a_word_and_white_space_is_none() {
        assert_eq!(marked("a disc, red", "a disc; red"), "a disc[-,-]{+;+} red");
        assert_eq!(marked(" a\n disc", "a disc "), "a disc");
        assert_eq!(marked("don't 3.5", "don't 3.6"), "don't [-3.5-] {+3.6+}");
    }

    #[test]
    fn a_beginning_keeps_its_distance() {
        assert_eq!(marked("Well, A disc", "A disc"), "[-Well,-] A disc");
        assert_eq!(marked("A disc", "Well, A disc"), "{+Well,+} A disc");
        assert_eq!(marked("One", "Two"), "[-One-]{+Two+}");
    }

    #[test]
    fn nothing_against_something() {
        assert_eq!(marked("", ""), "");
        assert_eq!(marked("", "a b"), "{+a b+}");
        assert_eq!(marked("a b", " "), "[-a b-]");
    }

    #[test]
    fn scripts_without_spaces_are_compared_in_units() {
        assert_eq!(marked("红色圆", "蓝色圆"), "[-红-]{+蓝+}色圆");
    }

    proptest! {
        /// Kept and deleted parts form the old text, kept and inserted parts the new one, white space aside.
        #[test]
        fn both_texts_can_be_read_off(old in "[ab .,红]{0,24}", new in "[ab .,红]{0,24}") {
            let edits = difference(&old, &new);
            let without = |change: Change| -> String {
                edits.iter().filter(|p| p.change != change).map(|p| p.text.replace(' ', "")).collect()
            };
            prop_assert_eq!(without(Change::Inserted), old.replace(' ', ""));
            prop_assert_eq!(without(Change::Deleted), new.replace(' ', ""));
        }
    }
}
