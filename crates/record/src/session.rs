//! Saved runs: the events of runs, one JSON object per line, with the time at which each came.
//!
//! A last line that is incomplete, as a killed program leaves it, is dropped. Events of later versions are skipped.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Event, EventKind, Failure};

/// Larger files are refused.
const MAX_BYTES: u64 = 1 << 30;

/// One line of a saved run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedEvent {
    /// When the event came, in milliseconds since the run began; none in files without times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<f64>,
    #[serde(flatten)]
    pub event: Event,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// The file's lines in order.
    pub lines: Vec<RecordedEvent>,
    /// The last line is incomplete: the writer was killed while writing it.
    pub torn: bool,
}

/// Why a saved run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("cannot read saved run {}: {source}", .file.display())]
    Read { file: PathBuf, source: io::Error },
    /// It is not a saved run, or a line before the last is invalid.
    #[error("saved run {}: line {line}: {problem}", .file.display())]
    Line { file: PathBuf, line: usize, problem: String },
    #[error("saved run {}: no events in it", .file.display())]
    Empty { file: PathBuf },
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let hint = match &error {
            SessionError::Read { .. } => "check the path",
            _ => "use a file written by the studio, by --save or by --json",
        };
        Failure::input(error.to_string(), hint)
    }
}

impl Session {
    /// Read a file. Fails if it cannot be read, contains no event, or a line before the last is not an event.
    pub fn read(file: &Path) -> Result<Self, SessionError> {
        Self::parse(&Self::bytes(file)?, file)
    }

    /// Read the bytes of a file; `file` is for messages only.
    pub fn parse(bytes: &[u8], file: &Path) -> Result<Self, SessionError> {
        let (session, invalid) = Self::salvage(bytes, file)?;
        match invalid.into_iter().next() {
            Some((line, problem)) => Err(SessionError::Line { file: file.into(), line, problem }),
            None => Ok(session),
        }
    }

    /// Read what is readable: the session without the invalid lines, and the number (from 1) and the problem of each of those.
    /// `file` is for messages only. Fails if the first line is not an event, or there is no line: then it is not a session
    /// file.
    pub fn salvage(bytes: &[u8], file: &Path) -> Result<(Self, Vec<(usize, String)>), SessionError> {
        let (mut session, mut invalid) = (Self::default(), Vec::new());
        let mut rest = bytes;
        let mut number = 0;
        while !rest.is_empty() {
            number += 1;
            let end = rest.iter().position(|b| *b == b'\n');
            let (line, after) = end.map_or((rest, &[][..]), |end| (&rest[..end], &rest[end + 1..]));
            rest = after;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match serde_json::from_slice::<RecordedEvent>(line) {
                Ok(line) => session.lines.push(line),
                Err(_) if is_unknown_event(line) => {}
                Err(_) if end.is_none() && !session.lines.is_empty() => session.torn = true,
                Err(e) => {
                    let problem = format!("not an event: {e}");
                    if session.lines.is_empty() {
                        return Err(SessionError::Line { file: file.into(), line: number, problem });
                    }
                    invalid.push((number, problem));
                }
            }
        }
        if session.lines.is_empty() {
            return Err(SessionError::Empty { file: file.into() });
        }
        Ok((session, invalid))
    }

