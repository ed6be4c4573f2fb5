//! Saves every run as a session file, on a thread of its own, so that a slow disk does not delay keys.
//!
//! Each event is written as one line as soon as it comes, so that a killed program loses at most one line. The thread never waits
//! for the studio: its only message has a place in the studio's inbox from the start.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::mpsc::{OwnedPermit, Sender};

use super::Msg;
use crate::record::{Event, EventKind, StopReason, session::RecordedEvent};

/// Events that may wait for the disk.
const WAITING: usize = 4096;

/// The recording thread.
pub(crate) struct Recorder {
    events: Option<SyncSender<(Instant, Event)>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Record into files of this directory; without one, nothing is recorded. The first problem is reported as a message.
    pub fn start(folder: Option<PathBuf>, messages: Sender<Msg>) -> Self {
        let report = messages.try_reserve_owned().ok();
        let Some(folder) = folder else { return Self { events: None, thread: None } };
        let (events, inbox) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("recorder".into());
        match thread.spawn(move || record(&folder, &inbox, report)) {
            Ok(thread) => Self { events: Some(events), thread: Some(thread) },
            Err(_) => Self { events: None, thread: None },
        }
    }

    /// Record this event, if it is of a run.
    pub fn event(&mut self, event: &Event) {
        if event.run > 0
            && let Some(events) = &self.events
            && events.send((Instant::now(), event.clone())).is_err()
        {
            self.events = None;
        }
    }

    /// Write the remaining events.
    pub fn finish(mut self) {
        drop(self.events.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn record(folder: &Path, inbox: &Receiver<(Instant, Event)>, mut report: Option<OwnedPermit<Msg>>) {
    let mut open: Option<Recording> = None;
    for (at, event) in inbox {
        if let EventKind::Started { segment, .. } = &event.kind {
            // The segments of a clip share a file.
            let group = segment.filter(|s| s.index > 0).map(|s| s.first);
            open = open.filter(|recording| group.is_some() && recording.group == group);
            if let Some(recording) = &mut open {
                recording.run = event.run;
            }
        }
        let written = match &mut open {
            Some(recording) if recording.run == event.run => recording.write(at, event),
            // A run is recorded from its start or not at all.
            _ if !matches!(event.kind, EventKind::Started { .. }) => continue,
            _ => Recording::create(folder, at, &event).and_then(|mut recording| {
                recording.write(at, event)?;
                open = Some(recording);
                Ok(())
            }),
        };
        if let Err(error) = written {
            open = None;
            if let Some(report) = report.take() {
                report.send(Msg::Unrecorded(error.to_string()));
            }
        }
    }
}

struct Recording {
    run: u64,
    /// What the segments of a clip have in common.
    group: Option<u64>,
    /// The file contains an earlier run.
    has_earlier: bool,
    begun: Instant,
    file: File,
    path: PathBuf,
}

impl Recording {
    fn create(folder: &Path, begun: Instant, event: &Event) -> std::io::Result<Self> {
        let EventKind::Started { video, method, segment, .. } = &event.kind else {
            return Err(std::io::Error::other("a run that has not started"));
        };
        let fail = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
        std::fs::create_dir_all(folder).map_err(fail)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let clip = Path::new(video).file_stem().unwrap_or_default().to_string_lossy();
        let method = method.get("name").and_then(|n| n.as_str()).unwrap_or_default();
        let name = format!("{}-{}-{}", stamp(seconds), slug(&clip), slug(method));
        let mut n = 1;
        loop {
            let more = if n > 1 { format!("-{n}") } else { String::new() };
            let path = folder.join(format!("{name}{more}.jsonl"));
            match OpenOptions::new().create_new(true).append(true).open(&path) {
                Ok(file) => {
                    let group = segment.map(|s| s.first);
                    return Ok(Self { run: event.run, group, has_earlier: false, begun, file, path });
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
                Err(e) => return Err(fail(e)),
            }
        }
    }

    fn write(&mut self, at: Instant, event: Event) -> std::io::Result<()> {
        if is_unwritten(&event.kind) && !self.has_earlier {
            return std::fs::remove_file(&self.path);
        }
        let ends = matches!(event.kind, EventKind::Done { .. } | EventKind::Failed(_));
        let ms = at.saturating_duration_since(self.begun).as_secs_f64() * 1e3;
        let line = RecordedEvent { at_ms: Some((ms * 100.0).round() / 100.0), event };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)?;
        if ends {
            self.has_earlier = true;
            self.file.sync_data().ok();
        }
        Ok(())
    }
}

/// True for the end of a run that was cancelled before it wrote anything, which is not saved.
fn is_unwritten(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Done { reason: StopReason::Cancelled, ids, .. } if ids.is_empty())
}

/// Letters and digits of a name; each sequence of others becomes one dash.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(40) {
        match c {
            c if c.is_alphanumeric() => out.push(c),
            _ if !out.ends_with('-') => out.push('-'),
            _ => {}
        }
    }
    let out = out.trim_matches('-');
    if out.is_empty() { "run".into() } else { out.to_owned() }
}

