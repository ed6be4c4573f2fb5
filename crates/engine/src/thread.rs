//! The engine's thread and the handle to it.
//!
//! One thread owns every tensor. Commands arrive over a bounded channel, events leave over another; a slow reader slows the
//! engine down rather than losing tokens, but progress may be dropped. Cancelling sets a flag that the thread checks in every
//! step and every chunk of longer work. A failure or a panic ends the run, not the engine, and costs at most the context that
//! the run was changing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, PoisonError},
};

use tokio::sync::mpsc;

use crate::{
    cache::PrefixCache,
    command::{Command, RunRequest},
    events::{Cancelled, EVENTS, EventSender, Stop, internal},
    measure::{Bench, Trial, Trials},
    memory,
    models::{Models, memory_check::Footprint},
    next_clip::NextClip,
    stages::Runner,
    timing::Rates,
};
use specreel_model::ModelSpec;
use specreel_record::{Event, EventKind, Failure, FailureClass, Ready, panic_words};

/// Commands that may wait.
const COMMANDS: usize = 64;
/// Forgets that a run was cancelled, when dropped.
struct Forget<'a> {
    cancelled: &'a Cancelled,
    run: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.cancelled.forget(self.run);
    }
}

/// Starts the engine.
pub struct Engine;

/// A handle to the engine's thread. Clones share the engine, which ends when the last one is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Command>,
    cancelled: Cancelled,
}

impl Engine {
    /// Start the thread. The receiver gets every event of every run.
    pub fn start() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(|| {})
    }

    /// As [`Engine::start`], but with a lower priority, so that user interfaces stay responsive when all processors are busy.
    /// Linux only; elsewhere a niceness applies to the whole process.
    pub fn start_in_background() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(lower_priority)
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
                // Threads started from here inherit the priority.
                prepare();
                work(inbox, EventSender::new(events), &flags);
            })
            .map_err(|e| internal(format!("cannot start the engine thread: {e}")))?;
        Ok((EngineHandle { commands, cancelled }, outbox))
    }
}

/// Niceness of the engine's threads in the background: about a third of the share of a thread without one, while both want
/// the same processor.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 5;

fn lower_priority() {
    // On Linux a niceness applies to the calling thread and those that it starts; a lower priority is always allowed.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
}

impl EngineHandle {
    /// Send a command. Fails if the engine has stopped, or its queue is full; the command then has no effect.
    pub fn send(&self, command: Command) -> Result<(), Failure> {
        self.commands.try_send(command).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => {
                internal(format!("the engine's queue is full: {COMMANDS} commands are waiting"))
            }
            mpsc::error::TrySendError::Closed(_) => internal("the engine has stopped".into()),
        })
    }

    /// Cancel a run within one step, whether it runs or waits; it answers with its `done` event. Run 0 is the loading of models:
    /// it answers with `failed`.
    pub fn cancel(&self, run: u64) {
        self.cancelled.add(run);
    }
}

struct Worker<'a> {
    /// Where events of run 0 go.
    events: EventSender,
    cancelled: &'a Cancelled,
    models: Option<Models>,
    spec: Option<ModelSpec>,
    cache: PrefixCache,
    /// Finished runs whose speed is measured.
    trials: Trials,
    rates: Mutex<Rates>,
    ignore_memory: bool,
    next_clip: NextClip,
}

fn work(mut inbox: mpsc::Receiver<Command>, events: EventSender, cancelled: &Cancelled) {
    let cache = PrefixCache::with_memory(None);
    let (trials, rates) = (Trials::default(), Mutex::default());
    let mut worker = Worker {
        events: events.clone(),
        cancelled,
        models: None,
        spec: None,
        cache,
        trials,
        rates,
        ignore_memory: false,
        next_clip: NextClip::default(),
    };
    while let Some(command) = inbox.blocking_recv() {
        match command {
            Command::IgnoreMemory => worker.ignore_memory = true,
            Command::KeepSpeeds(file) => {
                worker.rates.get_mut().unwrap_or_else(PoisonError::into_inner).keep_in(file);
            }
            Command::Load(spec) => worker.load(spec),
            Command::ReadNext(request) => worker.next_clip.ask(request),
            Command::Run(request) => {
                worker.revive();
                worker.run(&request);
            }
        }
        worker.measure(&|| !inbox.is_empty() || inbox.is_closed() || events.is_closed());
        if events.is_closed() {
            return;
        }
    }
}