    /// The bytes of a saved run. Fails if they cannot be read, or are more than 1 GiB.
    pub fn bytes(file: &Path) -> Result<Vec<u8>, SessionError> {
        let fail = |source| SessionError::Read { file: file.into(), source };
        let about = std::fs::metadata(file).map_err(fail)?;
        if about.len() > MAX_BYTES {
            return Err(fail(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 1 GiB")));
        }
        std::fs::read(file).map_err(fail)
    }

    /// When each event comes in a replay at original speed, in milliseconds from the first one: by its time stamp, or, without
    /// one, by the time that its step took. Never decreasing.
    pub fn times(&self) -> Vec<f64> {
        let mut now = 0.0;
        let mut zero: Option<(u64, f64)> = None;
        let time = |line: &RecordedEvent| {
            if let Some(at) = line.at_ms.filter(|at| at.is_finite()) {
                // Each run of a file has a clock of its own.
                let begun = match zero {
                    Some((run, begun)) if run == line.event.run => begun,
                    _ => {
                        zero = Some((line.event.run, now - at));
                        now - at
                    }
                };
                now = f64::max(now, begun + at);
            } else if let EventKind::Step(step) = &line.event.kind {
                now += (step.draft_ms + step.verify_ms + step.other_ms).clamp(0.0, 1e9);
            }
            now
        };
        self.lines.iter().map(time).collect()
    }

    /// The numbers of its runs in order; run 0, the engine itself, is left out.
    pub fn runs(&self) -> Vec<u64> {
        let mut runs: Vec<u64> = Vec::new();
        for run in self.lines.iter().map(|l| l.event.run).filter(|r| *r > 0) {
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }
}

/// True for a JSON object with an `event` that this version does not know.
fn is_unknown_event(line: &[u8]) -> bool {
    const KNOWN: [&str; 13] = [
        "ready", "started", "stage", "estimate", "prompt", "draft", "step", "retry", "done", "failed",
        "speed", "verified", "edited",
    ];
    let value: Option<serde_json::Value> = serde_json::from_slice(line).ok();
    let name = value.as_ref().and_then(|v| v.get("event")?.as_str());
    name.is_some_and(|name| !KNOWN.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stage, Step};

    fn stage(at_ms: Option<f64>) -> RecordedEvent {
        let kind = EventKind::Stage { stage: Stage::Decode, done: 1, total: 2, left_ms: None };
        RecordedEvent { at_ms, event: Event::new(1, kind) }
    }

    fn step(run: u64, at_ms: Option<f64>) -> RecordedEvent {
        let step = Step { draft_ms: 2.0, verify_ms: 8.0, ..Step::default() };
        RecordedEvent { at_ms, event: Event::new(run, EventKind::Step(step)) }
    }

    fn text(lines: &[RecordedEvent]) -> String {
        lines.iter().map(|l| serde_json::to_string(l).unwrap() + "\n").collect()
    }

    #[test]
    fn an_incomplete_last_line_is_dropped_and_any_other_is_an_error() {
        let whole = text(&[stage(Some(1.5)), step(1, None)]);
        let session = Session::parse(whole.as_bytes(), Path::new("a")).unwrap();
        assert_eq!((session.lines.len(), session.torn), (2, false));
        for cut in 1..40 {
            let session = Session::parse(&whole.as_bytes()[..whole.len() - 1 - cut], Path::new("a")).unwrap();
            assert_eq!((session.lines.len(), session.torn), (1, true));
        }
        let error = Session::parse(format!("{whole}oops\n{whole}").as_bytes(), Path::new("a.jsonl"));
        assert!(error.unwrap_err().to_string().starts_with("saved run a.jsonl: line 3: not an event"));
        for no in ["", "\n\n"] {
            assert!(matches!(Session::parse(no.as_bytes(), Path::new("a")), Err(SessionError::Empty { .. })));
        }
        assert!(Session::parse(b"{\"event\":", Path::new("a")).is_err(), "a torn line alone is no session");
    }

    #[test]
    fn events_of_later_versions_are_passed_over() {
        let lines = format!("{}{{\"run\":0,\"event\":\"comparison\"}}\n", text(&[stage(None)]));
        assert_eq!(Session::parse(lines.as_bytes(), Path::new("a")).unwrap().lines.len(), 1);
        let wrong = "{\"run\":1,\"event\":\"step\"}\n";
        assert!(Session::parse(wrong.as_bytes(), Path::new("a")).is_err());
    }

    #[test]
    fn times_are_the_stamps_or_the_steps_own() {
        let of = |lines: Vec<RecordedEvent>| Session { lines, torn: false }.times();
        assert_eq!(of(vec![stage(None), step(1, None), step(1, None)]), [0.0, 10.0, 20.0]);
        assert_eq!(of(vec![stage(Some(5.0)), step(1, Some(30.0)), step(1, Some(25.0))]), [0.0, 25.0, 25.0]);
        // The second run's clock restarts.
        assert_eq!(of(vec![step(1, Some(9.0)), step(2, Some(1.0)), step(2, Some(4.0))]), [0.0, 0.0, 3.0]);
        assert_eq!(Session { lines: vec![step(3, None), step(1, None)], torn: false }.runs(), [3, 1]);
    }
}
