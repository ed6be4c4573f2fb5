//! Saves every run as a file, on a thread of its own, so that a slow disk does not delay keys.
//!
//! Each event is written as one line as soon as it comes, so that a killed program loses at most one line. Neither waits for the
//! other: the thread's only message has a place in the studio's inbox from the start; and if too many events wait for the disk,
//! the studio gives the recording of that run up. What is then in the file is the beginning of the run, without its end.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs::File, io::Write};

use time::UtcDateTime;
use tokio::sync::mpsc::{OwnedPermit, Sender};

use crate::tui::{archive, effect::Msg};
use specreel_client::private;
use specreel_record::{Event, EventKind, Started, StopReason, session::RecordedEvent};

/// Events that may wait for the disk.
const WAITING: usize = 4096;
/// Files that stay open: the speed of a run may be measured, and the run verified, once others have begun.
const OPEN: usize = 4;
/// Files that are known after that: their captions may be edited.
const KNOWN: usize = 200;
/// How long the studio's end waits for the disk.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

trait Disk: Write + Send {
    fn sync(&self) {}
}

impl Disk for File {
    fn sync(&self) {
        self.sync_data().ok();
    }
}

/// Creates a file that must not exist yet.
type Create = fn(&Path) -> std::io::Result<Box<dyn Disk>>;

fn create(path: &Path) -> std::io::Result<Box<dyn Disk>> {
    Ok(Box::new(private::options().create_new(true).append(true).open(path)?))
}

pub(crate) struct Recorder {
    thread: Option<Thread>,
    /// Runs of which events are lost: nothing after them is recorded, so that a recording has no gaps.
    lost: BTreeSet<u64>,
}

struct Thread {
    events: SyncSender<(Instant, Event)>,
    /// Disconnected when it has ended.
    ended: Receiver<()>,
    folder: PathBuf,
}

impl Recorder {
    /// Record into files of this directory; without one, nothing is recorded. The first problem is reported as a message.
    pub fn start(folder: Option<PathBuf>, messages: Sender<Msg>) -> Self {
        Self::start_on(create, folder, messages)
    }

    fn start_on(create: Create, folder: Option<PathBuf>, messages: Sender<Msg>) -> Self {
        let report = messages.try_reserve_owned().ok();
        let started = folder.and_then(|folder| {
            let (events, inbox) = sync_channel(WAITING);
            let (lives, ended) = sync_channel(1);
            let place = folder.clone();
            let thread = std::thread::Builder::new().name("recorder".into());
            let work = move || {
                let _lives = lives;
                record(create, &place, &inbox, report);
            };
            thread.spawn(work).ok().map(|_| Thread { events, ended, folder })
        });
        Self { thread: started, lost: BTreeSet::new() }
    }

    /// Record this event, if it is of a run. Returns a message if that run's recording had to be given up.
    pub fn event(&mut self, event: &Event) -> Option<Msg> {
        let thread = self.thread.as_ref()?;
        if event.run == 0 || self.lost.contains(&event.run) {
            return None;
        }
        match thread.events.try_send((Instant::now(), event.clone())) {
            Ok(()) => None,
            Err(TrySendError::Disconnected(_)) => {
                self.thread = None;
                None
            }
            Err(TrySendError::Full(_)) => {
                self.lost.insert(event.run);
                let what = match event.kind {
                    EventKind::Started(_) => "this run is not saved",
                    _ => "only the beginning of this run is saved",
                };
                let folder = thread.folder.display();
                Some(Msg::Unrecorded(format!("{what}: {WAITING} events wait for the disk of {folder}")))
            }
        }
    }

    /// Write the remaining events. Returns the lost ones if the disk takes longer than `patience`.
    pub fn finish(self, patience: Duration) -> Option<String> {
        let Thread { events, ended, folder } = self.thread?;
        drop(events);
        (ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout)).then(|| {
            format!(
                "{}: the disk does not respond: the end of the last run may not be saved",
                folder.display()
            )
        })
    }
}

