//! The loop that watches a run from its request to its last event.

use std::{convert::Infallible, ops::ControlFlow, time::Duration};

use super::{Client, Interrupt};
use specreel_engine::{Command, RunRequest};
use specreel_model::ModelSpec;
use specreel_record::log::{RunState, Speed};
use specreel_record::{Event, EventKind, Failure, Ready, RunLog, StopReason};

/// How long a cancelled run may take to end before it is abandoned.
pub const GRACE: Duration = Duration::from_secs(5);

/// Runs with this number or a higher one verify others: their events are seen by nobody.
pub const UNSEEN: u64 = 1 << 62;

/// Receives the events of a run.
pub trait Sink {
    /// Why it cannot take any more.
    type Error;

    /// Take an event, which `log` already contains. Break to end the run early: it is cancelled, and its remaining events still
    /// arrive here. Fails if the sink cannot continue, for example because its file cannot be written; the run is cancelled.
    fn event(&mut self, event: &Event, log: &RunLog) -> Result<ControlFlow<()>, Self::Error>;
}

impl<F, E> Sink for F
where
    F: FnMut(&Event, &RunLog) -> Result<ControlFlow<()>, E>,
{
    type Error = E;

    fn event(&mut self, event: &Event, log: &RunLog) -> Result<ControlFlow<()>, E> {
        self(event, log)
    }
}

/// How a run ended, as the loop saw it. Its text and statistics are in the [`RunLog`].
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    Done(StopReason),
    /// It failed; the engine can run others.
    Failed(Failure),
    /// The models cannot be loaded; nothing can run.
    NoModels(Failure),
    /// An interrupt came first; the request was not sent.
    NotSent,
    /// The engine has stopped, or does not take commands. No event says so; the failure does.
    Lost(Failure),
}

/// The outcome of loading, if this event says it.
fn loaded(event: Event) -> Option<Result<Ready, Failure>> {
    match event {
        Event { run: 0, kind: EventKind::Ready(ready) } => Some(Ok(ready)),
        Event { run: 0, kind: EventKind::Failed(failure) } => Some(Err(failure)),
        _ => None,
    }
}

/// Why [`Client::receive`] has no event.
enum Silence {
    /// The patience after an interrupt, or after a cancel, is over.
    Interrupted,
    Stopped,
}

