//! What is said in a video: a file of subtitles or of a speech recognizer, or what a speech model hears, and the part of it that goes
//! into a prompt.
//!
//! Read are SubRip, WebVTT, and JSON as Whisper, whisper.cpp and transformers write it. The text may be UTF-8 or UTF-16; anything
//! else is taken for Windows-1252. A damaged cue is left out, with a note. Cues are put in order; a line that is repeated by the next
//! cue, as live captions do, counts once.

use std::path::Path;

use serde_json::{Value, json};

use super::read_user_file;
use specreel_engine::RunRequest;
use specreel_record::{Failure, Span, clock, span::seconds};

/// Largest file, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// A line belongs to a part of the video in which this many seconds of it are spoken, or half of it.
const SHARED_S: f64 = 1.0;

/// What a prompt with speech begins with.
const HEAD: &str = "What is said in the video:\n";

/// The lines of a transcript, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// The file, or the speech model, as it was named.
    pub file: String,
    /// Code of the language, where a speech model knows it.
    pub language: Option<String>,
    lines: Vec<Line>,
    notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
struct Line {
    span: Span,
    text: String,
}

impl Transcript {
    /// Read a file. Fails (class input) if it cannot be read, or holds no line with a time.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let file = path.display().to_string();
        let what = format!("transcript {file}");
        let hint = "pass SubRip (.srt), WebVTT (.vtt), or JSON as Whisper writes it";
        let bytes = read_user_file(path, &what, MAX_FILE, hint)?;
        let read = Self::parse(&bytes).map_err(|error| Failure::input(format!("{what}: {error}"), hint))?;
        Ok(Self { file, ..read })
    }

    /// The transcript in the bytes of a file, or why there is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut notes = Vec::new();
        let text = decoded(bytes, &mut notes);
        let (mut lines, skipped) = if text.trim_start().starts_with(['{', '[']) {
            let value = serde_json::from_str(&text).map_err(|error| format!("not valid JSON: {error}"))?;
            from_json(&value).ok_or("its JSON has no list `segments`, `chunks` or `transcription`")?
        } else {
            from_cues(&text)
        };
        if skipped > 0 {
            notes.push(format!(
                "{skipped} of {} of the transcript have no valid time",
                count(lines.len() + skipped)
            ));
        }
        if !lines.is_sorted_by(|a, b| a.span.start <= b.span.start) {
            notes.push("the lines of the transcript are out of order; they are sorted by time".into());
            lines.sort_by(|a, b| a.span.start.total_cmp(&b.span.start));
        }
        lines.dedup_by(|next, line| repeats(line, next));
        lines.retain(|line| !line.text.is_empty());
        if lines.is_empty() {
            Err("it holds no line with a time".into())
        } else {
            Ok(Self { lines, notes, ..Self::default() })
        }
    }

    /// What a speech model of this name heard, with notes of its own.
    pub fn heard(model: &str, lines: Vec<(Span, String)>, notes: Vec<String>) -> Self {
        let line = |(span, text)| Line { span, text };
        Self { file: model.to_owned(), language: None, lines: lines.into_iter().map(line).collect(), notes }
    }

    /// The line `transcript` of `--json`, before the run that it is for.
    pub fn json(&self, run: u64, notes: &[String]) -> Value {
        let mut event =
            json!({"run": run, "event": "transcript", "file": self.file, "lines": self.lines.len()});
        if let Some(language) = &self.language {
            event["language"] = language.as_str().into();
        }
        if !notes.is_empty() {
            event["notes"] = notes.into();
        }
        event
    }

    /// True if nothing is said.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Its lines, in order of time.
    pub fn lines(&self) -> impl Iterator<Item = (Span, &str)> {
        self.lines.iter().map(|line| (line.span, line.text.as_str()))
    }

    /// How much it is: `12 lines of said.srt`.
    pub fn words(&self) -> String {
        format!("{} of {}", count(self.lines.len()), self.file)
    }

    /// What the user should know: what could not be read, and, of a video of this many seconds, what is past its end.
    pub fn notes(&self, video_s: f64) -> Vec<String> {
        let late = self.lines.iter().filter(|line| line.span.start >= video_s).count();
        let late = (late > 0).then(|| {
            let all = count(self.lines.len());
            format!("{late} of {all} of the transcript are past the end of the video ({})", clock(video_s))
        });
        self.notes.iter().cloned().chain(late).collect()
    }

    /// Put what is said in the part of the video that a request is about in front of its first question.
    pub fn precede(&self, request: &mut RunRequest) {
        let part = request.span.unwrap_or(Span { start: 0.0, end: f64::INFINITY });
        let first = request.before.first_mut().map_or(&mut request.prompt, |turn| &mut turn.prompt);
        *first = self.prompt(first, part);
    }

    /// A prompt without what [`Transcript::precede`] has put in front of it.
    pub fn asked(prompt: &str) -> &str {
        let said = prompt.strip_prefix(HEAD).and_then(|said| said.split_once("\n\n"));
        said.map_or(prompt, |(_, asked)| asked)
    }

    /// The prompt about a part of the video: what is said in it, with times from the beginning of the part, as the models count
    /// them, and the prompt. Where nothing is said, the prompt alone.
    fn prompt(&self, prompt: &str, part: Span) -> String {
        let said = self.lines.iter().filter_map(|Line { span, text }| {
            let (start, end) = (span.start.max(part.start), span.end.min(part.end));
            let is_in = end - start >= SHARED_S.min(span.seconds() / 2.0) && end > start;
            is_in.then(|| format!("[{} - {}] {text}\n", clock(start - part.start), clock(end - part.start)))
        });
        match said.collect::<String>() {
            said if said.is_empty() => prompt.to_owned(),
            said => format!("{HEAD}{said}\n{prompt}"),
        }
    }
}