fn record(
    create: Create,
    folder: &Path,
    inbox: &Receiver<(Instant, Event)>,
    mut report: Option<OwnedPermit<Msg>>,
) {
    // The last one belongs to the current run.
    let mut open: VecDeque<Recording> = VecDeque::new();
    let mut closed: VecDeque<(Vec<u64>, PathBuf)> = VecDeque::new();
    let mut write = |at, event: Event| {
        let run = event.run;
        if let EventKind::Started(Started { segment, .. }) = &event.kind {
            // The segments of a clip share a file.
            let group = segment.filter(|s| s.first != run).map(|s| s.first);
            match open.back_mut().filter(|last| group.is_some() && last.group == group) {
                Some(last) => last.runs.push(run),
                None => open.push_back(Recording::create(create, folder, at, &event)?),
            }
            closed.extend(open.drain(..open.len().saturating_sub(OPEN)).map(|old| (old.runs, old.path)));
            closed.drain(..closed.len().saturating_sub(KNOWN));
        }
        // A run is recorded from its start or not at all.
        let Some(place) = open.iter().position(|open| open.runs.contains(&run)) else {
            let file = closed.iter().find(|(runs, _)| runs.contains(&run));
            return match file.filter(|_| matches!(event.kind, EventKind::Edited { .. })) {
                Some((_, path)) => archive::append(path, &event),
                None => Ok(()),
            };
        };
        let is_kept = open[place].write(at, event);
        if !matches!(is_kept, Ok(true)) {
            open.remove(place);
        }
        is_kept.map(drop)
    };
    for (at, event) in inbox {
        if let Err(error) = write(at, event)
            && let Some(report) = report.take()
        {
            report.send(Msg::Unrecorded(format!("runs are not saved: {error}")));
        }
    }
}

struct Recording {
    runs: Vec<u64>,
    /// What the segments of a clip have in common.
    group: Option<u64>,
    /// The file contains an earlier run.
    has_earlier: bool,
    begun: Instant,
    file: Box<dyn Disk>,
    path: PathBuf,
}