impl Client {
    /// Send a request and watch the run to its end; every event of it, and of loading the models, goes into `log` and then to
    /// `sink`.
    ///
    /// An interrupt that comes before the request is sent returns [`Ending::NotSent`]. One that comes before the run has
    /// started (models are loading, so nobody would answer) ends it at once; later, the run has `grace` to end by itself
    /// ([`Remote::cancel_current`](super::Remote::cancel_current) has cancelled it). In both cases the missing `done` event is
    /// made up, so that logs and files are complete.
    pub async fn follow<S: Sink>(
        &mut self,
        request: RunRequest,
        log: &mut RunLog,
        sink: &mut S,
        interrupt: &Interrupt,
        grace: Duration,
    ) -> Result<Ending, S::Error> {
        let run = request.run;
        let remote = self.remote();
        // Before the flag is read: an interrupt either is seen here or cancels this run.
        remote.set_current(run);
        if interrupt.asked() {
            return Ok(Ending::NotSent);
        }
        if let Err(failure) = self.send(Command::Run(Box::new(request))) {
            return Ok(Ending::Lost(failure));
        }
        let (mut started, mut enough) = (false, false);
        loop {
            let wait = if started { grace } else { Duration::ZERO };
            let event = match self.receive(interrupt, wait, enough.then_some(grace)).await {
                Ok(event) => event,
                Err(Silence::Interrupted) => cancelled(run),
                Err(Silence::Stopped) => return Ok(Ending::Lost(stopped())),
            };
            if event.run != run && event.run != 0 {
                if let EventKind::Speed { .. } | EventKind::Verified(_) = event.kind {
                    self.late.push(event);
                }
                continue;
            }
            started |= event.run == run;
            log.apply(&event);
            match sink.event(&event, log) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) if enough => {}
                Ok(ControlFlow::Break(())) => {
                    enough = true;
                    remote.cancel(run);
                }
                Err(error) => {
                    remote.cancel(run);
                    return Err(error);
                }
            }
            match log.state() {
                RunState::Done(reason) => return Ok(Ending::Done(*reason)),
                RunState::Failed(failure) if event.run == 0 => return Ok(Ending::NoModels(failure.clone())),
                RunState::Failed(failure) => return Ok(Ending::Failed(failure.clone())),
                RunState::Waiting | RunState::Running | RunState::CutOff => {}
            }
        }
    }

    /// Decode the context of a finished run again without drafts, and compare ([`RunRequest::verifying`]). Only what that finds
    /// goes into `log` and then to `sink`. Interrupted as in [`Client::follow`].
    pub async fn verify<S: Sink>(
        &mut self,
        request: &RunRequest,
        log: &mut RunLog,
        sink: &mut S,
        interrupt: &Interrupt,
        grace: Duration,
    ) -> Result<Ending, S::Error> {
        let mut unseen = |_: &Event, _: &RunLog| -> Result<_, Infallible> { Ok(ControlFlow::Continue(())) };
        let plain = request.verifying(UNSEEN, log.ids());
        let mut own = RunLog::new(plain.run);
        let Ok(ending) = self.follow(plain, &mut own, &mut unseen, interrupt, grace).await;
        let is_found = |event: &Event| event.run == log.run() && matches!(event.kind, EventKind::Verified(_));
        if let Some(at) = self.late.iter().position(is_found) {
            let event = self.late.remove(at);
            log.apply(&event);
            // Nothing is left to cancel.
            let _ = sink.event(&event, log)?;
        }
        Ok(ending)
    }

    /// Wait until the speed of these finished runs is measured ([`RunRequest::measure`]); every event goes into its log and then
    /// to `sink`. An interrupt ends the measurement: the figures cover the pairs until then, and the runs are as complete
    /// as before.
    pub async fn settle<S: Sink>(
        &mut self,
        logs: &mut [&mut RunLog],
        sink: &mut S,
        interrupt: &Interrupt,
        grace: Duration,
    ) -> Result<(), S::Error> {
        let mut ending = interrupt.asked();
        if ending {
            logs.iter().for_each(|log| self.remote().cancel(log.run()));
        }
        let mut late = std::mem::take(&mut self.late).into_iter();
        while logs.iter().any(|log| log.is_finished() && log.speed() != Speed::Measured) {
            let event = match late.next() {
                Some(event) => Ok(event),
                None => self.receive_until(interrupt, ending.then_some(grace)).await,
            };
            let event = match event {
                Ok(event) => event,
                Err(Silence::Interrupted) if !ending => {
                    ending = true;
                    logs.iter().for_each(|log| self.remote().cancel(log.run()));
                    continue;
                }
                Err(_) => return Ok(()),
            };
            let Some(log) = logs.iter_mut().find(|log| log.run() == event.run) else { continue };
            log.apply(&event);
            // Nothing is left to cancel.
            let _ = sink.event(&event, log)?;
        }
        Ok(())
    }

    /// The next event, or an interrupt; once that was seen, the end of patience.
    async fn receive_until(
        &mut self,
        interrupt: &Interrupt,
        patience: Option<Duration>,
    ) -> Result<Event, Silence> {
        match patience {
            None => self.receive(interrupt, Duration::ZERO, None).await,
            Some(patience) => {
                let event = tokio::time::timeout(patience, self.next()).await;
                event.map_err(|_| Silence::Interrupted)?.ok_or(Silence::Stopped)
            }
        }
    }

    /// Load models and wait until they are ready; every event goes to `on`. `None` if interrupted.
    pub async fn load_and_wait(
        &mut self,
        models: ModelSpec,
        ignore_memory: bool,
        on: &mut (impl FnMut(&EventKind) + ?Sized),
        interrupt: &Interrupt,
    ) -> Result<Option<Ready>, Failure> {
        self.load(models, ignore_memory)?;
        loop {
            match self.receive(interrupt, Duration::ZERO, None).await {
                Err(Silence::Interrupted) => return Ok(None),
                Err(Silence::Stopped) => return Err(stopped()),
                Ok(event) => {
                    on(&event.kind);
                    if let Some(loaded) = loaded(event) {
                        return loaded.map(Some);
                    }
                }
            }
        }
    }

    /// Load models and wait on this thread until they are ready. Not for use inside a runtime.
    pub fn load_blocking(&mut self, models: ModelSpec) -> Result<Ready, Failure> {
        self.load(models, false)?;
        loop {
            let event = self.next_blocking().ok_or_else(stopped)?;
            if let Some(loaded) = loaded(event) {
                return loaded;
            }
        }
    }

    /// The next event, or the end of patience: `grace` after an interrupt, or `limit` from now.
    async fn receive(
        &mut self,
        interrupt: &Interrupt,
        grace: Duration,
        limit: Option<Duration>,
    ) -> Result<Event, Silence> {
        tokio::select! {
            biased;
            event = self.next() => event.ok_or(Silence::Stopped),
            () = interrupt.waited(grace) => Err(Silence::Interrupted),
            () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() => Err(Silence::Interrupted),
        }
    }
}

fn stopped() -> Failure {
    Failure::internal("the engine stopped without an answer", "its log file may say why: see specreel doctor")
}

/// The `done` event of a run that was abandoned.
pub fn cancelled(run: u64) -> Event {
    Event::new(
        run,
        EventKind::Done {
            reason: StopReason::Cancelled,
            text: String::new(),
            ids: Vec::new(),
            stats: Box::default(),
        },
    )
}

#[cfg(test)]
mod tests;
