//! The folder of saved sessions: what is in it, and one of them whole. Everything here may block and runs off the studio's
//! thread.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::text;
use crate::record::{EventKind, Failure, Session, Stats, StopReason, session::Line};

/// More sessions than this are not listed; the newest are.
const MAX_LISTED: usize = 1000;
/// Longest first line that is read: it holds a prompt.
const MAX_FIRST: u64 = 1 << 20;
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
    /// The clip's file name.
    pub clip: String,
    /// The prompt.
    pub prompt: String,
    /// The method's name.
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
    let Ok(Line { event, .. }) = serde_json::from_slice(&first) else { return Ok(None) };
    let EventKind::Started { method, lossless, target, video, prompt, .. } = event.kind else {
        return Ok(None);
    };
    let name = method.get("name").and_then(|n| n.as_str()).unwrap_or_default();
    let (ended, caption, stats) = match last_line(&mut file, about.len())?.map(|line| line.event.kind) {
        Some(EventKind::Done { reason, text, stats, .. }) => (Ended::Done(reason), text, stats),
        Some(EventKind::Failed(failure)) => (Ended::Failed(failure.error), String::new(), Box::default()),
        _ => (Ended::Open, String::new(), Box::default()),
    };
    Ok(Some(SessionEntry {
        path: path.into(),
        age_s: age.map_or(0, |a| a.as_secs()),
        clip: text::clean_line(&Path::new(&video).file_name().unwrap_or_default().to_string_lossy()),
        prompt: text::clean(&prompt),
        method: text::clean_line(name),
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

/// The last line, where it is whole. Read from the end, a longer piece each time.
fn last_line(file: &mut File, bytes: u64) -> io::Result<Option<Line>> {
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
    use crate::{record::Event, tui::testing};

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
