//! A key press, and its name in key maps and on the screen.

use crossterm::event::{self as ct, KeyModifiers};
use ratatui_textarea::Input;

pub use ct::KeyCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
    /// Shift held; always false for characters, whose case says it.
    pub shift: bool,
}

/// Key names in key maps, except for characters and function keys.
const NAMES: [(&str, KeyCode); 15] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("minus", KeyCode::Char('-')),
];

impl Key {
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    pub const fn char(c: char) -> Self {
        Self::plain(KeyCode::Char(c))
    }

    pub const fn ctrl(c: char) -> Self {
        Self { code: KeyCode::Char(c), ctrl: true, alt: false, shift: false }
    }

    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if !self.ctrl && !self.alt => Some(c),
            _ => None,
        }
    }

    /// Parse a key as key maps write it: `q`, `ctrl-c`, `shift-tab`, `alt-enter`, `f1`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut key = Self::char(' ');
        let mut rest = text;
        while let Some((modifier, tail)) = rest.split_once('-') {
            if tail.is_empty() {
                break;
            }
            match modifier.to_ascii_lowercase().as_str() {
                "ctrl" => key.ctrl = true,
                "alt" => key.alt = true,
                "shift" => key.shift = true,
                _ => return None,
            }
            rest = tail;
        }
        let mut chars = rest.chars();
        key.code = match (chars.next(), chars.next()) {
            (Some(c), None) if key.shift => {
                key.shift = false;
                KeyCode::Char(c.to_ascii_uppercase())
            }
            (Some(c), None) => KeyCode::Char(c),
            _ => {
                let name = rest.to_ascii_lowercase();
                match NAMES.iter().find(|(n, _)| *n == name) {
                    Some((_, code)) => *code,
                    None => {
                        KeyCode::F(name.strip_prefix('f')?.parse().ok().filter(|n| (1..=24).contains(n))?)
                    }
                }
            }
        };
        Some(key)
    }

    pub fn from_terminal(event: &ct::KeyEvent) -> Option<Self> {
        if event.kind == ct::KeyEventKind::Release {
            return None;
        }
        let has = |modifier| event.modifiers.contains(modifier);
        let mut key = Self {
            code: event.code,
            ctrl: has(KeyModifiers::CONTROL),
            alt: has(KeyModifiers::ALT),
            shift: has(KeyModifiers::SHIFT),
        };
        match event.code {
            KeyCode::Char(c) => {
                key.shift = false;
                key.code = KeyCode::Char(if key.ctrl { c.to_ascii_lowercase() } else { c });
            }
            KeyCode::BackTab => {
                key.shift = true;
                key.code = KeyCode::Tab;
            }
            KeyCode::F(_) => {}
            code if NAMES.iter().any(|(_, known)| *known == code) => {}
            _ => return None,
        }
        Some(key)
    }

    pub(crate) fn to_editor(self) -> Input {
        Input { key: self.code.into(), ctrl: self.ctrl, alt: self.alt, shift: self.shift }
    }
}

/// The key as help shows it: `q`, `Ctrl-c`, `Shift-Tab`, `↑`.
impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = String::new();
        for (held, name) in [(self.ctrl, "Ctrl-"), (self.alt, "Alt-"), (self.shift, "Shift-")] {
            if held {
                text.push_str(name);
            }
        }
        match self.code {
            KeyCode::Char(' ') => text.push_str("Space"),
            KeyCode::Char(c) => text.push(c),
            KeyCode::Up => text.push('↑'),
            KeyCode::Down => text.push('↓'),
            KeyCode::Left => text.push('←'),
            KeyCode::Right => text.push('→'),
            KeyCode::PageUp => text.push_str("PgUp"),
            KeyCode::PageDown => text.push_str("PgDn"),
            KeyCode::Delete => text.push_str("Del"),
            // The name is the same on every platform.
            KeyCode::Backspace => text.push_str("Backspace"),
            KeyCode::Enter => text.push_str("Enter"),
            code => text.push_str(&code.to_string()),
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        assert_eq!(Key::parse("q"), Some(Key::char('q')));
        assert_eq!(Key::parse("ctrl-c"), Some(Key::ctrl('c')));
        assert_eq!(Key::parse("-"), Some(Key::char('-')));
        assert_eq!(Key::parse("ctrl--"), Some(Key::ctrl('-')));
        assert_eq!(Key::parse("shift-a"), Some(Key::char('A')));
        assert_eq!(Key::parse("f12"), Some(Key::plain(KeyCode::F(12))));
        assert_eq!(Key::parse("shift-tab"), Some(Key { shift: true, ..Key::plain(KeyCode::Tab) }));
        for wrong in ["", "hyper-x", "f99", "entre", "ctrl-"] {
            assert_eq!(Key::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn terminal_keys_are_one_form() {
        let back_tab = ct::KeyEvent::new(ct::KeyCode::BackTab, ct::KeyModifiers::SHIFT);
        assert_eq!(Key::from_terminal(&back_tab), Key::parse("shift-tab"));
        let question = ct::KeyEvent::new(ct::KeyCode::Char('?'), ct::KeyModifiers::SHIFT);
        assert_eq!(Key::from_terminal(&question), Key::parse("?"));
        let mut release = ct::KeyEvent::new(ct::KeyCode::Enter, ct::KeyModifiers::NONE);
        release.kind = ct::KeyEventKind::Release;
        assert_eq!(Key::from_terminal(&release), None);
    }
}
