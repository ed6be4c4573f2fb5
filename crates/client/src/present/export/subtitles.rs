//! Captions of spans as subtitles: SubRip (`.srt`) and WebVTT (`.vtt`).
//!
//! A cue has at most two lines of 42 columns, as broadcasters have them, and can be read if it is shown at most at 17 columns a
//! second. A caption that fits in two lines is one cue over its whole span. A longer one is split at the ends of sentences, else of
//! clauses, else between words, and its cues share the span in proportion to their length. A caption that is too long for its span
//! lasts on where no caption follows, and is reported otherwise ([`Cutter::note`]); no word is dropped.
//!
//! WebVTT has escapes; SubRip has none, so characters that its readers would take for a tag or a line of times are replaced by
//! similar ones.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::present::formats::plural;
use specreel_record::{Cues, Span};

/// Maximum columns of a line; a wide character has two.
pub const COLUMNS: usize = 42;
/// Maximum lines of a cue.
pub const LINES: usize = 2;
/// Columns that can be read in a second.
const SPEED: u64 = 17;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subtitles {
    Srt,
    Vtt,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cue {
    /// Its start in milliseconds of the video.
    pub from_ms: u64,
    /// The end; after the start.
    pub to_ms: u64,
    pub lines: Vec<String>,
}

impl Subtitles {
    pub fn head(self) -> &'static str {
        match self {
            Subtitles::Srt => "",
            Subtitles::Vtt => "WEBVTT\n\n",
        }
    }

    /// A cue of a file; `number` counts from 1.
    pub fn cue(self, number: usize, cue: &Cue) -> String {
        let (from, to) = (self.time(cue.from_ms), self.time(cue.to_ms));
        let mut out = match self {
            Subtitles::Srt => format!("{number}\n{from} --> {to}\n"),
            Subtitles::Vtt => format!("{from} --> {to}\n"),
        };
        for line in &cue.lines {
            out += &self.escape(line);
            out.push('\n');
        }
        out.push('\n');
        out
    }

    pub fn file<'a>(self, cues: Cues, captions: impl IntoIterator<Item = (Span, &'a str)>) -> String {
        let mut cutter = Cutter::new(cues);
        let mut all: Vec<Cue> =
            captions.into_iter().flat_map(|(span, text)| cutter.push(span, text)).collect();
        all.extend(cutter.finish());
        let cues = all.iter().enumerate().map(|(i, cue)| self.cue(i + 1, cue));
        self.head().to_owned() + &cues.collect::<String>()
    }

    /// `00:01:02,500`, with a point in WebVTT.
    pub fn time(self, ms: u64) -> String {
        let point = if self == Subtitles::Srt { ',' } else { '.' };
        let s = ms / 1000;
        format!("{:02}:{:02}:{:02}{point}{:03}", s / 3600, s / 60 % 60, s % 60, ms % 1000)
    }

    fn escape(self, line: &str) -> String {
        match self {
            Subtitles::Vtt => line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"),
            Subtitles::Srt => {
                let mut out = String::with_capacity(line.len());
                let mut rest = line;
                while let Some(c) = rest.chars().next() {
                    let after = &rest[c.len_utf8()..];
                    let opens = after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
                    rest = match c {
                        '<' if opens => {
                            out.push('‹');
                            after
                        }
                        '-' if after.starts_with("->") => {
                            out.push('→');
                            &after[2..]
                        }
                        _ => {
                            out.push(c);
                            after
                        }
                    };
                }
                out
            }
        }
    }
}

/// A span as the times of one line, as speech recognizers print them: `[00:00:00.000 --> 00:00:30.000]`.
pub fn stamp(span: Span) -> String {
    let time = |seconds| Subtitles::Vtt.time(millis(seconds));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "[{} --> {}]", time(span.start), time(span.end));
    out
}

