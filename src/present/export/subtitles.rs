//! Captions of spans as subtitles: SubRip (`.srt`) and WebVTT (`.vtt`).
//!
//! A caption is split into cues of at most two lines of 42 columns, as broadcasters do. The cues share the caption's span in
//! proportion to the length of their text, which is proportional to reading time. None is shown for less than a second: where
//! the span is too short for that, there are fewer cues of more lines, and at least one.
//!
//! WebVTT has escapes; SubRip has none, so characters that its readers would take for a tag or a line of times are replaced by
//! similar ones.

use std::fmt::Write as _;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::record::Span;

/// Maximum columns of a line.
pub const COLUMNS: usize = 42;
/// Maximum lines of a cue.
pub const LINES: usize = 2;
/// Shortest time of a cue in milliseconds, unless its span is shorter.
const LEAST_MS: u64 = 1000;

/// A subtitle format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subtitles {
    /// SubRip.
    Srt,
    /// WebVTT.
    Vtt,
}

/// A text with its times.
#[derive(Clone, Debug, PartialEq)]
pub struct Cue {
    /// Its start in milliseconds of the video.
    pub from_ms: u64,
    /// The end; after the start.
    pub to_ms: u64,
    /// Its lines.
    pub lines: Vec<String>,
}

impl Subtitles {
    /// The header of a file.
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

    /// A whole file of captions and their spans.
    pub fn file<'a>(self, captions: impl IntoIterator<Item = (Span, &'a str)>) -> String {
        let mut out = self.head().to_owned();
        let all = captions.into_iter().flat_map(|(span, text)| cues(span, text));
        for (i, cue) in all.enumerate() {
            out += &self.cue(i + 1, &cue);
        }
        out
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

/// A span as the times of one line, as speech recognisers print them: `[00:00:00.000 --> 00:00:30.000]`.
pub fn stamp(span: Span) -> String {
    let time = |seconds| Subtitles::Vtt.time(millis(seconds));
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(out, "[{} --> {}]", time(span.start), time(span.end));
    out
}

/// The cues of a caption; none of an empty one. They cover its span without gap or overlap.
pub fn cues(span: Span, text: &str) -> Vec<Cue> {
    let (from, to) = (millis(span.start), millis(span.end).max(millis(span.start) + 1));
    let lines = wrap(text);
    // More lines in a cue where the span has no time for more cues.
    let most = ((to - from) / LEAST_MS).max(1) as usize;
    let blocks = lines.chunks(LINES.max(lines.len().div_ceil(most))).map(<[String]>::to_vec);
    let blocks: Vec<Vec<String>> = blocks.collect();
    let length = |block: &[String]| block.iter().map(|line| line.width().max(1)).sum::<usize>();
    let total: usize = blocks.iter().map(|block| length(block)).sum();
    let n = blocks.len() as u64;
    let least = LEAST_MS.min((to - from) / n.max(1));
    let (mut at, mut read) = (from, 0);
    let mut out = Vec::with_capacity(blocks.len());
    for (i, lines) in blocks.into_iter().enumerate() {
        read += length(&lines);
        let end = from + ((to - from) as f64 * read as f64 / total as f64).round() as u64;
        // Enough for this one, and for those after it.
        let end = end.clamp(at + least, to - (n - 1 - i as u64) * least);
        out.push(Cue { from_ms: at, to_ms: end, lines });
        at = end;
    }
    out
}

fn millis(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1000.0).round() as u64
}

