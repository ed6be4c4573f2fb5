//! Captions with times as chapters and as JSON.

use serde_json::json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use specreel_record::{Span, clock};

/// Most columns of a chapter's title.
const TITLE: usize = 80;

/// Shortest chapter that YouTube takes, in seconds, and the fewest chapters.
const YOUTUBE_S: f64 = 10.0;
const YOUTUBE_CHAPTERS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outline {
    /// FFmpeg's metadata file, with chapters.
    Chapters,
    /// Lines of a description on YouTube.
    Youtube,
    Json,
}

impl Outline {
    /// What a file of chapters begins with.
    pub const CHAPTERS: &str = ";FFMETADATA1\n";

    /// The file of these captions, in order of time, and of a summary of all.
    pub fn file(self, captions: &[(Span, String)], summary: Option<&str>) -> String {
        match self {
            Outline::Chapters => chapters(captions, summary),
            Outline::Youtube => {
                let lines = youtube(captions).map(|(at, title)| format!("{} {title}\n", clock(at.floor())));
                let summary = summary.map(|text| format!("{}\n\n", text.trim())).unwrap_or_default();
                summary + &lines.collect::<String>()
            }
            Outline::Json => {
                json_file(captions.iter().map(|(span, text)| (*span, text.as_str(), false)), summary)
            }
        }
    }

    /// What the user should know about the file.
    pub fn note(self, captions: &[(Span, String)]) -> Option<String> {
        let count = youtube(captions).count();
        (self == Outline::Youtube && count < YOUTUBE_CHAPTERS).then(|| {
            format!("YouTube shows chapters if there are at least {YOUTUBE_CHAPTERS}, of {YOUTUBE_S} seconds or more; these are {count}")
        })
    }
}

/// Captions with times, and whether a person has changed each, as JSON.
pub(super) fn json_file<'a>(
    captions: impl Iterator<Item = (Span, &'a str, bool)>,
    summary: Option<&str>,
) -> String {
    let event = |(span, text, edited): (Span, &str, bool)| {
        let mut event = json!({ "start": span.start, "end": span.end, "text": text.trim() });
        if edited {
            event["edited"] = true.into();
        }
        event
    };
    let mut whole = json!({ "events": captions.map(event).collect::<Vec<_>>() });
    if let Some(summary) = summary {
        whole["summary"] = summary.trim().into();
    }
    serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n"
}

fn chapters(captions: &[(Span, String)], summary: Option<&str>) -> String {
    let mut out = Outline::CHAPTERS.to_owned();
    if let Some(summary) = summary {
        out += &format!("description={}\n", escaped(summary.trim()));
    }
    let ms = |seconds: f64| (seconds.max(0.0) * 1000.0).round() as u64;
    for (i, (span, text)) in captions.iter().enumerate() {
        // Chapters do not overlap.
        let end = captions.get(i + 1).map_or(span.end, |next| next.0.start.min(span.end));
        if ms(end) > ms(span.start) {
            let (start, end, title) = (ms(span.start), ms(end), escaped(&title(text)));
            out += &format!("\n[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={title}\n");
        }
    }
    out
}

/// Start and title of each chapter as YouTube wants them: the first at 0:00, none too short.
fn youtube(captions: &[(Span, String)]) -> impl Iterator<Item = (f64, String)> {
    let mut last = None;
    let end = captions.last().map_or(0.0, |(span, _)| span.end);
    captions.iter().filter_map(move |(span, text)| {
        let at = if last.is_none() { 0.0 } else { span.start };
        let is_long = last.is_none_or(|last| at - last >= YOUTUBE_S && end - at >= YOUTUBE_S);
        is_long.then(|| {
            last = Some(at);
            (at, title(text))
        })
    })
}

/// The first sentence of a caption, on one line, cut at a word if it is long.
fn title(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = words.find(". ").map_or(words.as_str(), |at| &words[..at]).trim_end_matches('.');
    if sentence.width() <= TITLE {
        return sentence.to_owned();
    }
    let mut columns = 0;
    let fits = |c: &char| {
        columns += c.width().unwrap_or_default();
        columns < TITLE
    };
    let cut: String = sentence.chars().take_while(fits).collect();
    let whole = cut.rsplit_once(' ').map_or(cut.as_str(), |(words, _)| words);
    format!("{}…", whole.trim_end_matches(','))
}

/// A value of FFmpeg's metadata file.
fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '=' | ';' | '#' | '\\' | '\n');
    text.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captions(parts: &[(f64, f64, &str)]) -> Vec<(Span, String)> {
        parts.iter().map(|&(start, end, text)| (Span { start, end }, text.to_owned())).collect()
    }

    #[test]
    fn chapters_are_ffmpegs_metadata() {
        let parts = captions(&[
            (0.0, 12.5, "A dog; it runs. Fast."),
            (10.0, 20.0, " A = b\n#1"),
            (20.0, 20.0, "Nothing"),
        ]);
        let want = ";FFMETADATA1\ndescription=Dogs\\=cats.\n\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=10000\ntitle=A dog\\; it runs\n\n\
                    [CHAPTER]\nTIMEBASE=1/1000\nSTART=10000\nEND=20000\ntitle=A \\= b \\#1\n";
        assert_eq!(Outline::Chapters.file(&parts, Some("Dogs=cats. ")), want);
    }

    #[test]
    fn youtube_has_its_rules() {
        let parts = captions(&[
            (2.0, 10.0, "One."),
            (8.0, 15.0, "Short."),
            (15.5, 30.0, "Two."),
            (3700.0, 3720.0, "Three."),
            (3715.0, 3720.0, "End."),
        ]);
        assert_eq!(Outline::Youtube.file(&parts, None), "0:00 One\n0:15 Two\n1:01:40 Three\n");
        assert_eq!(Outline::Youtube.note(&parts), None);
        assert!(Outline::Youtube.note(&parts[..2]).unwrap().ends_with("these are 1"));
        assert_eq!(Outline::Youtube.file(&[], Some("All.")), "All.\n\n");
    }

    #[test]
    fn json_has_events_and_summary() {
        let json = Outline::Json.file(&captions(&[(0.0, 2.5, " A dog. ")]), Some("Dogs."));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            value,
            json!({"events": [{"start": 0.0, "end": 2.5, "text": "A dog."}], "summary": "Dogs."})
        );
    }

    #[test]
    fn titles_are_cut_at_words() {
        let long = title(&"many words ".repeat(20));
        assert!(long.width() <= TITLE && long.ends_with("words…"), "{long}");
        assert!(title(&"長".repeat(100)).width() <= TITLE);
    }
}