/// Cuts captions into cues, one caption after another.
#[derive(Debug, Default)]
pub struct Cutter {
    cues: Cues,
    /// A caption that is too long for its span: it may last until the next one begins.
    waiting: Option<(u64, u64, Vec<Part>)>,
    /// The end of the last span.
    end: u64,
    /// The end of the last cue.
    at: u64,
    captions: u64,
    /// Captions that cannot be read in their time, and the columns a second of the densest.
    dense: u64,
    densest: u64,
}

/// A text with a share of its caption's time: the lines of its cues.
type Part = Vec<Vec<String>>;

impl Cutter {
    /// A cutter for the captions of one video.
    pub fn new(cues: Cues) -> Self {
        Self { cues, ..Self::default() }
    }

    /// The next caption in time. Returns the cues whose times are certain: they neither overlap nor go back.
    pub fn push(&mut self, span: Span, text: &str) -> Vec<Cue> {
        let from = millis(span.start).max(self.at);
        let to = millis(span.end).max(from + 1);
        let parts = parts(self.cues, text);
        if parts.is_empty() {
            self.end = to;
            return Vec::new();
        }
        let mut out = self.release(from);
        self.captions += 1;
        self.end = to;
        self.waiting = Some((from.max(self.at), to.max(self.at + 1), parts));
        if self.waiting.as_ref().is_some_and(|(from, to, parts)| needed(parts) <= to - from) {
            out.extend(self.release(to));
        }
        out
    }

    pub fn finish(&mut self) -> Vec<Cue> {
        self.release(self.end)
    }

    /// What viewers should know about the captions so far.
    pub fn note(&self) -> Option<String> {
        let Self { captions, dense, densest, .. } = self;
        (*dense > 0).then(|| {
            format!(
                "{dense} of {} too long to read in time ({densest} columns a second, where {SPEED} can be read): use longer \
                 segments, or ask for shorter captions in the prompt",
                plural(*captions, "caption")
            )
        })
    }

    /// The cues of the caption that waits, which may last until then.
    fn release(&mut self, until: u64) -> Vec<Cue> {
        let Some((from, to, parts)) = self.waiting.take() else { return Vec::new() };
        let to = (from + needed(&parts)).min(until).max(to);
        let cues = timed(from, to, parts);
        // Ends are rounded to milliseconds.
        let speed = |cue: &Cue| 1000 * length(&cue.lines) / (cue.to_ms - cue.from_ms + 1);
        let most = cues.iter().map(speed).max().unwrap_or_default();
        if most > SPEED {
            self.dense += 1;
            self.densest = self.densest.max(most);
        }
        self.at = cues.last().map_or(self.at, |cue| cue.to_ms);
        cues
    }
}

/// The cues of parts with equal shares of a time. They cover it without gap or overlap.
fn timed(from: u64, to: u64, mut parts: Vec<Part>) -> Vec<Cue> {
    let time = to - from;
    if parts.iter().map(Vec::len).max().is_some_and(|most| (most * parts.len()) as u64 > time) {
        // No millisecond for each cue.
        let lines = parts.into_iter().flatten().flatten().collect();
        return vec![Cue { from_ms: from, to_ms: to, lines }];
    }
    let count = parts.len() as u64;
    let share = |i: u64| from + time * i / count;
    parts.iter_mut().zip(0..).flat_map(|(part, i)| in_proportion(share(i), share(i + 1), part)).collect()
}

/// Cues that share a time, which has at least a millisecond for each.
fn in_proportion(from: u64, to: u64, blocks: &mut Part) -> Vec<Cue> {
    let time = to - from;
    let read: Vec<u64> = blocks.iter().map(|block| length(block)).collect();
    // Short ones have a second, unless others could not be read then.
    let shown: Vec<u64> = read.iter().map(|columns| (*columns).max(SPEED)).collect();
    let fits = |columns: &[u64]| columns.iter().sum::<u64>() * 1000 <= time * SPEED;
    let weights = if fits(&read) && !fits(&shown) { read } else { shown };
    let total: u64 = weights.iter().sum();
    let count = blocks.len() as u64;
    let (mut at, mut sum) = (from, 0);
    let cue = |((lines, weight), i): ((Vec<String>, u64), u64)| {
        sum += weight;
        let end = (from + time * sum / total).clamp(at + 1, to - (count - 1 - i));
        let cue = Cue { from_ms: at, to_ms: end, lines };
        at = end;
        cue
    };
    std::mem::take(blocks).into_iter().zip(weights).zip(0..).map(cue).collect()
}

