//! Text that may reach the screen: sanitised, measured and truncated by terminal columns.
//!
//! File names, prompts and what models write are foreign: a control character or an escape sequence in them must never
//! reach the terminal. Foreign text goes through [`clean`], [`clean_line`] or [`clean_event`] once, when it enters the model.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::record::{Event, EventKind, Turn};

/// Foreign text without control characters, escape sequences and direction overrides. Line breaks stay, tabs become
/// spaces.
pub(crate) fn clean(text: &str) -> String {
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
    out
}

/// Like [`clean`], on one line: line breaks become spaces.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).replace('\n', " ")
}

/// A question and its answer, both as [`clean`] leaves them.
pub(crate) fn clean_turn(turn: &Turn) -> Turn {
    Turn { prompt: clean(&turn.prompt), answer: clean(&turn.answer) }
}

/// An event with every text in it as [`clean`] leaves it, except the path of the video.
pub(crate) fn clean_event(mut event: Event) -> Event {
    let mut each = |text: &mut String| {
        if text.chars().any(is_hidden) {
            *text = clean(text);
        }
    };
    match &mut event.kind {
        EventKind::Ready { target, drafter, device, dtype, notes } => {
            notes.iter_mut().chain([target, device, dtype]).chain(drafter).for_each(each);
        }
        EventKind::Started { target, drafter, device, dtype, prompt, before, .. } => {
            let turns = before.iter_mut().flat_map(|turn| [&mut turn.prompt, &mut turn.answer]);
            turns.chain([target, device, dtype, prompt]).chain(drafter).for_each(each);
        }
        EventKind::Prompt { notes, .. } => notes.iter_mut().for_each(each),
        EventKind::Step(step) => {
            step.drafted_text.iter_mut().for_each(&mut each);
            for token in &mut step.tokens {
                let texts = token.logprob_texts.iter_mut().chain(&mut token.drafter_texts);
                texts.chain([&mut token.text]).chain(&mut token.target_text).for_each(&mut each);
            }
        }
        EventKind::Done { text, .. } => each(text),
        EventKind::Failed(failure) => [&mut failure.error].into_iter().chain(&mut failure.hint).for_each(each),
        EventKind::Stage { .. } => {}
    }
    event
}

/// Skip what follows an escape character.
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

/// Characters that act on a terminal instead of being printed.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The longest prefix that fits in `columns`, with `…` if something was cut off.
pub(crate) fn fit(text: &str, columns: usize) -> String {
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

/// The longest suffix that fits in `columns`, with `…` before it if something was cut off.
pub(crate) fn fit_end(text: &str, columns: usize) -> String {
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

/// `text` truncated or padded with spaces to exactly `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let mut out = fit(text, columns);
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&out))));
    out
}

/// Seconds as a clock: `0:07`, `12:03`, `1:02:03`.
pub(crate) fn clock(seconds: f64) -> String {
    let s = if seconds.is_finite() { seconds.max(0.0).round() as u64 } else { 0 };
    match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    }
}

/// How long ago something was: `now`, `5 min`, `3 h`, `12 d`, `2 y`.
pub(crate) fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => "now".into(),
        s if s < 3600 => format!("{} min", s / 60),
        s if s < 86_400 => format!("{} h", s / 3600),
        s if s < 730 * 86_400 => format!("{} d", s / 86_400),
        s => format!("{} y", s / (365 * 86_400)),
    }
}

/// Milliseconds for people: `0.8 ms`, `120 ms`, `3.4 s`.
pub(crate) fn millis(ms: f64) -> String {
    match ms {
        ms if !ms.is_finite() => "–".into(),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 9_999.5 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
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
        assert_eq!(clean_line("a\nb"), "a b");
        assert_eq!(clean("\u{1b}"), "");
        assert_eq!(clean("\u{1b}[31"), "");
    }

    #[test]
    fn cuts_by_columns_not_by_characters() {
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("abc", 0), "");
        assert_eq!(fit_end("/videos/birds.mp4", 9), "…irds.mp4");
        assert_eq!(pad("日", 4), "日  ");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(clock(7.2), "0:07");
        assert_eq!(clock(3723.0), "1:02:03");
        assert_eq!(clock(f64::NAN), "0:00");
        assert_eq!([59, 3599, 7200, 200_000, 70_000_000].map(ago), ["now", "59 min", "2 h", "2 d", "2 y"]);
        assert_eq!(millis(0.81), "0.8 ms");
        assert_eq!(millis(12_340.0), "12.3 s");
    }
}
