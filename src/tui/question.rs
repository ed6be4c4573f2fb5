//! Queries to the terminal before the studio sets it up.
//!
//! One write asks for the background color, the terminal's name and version, and the size of a cell; a last query that every
//! terminal answers (its attributes) ends the wait. A terminal that does not answer costs the time limit. Keys that arrive
//! meanwhile are kept.
//!
//! Inside tmux those answers are tmux's own. The outer terminal is queried through it (passthrough).

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use specreel_os::terminal::Terminal;

use crate::look::{Key, KeyCode};

/// Background (OSC 11), name and version (XTVERSION), size of a cell, attributes (DA1).
const QUESTION: &[u8] = b"\x1b]11;?\x1b\\\x1b[>q\x1b[16t\x1b[c";
/// To the terminal around tmux: its name (XTGETTCAP), and whether it can show kitty's pictures.
const QUESTION_AROUND: &str = "\x1bP+q544e\x1b\\\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\";
/// How long its answer may take once tmux has answered: if tmux passes nothing through, there is none.
const AROUND: Duration = Duration::from_millis(150);
/// Answers are expected for at most this long.
const LATE: Duration = Duration::from_secs(3);

/// The terminal's answers, as far as it gave them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answers {
    /// True if its background is dark.
    pub dark: Option<bool>,
    /// Its name and version, as `kitty(0.35.2)`.
    pub name: String,
    pub sixel: bool,
    /// The name of the terminal around tmux, as `xterm-kitty`, if it is reached through tmux and can show kitty's pictures.
    pub around: Option<String>,
    /// Width and height of a cell in pixels.
    pub cell: Option<(u16, u16)>,
    pub keys: Vec<Key>,
    /// The last answer is missing: more may come later.
    pub unfinished: bool,
}

/// A sequence that tmux passes to the terminal around it, if it is allowed to (`allow-passthrough`).
pub(crate) fn through_tmux(sequence: &str) -> String {
    format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
}

/// True for terminals that print unknown sequences.
pub(crate) fn is_plain() -> bool {
    std::env::var("TERM").is_ok_and(|t| matches!(t.as_str(), "" | "dumb" | "linux"))
}

/// Ask, and wait at most `limit`; with `tmux` also the terminal around it. Plain terminals are not asked.
pub(crate) fn ask(limit: Duration, tmux: bool) -> Answers {
    if is_plain() {
        return Answers::default();
    }
    let raw_before = crossterm::terminal::is_raw_mode_enabled().unwrap_or(false);
    if crossterm::terminal::enable_raw_mode().is_err() {
        return Answers::default();
    }
    let asked = exchange(limit, tmux);
    if !raw_before {
        crossterm::terminal::disable_raw_mode().ok();
    }
    match asked {
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => Answers::default(),
        asked => {
            let bytes = asked.unwrap_or_default();
            Answers { unfinished: !is_complete(&bytes, tmux), ..read(&bytes) }
        }
    }
}

/// Drops answers that come too late, over a slow line, so that they are not read as keys.
#[derive(Debug, Default)]
pub(crate) struct Late {
    /// Until when answers are expected.
    until: Option<Instant>,
    inside: bool,
}

impl Late {
    /// Expect late answers, if the queries were not answered in time.
    pub fn after(answers: &Answers, now: Instant) -> Self {
        Self { until: answers.unfinished.then(|| now + LATE), inside: false }
    }

    /// True if a key is part of an answer.
    pub fn swallows(&mut self, key: Key, now: Instant) -> bool {
        if self.until.is_none_or(|until| now > until) {
            return false;
        }
        let alt = |c| key.alt && key.code == KeyCode::Char(c);
        if self.inside {
            self.inside = !(alt('\\') || key == Key::ctrl('g'));
            return true;
        }
        self.inside = alt(']') || alt('P') || alt('_');
        self.inside
    }
}