/// Columns of some lines.
fn length(lines: &[String]) -> u64 {
    lines.iter().map(|line| line.width().max(1) as u64).sum()
}

/// Milliseconds in which the parts can be read if their shares are equal.
fn needed(parts: &[Part]) -> u64 {
    let longest = parts.iter().map(|part| part.iter().map(|block| length(block)).sum::<u64>()).max();
    (longest.unwrap_or_default() * parts.len() as u64 * 1000).div_ceil(SPEED)
}

fn millis(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1000.0).round() as u64
}

/// The parts of a caption; `None` for an empty one.
fn parts(cues: Cues, text: &str) -> Vec<Part> {
    let units = units(text);
    match cues {
        Cues::Clip if units.is_empty() => Vec::new(),
        Cues::Clip => vec![blocks(&units)],
        Cues::Sentences => units.split_inclusive(|unit| unit.after == Break::Sentence).map(blocks).collect(),
    }
}

/// What precedes a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    None,
    Space,
    Line,
}

/// How well a cue ends after a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    Sentence,
    Clause,
    Word,
    Within,
}

/// Text that no line breaks within; at most [`COLUMNS`] wide.
struct Unit<'a> {
    text: &'a str,
    gap: Gap,
    after: Break,
}

fn units(text: &str) -> Vec<Unit<'_>> {
    let mut units: Vec<Unit<'_>> = Vec::new();
    for paragraph in text.split(['\n', '\r']) {
        let mut line = true;
        for (space, word) in words(paragraph) {
            for (at, text) in pieces(word).into_iter().enumerate() {
                let gap = match (std::mem::take(&mut line), space && at == 0) {
                    (true, _) => Gap::Line,
                    (_, true) => Gap::Space,
                    _ => Gap::None,
                };
                if let Some(last) = units.last_mut() {
                    last.after = after(last.text, gap, text);
                }
                units.push(Unit { text, gap, after: Break::Sentence });
            }
        }
    }
    units
}

fn after(text: &str, gap: Gap, next: &str) -> Break {
    let end = text.trim_end_matches(['"', '\'', ')', ']', '”', '’', '»', '」', '』', '）']);
    let goes_on = next.starts_with(char::is_lowercase);
    match end.chars().next_back() {
        _ if gap == Gap::Line => Break::Sentence,
        Some('。' | '！' | '？') => Break::Sentence,
        Some('、' | '，' | '；' | '：') => Break::Clause,
        Some('.' | '!' | '?' | '…') if gap == Gap::Space && !goes_on => Break::Sentence,
        Some(',' | ';' | ':' | '—' | '–') if gap == Gap::Space => Break::Clause,
        _ if gap == Gap::Space => Break::Word,
        _ => Break::Within,
    }
}

/// Lines that are filled with units.
#[derive(Default)]
struct Fill {
    lines: usize,
    /// Columns of the last line, and of those before.
    columns: usize,
    before: usize,
}

impl Fill {
    /// Add a unit; true if it begins a line.
    fn add(&mut self, unit: &Unit<'_>) -> bool {
        let gap = usize::from(unit.gap == Gap::Space);
        let width = unit.text.width();
        let begins = self.lines == 0 || unit.gap == Gap::Line || self.columns + gap + width > COLUMNS;
        if begins {
            self.before += std::mem::replace(&mut self.columns, width);
            self.lines += 1;
        } else {
            self.columns += gap + width;
        }
        begins
    }