impl Recording {
    fn create(create: Create, folder: &Path, begun: Instant, event: &Event) -> std::io::Result<Self> {
        let EventKind::Started(Started { video, method, segment, .. }) = &event.kind else {
            return Err(std::io::Error::other("a run that has not started"));
        };
        let fail = |e: std::io::Error| std::io::Error::new(e.kind(), format!("{}: {e}", folder.display()));
        private::create_dir_all(folder).map_err(fail)?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let clip = Path::new(video).file_stem().unwrap_or_default().to_string_lossy();
        let method = method.get("name").and_then(|n| n.as_str()).unwrap_or_default();
        let name = format!("{}-{}-{}", stamp(seconds), slug(&clip), slug(method));
        let mut n = 1;
        loop {
            let more = if n > 1 { format!("-{n}") } else { String::new() };
            let path = folder.join(format!("{name}{more}.jsonl"));
            match create(&path) {
                Ok(file) => {
                    let group = segment.map(|s| s.first);
                    let runs = vec![event.run];
                    return Ok(Self { runs, group, has_earlier: false, begun, file, path });
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && n < 1000 => n += 1,
                Err(e) => return Err(fail(e)),
            }
        }
    }

    /// Write a line. False if the file is not kept.
    fn write(&mut self, at: Instant, event: Event) -> std::io::Result<bool> {
        if is_unwritten(&event.kind) && !self.has_earlier {
            return std::fs::remove_file(&self.path).map(|()| false);
        }
        let ends = event.ends_run();
        let ms = at.saturating_duration_since(self.begun).as_secs_f64() * 1e3;
        let line = RecordedEvent { at_ms: Some((ms * 100.0).round() / 100.0), event };
        let mut bytes = serde_json::to_vec(&line)?;
        bytes.push(b'\n');
        self.file.write_all(&bytes)?;
        if ends {
            self.has_earlier = true;
            self.file.sync();
        }
        Ok(true)
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
    let at = i64::try_from(seconds).ok().and_then(|seconds| UtcDateTime::from_unix_timestamp(seconds).ok());
    let at = at.unwrap_or(UtcDateTime::UNIX_EPOCH);
    let ((year, month, day), (hour, minute, second)) = (at.to_calendar_date(), at.as_hms());
    format!("{year:04}{:02}{day:02}T{hour:02}{minute:02}{second:02}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;
    use crate::tui::testing;
    use specreel_record::{
        Segment, Session, Stage, Stats,
        testing::{done, ended},
    };

    const LONG: Duration = Duration::from_secs(60);

    fn event(run: u64, kind: EventKind) -> Event {
        Event::new(run, kind)
    }

    fn started(video: &str) -> EventKind {
        testing::started(video, "naive")
    }

    #[test]
    fn a_caption_is_edited_in_its_file_however_many_runs_follow() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, _inbox) = tokio::sync::mpsc::channel(4);
        let mut recorder = Recorder::start(Some(dir.path().into()), messages);
        for run in 1..=6 {
            recorder.event(&event(run, started(&format!("/v/clip{run}.mp4"))));
            recorder.event(&event(run, done("A")));
        }
        for run in [1, 6] {
            recorder.event(&event(run, EventKind::Edited { text: format!("Edited {run}.") }));
        }
        assert_eq!(recorder.finish(LONG), None);
        let text = |clip: &str| {
            let mut files = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
            let file = files.find(|file| file.to_str().unwrap().contains(clip)).unwrap();
            Session::read(&file).unwrap().lines.pop().unwrap().event.kind
        };
        let edited = |run: u64| EventKind::Edited { text: format!("Edited {run}.") };
        assert_eq!([text("clip1"), text("clip6")], [edited(1), edited(6)]);
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
        recorder.event(&event(2, done("A")));
        recorder.event(&event(1, EventKind::Speed { speedup: None, measuring: false }));
        // A run that is cancelled before it wrote anything leaves no file.
        recorder.event(&event(3, started("/v/b.mp4")));
        recorder.event(&event(3, ended(StopReason::Cancelled, "", &[], Stats::default())));
        assert_eq!(recorder.finish(LONG), None);
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort_by_key(|f| f.as_os_str().len());
        let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.ends_with("Z-a-red-ball-naive.jsonl"), "{name}");
        assert_eq!(files.len(), 2, "a run that did not start is not saved");
        let lines = |file: &PathBuf| Session::read(file).unwrap().lines;
        assert_eq!(lines(&files[0]).len(), 3, "what comes late belongs to its run");
        let second = lines(&files[1]);
        assert_eq!(second.len(), 3);
        assert!(second.iter().all(|l| l.event.run == 2 && l.at_ms.is_some()));
    }