fn count(lines: usize) -> String {
    format!("{lines} line{}", if lines == 1 { "" } else { "s" })
}

/// The text of a file, by its byte order mark; else UTF-8; else Windows-1252, with a note.
fn decoded(bytes: &[u8], notes: &mut Vec<String>) -> String {
    if let Some((encoding, _)) = encoding_rs::Encoding::for_bom(bytes) {
        return encoding.decode(bytes).0.into_owned();
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => {
            notes.push("the transcript is not UTF-8; it is read as Windows-1252".into());
            encoding_rs::WINDOWS_1252.decode(bytes).0.into_owned()
        }
    }
}

/// Whether the next line only repeats a line that lasts until then; what it adds stays in it.
fn repeats(line: &mut Line, next: &mut Line) -> bool {
    if next.span.start > line.span.end + 0.1 {
        return false;
    }
    if let Some(rest) = next.text.strip_prefix(line.text.as_str()) {
        if rest.is_empty() {
            line.span.end = line.span.end.max(next.span.end);
            return true;
        }
        if rest.starts_with(' ') {
            next.text = rest.trim().to_owned();
        }
    }
    false
}

/// A line, if its times are valid.
fn line(start: Option<f64>, end: Option<f64>, text: &str) -> Option<Line> {
    let span = Span { start: start?, end: end? };
    span.is_sound().then(|| Line { span, text: text.split_whitespace().collect::<Vec<_>>().join(" ") })
}

/// The lines of SubRip or WebVTT, and how many cues have no valid times.
fn from_cues(text: &str) -> (Vec<Line>, usize) {
    let (mut lines, mut skipped) = (Vec::new(), 0);
    let mut rows = text.lines().peekable();
    while let Some(row) = rows.next() {
        let Some((start, end)) = row.split_once("-->") else { continue };
        // Behind the end, WebVTT has settings.
        let end = end.trim().split(char::is_whitespace).next().unwrap_or_default();
        let time = |text: &str| seconds(&text.trim().replace(',', "."));
        let mut said: Vec<&str> = Vec::new();
        while let Some(row) = rows.next_if(|row| !row.contains("-->") && !row.trim().is_empty()) {
            said.push(row);
        }
        // Without an empty line between cues, the last row is the next one's number.
        if rows.peek().is_some_and(|row| row.contains("-->"))
            && said.last().is_some_and(|row| row.trim().bytes().all(|b| b.is_ascii_digit()))
        {
            said.pop();
        }
        match line(time(start), time(end), &plain(&said.join(" "))) {
            Some(line) => lines.push(line),
            None => skipped += 1,
        }
    }
    (lines, skipped)
}

