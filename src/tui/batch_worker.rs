//! Runs a batch on a thread of its own: the same loop as `specreel caption` has, over the studio's engine.
//!
//! The studio passes on the engine's events, and hears through a channel with a place for all that the batch will say, so that
//! neither waits for the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{io, path::Path, thread::JoinHandle};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::tui::effect::{BatchJob, BatchNews, Msg};
use crate::tui::worker::LOST;
use specreel_batch::{
    Batch, Ended, Halt, Outcome, Outputs, Part, Polish, Progress, Report, Sidecar, Summary,
};
use specreel_client::{Client, Interrupt, Remote};
use specreel_record::Event;

/// Events that may wait while a caption is written.
const WAITING: usize = 1 << 16;

/// A longer file is no caption.
const MAX_CAPTION_BYTES: u64 = 1 << 16;

pub(crate) struct BatchWorker {
    /// `None` once it fell behind: its run ends as if the engine had stopped.
    events: Option<Sender<Event>>,
    interrupt: Interrupt,
    engine: Remote,
    thread: JoinHandle<()>,
}

impl BatchWorker {
    /// Start it. The last of its messages is [`BatchNews::Ended`].
    pub fn start(job: BatchJob, engine: &Remote) -> io::Result<(Self, Receiver<Msg>)> {
        let (events, inbox) = channel(WAITING);
        // It reports each clip once, and its end.
        let (news, told) = channel(job.clips.len() + 1);
        let mut client = Client::new(engine.clone(), inbox);
        let (engine, interrupt) = (client.remote(), Interrupt::default());
        let asked = interrupt.clone();
        let thread = std::thread::Builder::new().name("batch".into()).spawn(move || {
            let work = || run(job, &mut client, &asked, &news).map(Box::new);
            let ended = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(LOST.into()));
            // The studio may have exited meanwhile.
            news.try_send(Msg::Batch(BatchNews::Ended(ended))).ok();
        })?;
        Ok((Self { events: Some(events), interrupt, engine, thread }, told))
    }

    pub fn event(&mut self, event: &Event) {
        self.events = self.events.take().filter(|events| events.try_send(event.clone()).is_ok());
    }

    pub fn engine_gone(&mut self) {
        self.events = None;
    }

    pub fn cancel(&self) {
        self.interrupt.ask();
        self.engine.cancel_current();
    }

    /// End it, and wait until its claims on clips are released.
    pub fn finish(self) {
        self.cancel();
        drop(self.events);
        self.thread.join().ok();
    }
}

fn run(
    job: BatchJob,
    client: &mut Client,
    interrupt: &Interrupt,
    news: &Sender<Msg>,
) -> Result<Summary, String> {
    let BatchJob { clips, options, said, request } = job;
    let sidecar = options.sidecar;
    let mut outputs = Outputs::open(options, &clips).map_err(|failure| failure.error)?;
    let (part, polish) = (Part::default(), Polish::default());
    let said = |clip: &Path| Ok(said.get(clip).map(|said| (**said).clone()));
    let batch = Batch { interrupt, request, part, said: &said, polish, limit: None, verify: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let ended = runtime.block_on(batch.run(
        std::slice::from_mut(client),
        clips,
        &mut outputs,
        &mut Teller { news, sidecar },
    ));
    ended.map_err(|halt| match halt {
        Halt::Io(error) => error.to_string(),
        Halt::Failed(failure) => failure.error,
    })
}

struct Teller<'a> {
    news: &'a Sender<Msg>,
    sidecar: Option<Sidecar>,
}

impl Teller<'_> {
    /// The caption of a clip that was skipped.
    fn existing(&self, ended: &Ended<'_>) -> Option<String> {
        if self.sidecar != Some(Sidecar::Txt) || *ended.outcome != Outcome::Skipped {
            return None;
        }
        let file = Sidecar::Txt.path(ended.clip, None);
        let length = std::fs::metadata(&file).ok()?.len();
        let text = (length <= MAX_CAPTION_BYTES).then(|| std::fs::read_to_string(file).ok())??;
        Some(text.trim().to_owned())
    }
}

