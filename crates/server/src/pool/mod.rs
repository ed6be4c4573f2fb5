//! Engines and the bounded queue in front of them.
//!
//! Each engine has a worker, which makes one run at a time; engines share models and passes ([`Client::start_together`]). A run
//! goes to an idle engine that has read its clip before, if there is one. Runs begin in the order in which they came, except that a
//! few may begin before one whose model has to be loaded first.
//! Dropping a [`Ticket`] cancels its run, whether it waits or runs.

mod worker;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::VecDeque, path::PathBuf};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{feed::Feed, models::Models, videos::Video};
use specreel_client::{Client, Remote};
use specreel_engine::RunRequest;
use specreel_record::Event;

/// Clips that an engine is assumed to have kept.
const REMEMBERED: usize = 8;
/// Runs that may be begun before an earlier one, so that models are loaded less often.
const PASSED: u32 = 8;
/// Events of progress that may wait for a slow reader, and those that every run has.
const PROGRESS: usize = 256;

/// Why a run is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The queue is full; try again after this time.
    Full(Duration),
    /// No engine is ready yet.
    Loading,
    /// The server is ending.
    Closed,
    /// All engines have stopped.
    Lost,
}

struct Job {
    /// The number of its model.
    model: usize,
    /// Later runs that were begun before it, since their model was loaded.
    passed: u32,
    request: RunRequest,
    events: mpsc::Sender<Event>,
    video: Video,
}

/// A run that was taken. Its events arrive here, the last one is `done` or `failed`.
pub struct Ticket {
    run: u64,
    events: mpsc::Receiver<Event>,
    is_over: bool,
    pool: Arc<Pool>,
}

impl Ticket {
    pub fn run(&self) -> u64 {
        self.run
    }

    /// The next event; none after the last one, or if the run was dropped from the queue. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        self.is_over |= event.as_ref().is_none_or(Event::ends_run);
        event
    }

    /// End the run within one step; its `done` event follows. A run that waits ends without events.
    pub fn cancel(&self) {
        self.pool.cancel(self.run);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.is_over {
            self.cancel();
        }
    }
}

struct Engine {
    remote: Remote,
    inbox: mpsc::Sender<Job>,
    run: Option<u64>,
    /// The model that it has; none while it loads one, or if that failed.
    model: Option<usize>,
    /// The model that it loads for its run.
    loading: Option<usize>,
    /// When it was last given a run, as a number that grows.
    used: u64,
    /// Clips of its last runs, the last one first.
    clips: VecDeque<PathBuf>,
}

#[derive(Default)]
struct State {
    engines: Vec<Option<Engine>>,
    waiting: VecDeque<Job>,
    closed: bool,
    /// All engines have been added.
    has_begun: bool,
    /// Runs that were given to engines.
    begun: u64,
    /// Mean time of a run in seconds, of the last ones.
    run_s: f64,
}

/// Engines and the queue in front of them.
pub struct Pool {
    state: Mutex<State>,
    capacity: usize,
    next_run: AtomicU64,
    feed: Feed,
    models: Arc<Models>,
    /// Ends the loading of models.
    ending: CancellationToken,
}

impl Pool {
    /// A pool without engines, in which so many runs with these models may wait. `feed` gets the events of all runs.
    pub fn new(capacity: usize, feed: Feed, models: Arc<Models>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            capacity,
            next_run: AtomicU64::new(1),
            feed,
            models,
            ending: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Add an engine that has loaded this model. Needs a runtime.
    pub fn add(self: &Arc<Self>, client: Client, model: usize) {
        let (inbox, jobs) = mpsc::channel(1);
        let mut state = self.state();
        let (remote, clips) = (client.remote(), VecDeque::new());
        let model = Some(model);
        state.engines.push(Some(Engine { remote, inbox, run: None, model, loading: None, used: 0, clips }));
        let number = state.engines.len() - 1;
        tokio::spawn(worker::work(self.clone(), number, client, jobs));
        state.dispatch();
    }

    /// Whether an engine has this model.
    pub fn has(&self, model: usize) -> bool {
        self.state().has(model)
    }

    /// All engines have been added: models may be loaded in the place of others.
    pub fn begin(&self) {
        self.state().has_begun = true;
    }

    /// The model that an engine has to load for its run, if it does not have it.
    fn to_load(&self, number: usize) -> Option<usize> {
        self.state().engines.get(number)?.as_ref()?.loading
    }

    /// An engine has loaded the model of its run, or could not.
    fn loaded(&self, number: usize, model: Option<usize>) {
        if let Some(Some(engine)) = self.state().engines.get_mut(number) {
            (engine.model, engine.loading) = (model, None);
        }
    }

    /// An idle engine.
    pub fn idle(&self) -> Option<Remote> {
        self.state().idle().next().map(|(_, engine)| engine.remote.clone())
    }

    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Queue a run about this video with this model; its number is set here. Events name the video as its request did.
    pub fn submit(
        self: &Arc<Self>,
        mut request: RunRequest,
        video: Video,
        model: usize,
    ) -> Result<Ticket, Refused> {
        let mut state = self.state();
        match (state.closed, state.engines.is_empty()) {
            (true, _) => return Err(Refused::Closed),
            (_, true) => return Err(Refused::Loading),
            _ if state.engines.iter().all(Option::is_none) => return Err(Refused::Lost),
            // The engine that is to have it may not be there yet.
            _ if !state.has_begun && !state.has(model) => return Err(Refused::Loading),
            _ => {}
        }
        // A run that can start at once does not wait.
        if state.idle().next().is_none() && state.waiting.len() >= self.capacity {
            let engines = state.engines.iter().flatten().count().max(1) as f64;
            let seconds = state.run_s * (state.waiting.len() as f64 + 1.0) / engines;
            return Err(Refused::Full(Duration::from_secs_f64(seconds.clamp(1.0, 600.0).ceil())));
        }
        request.run = self.next_run.fetch_add(1, Ordering::Relaxed);
        let run = request.run;
        // Every step but the last one has a token, so the events of a run always fit, even if nobody reads
        // them.
        let (sender, events) = mpsc::channel(request.max_new_tokens.saturating_add(PROGRESS));
        state.waiting.push_back(Job { model, passed: 0, request, events: sender, video });
        state.dispatch();
        Ok(Ticket { run, events, is_over: false, pool: self.clone() })
    }

    /// End a run, whether it waits or runs.
    fn cancel(&self, run: u64) {
        let mut state = self.state();
        state.waiting.retain(|job| job.request.run != run);
        let engine = state.engines.iter().flatten().find(|engine| engine.run == Some(run));
        if let Some(engine) = engine {
            engine.remote.cancel(run);
        }
    }

    /// Runs that wait, and runs in progress.
    pub fn load(&self) -> (usize, usize) {
        let state = self.state();
        (state.waiting.len(), state.engines.iter().flatten().filter(|engine| engine.run.is_some()).count())
    }

    /// Engines that can run.
    pub fn engines(&self) -> usize {
        self.state().engines.iter().flatten().count()
    }

    /// True once the server is ending.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Take no more runs, and drop those that wait: their channels close.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.waiting.clear();
    }

