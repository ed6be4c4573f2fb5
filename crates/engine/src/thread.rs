//! The engine's thread and the handle to it.
//!
//! One thread owns every tensor; of the threads of engines that share their models, one computes at a time. Commands arrive over a
//! bounded channel, events leave over another; a slow reader slows the engine down rather than losing tokens, but progress may be
//! dropped. Each run and each loading has a token from when it is asked for, which cancelling sets, and the thread checks in every step
//! and every chunk of longer work. A failure or a panic ends the run, not the engine, and costs at most the context that the run was
//! changing.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Instant,
};

use tokio::sync::mpsc;

use crate::{
    cache::PrefixCache,
    command::{Command, MeaningRequest, Meanings, RunRequest},
    events::{CancelToken, CancelTokens, EVENTS, EventSender, Stop, guarded, internal},
    loader::{self, Asked, Message, Standing, Switch},
    measure::{Bench, Trial, Trials},
    models::{Kept, Models, memory_check::Footprint},
    next_clip::NextClip,
    observer::Observer,
    stages::Runner,
    timing::Rates,
};
use specreel_model::{ModelSpec, decoder::together::Together};
use specreel_os::{memory, threads::lower_priority};
use specreel_record::{Event, EventKind, Failure, FailureClass, Ready};
use specreel_tensor::CheckpointError;

/// Commands that may wait.
const COMMANDS: usize = 64;

pub struct Engine;

/// A handle to the engine's thread. Clones share the engine, which ends when the last one is dropped.
#[derive(Clone)]
pub struct EngineHandle {
    commands: mpsc::Sender<Message>,
    /// None of engines that share their models: those are replaced between runs.
    loader: Option<mpsc::Sender<Asked>>,
    tokens: CancelTokens,
}

impl Engine {
    /// Start the thread. The receiver gets every event of every run.
    pub fn start() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(|| {}, None, None)
    }

    /// As [`Engine::start`], several engines that load models once for all of them, and write their texts together: passes of
    /// different runs share a reading of the weights, where device and model allow it. Speeds of such runs say nothing about a run
    /// alone, so they are not kept. With `in_background`, as [`Engine::start_in_background`].
    pub fn start_together(
        count: usize,
        in_background: bool,
    ) -> Result<Vec<(EngineHandle, mpsc::Receiver<Event>)>, Failure> {
        let shared = (count > 1).then(|| Arc::new(Shared::new(count)));
        let prepare = if in_background { lower_priority } else { || {} };
        (0..count.max(1)).map(|_| Self::start_after(prepare, None, shared.clone())).collect()
    }

    /// As [`Engine::start`], but with a lower priority, so that user interfaces stay responsive when all processors are busy.
    /// Linux only; elsewhere a niceness applies to the whole process.
    pub fn start_in_background() -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        Self::start_after(lower_priority, None, None)
    }

    fn start_after(
        prepare: impl FnOnce() + Clone + Send + 'static,
        observer: Option<Arc<dyn Observer>>,
        shared: Option<Arc<Shared>>,
    ) -> Result<(EngineHandle, mpsc::Receiver<Event>), Failure> {
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let (events, outbox) = mpsc::channel(EVENTS);
        let (tokens, standing) = (CancelTokens::default(), Standing::default());
        let sender = EventSender::new(events);
        let loader = match &shared {
            Some(_) => None,
            None => {
                let (engine, events) = (commands.downgrade(), sender.clone());
                Some(loader::start(engine, events, standing.clone(), prepare.clone())?)
            }
        };
        let own = tokens.clone();
        std::thread::Builder::new()
            .name("engine".into())
            .spawn(move || {
                // Threads started from here inherit the priority.
                prepare();
                work(inbox, sender, own, standing, (observer, shared));
            })
            .map_err(|e| internal(format!("cannot start the engine thread: {e}")))?;
        Ok((EngineHandle { commands, loader, tokens }, outbox))
    }
}

