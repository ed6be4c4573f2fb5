//! The prompt: a text editor with a history.

use nucleo_matcher::Config;
use ratatui::style::{Modifier, Style};
use ratatui_textarea::{CursorMove, TextArea, WrapMode};

use super::search::fuzzy;
use crate::look::{Key, KeyCode};
use crate::tui::text;

/// Longer prompts are truncated: no model reads more, and a large paste must not hang the studio.
pub(crate) const MAX_PROMPT_BYTES: usize = 16 * 1024;
/// At most this many prompts are remembered.
pub(crate) const MAX_HISTORY: usize = 1000;

/// The prompt's text, cursor and history.
#[derive(Clone, Debug)]
pub(crate) struct PromptEditor {
    pub editor: TextArea<'static>,
    history: Vec<String>,
    /// The index of the recalled prompt in the history, and the text before it.
    recalled: Option<(usize, String)>,
}

fn editor(content: &str) -> TextArea<'static> {
    let mut editor = TextArea::from(content.split('\n'));
    editor.set_wrap_mode(WrapMode::WordOrGlyph);
    editor.set_cursor_line_style(Style::new());
    editor.set_cursor_style(Style::new().add_modifier(Modifier::REVERSED));
    editor.move_cursor(CursorMove::Bottom);
    editor.move_cursor(CursorMove::End);
    editor
}

impl PromptEditor {
    pub fn new(content: &str) -> Self {
        let content = text::clean(text::prefix(content, MAX_PROMPT_BYTES));
        Self { editor: editor(&content), history: Vec::new(), recalled: None }
    }

    /// Put the prompts of earlier sessions, oldest first, before those of this one.
    pub fn remember_earlier(&mut self, old: &[String]) {
        let newer = std::mem::take(&mut self.history);
        for prompt in old.iter().chain(&newer) {
            self.remember(&text::clean(text::prefix(prompt, MAX_PROMPT_BYTES)));
        }
    }

    /// The earlier prompts that match a search, best first; without a search all, newest first.
    pub fn found(&self, query: &str) -> Vec<&str> {
        let newest = self.history.iter().rev().map(String::as_str);
        if query.trim().is_empty() {
            return newest.collect();
        }
        fuzzy(query, Config::DEFAULT, newest, |prompt| (*prompt).to_owned())
    }

    /// The prompt, trimmed.
    pub fn text(&self) -> String {
        self.editor.lines().join("\n").trim().to_owned()
    }

    pub fn set(&mut self, content: &str) {
        self.editor = editor(&text::clean(text::prefix(content, MAX_PROMPT_BYTES)));
        self.recalled = None;
    }

    /// Insert pasted text; false if it was truncated.
    pub fn paste(&mut self, content: &str) -> bool {
        let used: usize = self.editor.lines().iter().map(|l| l.len() + 1).sum();
        let room = MAX_PROMPT_BYTES.saturating_sub(used);
        let kept = text::prefix(content, room);
        self.editor.insert_str(text::clean(kept));
        kept.len() == content.len()
    }

    /// Pass a key to the editor; false if the prompt is full. Up on the first line and Down on the last one recall the history.
    pub fn input(&mut self, key: Key) -> bool {
        let row = self.editor.cursor().0;
        let plain = !key.ctrl && !key.alt && !key.shift;
        match key.code {
            KeyCode::Up if plain && row == 0 => self.older(),
            KeyCode::Down if plain && row + 1 == self.editor.lines().len() => self.newer(),
            // Bound to actions; they must not reach the text.
            KeyCode::Enter | KeyCode::Tab | KeyCode::Esc | KeyCode::F(_) => {}
            KeyCode::Char(_) if key.typed().is_some() && self.is_full() => return false,
            // As in every input line; the widget would undo.
            KeyCode::Char('u') if key.ctrl => {
                self.editor.delete_line_by_head();
            }
            _ => {
                self.editor.input(key.to_editor());
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        self.editor.lines().iter().map(|l| l.len() + 1).sum::<usize>() >= MAX_PROMPT_BYTES
    }

    pub fn remember(&mut self, prompt: &str) {
        self.recalled = None;
        self.history.retain(|p| p != prompt);
        self.history.push(prompt.to_owned());
        if self.history.len() > MAX_HISTORY {
            self.history.remove(0);
        }
    }

    pub fn older(&mut self) {
        let (at, draft) = match self.recalled.take() {
            Some((at, draft)) => (at.checked_sub(1), draft),
            // The prompt that was just run is still shown: recall the one before it.
            None => {
                let current = self.text();
                let last = self.history.len().checked_sub(1);
                let skip = last.is_some_and(|i| self.history[i] == current);
                (if skip { last.and_then(|i| i.checked_sub(1)) } else { last }, current)
            }
        };
        match at {
            Some(at) => {
                self.editor = editor(&self.history[at]);
                self.recalled = Some((at, draft));
            }
            None if !self.history.is_empty() && self.text() == self.history[0] => {
                self.recalled = Some((0, draft));
            }
            None => {}
        }
    }

    pub fn newer(&mut self) {
        let Some((at, draft)) = self.recalled.take() else { return };
        if at + 1 < self.history.len() {
            self.editor = editor(&self.history[at + 1]);
            self.recalled = Some((at + 1, draft));
        } else {
            self.editor = editor(&draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_goes_back_and_returns_to_the_draft() {
        let mut prompt = PromptEditor::new("draft");
        prompt.remember("one");
        prompt.remember("two");
        let up = Key::plain(KeyCode::Up);
        let down = Key::plain(KeyCode::Down);
        prompt.input(up);
        assert_eq!(prompt.text(), "two");
        prompt.input(up);
        prompt.input(up);
        assert_eq!(prompt.text(), "one");
        prompt.input(down);
        assert_eq!(prompt.text(), "two");
        prompt.input(down);
        assert_eq!(prompt.text(), "draft");
        prompt.input(down);
        assert_eq!(prompt.text(), "draft");
    }

    #[test]
    fn the_prompt_just_run_is_not_its_own_history() {
        let mut prompt = PromptEditor::new("two");
        prompt.remember("one");
        prompt.remember("two");
        prompt.older();
        assert_eq!(prompt.text(), "one");
    }

    #[test]
    fn earlier_prompts_are_found_by_letters_or_by_time() {
        let old = ["What moves?", "Who is it?", "What moves?", "Count the discs."].map(String::from);
        let mut prompt = PromptEditor::new("");
        prompt.remember("Newest.");
        prompt.remember_earlier(&old);
        assert_eq!(prompt.found(""), ["Newest.", "Count the discs.", "What moves?", "Who is it?"]);
        assert_eq!(prompt.found("wh ?"), ["What moves?", "Who is it?"]);
        assert_eq!(prompt.found("discs"), ["Count the discs."]);
        assert!(prompt.found("zebra").is_empty());
    }

    #[test]
    fn a_pasted_megabyte_is_cut_and_cleaned() {
        let mut prompt = PromptEditor::new("");
        assert!(prompt.paste("a\u{1b}[31mb\r\nc"));
        assert_eq!(prompt.text(), "ab\nc");
        assert!(!prompt.paste(&"日".repeat(1 << 20)));
        assert!(prompt.text().len() <= MAX_PROMPT_BYTES);
        let taken = (0..4).filter(|_| prompt.input(Key::char('x'))).count();
        assert!(taken < 4, "a full prompt takes no more");
        assert!(prompt.text().len() <= MAX_PROMPT_BYTES + 4);
    }
}
