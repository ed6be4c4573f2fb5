//! Parts of a video in time, and the turns of a conversation about it.

use serde::{Deserialize, Serialize};

/// A part of a video, in seconds from its first frame: `start` belongs to it, `end` does not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub start: f64,
    pub end: f64,
}

impl Span {
    pub fn contains(&self, seconds: f64) -> bool {
        self.start <= seconds && seconds < self.end
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.end - self.start
    }

    /// The same, so many seconds later.
    pub fn later(&self, seconds: f64) -> Self {
        Self { start: self.start + seconds, end: self.end + seconds }
    }

    /// True if it begins at or after 0 and ends after it began.
    pub fn is_sound(&self) -> bool {
        self.start >= 0.0 && self.end.is_finite() && self.start < self.end
    }
}

/// `0:30 – 1:05.5`.
impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} – {}", clock(self.start), clock(self.end))
    }
}

/// Seconds as a clock, with tenths unless 0: `0:07`, `12:03.5`, `1:02:03`.
pub fn clock(seconds: f64) -> String {
    let tenths = if seconds.is_finite() { (seconds.max(0.0) * 10.0).round() as u64 } else { 0 };
    let (s, tenth) = (tenths / 10, tenths % 10);
    let whole = match s / 3600 {
        0 => format!("{}:{:02}", s / 60, s % 60),
        h => format!("{h}:{:02}:{:02}", s / 60 % 60, s % 60),
    };
    if tenth == 0 { whole } else { format!("{whole}.{tenth}") }
}

/// Parse a time: seconds, `mm:ss` or `hh:mm:ss`, the seconds with an optional fraction. `None` for anything else.
pub fn seconds(text: &str) -> Option<f64> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let parts: Vec<&str> = text.trim().split(':').collect();
    let (last, before) = parts.split_last().filter(|(_, before)| before.len() < 3)?;
    let seconds: f64 = last.parse().ok().filter(|s: &f64| digits(last) && s.is_finite())?;
    let mut minutes = 0u32;
    for (i, part) in before.iter().enumerate() {
        let n: u32 = part.parse().ok().filter(|n| digits(part) && (i == 0 || *n < 60))?;
        minutes = minutes.checked_mul(60)?.checked_add(n)?;
    }
    (before.is_empty() || seconds < 60.0).then_some(f64::from(minutes) * 60.0 + seconds)
}

/// Minimum length of a piece in seconds.
pub const LEAST_SEGMENT_S: f64 = 1.0;

/// Which piece of a video a run is about, if the video is captioned piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Number of the first piece's run; the same for all pieces of one video.
    pub first: u64,
    /// Index of the piece, from 0.
    pub index: usize,
    /// Number of pieces; 0 if it is not known, because they are pieces of a stream.
    pub count: usize,
}

impl Segment {
    /// True if others may follow.
    pub fn continues(&self) -> bool {
        self.index + 1 < self.count || self.count == 0
    }
}

/// `2 of 5`, counted from 1; `2` where the number of pieces is not known.
impl std::fmt::Display for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.count {
            0 => write!(f, "{}", self.index + 1),
            count => write!(f, "{} of {count}", self.index + 1),
        }
    }
}

/// How a caption becomes cues of subtitles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Cues {
    /// One over the whole clip or segment; more only where it is longer than two lines
    #[default]
    Clip,
    /// One for each sentence, at equal parts of the time
    Sentences,
}

/// A question and its answer, earlier in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub prompt: String,
    /// The calls of tools in between, as another program has answered them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCalls>,
    /// Empty if the calls were the end of it.
    pub answer: String,
}

/// A message that calls tools, and what they returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCalls {
    /// What was said along with the calls.
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub results: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    pub name: String,
    pub arguments: serde_json::Map<String, serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_holds_its_start_and_not_its_end() {
        let span = Span { start: 1.0, end: 2.5 };
        assert_eq!([0.9, 1.0, 2.4, 2.5].map(|t| span.contains(t)), [false, true, true, false]);
        assert!(span.is_sound() && span.seconds() == 1.5);
        for (start, end) in [(2.0, 2.0), (3.0, 2.0), (-1.0, 2.0), (f64::NAN, 2.0), (0.0, f64::INFINITY)] {
            assert!(!Span { start, end }.is_sound(), "{start} to {end}");
        }
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        let table = [
            ("0", 0.0),
            ("90", 90.0),
            ("1.5", 1.5),
            ("1:30", 90.0),
            ("90:00", 5400.0),
            ("1:00:02.25", 3602.25),
        ];
        for (text, time) in table {
            assert_eq!(seconds(text), Some(time), "{text}");
        }
        for bad in [
            "",
            "-1",
            "1:",
            ":1",
            "1:60",
            "1:99:00",
            "1:2:3:4",
            "inf",
            "nan",
            "1e3",
            "+3",
            "1:-2",
            "x",
            ".",
            "99999999999:00",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_for_people() {
        assert_eq!(Span { start: 30.0, end: 65.52 }.to_string(), "0:30 – 1:05.5");
        assert_eq!([7.2, 59.96, 3723.0, f64::NAN].map(clock), ["0:07.2", "1:00", "1:02:03", "0:00"]);
    }
}