impl Worker<'_> {
    /// Load models again whose GPU was lost: opened anew, it may work.
    fn revive(&mut self) {
        if self.models.as_ref().is_some_and(Models::are_lost)
            && let Some(spec) = self.spec.take()
        {
            self.load(spec);
        }
    }

    fn load(&mut self, spec: ModelSpec) {
        // The old models go first: two large pairs need not fit together.
        self.trials.finish(&self.events);
        self.models = None;
        self.next_clip.clear();
        self.cache = PrefixCache::with_memory(None);
        let sender = self.events.clone();
        let footprint = || {
            let footprint = Footprint::read(&spec);
            match &footprint {
                Some(known) if !self.ignore_memory => known.check_loading(None).map(|()| footprint),
                _ => Ok(footprint),
            }
        };
        self.models = guarded(&sender, || load(&spec, &sender, self.cancelled, footprint));
        self.spec = Some(spec);
        let footprint = self.models.as_ref().and_then(|models| models.footprint.as_ref());
        self.cache = PrefixCache::with_memory(footprint.and_then(|known| known.budget(memory::available())));
    }

    fn run(&mut self, request: &RunRequest) {
        let (sender, cancelled, ignore_memory) =
            (self.events.of(request.run), self.cancelled, self.ignore_memory);
        self.next_clip.give(&mut self.cache);
        let (models, cache, rates) = (self.models.as_ref(), &mut self.cache, Some(&self.rates));
        let next_clip = &mut self.next_clip;
        let finished = guarded(&sender, || {
            let models = models.ok_or_else(|| Failure {
                class: FailureClass::Input,
                error: "no models are loaded".into(),
                hint: Some("load a target first; the embedded pair is the default".into()),
            })?;
            let runner =
                Runner { request, models, sender: &sender, cancelled, ignore_memory, rates, idle: None };
            next_clip.during(models, &sender, cancelled, request.run, || runner.run(cache))
        });
        match finished {
            Some(run) => {
                self.cache.writing = None;
                if let Some(run) = run {
                    self.trials.add(Trial::new(run), &self.events);
                }
            }
            None => self.cache.abandon(),
        }
        cancelled.forget(request.run);
    }

    /// Measure the speed of finished runs until the engine is `busy`. A failure costs the figures and the context, no run.
    fn measure(&mut self, busy: &(dyn Fn() -> bool + Sync)) {
        let Some(models) = self.models.as_ref().filter(|_| !self.trials.is_empty()) else { return };
        let bench = Bench { models, cancelled: self.cancelled, sender: &self.events, busy };
        let (trials, cache) = (&mut self.trials, &mut self.cache);
        let measured = catch_unwind(AssertUnwindSafe(|| trials.measure(cache, &bench)));
        match measured {
            Ok(Ok(()) | Err(Stop::Cancelled)) => self.cache.writing = None,
            Ok(Err(Stop::Failed(_))) | Err(_) => {
                tracing::warn!("measuring the speed of a run failed");
                self.cache.abandon();
                self.trials.finish(&self.events);
            }
        }
    }
}

/// Call `f`; a failure or a panic becomes a `failed` event.
fn guarded<T>(sender: &EventSender, f: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
    let failure = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(failure)) => failure,
        Err(panic) => Failure {
            class: FailureClass::Internal,
            error: format!(
                "internal error: the engine panicked: {}",
                panic_words(&*panic).unwrap_or("no message")
            ),
            hint: Some("this is a bug in specreel; please report it with the command and the video".into()),
        },
    };
    sender.send(EventKind::Failed(failure));
    None
}

fn load(
    spec: &ModelSpec,
    sender: &EventSender,
    cancelled: &Cancelled,
    footprint: impl FnOnce() -> Result<Option<Footprint>, Failure>,
) -> Result<Models, Failure> {
    // Before the outcome is sent, whatever it is: a cancel from then on means the next loading.
    let loading = Forget { cancelled, run: 0 };
    let models = Models::load(spec, footprint()?, sender, cancelled)?;
    drop(loading);
    sender.send(EventKind::Ready(Ready {
        target: models.target.name().to_owned(),
        drafter: models.drafter.as_ref().map(|d| d.name().to_owned()),
        device: models.device.clone(),
        dtype: models.dtype.clone(),
        notes: models.notes(),
        parts: Some(models.parts()),
    }));
    Ok(models)
}

#[cfg(test)]
#[path = "thread_tests.rs"]
pub(crate) mod tests;
