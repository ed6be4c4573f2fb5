//! The directory of saved runs: its list, and reading, deleting and pruning its files. Everything here may block and runs
//! off the studio's thread.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::tui::{knobs::label, text};
use specreel_record::{
    Event, EventKind, Failure, Pieces, RunLog, RunState, Session, Started, Stats, session::RecordedEvent,
};
use specreel_speculate::Method;

/// At most this many sessions are listed, the newest ones.
const MAX_LISTED: usize = 1000;
/// Longest first line that is read: it holds a prompt.
const MAX_FIRST: u64 = 1 << 20;
/// A line names its event within this many bytes.
const MAX_HEAD: usize = 200;
/// Longest last line that is read: it holds a whole caption.
const MAX_LAST: u64 = 8 << 20;
/// A file that was written more recently than this may still be open in another studio.
const RECENT: Duration = Duration::from_secs(600);

/// One file in a list: a run, or the segments of a clip. All text in it is sanitized.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    pub path: PathBuf,
    pub age_s: u64,
    pub bytes: u64,
    /// The method's name, with the parameters that differ from its preset's.
    pub method: String,
    pub started: Started,
    /// Segments that were started and that were requested, if the clip is captioned in segments.
    pub segments: Option<(usize, usize)>,
    /// How the last run ended. [`RunState::CutOff`] if the file ends before that, or segments are missing.
    pub state: RunState,
    /// The caption; empty if the file ends before it is complete.
    pub text: String,
    /// The statistics of all its runs; empty if the file ends before they are known.
    pub stats: Box<Stats>,
}

impl SessionEntry {
    /// The entry of these runs; `None` if the first one did not start.
    pub fn new(path: &Path, age_s: u64, bytes: u64, mut runs: Vec<RunLog>) -> Option<Self> {
        let started = runs.first()?.started()?.clone();
        runs.iter_mut().for_each(RunLog::cut_off);
        let segments = started.segment.map(|segment| match segment.count {
            0 => (runs.len(), runs.len()),
            count => (runs.len().min(count), count),
        });
        let mut state = runs.last()?.state().clone();
        if segments.is_some_and(|(begun, count)| begun < count) && runs.last()?.is_finished() {
            state = RunState::CutOff;
        }
        let line = |run: &RunLog| {
            let span = run.started().filter(|_| segments.is_some()).and_then(|started| started.span);
            span.map_or_else(String::new, |span| format!("{span}  ")) + run.text().trim()
        };
        let text = runs.iter().map(line).collect::<Vec<_>>().join("\n");
        Some(Self {
            path: path.into(),
            age_s,
            bytes,
            method: method_label(&started.method),
            started,
            segments,
            state,
            text,
            stats: Box::new(Pieces::of(&runs).stats()),
        })
    }

    /// The clip's file name, with the part of it that the run is about.
    pub(crate) fn name(&self) -> String {
        let clip = Path::new(&self.started.video).file_name().unwrap_or_default().to_string_lossy();
        let clip = text::clean_line(&clip);
        match self.started.span.filter(|_| self.segments.is_none()) {
            Some(span) => format!("{clip} · {span}"),
            None => clip,
        }
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        let Started { video, target, prompt, before, .. } = &self.started;
        let mut texts = vec![video.as_str(), &self.method, target, prompt, &self.text];
        texts.extend(before.iter().flat_map(|turn| [turn.prompt.as_str(), &turn.answer]));
        texts
    }
}

/// The sessions of a directory, newest first. A missing directory counts as empty; other files are skipped.
pub(crate) fn list(folder: &Path) -> Result<Vec<SessionEntry>, String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("cannot read {}: {e}", folder.display())),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "jsonl"));
    // File names start with the time.
    files.sort_unstable_by(|a, b| b.cmp(a));
    files.truncate(MAX_LISTED);
    Ok(files.iter().filter_map(|file| look(file).ok().flatten()).collect())
}

/// The entry of a file, from its first and last lines; `None` if it is not a session of the studio.
fn look(path: &Path) -> io::Result<Option<SessionEntry>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    let age = metadata.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    let runs = logs(file, metadata.len())?;
    Ok(SessionEntry::new(path, age.map_or(0, |age| age.as_secs()), metadata.len(), runs))
}