    pub fn cancel_all(&self) {
        self.ending.cancel();
        for engine in self.state().engines.iter().flatten() {
            if let Some(run) = engine.run {
                engine.remote.cancel(run);
            }
        }
    }

    /// An engine has finished its run, which began then; `is_lost` if it can make no other one.
    fn finish(&self, number: usize, began: Instant, is_lost: bool) {
        let mut state = self.state();
        let took = began.elapsed().as_secs_f64();
        state.run_s = if state.run_s == 0.0 { took } else { state.run_s * 0.8 + took * 0.2 };
        let Some(engine) = state.engines.get_mut(number) else { return };
        if is_lost {
            *engine = None;
            if state.engines.iter().all(Option::is_none) {
                state.waiting.clear();
            }
        } else if let Some(engine) = engine {
            engine.run = None;
        }
        state.dispatch();
    }
}

impl State {
    /// Whether an engine has this model.
    fn has(&self, model: usize) -> bool {
        self.engines.iter().flatten().any(|engine| engine.has(model))
    }

    fn idle(&self) -> impl Iterator<Item = (usize, &Engine)> {
        let engines = self.engines.iter().enumerate();
        engines.filter_map(|(i, engine)| Some((i, engine.as_ref().filter(|engine| engine.run.is_none())?)))
    }

    /// Give waiting runs to idle engines.
    fn dispatch(&mut self) {
        while let Some(place) = self.next() {
            let Some(job) = self.waiting.get(place) else { return };
            let is_shared =
                |model| self.engines.iter().flatten().filter(|engine| engine.model == model).count() > 1;
            // Of engines that do not know the clip, the one that has read the fewest; of those with other models, one whose model
            // another one has as well, and then the one that was used the longest ago.
            let rank = |engine: &Engine| {
                if engine.has(job.model) {
                    let clip = engine.clips.iter().position(|clip| *clip == job.request.video);
                    return (0, clip.unwrap_or(REMEMBERED + engine.clips.len()) as u64);
                }
                (if is_shared(engine.model) { 1 } else { 2 }, engine.used)
            };
            let Some(chosen) = self.idle().min_by_key(|(_, engine)| rank(engine)).map(|(i, _)| i) else {
                return;
            };
            self.begun += 1;
            let (Some(job), Some(Some(engine))) = (self.waiting.remove(place), self.engines.get_mut(chosen))
            else {
                return;
            };
            self.waiting.iter_mut().take(place).for_each(|job| job.passed += 1);
            if !engine.has(job.model) {
                engine.clips.clear();
                (engine.model, engine.loading) = (None, Some(job.model));
            }
            engine.used = self.begun;
            engine.clips.retain(|clip| *clip != job.request.video);
            engine.clips.push_front(job.request.video.clone());
            engine.clips.truncate(REMEMBERED);
            engine.run = Some(job.request.run);
            // An idle worker has taken its last job out; if it is gone, the job's channel closes.
            let _ = engine.inbox.try_send(job);
        }
    }

    /// The place of the next run that waits: the first one whose model an idle engine has, before the first of all unless too many
    /// were; else the first one whose model no engine has.
    fn next(&self) -> Option<usize> {
        let is_loaded = |job: &Job| self.idle().any(|(_, engine)| engine.has(job.model));
        let comes = |engine: &Engine, model| engine.has(model) || engine.loading == Some(model);
        let waits = |job: &Job| self.engines.iter().flatten().any(|engine| comes(engine, job.model));
        let most = match self.waiting.front()?.passed < PASSED {
            true => self.waiting.len(),
            false => 1,
        };
        let loaded = self.waiting.iter().take(most).position(is_loaded);
        loaded.or_else(|| {
            self.idle().next()?;
            self.waiting.iter().take(most).position(|job| !waits(job))
        })
    }
}

impl Engine {
    fn has(&self, model: usize) -> bool {
        self.model == Some(model)
    }
}
