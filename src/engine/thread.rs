//! The engine's thread and the handle to it.
//!
//! One thread owns every tensor. Commands reach it over a bounded channel, events leave over another; a face that reads slowly
//! slows the engine rather than losing tokens, but progress may be dropped. Cancelling is a flag that the thread looks at in
//! every step and every chunk of longer work. An error or a panic ends the run, not the engine.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::mpsc;

use super::{
    command::{Command, RunRequest},
    memory_check,
    models::Models,
    run::Runner,
    store::PrefixCache,
};
use crate::{
    model::ModelSpec,
    record::{Event, EventKind, Failure, FailureClass, panic_words},
};

/// Commands that may wait.
const COMMANDS: usize = 64;
/// Events that may wait before the engine does.
const EVENTS: usize = 1024;

/// Runs that somebody wants ended; 0 is the loading of models.
#[derive(Clone, Default)]
pub struct Cancelled(Arc<Mutex<BTreeSet<u64>>>);

impl Cancelled {
    /// End this run soon, also if it still waits.
    pub fn add(&self, run: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
    }

    /// True if this run is to end.
    pub fn contains(&self, run: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&run)
    }

    fn forget(&self, run: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }
}

/// Where a run's events go.
#[derive(Clone)]
pub struct EventSender {
    events: mpsc::Sender<Event>,
    run: u64,
}

impl EventSender {
    /// Send an event of this run; waits for a slow reader. False if nobody listens any more.
    pub fn send(&self, kind: EventKind) -> bool {
        self.events.blocking_send(Event::new(self.run, kind)).is_ok()
    }

    /// Send an event that may be dropped where the reader is slow: progress, which is replaced by the next.
    pub fn offer(&self, kind: EventKind) {
        if self.events.capacity() > EVENTS / 2 {
            let _ = self.events.try_send(Event::new(self.run, kind));
        }
    }
}

/// Starts the engine.
pub struct Engine;

/// A handle to the engine's thread. Clones speak to the same engine; it ends when the last is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    cancelled: Cancelled,
}

impl Engine {
    /// Start the thread. The receiver gets every event of every run.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(|| {})
    }

    /// As [`Engine::start`], but the engine's threads give way to whoever answers a person: where all processors are busy, a
    /// key that is typed into this program, or into another, is served first. Linux only; elsewhere a niceness is the whole
    /// process's.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start_behind() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(give_way)
    }

    fn start_after(
        prepare: impl FnOnce() + Send + 'static,
    ) -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (events, outbox) = mpsc::channel(EVENTS);
        let cancelled = Cancelled::default();
        let flags = cancelled.clone();
        std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || {
                // Before any other thread is started here: those inherit it.
                prepare();
                work(inbox, &events, &flags);
            })
            .map_err(|e| internal(format!("the engine thread could not be started: {e}")))?;
        Ok((EngineHandle { commands, cancelled }, outbox))
    }
}

/// How far the calling thread, and those that it starts, stand behind others (`nice`): a third of the share of one that
/// does not, while both want the same processor.
#[cfg(target_os = "linux")]
const NICENESS: libc::c_int = 5;

#[cfg(target_os = "linux")]
fn give_way() {
    // SAFETY: no memory is involved. On Linux this is about the calling thread alone; to stand further behind is always
    // allowed, and beyond the last place it does nothing.
    unsafe { libc::nice(NICENESS) };
}

#[cfg(not(target_os = "linux"))]
fn give_way() {}

impl EngineHandle {
    /// Send a command.
    ///
    /// # Errors
    /// If the engine is gone, or so many commands wait that it takes no more.
    pub fn send(&self, command: Command) -> Result<(), Failure> {
        self.commands.try_send(command).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => {
                internal(format!("{COMMANDS} commands already wait for the engine"))
            }
            mpsc::error::TrySendError::Closed(_) => internal("the engine has stopped".into()),
        })
    }

    /// End a run within one step, whether it runs or waits; it answers with its `done` event. Run 0 is the loading of models
    /// that is under way: it answers with `failed`.
    pub fn cancel(&self, run: u64) {
        self.cancelled.add(run);
    }
}

fn work(mut inbox: mpsc::Receiver<Command>, events: &mpsc::Sender<Event>, cancelled: &Cancelled) {
    let mut models: Option<Models> = None;
    let mut ignore_memory = false;
    let mut store = PrefixCache::default();
    while let Some(command) = inbox.blocking_recv() {
        match command {
            Command::IgnoreMemory => ignore_memory = true,
            Command::Load(spec) => {
                // The old models go first: two large pairs need not fit together.
                drop(models.take());
                store = PrefixCache::default();
                let sender = EventSender { events: events.clone(), run: 0 };
                models = guarded(&sender, || load(&spec, &sender, cancelled, ignore_memory));
            }
            Command::Run(request) => {
                let sender = EventSender { events: events.clone(), run: request.run };
                let finished =
                    guarded(&sender, || run(&request, models.as_ref(), &mut store, &sender, cancelled));
                if finished.is_none() {
                    // A run that broke off may have left a kept context half-written.
                    store = PrefixCache::default();
                }
                cancelled.forget(request.run);
            }
        }
        if events.is_closed() {
            return;
        }
    }
}

/// Call `f`; a failure or a panic becomes a `failed` event.
fn guarded<T>(sender: &EventSender, f: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    let failure = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(failure)) => failure,
        Err(panic) => {
            let words = panic_words(&*panic).unwrap_or_default();
            Failure {
                class: FailureClass::Internal,
                error: format!("the engine broke off: {words}"),
                hint: Some(
                    "this is a bug in specreel; please report it with the command and the video".into(),
                ),
            }
        }
    };
    sender.send(EventKind::Failed(failure));
    None
}

fn load(
    spec: &ModelSpec,
    sender: &EventSender,
    cancelled: &Cancelled,
    ignore_memory: bool,
) -> Result<Models, Failure> {
    if !ignore_memory {
        memory_check::check(spec, None)?;
    }
    let models = Models::load(spec, sender, cancelled);
    // Before anybody hears of the outcome: a cancel from then on means the next loading.
    cancelled.forget(0);
    let models = models?;
    sender.send(EventKind::Ready {
        target: models.target.name().to_owned(),
        drafter: models.drafter.as_ref().map(|d| d.name().to_owned()),
        device: models.device.clone(),
        dtype: models.dtype.clone(),
        notes: models.notes(),
    });
    Ok(models)
}

fn run(
    request: &RunRequest,
    models: Option<&Models>,
    store: &mut PrefixCache,
    sender: &EventSender,
    cancelled: &Cancelled,
) -> Result<(), Failure> {
    let models = models.ok_or_else(|| Failure {
        class: FailureClass::Input,
        error: "no models are loaded".into(),
        hint: Some("load a target first; the embedded pair is the default".into()),
    })?;
    Runner { request, models, sender, cancelled }.run(store)
}

pub(super) fn internal(error: String) -> Failure {
    Failure { class: FailureClass::Internal, error, hint: None }
}
