//! The folder of saved sessions: what is in it, and one of them whole. Everything here may block and runs off the studio's
//! thread.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{model::methods::label, text};
use crate::{
    record::{EventKind, Failure, Session, Span, Stats, StopReason, Turn, session::RecordedEvent},
    speculate::Method,
};

/// More sessions than this are not listed; the newest are.
const MAX_LISTED: usize = 1000;
/// Longest first line that is read: it holds a prompt.
const MAX_FIRST: u64 = 1 << 20;
/// Within so many bytes a line says which event it is.
const MAX_HEAD: usize = 200;
/// Longest last line that is read: it holds a whole caption.
const MAX_LAST: u64 = 8 << 20;

/// How a saved run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// At its own end, at a limit, or cancelled.
    Done(StopReason),
    /// It failed, in these words.
    Failed(String),
    /// Its file ends in the middle: it goes on, or its program was ended.
    Open,
}

/// One saved session in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionEntry {
    /// The file.
    pub path: PathBuf,
    /// Seconds since it was last written.
    pub age_s: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The clip's file name.
    pub clip: String,
    /// The part of it, where it is about one.
    pub span: Option<Span>,
    /// The pieces that were begun and those that there were to be, where it was captioned piece by piece.
    pub pieces: Option<(usize, usize)>,
    /// Questions asked before the prompt.
    pub before: Vec<Turn>,
    /// The prompt.
    pub prompt: String,
    /// The method's name, with the numbers that differ from those of that name.
    pub method: String,
    /// True if the method writes exactly what the target alone would.
    pub lossless: bool,
    /// The target's name.
    pub target: String,
    /// How it ended.
    pub ended: Ended,
    /// The caption; empty where the file ends in the middle.
    pub text: String,
    /// The account; empty where the file ends in the middle.
    pub stats: Box<Stats>,
}

impl SessionEntry {
    /// The clip, and which part of it.
    pub(crate) fn name(&self) -> String {
        self.span.map_or_else(|| self.clip.clone(), |span| format!("{} · {span}", self.clip))
    }

    /// All that it says, for a filter.
    pub(crate) fn words(&self) -> Vec<&str> {
        let mut words = vec![self.clip.as_str(), &self.method, &self.target, &self.prompt, &self.text];
        words.extend(self.before.iter().flat_map(|turn| [turn.prompt.as_str(), &turn.answer]));
        words
    }
}

/// The sessions of a folder, the newest first. A folder that is not there is an empty one; files that are none are left out.
pub(crate) fn list(folder: &Path) -> Result<Vec<SessionEntry>, String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(format!("cannot read {}: {e}", folder.display())),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "jsonl"));
    // Names begin with the time.
    files.sort_unstable_by(|a, b| b.cmp(a));
    files.truncate(MAX_LISTED);
    Ok(files.iter().filter_map(|file| look(file).ok().flatten()).collect())
}

/// What the first and the last line of a file say; none where it is no session of the studio.
fn look(path: &Path) -> io::Result<Option<SessionEntry>> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    let age = about.modified().ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    let mut first = Vec::new();
    BufReader::new(&file).take(MAX_FIRST).read_until(b'\n', &mut first)?;
    let Ok(RecordedEvent { event, .. }) = serde_json::from_slice(&first) else { return Ok(None) };
    let EventKind::Started { method, lossless, target, video, prompt, before, span, segment, .. } =
        event.kind
    else {
        return Ok(None);
    };
    let name = label_of(&method);
    let (ended, caption, stats, pieces) = match segment {
        Some(segment) => {
            let (ended, text, stats, begun) = pieces(&file, segment.count)?;
            (ended, text, stats, Some((begun, segment.count)))
        }
        None => match last_line(&mut file, about.len())?.map(|line| line.event.kind) {
            Some(EventKind::Done { reason, text, stats, .. }) => (Ended::Done(reason), text, stats, None),
            Some(EventKind::Failed(failure)) => {
                (Ended::Failed(failure.error), String::new(), Box::default(), None)
            }
            _ => (Ended::Open, String::new(), Box::default(), None),
        },
    };
    let clean = |turn: Turn| Turn { prompt: text::clean(&turn.prompt), answer: text::clean(&turn.answer) };
    Ok(Some(SessionEntry {
        path: path.into(),
        age_s: age.map_or(0, |a| a.as_secs()),
        bytes: about.len(),
        pieces,
        before: before.into_iter().map(clean).collect(),
        clip: text::clean_line(&Path::new(&video).file_name().unwrap_or_default().to_string_lossy()),
        prompt: text::clean(&prompt),
        span: span.filter(|_| segment.is_none()),
        method: text::clean_line(&name),
        lossless,
        target: text::clean_line(&target),
        ended: match ended {
            Ended::Failed(words) => Ended::Failed(text::clean(&words)),
            other => other,
        },
        text: text::clean(&caption).trim().to_owned(),
        stats,
    }))
}

/// The name of a method as a session has it, with what was changed in it.
fn label_of(method: &serde_json::Value) -> String {
    let name = method.get("name").and_then(|n| n.as_str()).unwrap_or_default();
    let known = serde_json::from_value::<Method>(method.clone()).ok();
    let preset = Method::preset(name).ok();
    known.zip(preset).map_or_else(|| name.to_owned(), |(method, preset)| label(&method, &preset))
}