/// Seconds since 1970 as a date and time (UTC) that sorts: `20261121T134502Z`.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a number of days since 1970-01-01.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut rest) = (1970 + days / 146_097 * 400, days % 146_097);
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    (year, month, rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record::{Segment, Session, Stage},
        tui::testing,
    };

    fn event(run: u64, kind: EventKind) -> Event {
        Event::new(run, kind)
    }

    fn started(video: &str) -> EventKind {
        testing::started(video, "naive")
    }

    #[test]
    fn every_run_becomes_a_file_that_is_there_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("sessions");
        let (messages, _inbox) = tokio::sync::mpsc::channel(4);
        let mut recorder = Recorder::start(Some(folder.clone()), messages);
        let stage = EventKind::Stage { stage: Stage::Decode, done: 1, total: 2, left_ms: None };
        recorder.event(&event(0, stage.clone()));
        recorder.event(&event(7, stage.clone()));
        for run in [1, 2] {
            recorder.event(&event(run, started("/v/a red ball!.mp4")));
            recorder.event(&event(run, stage.clone()));
        }
        let done = EventKind::Done {
            reason: StopReason::Eos,
            text: "A".into(),
            ids: vec![1],
            stats: Box::default(),
        };
        recorder.event(&event(2, done));
        // A run that is cancelled before it wrote anything leaves no file.
        recorder.event(&event(3, started("/v/b.mp4")));
        let nothing = EventKind::Done {
            reason: StopReason::Cancelled,
            text: String::new(),
            ids: vec![],
            stats: Box::default(),
        };
        recorder.event(&event(3, nothing));
        recorder.finish();
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort_by_key(|f| f.as_os_str().len());
        let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.ends_with("Z-a-red-ball-naive.jsonl"), "{name}");
        assert_eq!(files.len(), 2, "a run that did not start is not saved");
        let lines = |file: &PathBuf| Session::read(file).unwrap().lines;
        assert_eq!(lines(&files[0]).len(), 2);
        let second = lines(&files[1]);
        assert_eq!(second.len(), 3);
        assert!(second.iter().all(|l| l.event.run == 2 && l.at_ms.is_some()));
    }

    #[test]
    fn the_segments_of_a_clip_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, _inbox) = tokio::sync::mpsc::channel(4);
        let mut recorder = Recorder::start(Some(dir.path().into()), messages);
        let done = |reason, ids| EventKind::Done { reason, text: String::new(), ids, stats: Box::default() };
        for (run, first, index) in [(1, 1, 0), (2, 1, 1), (3, 3, 0)] {
            let mut kind = started("/v/a.mp4");
            if let EventKind::Started { segment, .. } = &mut kind {
                *segment = Some(Segment { first, index, count: 2 });
            }
            recorder.event(&event(run, kind));
            // The second and the third are cancelled before they wrote anything.
            let kind = match run {
                1 => done(StopReason::Eos, vec![1]),
                _ => done(StopReason::Cancelled, vec![]),
            };
            recorder.event(&event(run, kind));
        }
        recorder.finish();
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(files.len(), 1);
        let session = Session::read(&files[0]).unwrap();
        assert_eq!((session.runs(), session.lines.len()), (vec![1, 2], 4));
    }

    #[test]
    fn a_directory_that_cannot_be_created_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let (messages, mut inbox) = tokio::sync::mpsc::channel(4);
        let mut recorder = Recorder::start(Some(file.join("sessions")), messages);
        recorder.event(&event(1, started("a.mp4")));
        recorder.event(&event(2, started("b.mp4")));
        recorder.finish();
        let Some(Msg::Unrecorded(problem)) = inbox.blocking_recv() else { panic!("no report") };
        assert!(problem.contains("sessions"), "{problem}");
        assert!(inbox.blocking_recv().is_none());
    }

    /// The studio reads no messages while it waits for the recorder at its end, and may have a full inbox at any time.
    #[test]
    fn a_full_inbox_does_not_stop_the_recorder() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let (messages, mut inbox) = tokio::sync::mpsc::channel(2);
        let mut recorder = Recorder::start(Some(file.join("sessions")), messages.clone());
        messages.try_send(Msg::Tick).unwrap();
        assert!(messages.try_send(Msg::Tick).is_err(), "the last place is the recorder's");
        let (finished, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            recorder.event(&event(1, started("a.mp4")));
            recorder.finish();
            finished.send(()).unwrap();
        });
        wait.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert!(matches!(inbox.try_recv(), Ok(Msg::Tick)));
        assert!(matches!(inbox.try_recv(), Ok(Msg::Unrecorded(_))));
    }

    #[test]
    fn names_sort_by_time() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_827_696), "20000229T123456Z");
        assert_eq!(stamp(1_795_268_702), "20261121T134502Z");
        assert_eq!((slug("a  b/ü.mp4"), slug("..")), ("a-b-ü-mp4".into(), "run".into()));
    }
}
