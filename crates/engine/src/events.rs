//! Basics for every part of the engine: where events go, which runs are cancelled, and why work ends early.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use tokio::sync::mpsc;

use specreel_record::{Event, EventKind, Failure, FailureClass, panic_words};

/// Events that may wait before the engine does.
pub(crate) const EVENTS: usize = 1024;

/// Cancelled runs; 0 is the loading of models.
#[derive(Clone, Default)]
pub(crate) struct Cancelled(Arc<Mutex<BTreeSet<u64>>>);

impl Cancelled {
    /// Cancel this run, even if it still waits.
    pub fn add(&self, run: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
    }

    /// True if this run is cancelled.
    pub fn contains(&self, run: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&run)
    }

    /// The run has ended: its number may be used again.
    pub fn forget(&self, run: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }
}

/// Forgets that a run was cancelled, when dropped.
pub(crate) struct Forget<'a> {
    pub cancelled: &'a Cancelled,
    pub run: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.cancelled.forget(self.run);
    }
}

/// Where a run's events go.
#[derive(Clone)]
pub(crate) struct EventSender {
    events: mpsc::Sender<Event>,
    run: u64,
}

impl EventSender {
    /// The sender of run 0, the loading of models.
    pub fn new(events: mpsc::Sender<Event>) -> Self {
        Self { events, run: 0 }
    }

    /// The same for another run.
    pub fn of(&self, run: u64) -> Self {
        Self { events: self.events.clone(), run }
    }

    /// Send an event of this run; waits for a slow reader. False if the reader has gone.
    pub fn send(&self, kind: EventKind) -> bool {
        self.events.blocking_send(Event::new(self.run, kind)).is_ok()
    }

    /// Send an event that may be dropped if the reader is slow: progress, which the next one replaces.
    pub(crate) fn offer(&self, kind: EventKind) {
        if self.events.capacity() > EVENTS / 2 {
            let _ = self.events.try_send(Event::new(self.run, kind));
        }
    }

    /// True if the reader has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.events.is_closed()
    }
}

/// Call `f`; a failure or a panic becomes a `failed` event.
pub(crate) fn guarded<T>(sender: &EventSender, f: impl FnOnce() -> Result<T, Failure>) -> Option<T> {
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

/// Why work on a run ended early.
pub(crate) enum Stop {
    Cancelled,
    Failed(Failure),
}

impl<E: Into<Failure>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// The failure of something that should not happen.
pub(crate) fn internal(error: String) -> Failure {
    Failure { class: FailureClass::Internal, error, hint: None }
}

/// Milliseconds since then.
pub(crate) fn since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}
