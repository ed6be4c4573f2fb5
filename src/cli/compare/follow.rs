//! Runs one after another on one engine: sent, watched, recorded, interrupted.

use std::{
    io::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::sync::mpsc;

use super::reporter::Reporter;
use crate::{
    cli::{End, EnginePort, caption, interrupt::Interrupt, report},
    engine::{Command, RunRequest},
    record::{Event, EventKind, Failure, RunRecord, StopReason},
};

/// How the runs ended, taken together.
#[derive(Debug, PartialEq)]
pub enum Ending {
    /// Every run was done or failed by itself.
    Whole,
    /// Somebody pressed Ctrl-C; the runs before that are whole.
    Interrupted,
    /// The engine is gone; the runs before that are whole.
    Broken(Failure),
}

/// Watches the runs of an engine.
pub struct Follower<'a, O, E> {
    /// What comes from the engine.
    pub events: mpsc::Receiver<Event>,
    /// The engine.
    pub engine: &'a dyn EnginePort,
    /// Tells what comes.
    pub reporter: Reporter<O, E>,
    /// Whether somebody wants an end.
    pub interrupt: &'a Interrupt,
    /// The run that an interrupt is to cancel.
    pub current: &'a AtomicU64,
    /// How long a cancelled run may take to say that it is done.
    pub grace: Duration,
}

impl<O: Write, E: Write> Follower<'_, O, E> {
    /// Send each request when the one before it has ended, and note what comes in the record beside it. A method that failed
    /// is not tried again.
    ///
    /// # Errors
    /// The output cannot be written, or the models cannot be loaded.
    pub async fn all(&mut self, requests: Vec<RunRequest>, runs: &mut [RunRecord]) -> Result<Ending, End> {
        let total = requests.len();
        for (at, request) in requests.into_iter().enumerate() {
            let name = &runs[at].method;
            if runs.iter().any(|run| run.method == *name && run.failure().is_some()) {
                continue;
            }
            // In this order: an interrupt from now on either is seen here, or cancels the run that follows.
            self.current.store(request.run, Ordering::SeqCst);
            if self.interrupt.asked() {
                return Ok(Ending::Interrupted);
            }
            if let Err(failure) = self.engine.send(Command::Run(Box::new(request))) {
                return Ok(Ending::Broken(failure));
            }
            if let Some(ending) = self.one((at + 1, total), &mut runs[at]).await? {
                return Ok(ending);
            }
        }
        Ok(Ending::Whole)
    }

    /// Watch one run to its end; some if the comparison ends with it.
    async fn one(&mut self, place: (usize, usize), run: &mut RunRecord) -> Result<Option<Ending>, End> {
        let mut started = false;
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.recv() => event,
                // Before the run has started (models are loading) nobody answers to a cancel, and nothing is lost.
                () = self.interrupt.waited(if started { self.grace } else { Duration::ZERO }) => {
                    Some(caption::cancelled(run.run))
                }
            };
            let Some(event) = event else {
                self.reporter.close().map_err(caption::ended)?;
                return Ok(Some(Ending::Broken(caption::silence())));
            };
            if event.run != run.run && event.run != 0 {
                continue;
            }
            started |= event.run == run.run;
            run.event(&event);
            if let Err(error) = self.reporter.event(&event, place) {
                self.engine.cancel(run.run);
                return Err(caption::ended(error));
            }
            match (event.run, event.kind) {
                // Without models there is nothing to compare. The event itself is the last line of --json already.
                (0, EventKind::Failed(failure)) => {
                    return Err(End::Reported(report::failure(&failure, false)));
                }
                (0, _) => {}
                (_, EventKind::Done { reason: StopReason::Cancelled, .. }) => {
                    return Ok(Some(Ending::Interrupted));
                }
                (_, EventKind::Done { .. } | EventKind::Failed(_)) => return Ok(None),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
