//! A line of text that is typed: its caret, and how keys edit it.

use unicode_segmentation::UnicodeSegmentation;

use crate::look::{Key, KeyCode};
use crate::tui::{effect::Wanted, text};

const MAX_BYTES: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputLine {
    pub text: String,
    caret: Caret,
}

impl InputLine {
    /// A line that is edited at its end.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), caret: Caret::default() }
    }

    /// A suggested value, which is selected as a whole, so that typing replaces it.
    pub fn suggested(text: impl Into<String>) -> Self {
        Self { text: text.into(), caret: Caret::ALL }
    }

    /// The text before the caret, and after it.
    pub fn split(&self) -> (&str, &str) {
        self.caret.split(&self.text)
    }

    pub fn is_selected(&self) -> bool {
        self.caret.selects
    }

    /// Type a text, without what cannot be in a line. True if the line has changed.
    pub fn insert(&mut self, typed: &str) -> bool {
        self.change(|line, caret| caret.insert(line, &text::clean_line(typed)))
    }

    /// Apply a key: one that types a character, moves the caret or deletes. True if the line has changed.
    pub fn press(&mut self, key: Key) -> bool {
        match key.typed() {
            Some(c) => self.insert(c.encode_utf8(&mut [0; 4])),
            None => self.change(|line, caret| caret.press(line, key)),
        }
    }

    /// Delete the text before the caret. True if there was some.
    pub fn clear(&mut self) -> bool {
        self.change(|line, caret| caret.clear(line))
    }

    fn change(&mut self, change: impl FnOnce(&mut String, &mut Caret)) -> bool {
        let before = self.text.clone();
        change(&mut self.text, &mut self.caret);
        self.text != before
    }
}

/// A path that is typed, with its completions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathLine {
    pub line: InputLine,
    pub found: Vec<String>,
    /// What it is completed to.
    pub wanted: Wanted,
}