impl EngineHandle {
    /// Send a command. Fails if the engine has stopped, or its queue is full; the command then has no effect.
    pub fn send(&self, command: Command) -> Result<(), Failure> {
        let full = || internal("the engine's queue is full: too many commands are waiting".into());
        let stopped = || internal("the engine has stopped".into());
        let run = match &command {
            Command::Run(request) | Command::ReadNext(request) => request.run,
            _ => 0,
        };
        let cancel = self.tokens.create(run);
        let command = match (command, &self.loader) {
            (Command::Switch(spec), Some(loader)) => {
                return loader.try_send((spec, cancel)).map_err(|e| match e {
                    mpsc::error::TrySendError::Full(_) => full(),
                    mpsc::error::TrySendError::Closed(_) => stopped(),
                });
            }
            (Command::Switch(spec), None) => Command::Load(*spec),
            (command, _) => command,
        };
        self.commands.try_send(Message::Command(Box::new(command), cancel)).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => full(),
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })
    }

    /// Cancel a run within one step, whether it runs or waits; it answers with its `done` event. Run 0 is the loading of models:
    /// it answers with `failed`. Nothing that is sent later is cancelled, even if it has the same number.
    pub fn cancel(&self, run: u64) {
        self.tokens.cancel(run);
    }
}

/// What engines that write their texts together have in common.
struct Shared {
    engines: u64,
    together: Together,
    /// Loaded models, while an engine has them.
    models: Mutex<Vec<(ModelSpec, Weak<Models>)>>,
}

impl Shared {
    fn new(engines: usize) -> Self {
        Self { engines: engines as u64, together: Together::default(), models: Mutex::default() }
    }

    /// The models that another engine has loaded, or those that `load` loads, while the others wait.
    fn models(
        &self,
        spec: &ModelSpec,
        load: impl FnOnce() -> Result<Arc<Models>, Failure>,
    ) -> Result<Arc<Models>, Failure> {
        let mut all = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, models)| models.strong_count() > 0);
        let mut known = all.iter().filter(|(of, _)| of == spec).filter_map(|(_, models)| models.upgrade());
        if let Some(models) = known.find(|models| !models.are_lost()) {
            return Ok(models);
        }
        let models = load()?;
        all.push((spec.clone(), Arc::downgrade(&models)));
        Ok(models)
    }
}

struct Worker {
    /// Where events of run 0 go.
    events: EventSender,
    tokens: CancelTokens,
    models: Option<Arc<Models>>,
    /// What it has in common with other engines.
    shared: Option<Arc<Shared>>,
    standing: Standing,
    cache: PrefixCache,
    /// Finished runs whose speed is measured.
    trials: Trials,
    rates: Mutex<Rates>,
    next_clip: NextClip,
    observer: Option<Arc<dyn Observer>>,
}

fn work(
    mut inbox: mpsc::Receiver<Message>,
    events: EventSender,
    tokens: CancelTokens,
    standing: Standing,
    (observer, shared): (Option<Arc<dyn Observer>>, Option<Arc<Shared>>),
) {
    let cache = PrefixCache::with_memory(None);
    let (trials, mut rates) = (Trials::default(), Rates::default());
    if shared.is_some() {
        rates.set_shared();
    }
    let rates = Mutex::new(rates);
    let mut worker = Worker {
        events: events.clone(),
        tokens,
        models: None,
        shared,
        standing: standing.clone(),
        cache,
        trials,
        rates,
        next_clip: NextClip::default(),
        observer,
    };
    while let Some(message) = inbox.blocking_recv() {
        match message {
            Message::Switch(switch, cancel) => worker.switch(*switch, &cancel),
            Message::Command(command, cancel) => worker.obey(*command, cancel),
        }
        let is_busy = || !inbox.is_empty() || inbox.is_closed() || events.is_closed();
        // Two loads at once would be measured as one.
        worker.measure(&|| is_busy() || standing.lock().is_loading);
        if events.is_closed() {
            return;
        }
    }
}