    #[test]
    fn the_segments_of_a_clip_share_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let (messages, _inbox) = tokio::sync::mpsc::channel(4);
        let mut recorder = Recorder::start(Some(dir.path().into()), messages);
        for (run, first, index) in [(1, 1, 0), (2, 1, 1), (3, 1, 0), (4, 4, 0)] {
            let segment = Some(Segment { first, index, count: 2 });
            let about = Started { segment, ..testing::about("/v/a.mp4", "naive") };
            recorder.event(&event(run, EventKind::Started(about)));
            // The first is captioned again; the others are cancelled before they wrote anything.
            let kind = match run {
                1 | 3 => done(""),
                _ => ended(StopReason::Cancelled, "", &[], Stats::default()),
            };
            recorder.event(&event(run, kind));
        }
        assert_eq!(recorder.finish(LONG), None);
        let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|f| f.unwrap().path()).collect();
        assert_eq!(files.len(), 1);
        let session = Session::read(&files[0]).unwrap();
        assert_eq!((session.runs(), session.lines.len()), (vec![1, 2, 3], 6));
        #[cfg(unix)]
        {
            let about = std::fs::metadata(&files[0]).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
            assert_eq!(mode & 0o777, 0o600, "prompt and caption are private");
        }
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
        assert_eq!(recorder.finish(LONG), None);
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
        recorder.event(&event(1, started("a.mp4")));
        assert_eq!(recorder.finish(LONG), None);
        assert!(matches!(inbox.try_recv(), Ok(Msg::Tick)));
        assert!(matches!(inbox.try_recv(), Ok(Msg::Unrecorded(_))));
    }

    /// A disk that writes nothing before the test says so.
    static STALLED: Mutex<bool> = Mutex::new(true);
    static CHANGED: Condvar = Condvar::new();

    struct Stalled(Box<dyn Disk>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            drop(CHANGED.wait_while(STALLED.lock().unwrap(), |stalled| *stalled).unwrap());
            self.0.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Disk for Stalled {}

    #[test]
    fn a_stalled_disk_costs_the_rest_of_a_run_and_stops_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let start = |folder: &Path| {
            let (messages, _inbox) = tokio::sync::mpsc::channel(4);
            let stalled: Create = |path| Ok(Box::new(Stalled(create(path)?)));
            Recorder::start_on(stalled, Some(folder.into()), messages)
        };
        let mut recorder = start(dir.path());
        let stage = EventKind::Stage { stage: Stage::Decode, done: 1, total: 2, left_ms: None };
        assert!(recorder.event(&event(1, started("a.mp4"))).is_none());
        // The thread holds that one from then on.
        let begun = Instant::now();
        while std::fs::read_dir(dir.path()).unwrap().next().is_none() {
            assert!(begun.elapsed() < LONG);
            std::thread::yield_now();
        }
        let told: Vec<_> =
            (0..WAITING + 2).filter_map(|_| recorder.event(&event(1, stage.clone()))).collect();
        let [Msg::Unrecorded(words)] = &told[..] else { panic!("{told:?}") };
        assert!(words.starts_with("only the beginning of this run is saved: 4096 events wait"), "{words}");
        let told = recorder.event(&event(2, started("b.mp4")));
        assert!(matches!(told, Some(Msg::Unrecorded(words)) if words.starts_with("this run is not saved: ")));
        let elsewhere = tempfile::tempdir().unwrap();
        let mut second = start(elsewhere.path());
        second.event(&event(3, started("c.mp4")));
        assert!(second.finish(Duration::from_millis(1)).unwrap().contains("may not be saved"));

        *STALLED.lock().unwrap() = false;
        CHANGED.notify_all();
        // What was lost is the end of the first run, and the whole second one.
        let begun = Instant::now();
        while recorder.event(&event(4, started("d.mp4"))).is_some() {
            assert!(begun.elapsed() < LONG);
            recorder.lost.remove(&4);
            std::thread::yield_now();
        }
        assert!(recorder.event(&event(1, stage)).is_none() && recorder.finish(LONG).is_none());
        let mut runs: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|file| Session::read(&file.unwrap().path()).unwrap())
            .map(|session| (session.runs(), session.lines.len()))
            .collect();
        runs.sort();
        let first = (vec![1], runs[0].1);
        assert!((WAITING..WAITING + 2).contains(&first.1), "{first:?}");
        assert!(runs.contains(&(vec![4], 1)) && runs.iter().all(|(runs, _)| *runs != [2]), "{runs:?}");
    }

    #[test]
    fn names_sort_by_time() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(951_827_696), "20000229T123456Z");
        assert_eq!(stamp(1_795_268_702), "20261121T134502Z");
        assert_eq!((slug("a  b/ü.mp4"), slug("..")), ("a-b-ü-mp4".into(), "run".into()));
    }
}