impl PathLine {
    /// The completion of what was typed before the caret; the paths are those that it may mean.
    pub fn complete(&mut self, typed: &str, completed: &str, found: Vec<String>) {
        if self.line.split().0 == typed {
            let InputLine { text, caret } = &mut self.line;
            caret.clear(text);
            caret.insert(text, completed);
            self.found = if found.len() > 1 { found } else { Vec::new() };
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Caret {
    /// The number of graphemes after it, so that a replaced line is edited at its end.
    after: usize,
    /// The whole line is selected: typing replaces it.
    selects: bool,
}

impl Caret {
    /// At the end of a line that is selected as a whole.
    const ALL: Self = Self { after: 0, selects: true };

    fn split(self, line: &str) -> (&str, &str) {
        line.split_at(self.at(line))
    }

    fn at(self, line: &str) -> usize {
        match self.after {
            0 => line.len(),
            n => line.grapheme_indices(true).rev().nth(n - 1).map_or(0, |(i, _)| i),
        }
    }

    fn set(&mut self, line: &str, at: usize) {
        self.after = line.get(at..).map_or(0, |after| after.graphemes(true).count());
    }

    fn insert(&mut self, line: &mut String, text: &str) {
        if std::mem::take(&mut self.selects) {
            line.clear();
        }
        if line.len() + text.len() <= MAX_BYTES {
            let at = self.at(line);
            line.insert_str(at, text);
            // The text may form a grapheme with what follows it.
            self.set(line, at + text.len());
        }
    }

    /// Apply a key that moves the caret or deletes. Other keys do nothing.
    fn press(&mut self, line: &mut String, key: Key) {
        let selects = std::mem::take(&mut self.selects);
        if selects && matches!(key.code, KeyCode::Backspace | KeyCode::Delete) {
            return line.clear();
        }
        let at = self.at(line);
        let (before, after) = line.split_at(at);
        let left = before.grapheme_indices(true).next_back().map_or(0, |(i, _)| i);
        let right = at + after.graphemes(true).next().map_or(0, str::len);
        let by_word = key.ctrl || key.alt;
        match key.code {
            KeyCode::Left if by_word => self.set(line, word_before(line, at)),
            KeyCode::Right if by_word => self.set(line, word_after(line, at)),
            KeyCode::Char('b') if key.alt => self.set(line, word_before(line, at)),
            KeyCode::Char('f') if key.alt => self.set(line, word_after(line, at)),
            KeyCode::Left => self.set(line, left),
            KeyCode::Right => self.set(line, right),
            KeyCode::Char('b') if key.ctrl => self.set(line, left),
            KeyCode::Char('f') if key.ctrl => self.set(line, right),
            KeyCode::Home => self.set(line, 0),
            KeyCode::Char('a') if key.ctrl => self.set(line, 0),
            KeyCode::End => self.after = 0,
            KeyCode::Char('e') if key.ctrl => self.after = 0,
            KeyCode::Char('w') if key.ctrl => self.delete(line, word_before(line, at), at),
            KeyCode::Backspace if by_word => self.delete(line, word_before(line, at), at),
            KeyCode::Backspace => self.delete(line, left, at),
            KeyCode::Char('h') if key.ctrl => self.delete(line, left, at),
            KeyCode::Char('d') if key.alt => self.delete(line, at, word_after(line, at)),
            KeyCode::Delete if by_word => self.delete(line, at, word_after(line, at)),
            KeyCode::Delete => self.delete(line, at, right),
            KeyCode::Char('d') if key.ctrl => self.delete(line, at, right),
            KeyCode::Char('k') if key.ctrl => self.delete(line, at, line.len()),
            _ => {}
        }
    }

    fn clear(self, line: &mut String) {
        line.drain(..self.at(line));
    }

    fn delete(&mut self, line: &mut String, from: usize, to: usize) {
        line.drain(from..to);
        self.set(line, from);
    }
}

/// Word separators, including those of paths.
const BETWEEN: [char; 2] = [' ', '/'];

/// The start of the word at `at`, or of the one before it.
fn word_before(line: &str, at: usize) -> usize {
    let before = line.get(..at).unwrap_or_default().trim_end_matches(BETWEEN);
    before.rfind(BETWEEN).map_or(0, |i| i + 1)
}

fn word_after(line: &str, at: usize) -> usize {
    let after = line.get(at..).unwrap_or_default();
    let word = after.trim_start_matches(BETWEEN);
    line.len() - word.len() + word.find(BETWEEN).unwrap_or(word.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line after these keys, with the caret as `|`. Characters type themselves.
    fn typed(keys: &str) -> String {
        let (mut line, mut caret) = (String::new(), Caret::default());
        for key in keys.split(' ') {
            match Key::parse(key) {
                Some(key) if key.typed().is_none() => caret.press(&mut line, key),
                Some(Key { code: KeyCode::Char(' '), .. }) => caret.insert(&mut line, " "),
                _ => caret.insert(&mut line, key),
            }
        }
        let (before, after) = caret.split(&line);
        format!("{before}|{after}")
    }

    #[test]
    fn keys_move_and_delete() {
        for (keys, line) in [
            ("abc left left x", "ax|bc"),
            ("abc home x end y", "xabcy|"),
            ("abc left backspace", "a|c"),
            ("abc home backspace", "|abc"),
            ("abc home delete right delete", "b|"),
            ("abc ctrl-a ctrl-f ctrl-k", "a|"),
            ("abc ctrl-b ctrl-d ctrl-h", "a|"),
            ("/data/clips/ ctrl-w", "/data/|"),
            ("/data/clips/a.mp4 ctrl-left ctrl-left", "/data/|clips/a.mp4"),
            ("/data/clips/a.mp4 home alt-f alt-d", "/data|/a.mp4"),
            ("one space two alt-b alt-backspace", "|two"),
            ("e\u{301}x left left a", "a|e\u{301}x"),
            ("日本 left backspace", "|本"),
        ] {
            assert_eq!(typed(keys), line, "{keys}");
        }
    }

    #[test]
    fn typing_replaces_the_selection() {
        let press = |code| {
            let (mut line, mut caret) = ("30".to_owned(), Caret::ALL);
            caret.press(&mut line, Key::plain(code));
            caret.insert(&mut line, "5");
            line
        };
        assert_eq!(press(KeyCode::Left), "350");
        assert_eq!(press(KeyCode::End), "305");
        assert_eq!(press(KeyCode::Backspace), "5");
        let (mut line, mut caret) = ("30".to_owned(), Caret::ALL);
        caret.insert(&mut line, "2");
        caret.insert(&mut line, ":15");
        assert_eq!(line, "2:15");
    }

    #[test]
    fn clearing_keeps_the_text_after_the_caret() {
        let (mut line, mut caret) = ("one two".to_owned(), Caret::default());
        caret.press(&mut line, Key { ctrl: true, ..Key::plain(KeyCode::Left) });
        caret.clear(&mut line);
        assert_eq!(caret.split(&line), ("", "two"));
    }

    #[test]
    fn a_line_has_a_maximum_length() {
        let (mut line, mut caret) = (String::new(), Caret::default());
        for _ in 0..3 {
            caret.insert(&mut line, &"é".repeat(1000));
        }
        assert_eq!(line.len(), 4000);
    }

    proptest! {
        #[test]
        fn the_caret_is_always_between_graphemes(
            start in "\\PC{0,12}",
            presses in prop::collection::vec((0usize..10, any::<[bool; 2]>(), "\\PC{0,3}"), 0..40),
        ) {
            use KeyCode::{Backspace, Char, Delete, End, Home, Left, Right};
            let codes = [Left, Right, Home, End, Backspace, Delete, Char('w'), Char('d'), Char('k'), Char('h')];
            let (mut line, mut caret) = (start, Caret::default());
            for (code, [ctrl, alt], text) in presses {
                caret.press(&mut line, Key { ctrl, alt, ..Key::plain(codes[code]) });
                let at = caret.at(&line);
                let there = at == line.len() || line.grapheme_indices(true).any(|(i, _)| i == at);
                prop_assert!(there, "{at} in {line:?}");
                caret.insert(&mut line, &text);
            }
        }
    }
}