impl Report for Teller<'_> {
    fn clip(&mut self, ended: &Ended<'_>, progress: &Progress) -> io::Result<()> {
        let news = BatchNews::Clip {
            video: ended.clip.path(),
            run: ended.run,
            outcome: ended.outcome.clone(),
            existing: self.existing(ended),
            progress: Box::new(progress.clone()),
        };
        self.news.try_send(Msg::Batch(news)).map_err(|_| io::Error::other("the studio has ended"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_batch::{Clip, Options};
    use specreel_client::fake::{FakeEngine, done, failed, request, started};
    use specreel_engine::Command;
    use specreel_record::{FailureClass, StopReason};

    /// Runs a batch over clips of these names, and returns its messages. The studio's part, which passes on the events, is played
    /// until `enough` says that it quits.
    fn news(
        dir: &std::path::Path,
        names: &[&str],
        enough: impl Fn(&[BatchNews]) -> bool,
    ) -> (FakeEngine, Vec<BatchNews>) {
        let clips = names.iter().map(|name| {
            std::fs::write(dir.join(name), name).unwrap();
            Clip { root: dir.into(), relative: name.into(), file: None }
        });
        let (fake, mut client) = FakeEngine::answering(|request| match request.video.ends_with("bad.mp4") {
            true => vec![failed(FailureClass::Input, "bad.mp4: no video")],
            false if request.video.ends_with("endless.mp4") => vec![started("naive")],
            false => vec![started("naive"), done(StopReason::Eos, "A disc.")],
        });
        let options =
            Options { sidecar: Some(Sidecar::Txt), prompts: vec!["p".into()], ..Options::default() };
        let job = BatchJob {
            clips: clips.collect(),
            options,
            said: Default::default(),
            request: request(40, "naive"),
        };
        let (mut worker, mut inbox) = BatchWorker::start(job, &client.remote()).unwrap();
        let mut all = Vec::new();
        let mut quits = false;
        loop {
            while let Some(event) = client.try_next() {
                worker.event(&event);
            }
            while let Ok(msg) = inbox.try_recv() {
                let Msg::Batch(news) = msg else { panic!("{msg:?}") };
                all.push(news);
            }
            if matches!(all.last(), Some(BatchNews::Ended(_))) {
                worker.finish();
                return (fake, all);
            }
            if !quits && enough(&all) {
                worker.cancel();
                quits = true;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }

    #[test]
    fn the_studios_engine_captions_the_clips_and_every_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("c.txt"), "mine\n").unwrap();
        let (fake, all) = news(dir.path(), &["a.mp4", "bad.mp4", "c.mp4"], |_| false);
        let [a, c, bad, BatchNews::Ended(Ok(summary))] = &all[..] else { panic!("{all:?}") };
        assert!(matches!(a, BatchNews::Clip { run: 40, outcome: Outcome::Captioned(_), .. }), "{a:?}");
        let BatchNews::Clip { outcome: Outcome::Skipped, existing, .. } = c else { panic!("{c:?}") };
        assert_eq!(existing.as_deref(), Some("mine"));
        let BatchNews::Clip { outcome: Outcome::Failed(failure), progress, .. } = bad else {
            panic!("{bad:?}")
        };
        assert!(failure.error.contains("no video") && progress.failed == 1 && progress.over() == 3);
        assert_eq!((summary.progress.captioned, summary.interrupted), (1, false));
        assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "A disc.\n");
        assert_eq!(fake.requests().iter().map(|request| request.run).collect::<Vec<_>>(), [40, 41]);
        // Read ahead, as on the command line.
        assert!(fake.commands().iter().any(|command| matches!(command, Command::ReadNext(_))));
    }

    #[test]
    fn a_cancelled_batch_keeps_what_is_done_and_leaves_no_claim() {
        let dir = tempfile::tempdir().unwrap();
        let started = |all: &[BatchNews]| !all.is_empty();
        let (_, all) = news(dir.path(), &["a.mp4", "endless.mp4", "c.mp4"], started);
        assert!(matches!(&all[1..], [BatchNews::Ended(Ok(summary))] if summary.interrupted), "{all:?}");
        let mut left: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.mp4", "a.txt", "c.mp4", "endless.mp4"]);
    }
}