impl Worker {
    fn obey(&mut self, command: Command, cancel: CancelToken) {
        match command {
            Command::IgnoreMemory => self.standing.lock().ignore_memory = true,
            Command::KeepSpeeds(file) => {
                self.rates.get_mut().unwrap_or_else(PoisonError::into_inner).keep_in(file);
            }
            Command::Load(spec) => self.load(spec, &cancel),
            // The handle gives it to the loader, which answers with a message of its own.
            Command::Switch(_) => {}
            Command::ReadNext(request) => self.next_clip.ask(request, cancel),
            Command::Run(request) => {
                self.revive();
                self.run(&request, cancel);
            }
            Command::Meanings(request) => {
                let known = catch_unwind(AssertUnwindSafe(|| self.meanings(&request)));
                let known = known.unwrap_or_else(|_| Err(internal("reading a text failed".into())));
                // Who asked may be gone.
                let _ = request.reply.try_send(known);
            }
        }
    }

    fn meanings(&self, request: &MeaningRequest) -> Result<Meanings, Failure> {
        let target = &self.models.as_ref().ok_or_else(no_models)?.target;
        let is_late = || request.until.is_some_and(|until| Instant::now() >= until);
        let read = |text: &String| match is_late() {
            true => Err(internal("nobody waits any more".into())),
            false => Ok(target.meaning(text)?),
        };
        let vectors = request.texts.iter().map(read).collect::<Result<_, Failure>>()?;
        Ok(Meanings { model: target.name().to_owned(), vectors })
    }

    /// Load models again whose GPU was lost: reopened, it may work.
    fn revive(&mut self) {
        let spec = self.standing.lock().spec.clone();
        if let Some(spec) = spec.filter(|_| self.models.as_ref().is_some_and(|models| models.are_lost())) {
            self.load(spec, &self.tokens.create(0));
        }
    }

    fn load(&mut self, spec: ModelSpec, cancel: &CancelToken) {
        // The old models go first: two large pairs need not fit together.
        let freed = self.drop_models();
        let sender = self.events.clone();
        let ignore_memory = self.standing.lock().ignore_memory;
        let footprint = || {
            let footprint = Footprint::read(&spec);
            match &footprint {
                Some(known) if !ignore_memory => known.check_loading(None).map(|()| footprint),
                _ => Ok(footprint),
            }
        };
        let load = || load(&spec, &sender, cancel, footprint).map(Arc::new);
        self.models = guarded(&sender, || {
            let models = match &self.shared {
                Some(shared) => shared.models(&spec, load)?,
                None => load()?,
            };
            sender.send(ready(&models, freed));
            Ok(models)
        });
        self.use_models(spec);
    }

    /// Replace the loaded models with new ones, which the loader has loaded, or, without memory for both pairs, leaves to be loaded
    /// here. The old ones stay if the new ones cannot be used.
    fn switch(&mut self, switch: Switch, cancel: &CancelToken) {
        let Switch { spec, footprint, halves } = switch;
        self.standing.lock().is_loading = false;
        let old = self.standing.lock().spec.clone();
        let kept = old.as_ref().map(|old| Kept::between(old, &spec)).unwrap_or_default();
        let sender = self.events.clone();
        // It may have waited for the end of a run.
        if cancel.is_cancelled() {
            sender.send(EventKind::Failed(CheckpointError::Stopped.into()));
            return;
        }
        // Other models may have been loaded meanwhile.
        let halves = halves.and_then(|(planned, halves)| (planned == kept).then_some(halves));
        if let Some(halves) = halves {
            let freed = self.held(kept);
            // Engines that share their models switch them otherwise.
            let mut own = self.models.take().and_then(Arc::into_inner);
            let paired = guarded(&sender, || Models::pair(&spec, halves, footprint, &mut own));
            let Some(models) = paired else {
                self.models = own.map(Arc::new);
                return;
            };
            self.forget_runs();
            sender.send(ready(&models, freed));
            self.models = Some(Arc::new(models));
            self.use_models(spec);
            return;
        }
        let ignore_memory = self.standing.lock().ignore_memory;
        let fits = || match &footprint {
            Some(known) if !ignore_memory => known.check_replacing(self.held(Kept::default()).unwrap_or(0)),
            _ => Ok(()),
        };
        if guarded(&sender, fits).is_none() {
            return;
        }
        self.load(spec, cancel);
        if let Some(old) = old.filter(|_| self.models.is_none()) {
            self.load(old, &self.tokens.create(0));
        }
    }

