//! Foreign text that reaches a terminal: sanitized, measured and cut by columns.
//!
//! File names, prompts and what models write are foreign: a control character or an escape sequence in them must never reach
//! the terminal.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Text without escape sequences, control characters and direction overrides. Line breaks stay; a tab becomes four spaces.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| c != '\n' && is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\t' => out.push_str("    "),
            '\r' if chars.peek() != Some(&'\n') => out.push('\n'),
            '\u{1b}' => skip_escape(&mut chars),
            c if is_hidden(c) => {}
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Like [`clean`], on one line: line breaks become spaces.
pub fn clean_line(text: &str) -> Cow<'_, str> {
    match clean(text) {
        text if text.contains('\n') => Cow::Owned(text.replace('\n', " ")),
        text => text,
    }
}

/// A text of at most so many bytes, cut at a word.
pub fn shortened(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let cut = &text[..end];
    format!("{}…", cut.rsplit_once(' ').map_or(cut, |(words, _)| words))
}

fn skip_escape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.next() {
        // Control sequence: up to its final byte.
        Some('[') => while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {},
        // Strings (titles, clipboard, device control): up to BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' {
                    break;
                }
                if c == '\u{1b}' {
                    chars.next_if_eq(&'\\');
                    break;
                }
            }
        }
        _ => {}
    }
}

/// Characters that act on a terminal instead of being shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The longest beginning that fits `columns`, with `…` if something was cut off.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut out = String::new();
    let mut used = 0;
    for grapheme in text.graphemes(true) {
        used += width(grapheme);
        if used > room {
            break;
        }
        out.push_str(grapheme);
    }
    out.push('…');
    out
}

/// The longest end that fits `columns`, with `…` before it if something was cut off.
pub fn fit_end(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut kept = Vec::new();
    let mut used = 0;
    for grapheme in text.graphemes(true).rev() {
        used += width(grapheme);
        if used > room {
            break;
        }
        kept.push(grapheme);
    }
    std::iter::once("…").chain(kept.into_iter().rev()).collect()
}

/// `text` cut or padded with spaces to exactly `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let mut out = fit(text, columns);
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&out))));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_acts_on_a_terminal_survives() {
        assert_eq!(clean("a\u{1b}[31mred\u{1b}[0m b"), "ared b");
        assert_eq!(clean("x\u{1b}]52;c;ZXZpbA==\u{7}y"), "xy");
        assert_eq!(clean("x\u{1b}]0;title\u{1b}\\y"), "xy");
        assert_eq!(clean("a\u{9b}31mb\u{0}\u{8}\u{202e}c"), "a31mbc");
        assert_eq!(clean("a\r\nb\rc\td"), "a\nb\nc    d");
        assert_eq!(clean_line("a\nb\u{7}"), "a b");
        assert_eq!((clean("\u{1b}"), clean("\u{1b}[31")), ("".into(), "".into()));
        assert!(matches!(clean("a\nb"), Cow::Borrowed(_)));
    }

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(fit_end("/videos/birds.mp4", 9), "…irds.mp4");
        assert_eq!(pad("日", 4), "日  ");
    }
}