/// Text as lines of at most [`COLUMNS`], without empty ones. Lines break at white space and beside wide characters, and
/// anywhere within a word that is wider than a line.
fn wrap(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split(['\n', '\r']) {
        let mut line = String::new();
        for (gap, word) in words(paragraph) {
            let gap = if gap && !line.is_empty() { " " } else { "" };
            if line.width() + gap.len() + word.width() <= COLUMNS {
                line = line + gap + word;
                continue;
            }
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            for grapheme in word.graphemes(true) {
                if line.width() + grapheme.width() > COLUMNS && !line.is_empty() {
                    lines.push(std::mem::take(&mut line));
                }
                line += grapheme;
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
    }
    lines
}

/// Units that a line does not break within, and whether white space precedes them. Control characters are white space.
fn words(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).flat_map(|word| {
        let mut parts: Vec<(bool, &str)> = Vec::new();
        let mut start = 0;
        let mut after_wide = false;
        for (i, grapheme) in word.grapheme_indices(true) {
            let wide = grapheme.width() > 1;
            if i > start && (wide || after_wide) {
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
            Subtitles::Srt.file(captions),
            "1\n00:00:00,000 --> 00:00:02,500\nA ‹red> ball & a → sign.\n\n\
             2\n01:00:00,500 --> 01:00:10,000\nIt\nrolls.\n\n"
        );
        assert_eq!(
            Subtitles::Vtt.file(captions),
            "WEBVTT\n\n00:00:00.000 --> 00:00:02.500\nA &lt;red&gt; ball &amp; a --&gt; sign.\n\n\
             01:00:00.500 --> 01:00:10.000\nIt\nrolls.\n\n"
        );
        assert_eq!(Subtitles::Vtt.file([(SPAN, " \n ")]), "WEBVTT\n\n");
        assert_eq!(stamp(SPAN), "[01:00:00.500 --> 01:00:10.000]");
        assert_eq!(Subtitles::Srt.time(360_000_000), "100:00:00,000");
        // Any number of minus signs is no line of times.
        assert_eq!(Subtitles::Srt.escape("a --->b <3 </i>"), "a -→b <3 ‹/i>");
    }

    #[test]
    fn a_long_caption_goes_on_in_the_next_cue() {
        let text = "A small green star falls slowly through the middle of the picture, turning as it goes, and \
                    behind it a large purple circle moves from left to right until the end.";
        let cues = cues(SPAN, text);
        assert_eq!(cues.len(), 2);
        assert_eq!(
            cues[0].lines,
            ["A small green star falls slowly through", "the middle of the picture, turning as it"]
        );
        assert_eq!((cues[0].from_ms, cues[1].to_ms, cues[0].to_ms), (3_600_500, 3_610_000, cues[1].from_ms));
    }

    #[test]
    fn wide_characters_break_anywhere_and_long_words_where_they_must() {
        let wide = wrap(&"緑の星".repeat(20));
        assert!(wide.len() == 3 && wide.iter().all(|line| line.width() <= COLUMNS), "{wide:?}");
        let long = wrap(&"x".repeat(100));
        assert_eq!(long.iter().map(|l| l.len()).collect::<Vec<_>>(), [42, 42, 16]);
    }

    #[test]
    fn a_cue_lasts_a_second_and_takes_more_lines_where_it_must() {
        let text = "A small green star falls slowly through the middle of the picture. ".repeat(4);
        let cues = cues(Span { start: 2.0, end: 4.1 }, &text);
        assert_eq!(cues.iter().map(|cue| cue.lines.len()).collect::<Vec<_>>(), [4, 3]);
        assert!(cues.iter().all(|cue| cue.to_ms - cue.from_ms >= 1000), "{cues:?}");
        // The last word alone would be shown for a moment only.
        let cues = super::cues(Span { start: 0.0, end: 3.0 }, &("word ".repeat(16) + "end end end"));
        assert!(cues.len() == 2 && cues[1].to_ms - cues[1].from_ms == 1000, "{cues:?}");
    }

    #[test]
    fn a_moment_has_one_cue() {
        let text = "word ".repeat(100);
        let cues = cues(Span { start: 1.0, end: 1.002 }, &text);
        assert_eq!((cues.len(), cues[0].from_ms, cues[0].to_ms), (1, 1000, 1002));
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
            texts in prop::collection::vec("[a-zé日語<>&\\-/ \n\t\u{1b}\r👩]{0,300}", 1..6),
            seconds in 0.01f64..40.0,
        ) {
            let span = |i: usize| Span { start: i as f64 * seconds, end: (i + 1) as f64 * seconds };
            let captions = || texts.iter().enumerate().map(|(i, t)| (span(i), t.as_str()));
            for kind in [Subtitles::Srt, Subtitles::Vtt] {
                let read = read(kind, &kind.file(captions()));
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
                // The ends of a span are rounded.
                prop_assert!(seconds < 1.0 || read.iter().all(|(from, to, _)| to - from >= 999), "{:?}", read);
            }
        }
    }
}