/// The logs of a file's runs, of which steps and progress are skipped unread.
fn logs(mut file: File, bytes: u64) -> io::Result<Vec<RunLog>> {
    let mut first = Vec::new();
    BufReader::new(&file).take(MAX_FIRST).read_until(b'\n', &mut first)?;
    let mut logs = Vec::new();
    let Ok(line) = serde_json::from_slice::<RecordedEvent>(&first) else { return Ok(logs) };
    let in_segments = matches!(line.event.kind, EventKind::Started(Started { segment: Some(_), .. }));
    fold(&mut logs, line);
    if !in_segments {
        last_lines(&mut file, bytes)?.into_iter().for_each(|line| fold(&mut logs, line));
        return Ok(logs);
    }
    file.seek(SeekFrom::Start(first.len() as u64))?;
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 16, file), Vec::new());
    while reader.by_ref().take(MAX_LAST).read_until(b'\n', &mut line)? > 0 {
        // Inside a text the quotes would be escaped.
        let head = String::from_utf8_lossy(&line[..line.len().min(MAX_HEAD)]);
        let is_wanted = |event: &str| head.contains(&format!("\"event\":\"{event}\""));
        if ["started", "done", "failed", "speed", "verified", "edited"].into_iter().any(is_wanted)
            && let Ok(line) = serde_json::from_slice(&line)
        {
            fold(&mut logs, line);
        }
        line.clear();
    }
    Ok(logs)
}

/// Append an event to a file of runs; an incomplete last line is removed.
pub(crate) fn append(path: &Path, event: &Event) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
    file.set_len(whole)?;
    file.seek(SeekFrom::Start(whole))?;
    let mut line = serde_json::to_vec(&RecordedEvent { at_ms: None, event: event.clone() })?;
    line.push(b'\n');
    file.write_all(&line)?;
    file.sync_data()
}

/// Take in an event: one that starts a run begins a log.
fn fold(logs: &mut Vec<RunLog>, line: RecordedEvent) {
    let event = text::clean_event(line.event);
    if matches!(event.kind, EventKind::Started(_)) {
        logs.push(RunLog::new(event.run));
    }
    // Each takes what belongs to its run; its speed may be measured once the next one has begun.
    for log in logs {
        log.apply(&event);
    }
}

/// The name of a method in a saved run, with the parameters that differ from its preset's.
fn method_label(method: &serde_json::Value) -> String {
    let name = method.get("name").and_then(|n| n.as_str()).unwrap_or_default();
    let known = serde_json::from_value::<Method>(method.clone()).ok();
    let preset = Method::preset(name).ok();
    let label = known.zip(preset).map(|(method, preset)| label(&method, &preset));
    text::clean_line(&label.unwrap_or_else(|| name.to_owned()))
}

/// The last event of a run, and its measured speed and verification after it, if any. Read from the end in growing parts.
fn last_lines(file: &mut File, bytes: u64) -> io::Result<Vec<RecordedEvent>> {
    let mut size = 1 << 14;
    loop {
        let from = bytes.saturating_sub(size);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(size).read_to_end(&mut tail)?;
        let mut rest = tail.strip_suffix(b"\n").unwrap_or(&tail);
        let mut lines = Vec::new();
        while let Some(begin) = rest.iter().rposition(|b| *b == b'\n') {
            // An incomplete line, as a killed program leaves it, is skipped.
            if let Ok(line) = serde_json::from_slice::<RecordedEvent>(&rest[begin + 1..]) {
                let is_later = line.event.is_late();
                let is_end = line.event.ends_run();
                lines.insert(0, line);
                if !is_later {
                    return Ok(if is_end { lines } else { Vec::new() });
                }
            }
            rest = &rest[..begin];
        }
        if from == 0 || size >= MAX_LAST {
            return Ok(Vec::new());
        }
        size *= 8;
    }
}

/// Delete all but the newest `keep` sessions of a directory, except files that may still be open. Returns how many were deleted.
pub(crate) fn prune(folder: &Path, keep: usize) -> io::Result<usize> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?.flatten().map(|e| e.path()).collect();
    files.retain(|f| is_named_by_time(f));
    files.sort_unstable_by(|a, b| b.cmp(a));
    let mut gone = 0;
    for file in files.iter().skip(keep) {
        let quiet = std::fs::metadata(file)?.modified()?.elapsed().is_ok_and(|age| age > RECENT);
        if quiet {
            std::fs::remove_file(file)?;
            gone += 1;
        }
    }
    Ok(gone)
}

/// True for file names that the studio gives; others are the user's own and stay.
fn is_named_by_time(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let digits = |text: Option<&str>| text.is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
    name.ends_with(".jsonl")
        && digits(name.get(..8))
        && name.get(8..9) == Some("T")
        && digits(name.get(9..15))
        && name.get(15..17) == Some("Z-")
}

pub(crate) fn load(path: &Path) -> Result<Session, String> {
    Session::read(path).map_err(|e| Failure::from(e).error)
}