/// How the pieces of a clip ended, their captions with their times, the account of all, and how many were begun. The steps
/// between are passed over unread.
fn pieces(mut file: &File, count: usize) -> io::Result<(Ended, String, Box<Stats>, usize)> {
    file.seek(SeekFrom::Start(0))?;
    let (mut text, mut stats, mut begun, mut ended) = (String::new(), Stats::default(), 0, Ended::Open);
    let mut line = Vec::new();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    while reader.by_ref().take(MAX_LAST).read_until(b'\n', &mut line)? > 0 {
        // What it is stands at the beginning; within a text the quotes would be escaped.
        let head = String::from_utf8_lossy(&line[..line.len().min(MAX_HEAD)]);
        let worth =
            ["started", "done", "failed"].iter().any(|e| head.contains(&format!("\"event\":\"{e}\"")));
        if worth && let Ok(RecordedEvent { event, .. }) = serde_json::from_slice(&line) {
            match event.kind {
                EventKind::Started { span, .. } => {
                    (begun, ended) = (begun + 1, Ended::Open);
                    let gap = if text.is_empty() { "" } else { "\n" };
                    text += &span.map_or_else(String::new, |span| format!("{gap}{span}  "));
                }
                EventKind::Done { reason, text: caption, stats: account, .. } => {
                    ended = Ended::Done(reason);
                    text += caption.trim();
                    stats.add_run(&account);
                }
                EventKind::Failed(failure) => ended = Ended::Failed(failure.error),
                _ => {}
            }
        }
        line.clear();
    }
    if begun < count && matches!(ended, Ended::Done(StopReason::Eos | StopReason::Length)) {
        ended = Ended::Open;
    }
    Ok((ended, text, Box::new(stats), begun))
}

/// The last line, where it is whole. Read from the end, a longer piece each time.
fn last_line(file: &mut File, bytes: u64) -> io::Result<Option<RecordedEvent>> {
    let mut size = 1 << 14;
    loop {
        let from = bytes.saturating_sub(size);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.take(size).read_to_end(&mut tail)?;
        let line = tail.strip_suffix(b"\n").unwrap_or(&tail);
        if let Some(begin) = line.iter().rposition(|b| *b == b'\n') {
            return Ok(serde_json::from_slice(&line[begin + 1..]).ok());
        }
        if from == 0 || size >= MAX_LAST {
            return Ok(None);
        }
        size *= 8;
    }
}

/// A file that was written to so lately may still be written by somebody.
const RECENT: Duration = Duration::from_secs(600);

/// Remove the oldest sessions of a folder beyond the newest `keep`, but none that may still be written. How many went.
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

/// True for the names that the studio gives: those of a user's own stay.
fn is_named_by_time(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let digits = |text: Option<&str>| text.is_some_and(|t| t.bytes().all(|b| b.is_ascii_digit()));
    name.ends_with(".jsonl")
        && digits(name.get(..8))
        && name.get(8..9) == Some("T")
        && digits(name.get(9..15))
        && name.get(15..17) == Some("Z-")
}

/// One session, whole.
pub(crate) fn load(path: &Path) -> Result<Session, String> {
    Session::read(path).map_err(|e| Failure::from(e).error)
}

/// Remove a session.
pub(crate) fn delete(path: &Path) -> Result<(), String> {
    std::fs::remove_file(path).map_err(|e| format!("cannot delete {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Event, Segment, Span},
        tui::testing,
    };

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
        let done = EventKind::Done {
            reason: StopReason::Eos,
            text: format!("{long}\u{1b}[31m"),
            ids: vec![],
            stats: Box::new(Stats { emitted: 12, ..Stats::default() }),
        };
        write(dir.path(), "20260101-a.jsonl", &[started.clone(), done], "");
        write(dir.path(), "20260102-b.jsonl", std::slice::from_ref(&started), "{\"run\":1,\"ev");
        write(dir.path(), "20260103-c.jsonl", &[], "no session\n");
        write(dir.path(), "notes.txt", &[started], "");
        let list = list(dir.path()).unwrap();
        assert_eq!(list.len(), 2);
        assert_eq!((&list[0].ended, list[0].clip.as_str()), (&Ended::Open, "star.mp4"));
        assert_eq!(list[1].ended, Ended::Done(StopReason::Eos));
        assert_eq!((list[1].text.as_str(), list[1].stats.emitted), (long.trim(), 12));
        assert_eq!(super::list(&dir.path().join("none")), Ok(vec![]));
    }

    #[test]
    fn the_pieces_of_a_clip_are_one_session() {
        let dir = tempfile::tempdir().unwrap();
        let piece = |index: usize| {
            let EventKind::Started {
                method, lossless, target, drafter, device, dtype, video, prompt, ..
            } = testing::started("/v/star.mp4", "naive")
            else {
                panic!("no start")
            };
            let (start, before) = (index as f64 * 10.0, vec![]);
            let span = Some(Span { start, end: start + 10.0 });
            let segment = Some(Segment { first: 4, index, count: 2 });
            EventKind::Started {
                method,
                lossless,
                target,
                drafter,
                device,
                dtype,
                video,
                prompt,
                before,
                span,
                segment,
            }
        };
        let done = |text: &str| EventKind::Done {
            reason: StopReason::Eos,
            text: text.into(),
            ids: vec![],
            stats: Box::new(Stats { emitted: 3, steps: 1, ..Stats::default() }),
        };
        write(
            dir.path(),
            "a.jsonl",
            &[piece(0), done(" One."), piece(1), done("Two \"event\":\"done\".")],
            "",
        );
        write(dir.path(), "b.jsonl", &[piece(0), done("One.")], "");
        let list = list(dir.path()).unwrap();
        assert_eq!((&list[0].ended, list[0].pieces), (&Ended::Open, Some((1, 2))));
        assert_eq!((&list[1].ended, list[1].pieces), (&Ended::Done(StopReason::Eos), Some((2, 2))));
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