/// Write the queries and read until the last answer is there, or the time is over.
fn exchange(limit: Duration, tmux: bool) -> std::io::Result<Vec<u8>> {
    let mut terminal = Terminal::open()?;
    terminal.write_all(QUESTION)?;
    if tmux {
        terminal.write_all(through_tmux(QUESTION_AROUND).as_bytes())?;
    }
    let mut end = Instant::now() + limit;
    let mut bytes = Vec::new();
    while !is_complete(&bytes, tmux) {
        if is_complete(&bytes, false) {
            end = end.min(Instant::now() + AROUND);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !terminal.is_readable(left)? {
            break;
        }
        let mut more = [0; 1024];
        match terminal.read(&mut more)? {
            0 => break,
            n => bytes.extend_from_slice(&more[..n]),
        }
    }
    Ok(bytes)
}

/// True if the attributes, the last answer, have arrived; with `tmux` also the outer terminal's answer.
fn is_complete(bytes: &[u8], tmux: bool) -> bool {
    let (mut rest, mut own, mut around) = (bytes, false, !tmux);
    while !rest.is_empty() {
        let (sequence, tail) = split(rest);
        own |= matches!(sequence, Sequence::Control(b'c', [b'?', ..]));
        around |= matches!(sequence, Sequence::String(b'_', _));
        rest = tail;
    }
    own && around
}

/// A part of the terminal's input.
#[derive(Debug, PartialEq)]
enum Sequence<'a> {
    /// A control sequence: its final byte and the bytes before it.
    Control(u8, &'a [u8]),
    /// An operating system command (`]`), a device control string (`P`) or an application's (`_`).
    String(u8, &'a [u8]),
    /// Anything else: keys.
    Typed(&'a [u8]),
}

/// The first sequence, and what follows it.
fn split(bytes: &[u8]) -> (Sequence<'_>, &[u8]) {
    let typed = |n: usize| (Sequence::Typed(&bytes[..n]), &bytes[n..]);
    match bytes {
        [0x1b, b'[', inside @ ..] => match inside.iter().position(|b| (0x40..=0x7e).contains(b)) {
            Some(n) => (Sequence::Control(inside[n], &inside[..n]), &inside[n + 1..]),
            None => typed(bytes.len()),
        },
        [0x1b, kind @ (b']' | b'P' | b'_'), inside @ ..] => {
            let bell = inside.iter().position(|b| *b == 0x07).map(|n| (n, 1));
            let string = inside.windows(2).position(|w| w == b"\x1b\\").map(|n| (n, 2));
            match [bell, string].into_iter().flatten().min() {
                Some((n, end)) => (Sequence::String(*kind, &inside[..n]), &inside[n + end..]),
                None => typed(bytes.len()),
            }
        }
        // Up to the next sequence; an escape key is one by itself.
        _ => typed(bytes.iter().skip(1).position(|b| *b == 0x1b).map_or(bytes.len(), |n| n + 1)),
    }
}

fn read(bytes: &[u8]) -> Answers {
    let mut answers = Answers::default();
    let mut around = None;
    let mut rest = bytes;
    while !rest.is_empty() {
        let (sequence, tail) = split(rest);
        match sequence {
            Sequence::Control(b'c', [b'?', attributes @ ..]) => {
                answers.sixel = attributes.split(|b| *b == b';').any(|a| a == b"4");
            }
            Sequence::Control(b't', inside) => answers.cell = cell(inside),
            Sequence::Control(arrow, []) => answers.keys.extend(arrow_key(arrow)),
            Sequence::Control(..) => {}
            Sequence::String(b'P', [b'>', b'|', name @ ..]) => {
                answers.name = String::from_utf8_lossy(name).into_owned();
            }
            Sequence::String(b'P', [b'1', b'+', b'r', named @ ..]) => around = terminal_name(named),
            Sequence::String(b'_', b"Gi=31;OK") => answers.around = around.take(),
            Sequence::String(b']', inside) => answers.dark = inside.strip_prefix(b"11;").and_then(is_dark),
            Sequence::String(..) => {}
            Sequence::Typed(text) => {
                answers.keys.extend(String::from_utf8_lossy(text).chars().filter_map(key))
            }
        }
        rest = tail;
    }
    answers
}

/// `544e=HEX`: the value of the capability `TN`.
fn terminal_name(named: &[u8]) -> Option<String> {
    let hex = std::str::from_utf8(named).ok()?.to_ascii_lowercase();
    let hex = hex.strip_prefix("544e=")?;
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    String::from_utf8(bytes?).ok()
}

/// `6;height;width`, in pixels.
fn cell(inside: &[u8]) -> Option<(u16, u16)> {
    let text = std::str::from_utf8(inside).ok()?.strip_prefix("6;")?;
    let (height, width) = text.split_once(';')?;
    let size: (u16, u16) = (width.parse().ok()?, height.parse().ok()?);
    (size.0 > 0 && size.1 > 0).then_some(size)
}

/// Whether a color such as `rgb:1e1e/1e1e/2e2e` is closer to black than to white.
fn is_dark(color: &[u8]) -> Option<bool> {
    let text = std::str::from_utf8(color).ok()?;
    let (_, channels) = text.split_once(':')?;
    let share = |hex: &str| {
        let most = 16u32.checked_pow(u32::try_from(hex.len()).ok()?)?.checked_sub(1)?;
        Some(f64::from(u32::from_str_radix(hex, 16).ok()?) / f64::from(most.max(1)))
    };
    let mut channels = channels.split('/').map(share);
    let (r, g, b) = (channels.next()??, channels.next()??, channels.next()??);
    // Perceived lightness of the gamma-coded channels.
    let light = 0.2126 * r.powf(2.2) + 0.7152 * g.powf(2.2) + 0.0722 * b.powf(2.2);
    Some(light.powf(1.0 / 2.2) < 0.5)
}

fn arrow_key(last: u8) -> Option<Key> {
    let code = match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        _ => return None,
    };
    Some(Key::plain(code))
}

fn key(c: char) -> Option<Key> {
    Some(match c {
        '\r' | '\n' => Key::plain(KeyCode::Enter),
        '\t' => Key::plain(KeyCode::Tab),
        '\u{1b}' => Key::plain(KeyCode::Esc),
        '\u{7f}' | '\u{8}' => Key::plain(KeyCode::Backspace),
        '\u{1}'..='\u{1a}' => Key::ctrl(char::from(b'a' + (c as u8 - 1))),
        c if c.is_control() || c == char::REPLACEMENT_CHARACTER => return None,
        c => Key::char(c),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_keys_between_them_are_kept() {
        let kitty =
            b"j\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\q\x1bP>|kitty(0.35.2)\x1b\\\x1b[6;20;10t\x1b[B\x1b[?62;c\r";
        let keys = ["j", "q", "down", "enter"].map(|k| Key::parse(k).unwrap()).to_vec();
        let answers = Answers {
            dark: Some(true),
            name: "kitty(0.35.2)".into(),
            sixel: false,
            around: None,
            cell: Some((10, 20)),
            keys,
            unfinished: false,
        };
        assert_eq!(read(kitty), answers);
        let xterm = read(b"\x1b]11;rgb:ffff/ffff/dddd\x07\x1b[?64;1;2;4;22c");
        assert_eq!((xterm.dark, xterm.sixel, xterm.cell, xterm.keys.len()), (Some(false), true, None, 0));
    }

    #[test]
    fn late_answers_are_no_keys() {
        let now = Instant::now();
        let keys = |late: &mut Late, text: &str, at| -> String {
            let keys = text.split(' ').map(|k| Key::parse(k).unwrap());
            keys.filter(|k| !late.swallows(*k, at)).filter_map(Key::typed).collect()
        };
        let answer = "a alt-] 1 1 ; r g b : 1 e / 0 / 0 alt-\\ b alt-P > | x ctrl-g c";
        let mut late = Late::after(&Answers { unfinished: true, ..Answers::default() }, now);
        assert_eq!(keys(&mut late, answer, now), "abc");
        assert_eq!(keys(&mut late, "alt-] r", now + 2 * LATE), "r");
        let mut never = Late::after(&Answers::default(), now);
        assert_eq!(keys(&mut never, "alt-] r", now), "r");
    }

    #[test]
    fn the_attributes_end_the_wait() {
        assert!(is_complete(b"\x1b]11;rgb:0/0/0\x07\x1b[?1;2c", false));
        for open in [&b""[..], b"\x1b]11;rgb:0/0/0\x07", b"\x1b[?1;2", b"\x1b]11;rgb:0\x1b[?1;2c", b"c"] {
            assert!(!is_complete(open, false), "{:?}", String::from_utf8_lossy(open));
        }
    }

    #[test]
    fn the_terminal_around_tmux_answers_through_it() {
        let name = "\x1bP1+r544E=787465726d2d6b69747479\x1b\\";
        let around = |text: &str| (read(text.as_bytes()).around, is_complete(text.as_bytes(), true));
        let own = "\x1bP>|tmux 3.3a\x1b\\\x1b[?1;2c";
        let kitty = format!("{own}{name}\x1b_Gi=31;OK\x1b\\");
        assert_eq!(around(&kitty), (Some("xterm-kitty".into()), true));
        assert_eq!(around(&format!("{own}{name}")), (None, false), "no pictures yet");
        assert_eq!(around(&format!("{own}{name}\x1b_Gi=31;ENOTSUP:no\x1b\\")), (None, true));
        assert_eq!(around(&format!("{own}\x1bP0+r\x1b\\\x1b_Gi=31;OK\x1b\\")), (None, true), "of no name");
        for name in ["544e=7", "544e=zz", "544e=ff", "436f=3838", "é"] {
            assert_eq!(terminal_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn nonsense_is_no_answer() {
        for text in ["\x1b]11;rgb:xy/0/0\x07", "\x1b]11;blue\x07", "\x1b]11;rgb:/0/0\x07", "\x1b[6;0;0t"] {
            let answers = read(text.as_bytes());
            assert_eq!((answers.dark, answers.cell), (None, None), "{text:?}");
        }
        assert_eq!(read(b"\x1b\x1b[c").keys, [Key::plain(KeyCode::Esc)]);
        assert_eq!(read("é\u{3}".as_bytes()).keys, [Key::char('é'), Key::ctrl('c')]);
    }
}