pub(crate) fn delete(path: &Path) -> Result<(), String> {
    std::fs::remove_file(path).map_err(|e| format!("cannot delete {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;
    use specreel_record::{Event, Segment, Span, StopReason, testing::ended};

    fn write(folder: &Path, name: &str, kinds: &[EventKind], tail: &str) {
        let line = |kind: &EventKind| serde_json::to_string(&Event::new(1, kind.clone())).unwrap() + "\n";
        let text: String = kinds.iter().map(line).collect();
        std::fs::write(folder.join(name), text + tail).unwrap();
    }

    #[test]
    fn the_newest_come_first_and_foreign_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let started = testing::started("/v/star.mp4", "lvspec");
        let long = "A star. ".repeat(9000);
        let stats = Stats { emitted: 12, ..Stats::default() };
        let done = ended(StopReason::Eos, &format!("{long}\u{1b}[31m"), &[], stats);
        let speed = |measuring| EventKind::Speed { speedup: None, measuring };
        let measured = [started.clone(), done.clone(), speed(true), speed(false)];
        write(dir.path(), "20260101-a.jsonl", &[started.clone(), done], "");
        write(dir.path(), "20260100-m.jsonl", &measured, "{\"run\":1,\"ev");
        write(dir.path(), "20260102-b.jsonl", std::slice::from_ref(&started), "{\"run\":1,\"ev");
        write(dir.path(), "20260103-c.jsonl", &[], "no session\n");
        write(dir.path(), "notes.txt", &[started], "");
        let list = list(dir.path()).unwrap();
        assert_eq!(list.len(), 3);
        assert_eq!((&list[2].state, list[2].stats.emitted), (&RunState::Done(StopReason::Eos), 12));
        assert_eq!((&list[0].state, list[0].name().as_str()), (&RunState::CutOff, "star.mp4"));
        assert_eq!(list[1].state, RunState::Done(StopReason::Eos));
        assert_eq!((list[1].text.as_str(), list[1].stats.emitted), (long.trim(), 12));
        assert_eq!(super::list(&dir.path().join("none")), Ok(vec![]));
    }

    #[test]
    fn an_edited_caption_takes_the_place_of_the_first_one() {
        let dir = tempfile::tempdir().unwrap();
        let done = ended(StopReason::Eos, "A star.", &[], Stats::default());
        write(dir.path(), "a.jsonl", &[testing::started("/v/star.mp4", "naive"), done], "{\"run\":1,\"ev");
        let file = dir.path().join("a.jsonl");
        for text in ["A sun.", "The sun."] {
            append(&file, &Event::new(1, EventKind::Edited { text: text.into() })).unwrap();
            assert_eq!(list(dir.path()).unwrap()[0].text, text);
        }
        assert_eq!(load(&file).unwrap().lines.len(), 4);
    }

    #[test]
    fn the_segments_of_a_clip_are_one_session() {
        let dir = tempfile::tempdir().unwrap();
        let segment = |index: usize| {
            let start = index as f64 * 10.0;
            let span = Some(Span { start, end: start + 10.0 });
            let segment = Some(Segment { first: 4, index, count: 2 });
            EventKind::Started(Started { span, segment, ..testing::about("/v/star.mp4", "naive") })
        };
        let stats = Stats { emitted: 3, steps: 1, ..Stats::default() };
        let done = |text: &str| ended(StopReason::Eos, text, &[], stats.clone());
        let kinds = [segment(0), done(" One."), segment(1), done("Two \"event\":\"done\".")];
        write(dir.path(), "a.jsonl", &kinds, "");
        write(dir.path(), "b.jsonl", &[segment(0), done("One.")], "");
        let list = list(dir.path()).unwrap();
        assert_eq!((&list[0].state, list[0].segments), (&RunState::CutOff, Some((1, 2))));
        assert_eq!((&list[1].state, list[1].segments), (&RunState::Done(StopReason::Eos), Some((2, 2))));
        assert_eq!(list[1].text, "0:00 – 0:10  One.\n0:10 – 0:20  Two \"event\":\"done\".");
        assert_eq!((list[1].stats.emitted, list[1].bytes > 500), (6, true));
    }

    #[test]
    fn the_oldest_beyond_those_to_keep_go_unless_they_may_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let name = |day: u32| format!("202601{day:02}T000000Z-star-naive.jsonl");
        let old = SystemTime::now() - Duration::from_secs(86_400);
        for day in 1..=6 {
            let path = dir.path().join(name(day));
            std::fs::write(&path, "x").unwrap();
            // The second is written right now.
            if day != 2 {
                File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        std::fs::write(dir.path().join("mine.jsonl"), "x").unwrap();
        assert_eq!(prune(dir.path(), 3).unwrap(), 2);
        let left = |day| dir.path().join(name(day)).exists();
        assert_eq!([1, 2, 3, 4, 5, 6].map(left), [false, true, false, true, true, true]);
        assert!(dir.path().join("mine.jsonl").exists(), "a user's own file stays");
        assert_eq!(prune(dir.path(), 3).unwrap(), 0);
    }

    #[test]
    fn what_is_deleted_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a.jsonl", &[testing::started("a.mp4", "naive")], "");
        let file = dir.path().join("a.jsonl");
        assert_eq!(load(&file).unwrap().lines.len(), 1);
        delete(&file).unwrap();
        assert!(delete(&file).unwrap_err().contains("a.jsonl"));
        assert!(load(&file).unwrap_err().contains("a.jsonl"));
    }
}