    /// What a cue of these lines costs; full ones cost least.
    fn cost(&self) -> f64 {
        let empty = 1.0 - (self.before + self.columns) as f64 / (LINES * COLUMNS) as f64;
        1.0 + 0.5 * empty.max(0.0).powi(2)
    }
}

/// The lines of each cue: few cues, which end with sentences or clauses where they can.
fn blocks(units: &[Unit<'_>]) -> Part {
    // The cheapest cues of the units before each, and where the last of them begins.
    let mut best = vec![(f64::INFINITY, 0); units.len() + 1];
    best[0].0 = 0.0;
    for start in 0..units.len() {
        let mut fill = Fill::default();
        for (end, unit) in units.iter().enumerate().skip(start) {
            fill.add(unit);
            if fill.lines > LINES {
                break;
            }
            let end_cost = match unit.after {
                Break::Sentence => 0.0,
                Break::Clause => 0.4,
                Break::Word => 2.5,
                Break::Within => 3.0,
            };
            let cost = best[start].0 + fill.cost() + end_cost;
            if cost < best[end + 1].0 {
                best[end + 1] = (cost, start);
            }
        }
    }
    let mut blocks = Vec::new();
    let mut end = units.len();
    while end > 0 {
        let start = best[end].1;
        blocks.push(lines(&units[start..end]));
        end = start;
    }
    blocks.reverse();
    blocks
}

fn lines(units: &[Unit<'_>]) -> Vec<String> {
    let mut fill = Fill::default();
    let mut lines: Vec<String> = Vec::new();
    for unit in units {
        match lines.last_mut() {
            Some(line) if !fill.add(unit) => {
                *line += if unit.gap == Gap::Space { " " } else { "" };
                *line += unit.text;
            }
            Some(_) => lines.push(unit.text.to_owned()),
            None => {
                fill.add(unit);
                lines.push(unit.text.to_owned());
            }
        }
    }
    lines
}

/// A word in pieces of at most [`COLUMNS`].
fn pieces(word: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    for (i, grapheme) in word.grapheme_indices(true) {
        if i > start && word[start..i].width() + grapheme.width() > COLUMNS {
            pieces.push(&word[start..i]);
            start = i;
        }
    }
    pieces.push(&word[start..]);
    pieces
}

/// Units that a line does not break within, and whether white space precedes them. Control characters are white space.
fn words(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).flat_map(|word| {
        let mut parts: Vec<(bool, &str)> = Vec::new();
        let mut start = 0;
        let mut after_wide = false;
        for (i, grapheme) in word.grapheme_indices(true) {
            let wide = grapheme.width() > 1;
            let closes = grapheme.starts_with(['。', '！', '？', '、', '，', '；', '：', '」', '』', '）']);
            if i > start && (wide || after_wide) && !closes {
                parts.push((start == 0, &word[start..i]));
                start = i;
            }
            after_wide = wide;
        }
        parts.push((start == 0, &word[start..]));
        parts
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SPAN: Span = Span { start: 3600.5, end: 3610.0 };

    #[test]
    fn files_are_those_of_the_formats() {
        let captions =
            [(Span { start: 0.0, end: 2.5 }, "A <red> ball & a --> sign."), (SPAN, "It\n\nrolls.")];
        assert_eq!(
            Subtitles::Srt.file(Cues::Clip, captions),
            "1\n00:00:00,000 --> 00:00:02,500\nA ‹red> ball & a → sign.\n\n\
             2\n01:00:00,500 --> 01:00:10,000\nIt\nrolls.\n\n"
        );
        assert_eq!(
            Subtitles::Vtt.file(Cues::Clip, captions),
            "WEBVTT\n\n00:00:00.000 --> 00:00:02.500\nA &lt;red&gt; ball &amp; a --&gt; sign.\n\n\
             01:00:00.500 --> 01:00:10.000\nIt\nrolls.\n\n"
        );
        assert_eq!(Subtitles::Vtt.file(Cues::Clip, [(SPAN, " \n ")]), "WEBVTT\n\n");
        assert_eq!(stamp(SPAN), "[01:00:00.500 --> 01:00:10.000]");
        assert_eq!(Subtitles::Srt.time(360_000_000), "100:00:00,000");
        // Any number of minus signs is no line of times.
        assert_eq!(Subtitles::Srt.escape("a --->b <3 </i>"), "a -→b <3 ‹/i>");
    }

    fn cut(cues: Cues, captions: &[(f64, f64, &str)]) -> (Vec<Cue>, Option<String>) {
        let mut cutter = Cutter::new(cues);
        let spans = captions.iter().map(|(start, end, text)| (Span { start: *start, end: *end }, text));
        let mut out: Vec<Cue> = spans.flat_map(|(span, text)| cutter.push(span, text)).collect();
        out.extend(cutter.finish());
        (out, cutter.note())
    }

    const LONG: &str = "A small green star falls slowly through the middle of the picture, turning as it goes, and \
                        behind it a large purple circle moves from left to right until the end.";

    #[test]
    fn a_caption_of_two_lines_is_one_cue_and_a_longer_one_ends_its_cues_with_clauses() {
        let short = "A small green star falls. It turns as it goes, and then it rests.";
        let (cues, note) = cut(Cues::Clip, &[(1.0, 60.0, short)]);
        assert_eq!((cues.len(), cues[0].from_ms, cues[0].to_ms, note), (1, 1000, 60_000, None));
        let (cues, _) = cut(Cues::Clip, &[(3600.5, 3620.0, LONG)]);
        let texts: Vec<String> = cues.iter().map(|cue| cue.lines.join(" ")).collect();
        assert!(
            texts.len() == 3 && texts[0].ends_with("picture,") && texts[1].ends_with("goes,"),
            "{texts:?}"
        );
        assert_eq!((cues[0].from_ms, cues[2].to_ms, cues[0].to_ms), (3_600_500, 3_620_000, cues[1].from_ms));
    }

    #[test]
    fn sentences_have_equal_parts_of_the_time() {
        let text = "It falls. A star, e.g. a green one, is 3.5 high! 星です。終わり。";
        let (cues, _) = cut(Cues::Sentences, &[(0.0, 20.0, text)]);
        let told: Vec<_> = cues.iter().map(|cue| (cue.from_ms, cue.to_ms, cue.lines.join(" "))).collect();
        let want = [
            (0, 5000, "It falls."),
            (5000, 10_000, "A star, e.g. a green one, is 3.5 high!"),
            (10_000, 15_000, "星です。"),
            (15_000, 20_000, "終わり。"),
        ];
        assert_eq!(told, want.map(|(from, to, text)| (from, to, text.to_owned())));
    }

    #[test]
    fn wide_characters_break_anywhere_and_long_words_where_they_must() {
        let text = "緑の星".repeat(20);
        let (cues, _) = cut(Cues::Clip, &[(0.0, 60.0, &text)]);
        let lines: Vec<&String> = cues.iter().flat_map(|cue| &cue.lines).collect();
        assert!(cues.len() == 2 && lines.iter().all(|line| line.width() <= COLUMNS), "{lines:?}");
        let (cues, _) = cut(Cues::Clip, &[(0.0, 60.0, &"x".repeat(100))]);
        let lines = cues.iter().flat_map(|cue| &cue.lines);
        assert_eq!(lines.map(|l| l.len()).collect::<Vec<_>>(), [42, 42, 16]);
    }

    #[test]
    fn a_caption_that_is_too_long_for_its_time_lasts_on_or_is_told() {
        let (cues, note) = cut(Cues::Clip, &[(0.0, 2.0, LONG), (2.0, 4.0, "It rests.")]);
        assert!(cues.iter().all(|cue| cue.lines.len() <= LINES) && cues.len() == 4, "{cues:?}");
        let note = note.unwrap();
        assert!(
            note.starts_with("1 of 2 captions too long to read") && note.contains("17 can be read"),
            "{note}"
        );
        // Nothing is said about the next seconds.
        let (cues, note) = cut(Cues::Clip, &[(0.0, 2.0, LONG), (2.0, 20.0, " "), (20.0, 22.0, "It rests.")]);
        assert_eq!((cues[0].from_ms, cues.len(), note), (0, 4, None));
        assert!((9000..12_000).contains(&cues[2].to_ms), "{cues:?}");
        // No millisecond for each cue.
        let words = "word ".repeat(100);
        let (cues, _) = cut(Cues::Clip, &[(1.0, 1.002, &words), (1.002, 1.002, "End.")]);
        let times: Vec<_> = cues.iter().map(|cue| (cue.from_ms, cue.to_ms)).collect();
        assert_eq!(times, [(1000, 1002), (1002, 1003)]);
    }

    /// A plain reader: blocks between empty lines, times before the text.
    fn read(kind: Subtitles, file: &str) -> Vec<(u64, u64, String)> {
        let body = file.strip_prefix(kind.head()).unwrap();
        let ms = |time: &str| -> u64 {
            let parts: Vec<u64> = time.split([':', ',', '.']).map(|p| p.parse().unwrap()).collect();
            let [h, m, s, ms] = parts[..] else { panic!("{time}") };
            ((h * 60 + m) * 60 + s) * 1000 + ms
        };
        let block = |(i, block): (usize, &str)| {
            let mut lines = block.lines();
            if kind == Subtitles::Srt {
                assert_eq!(lines.next().unwrap(), (i + 1).to_string());
            }
            let (from, to) = lines.next().unwrap().split_once(" --> ").unwrap();
            let text = lines.collect::<Vec<_>>().join(" ");
            let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            (ms(from), ms(to), text)
        };
        body.split_terminator("\n\n").enumerate().map(block).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            texts in prop::collection::vec("[a-zé日語。<>&\\-/,. \n\t\u{1b}\r👩]{0,300}", 1..6),
            seconds in 0.0f64..40.0,
            sentences: bool,
        ) {
            let cues = if sentences { Cues::Sentences } else { Cues::Clip };
            let span = |i: usize| Span { start: i as f64 * seconds, end: (i + 1) as f64 * seconds };
            let captions = || texts.iter().enumerate().map(|(i, t)| (span(i), t.as_str()));
            for kind in [Subtitles::Srt, Subtitles::Vtt] {
                let read = read(kind, &kind.file(cues, captions()));
                let joined = |text: &str| text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect::<String>();
                let back = joined(&read.iter().map(|(_, _, text)| text.as_str()).collect::<String>());
                let mut wanted = joined(&texts.concat());
                if kind == Subtitles::Srt {
                    // The replacements are tested above.
                    let plain = |text: String| text.replace('‹', "<").replace('→', "-->");
                    prop_assert_eq!(plain(back), plain(wanted));
                } else {
                    wanted.retain(|c| c != '\u{0}');
                    prop_assert_eq!(back, wanted);
                }
                for (from, to, text) in &read {
                    prop_assert!(from < to && !text.contains("-->") | (kind == Subtitles::Vtt));
                }
                prop_assert!(read.windows(2).all(|w| w[0].1 <= w[1].0), "{:?}", read);
            }
            let all: Vec<_> = captions().map(|(span, text)| (span.start, span.end, text)).collect();
            let (cut, note) = cut(cues, &all);
            prop_assert!(cut.iter().flat_map(|cue| &cue.lines).all(|line| line.width() <= COLUMNS), "{:?}", cut);
            prop_assert!(seconds < 1.0 || cut.iter().all(|cue| cue.lines.len() <= LINES), "{:?}", cut);
            let readable = |cue: &Cue| 1000 * length(&cue.lines) < (SPEED + 1) * (cue.to_ms - cue.from_ms + 1);
            prop_assert_eq!(note.is_none(), cut.iter().all(readable), "{:?}", cut);
        }
    }
}
