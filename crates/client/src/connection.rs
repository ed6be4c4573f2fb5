//! The connection to an engine: commands one way, events the other.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::moments::Meaning;
use specreel_engine::{Command, Engine, EngineHandle, MeaningRequest, Meanings};
use specreel_model::ModelSpec;
use specreel_record::{Event, Failure};

/// What a client needs of an engine. Neither call blocks; everything comes back as events.
pub trait Backend: Send + Sync {
    /// Hand over a command. Fails if the engine has stopped, or its queue is full.
    fn send(&self, command: Command) -> Result<(), Failure>;

    /// Cancel a run; its `done` event follows within one step.
    fn cancel(&self, run: u64);
}

impl Backend for EngineHandle {
    fn send(&self, command: Command) -> Result<(), Failure> {
        EngineHandle::send(self, command)
    }

    fn cancel(&self, run: u64) {
        EngineHandle::cancel(self, run);
    }
}

/// A second client of the same engine as another one, which passes on the events of its runs.
impl Backend for Remote {
    fn send(&self, command: Command) -> Result<(), Failure> {
        Remote::send(self, command)
    }

    fn cancel(&self, run: u64) {
        Remote::cancel(self, run);
    }
}

/// The sending half of a [`Client`], for signal handlers and other threads.
#[derive(Clone)]
pub struct Remote {
    backend: Arc<dyn Backend>,
    current: Arc<AtomicU64>,
}

impl Remote {
    /// Send a command. Fails if the engine has stopped, or its queue is full: the command has no effect.
    pub fn send(&self, command: Command) -> Result<(), Failure> {
        self.backend.send(command)
    }

    /// What texts are about, by the loaded target. Blocks until what was sent before is done. Fails if nothing is loaded, the engine
    /// has stopped, or it has not answered within this time.
    pub fn meanings(&self, texts: Vec<String>, patience: Option<Duration>) -> Result<Meanings, Failure> {
        let until = patience.and_then(|patience| Instant::now().checked_add(patience));
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        self.send(Command::Meanings(MeaningRequest { texts, until, reply }))?;
        answer.recv_timeout(patience.unwrap_or(Duration::MAX)).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Failure::internal("the engine is busy", "wait for the end of its run")
            }
            RecvTimeoutError::Disconnected => {
                Failure::internal("the engine has stopped", "the log has details")
            }
        })?
    }

    /// What one text is about, as [`meanings`](Self::meanings).
    pub fn meaning(&self, text: &str, patience: Option<Duration>) -> Result<Option<Meaning>, Failure> {
        Ok(Meaning::first(self.meanings(vec![text.to_owned()], patience)?))
    }

    /// What does the same while the client is there, and does not keep the engine.
    pub fn downgrade(&self) -> WeakRemote {
        WeakRemote { backend: Arc::downgrade(&self.backend), current: self.current.clone() }
    }

    /// Cancel a run; its `done` event follows within one step.
    pub fn cancel(&self, run: u64) {
        self.backend.cancel(run);
    }

    /// Cancel the run that [`Client::follow`] watches now; between runs, nothing.
    pub fn cancel_current(&self) {
        self.downgrade().cancel_current();
    }

    pub(super) fn set_current(&self, run: u64) {
        self.current.store(run, Ordering::SeqCst);
    }
}

/// A [`Remote`] for those who outlive the engine, as the handler of a signal.
#[derive(Clone)]
pub struct WeakRemote {
    backend: Weak<dyn Backend>,
    current: Arc<AtomicU64>,
}

impl WeakRemote {
    /// As [`Remote::cancel`].
    pub fn cancel(&self, run: u64) {
        if let Some(backend) = self.backend.upgrade() {
            backend.cancel(run);
        }
    }

    /// As [`Remote::cancel_current`].
    pub fn cancel_current(&self) {
        match self.current.load(Ordering::SeqCst) {
            0 => {}
            run => self.cancel(run),
        }
    }
}

/// An engine and the events that come from it.
pub struct Client {
    remote: Remote,
    events: mpsc::Receiver<Event>,
    /// What came about earlier runs while another one was watched: their speed, and whether they were verified.
    pub(super) late: Vec<Event>,
}

impl Client {
    /// Start an engine without models.
    pub fn start() -> Result<Self, Failure> {
        let (handle, events) = Engine::start()?;
        Ok(Self::new(handle, events))
    }

    /// Start an engine whose threads have a lower priority than the caller's, so that a user interface stays responsive.
    pub fn start_in_background() -> Result<Self, Failure> {
        let (handle, events) = Engine::start_in_background()?;
        Ok(Self::new(handle, events))
    }

    /// Start some engines that load models once for all of them, and write their texts together ([`Engine::start_together`]).
    pub fn start_together(count: usize, in_background: bool) -> Result<Vec<Self>, Failure> {
        let engines = Engine::start_together(count, in_background)?;
        Ok(engines.into_iter().map(|(handle, events)| Self::new(handle, events)).collect())
    }

    pub fn new(backend: impl Backend + 'static, events: mpsc::Receiver<Event>) -> Self {
        let remote = Remote { backend: Arc::new(backend), current: Arc::default() };
        Self { remote, events, late: Vec::new() }
    }

    /// A handle that sends and cancels, independent of this client's borrow.
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Send a command. Fails if the engine has stopped, or its queue is full: the command has no effect.
    pub fn send(&self, command: Command) -> Result<(), Failure> {
        self.remote.send(command)
    }

    /// Ask the engine to load models (answered by `ready` or `failed` with run 0); with `ignore_memory`, regardless of their memory.
    pub fn load(&self, models: ModelSpec, ignore_memory: bool) -> Result<(), Failure> {
        if ignore_memory {
            self.send(Command::IgnoreMemory)?;
        }
        self.send(Command::Load(models))
    }

    /// Let the engine keep measured speeds in this file, if there is one, and estimate runs by those that it has.
    pub fn keep_speeds(&self, file: Option<PathBuf>) -> Result<(), Failure> {
        file.map_or(Ok(()), |file| self.send(Command::KeepSpeeds(file)))
    }

    /// Cancel a run; its `done` event follows within one step.
    pub fn cancel(&self, run: u64) {
        self.remote.cancel(run);
    }

    /// The next event; none once the engine has stopped. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The next event, waiting on this thread; none once the engine has stopped.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.events.blocking_recv()
    }

    /// The next event if it has arrived already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// The two halves, for a loop that needs them apart.
    pub fn split(self) -> (Remote, mpsc::Receiver<Event>) {
        (self.remote, self.events)
    }
}