/// Text without tags: `<i>`, `{\an8}`; of WebVTT's voice tag, the speaker's name stays.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '{']) {
        out += &rest[..at];
        let (close, is_tag) = match rest.as_bytes()[at] {
            b'<' => ('>', rest[at + 1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')),
            _ => ('}', rest[at + 1..].starts_with('\\')),
        };
        match rest[at..].find(close).filter(|_| is_tag) {
            Some(length) => {
                let tag = &rest[at + 1..at + length];
                if let Some(name) = tag.strip_prefix("v ") {
                    out += &format!("{}: ", name.trim());
                }
                rest = &rest[at + length + 1..];
            }
            None => {
                out += &rest[at..=at];
                rest = &rest[at + 1..];
            }
        }
    }
    out += rest;
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&nbsp;", " "), ("&lrm;", ""), ("&rlm;", ""), ("&amp;", "&")];
    entities.iter().fold(out, |text, (entity, plain)| text.replace(entity, plain))
}

/// The lines of Whisper's JSON, and how many have no valid times; `None` if it is something else.
fn from_json(value: &Value) -> Option<(Vec<Line>, usize)> {
    let lists = ["segments", "chunks", "transcription"];
    let list = lists.iter().find_map(|key| value.get(key)).unwrap_or(value).as_array()?;
    let read = |item: &Value| {
        let times = [
            // Whisper and its API; transformers; whisper.cpp, in milliseconds.
            [item["start"].as_f64(), item["end"].as_f64()],
            [item["timestamp"][0].as_f64(), item["timestamp"][1].as_f64()],
            ["from", "to"].map(|key| item["offsets"][key].as_f64().map(|ms| ms / 1000.0)),
        ];
        let [start, end] = times.into_iter().find(|times| times[0].is_some())?;
        line(start, end, item["text"].as_str()?)
    };
    let lines: Vec<Line> = list.iter().filter_map(read).collect();
    let skipped = list.len() - lines.len();
    Some((lines, skipped))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(text: &str) -> Vec<(f64, f64, String)> {
        let lines = Transcript::parse(text.as_bytes()).unwrap().lines;
        lines.into_iter().map(|line| (line.span.start, line.span.end, line.text)).collect()
    }

    fn said(start: f64, end: f64, text: &str) -> (f64, f64, String) {
        (start, end, text.to_owned())
    }

    #[test]
    fn subtitles_are_read_as_people_have_them() {
        let both = [said(1.0, 2.5, "Hello there."), said(3723.5, 3724.0, "5 < 6 & <b")];
        let srt = "\u{feff}1\r\n00:00:01,000 --> 00:00:02,500\r\n{\\an8}<i>Hello</i>\r\nthere.\r\n\r\n2\r\n01:02:03,500 --> \
                   01:02:04,000\r\n5 < 6 &amp; &lt;b\r\n";
        assert_eq!(lines(srt), both);
        let vtt = "WEBVTT - a title\n\nNOTE 1:00\nnot said\n\nid\n00:01.000 --> 00:02.500 align:start\nHello <00:01.500>there.\n\n\
                   01:02:03.500 --> 01:02:04.000\n5 < 6 &amp; &lt;b\n";
        assert_eq!(lines(vtt), both);
        // Numbers without an empty line before them, and a number that is said.
        let dense = "1\n00:01 --> 00:02\nOne\n2\n00:02 --> 00:03\n42\n\n3\n00:03 --> 00:04\n<v Ann>Three\n";
        assert_eq!(lines(dense), [said(1.0, 2.0, "One"), said(2.0, 3.0, "42"), said(3.0, 4.0, "Ann: Three")]);
    }

    #[test]
    fn json_is_read_as_whisper_whisper_cpp_and_transformers_write_it() {
        let want = [said(0.0, 2.5, "Hello there."), said(2.5, 4.0, "Bye.")];
        for json in [
            r#"{"text": "…", "segments": [{"id": 0, "start": 0.0, "end": 2.5, "text": " Hello there."}, {"start": 2.5, "end": 4, "text": " Bye."}]}"#,
            r#"{"chunks": [{"timestamp": [0.0, 2.5], "text": " Hello there."}, {"timestamp": [2.5, 4.0], "text": " Bye."}]}"#,
            r#"{"transcription": [{"offsets": {"from": 0, "to": 2500}, "text": " Hello there."}, {"offsets": {"from": 2500, "to": 4000}, "text": " Bye."}]}"#,
            r#"[{"start": 0, "end": 2.5, "text": "Hello there."}, {"start": 2.5, "end": 4, "text": "Bye."}]"#,
        ] {
            assert_eq!(lines(json), want, "{json}");
        }
    }

    #[test]
    fn other_encodings_are_read() {
        let text = "00:01 --> 00:02\nGrüße – ça va?\n";
        let utf16: Vec<u8> =
            "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
        let (latin, ..) = encoding_rs::WINDOWS_1252.encode(text);
        for (bytes, notes) in [(utf16, 0), (latin.into_owned(), 1)] {
            let read = Transcript::parse(&bytes).unwrap();
            assert_eq!((read.lines[0].text.as_str(), read.notes.len()), ("Grüße – ça va?", notes));
        }
    }

    #[test]
    fn damaged_unordered_and_late_lines_are_noted() {
        let text = "00:05 --> 00:06\nlater\n\n00:03 --> 00:02\nback\n\nx --> 00:09\nwhen\n\n00:01 --> 00:02\nfirst\n";
        let read = Transcript::parse(text.as_bytes()).unwrap();
        assert_eq!(read.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>(), ["first", "later"]);
        assert_eq!(
            read.notes(5.0),
            [
                "2 of 4 lines of the transcript have no valid time",
                "the lines of the transcript are out of order; they are sorted by time",
                "1 of 2 lines of the transcript are past the end of the video (0:05)",
            ]
        );
        assert_eq!(read.notes(6.0).len(), 2);
    }

    #[test]
    fn files_without_lines_are_refused() {
        for (text, words) in [
            ("", "no line with a time"),
            ("WEBVTT\n\n", "no line with a time"),
            ("just words\n", "no line with a time"),
            ("{\"a\": 1}", "no list"),
            ("{\"segments\": []}", "no line with a time"),
            ("{", "not valid JSON"),
        ] {
            let error = Transcript::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_prompt_has_what_is_said_in_its_part() {
        let text = "00:00 --> 00:04\na b\n\n00:04 --> 00:06\na b\n\n00:06 --> 00:09\na b c d\n\n00:09.5 --> 00:10.5\ne\n\n00:40 --> 00:50\nf\n";
        let transcript = Transcript::parse(text.as_bytes()).unwrap();
        let prompt = |start, end| {
            let prompt = transcript.prompt("Describe.\n\nBriefly.", Span { start, end });
            assert_eq!(Transcript::asked(&prompt), "Describe.\n\nBriefly.");
            prompt.replace("\n\nBriefly.", "")
        };
        // Repeated lines count once; one line is in both parts.
        assert_eq!(
            prompt(0.0, 10.0),
            "What is said in the video:\n[0:00 - 0:06] a b\n[0:06 - 0:09] c d\n[0:09.5 - 0:10] e\n\nDescribe."
        );
        assert_eq!(prompt(10.0, 30.0), "What is said in the video:\n[0:00 - 0:00.5] e\n\nDescribe.");
        assert_eq!(prompt(30.0, 40.0), "Describe.");
        assert_eq!(prompt(45.0, 60.0), "What is said in the video:\n[0:00 - 0:05] f\n\nDescribe.");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[<{}>&;0-9:,. \\-a\n]{0,80}") {
            let _ = Transcript::parse(&bytes);
            let cue = format!("00:01 --> 00:02\n{text}\n");
            let _ = Transcript::parse(cue.as_bytes());
        }
    }
}