    /// Bytes of the loaded models that are not kept, and of all contexts; `None` if nothing is loaded.
    fn held(&self, kept: Kept) -> Option<u64> {
        let models = self.models.as_ref()?;
        let weights = models.footprint.as_ref().map_or(0, |footprint| footprint.weights(kept));
        Some(weights + self.cache.bytes())
    }

    /// Drop the models, and their caches. Returns the bytes, `None` if there was nothing.
    fn drop_models(&mut self) -> Option<u64> {
        let freed = self.held(Kept::default());
        self.forget_runs();
        self.models = None;
        freed
    }

    /// Drop the caches of the loaded models' runs.
    fn forget_runs(&mut self) {
        self.trials.finish(&self.events);
        self.next_clip.clear();
        self.cache = PrefixCache::with_memory(None);
    }

    fn use_models(&mut self, spec: ModelSpec) {
        self.standing.lock().spec = self.models.is_some().then_some(spec);
        let footprint = self.models.as_ref().and_then(|models| models.footprint.as_ref());
        let budget = footprint.and_then(|known| known.budget(memory::available()));
        let engines = self.shared.as_ref().map_or(1, |shared| shared.engines);
        self.cache = PrefixCache::with_memory(budget.map(|bytes| bytes / engines));
    }

    fn run(&mut self, request: &RunRequest, cancel: CancelToken) {
        let sender = self.events.of(request.run);
        let ignore_memory = self.standing.lock().ignore_memory;
        let _turn = self.shared.as_ref().map(|shared| shared.together.enter());
        self.next_clip.give(&mut self.cache);
        let (models, cache, rates) = (self.models.as_deref(), &mut self.cache, Some(&self.rates));
        let (next_clip, observer) = (&mut self.next_clip, self.observer.as_deref());
        let finished = guarded(&sender, || {
            let models = models.ok_or_else(no_models)?;
            let runner = Runner {
                request,
                models,
                sender: &sender,
                cancel: &cancel,
                ignore_memory,
                rates,
                idle: None,
                observer,
            };
            next_clip.during(models, &sender, &cancel, || runner.run(cache))
        });
        match finished {
            Some(run) => {
                self.cache.writing = None;
                if let Some(run) = run {
                    self.trials.add(Trial::new(run, cancel), &self.events);
                }
            }
            None => self.cache.abandon(),
        }
    }

    /// Measure the speed of finished runs until the engine is `busy`. A failure costs the figures and the context, no run.
    fn measure(&mut self, busy: &(dyn Fn() -> bool + Sync)) {
        let Some(models) = self.models.as_deref().filter(|_| !self.trials.is_empty()) else { return };
        let _turn = self.shared.as_ref().map(|shared| shared.together.enter());
        let bench = Bench { models, sender: &self.events, busy, observer: self.observer.as_deref() };
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

fn no_models() -> Failure {
    Failure {
        class: FailureClass::Input,
        error: "no models are loaded".into(),
        hint: Some("load a target first; the embedded pair is the default".into()),
    }
}

fn load(
    spec: &ModelSpec,
    sender: &EventSender,
    cancel: &CancelToken,
    footprint: impl FnOnce() -> Result<Option<Footprint>, Failure>,
) -> Result<Models, Failure> {
    Models::load(spec, footprint()?, sender, cancel)
}

fn ready(models: &Models, freed_bytes: Option<u64>) -> EventKind {
    EventKind::Ready(Ready {
        target: models.target.name().to_owned(),
        drafter: models.drafter.as_ref().map(|d| d.name().to_owned()),
        device: models.device.clone(),
        dtype: models.dtype.clone(),
        notes: models.notes(),
        parts: Some(models.parts()),
        freed_bytes,
    })
}

#[cfg(test)]
#[path = "thread_tests.rs"]
pub(crate) mod tests;
