//! Basics for every part of the engine: where events go, what is cancelled, and why work ends early.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::mpsc;

use specreel_record::{Event, EventKind, Failure, FailureClass, panic_words};

/// Events that may wait before the engine does.
pub(crate) const EVENTS: usize = 1024;

/// Whether one run, or one loading of models, is cancelled. Clones share that.
#[derive(Clone, Debug, Default)]
pub(crate) struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers of runs, each with a token that lives as long as somebody holds it.
type Tokens = Vec<(u64, Weak<AtomicBool>)>;

/// The tokens of what was asked for and has not ended, with the numbers of their runs; 0 is the loading of models. A run that
/// has ended has no token, so a late cancel does nothing.
#[derive(Clone, Default)]
pub(crate) struct CancelTokens(Arc<Mutex<Tokens>>);

impl CancelTokens {
    /// The token of something new.
    pub fn create(&self, run: u64) -> CancelToken {
        let token = CancelToken::default();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, token)| token.strong_count() > 0);
        all.push((run, Arc::downgrade(&token.0)));
        token
    }

    /// Cancel all that has this number, even if it still waits.
    pub fn cancel(&self, run: u64) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = all.iter().filter(|(of, _)| *of == run).filter_map(|(_, token)| token.upgrade());
        tokens.for_each(|token| token.store(true, Ordering::Relaxed));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_belongs_to_what_has_been_asked_for() {
        let tokens = CancelTokens::default();
        tokens.cancel(1);
        let [one, same, other] = [1, 1, 2].map(|run| tokens.create(run));
        assert!(!one.is_cancelled(), "a cancel of before");
        tokens.cancel(1);
        assert!(one.is_cancelled() && same.clone().is_cancelled() && !other.is_cancelled());
        drop((one, same));
        assert!(!tokens.create(1).is_cancelled(), "what has ended");
        let _last = tokens.create(3);
        assert_eq!(tokens.0.lock().unwrap().len(), 2, "tokens of what has ended are not kept");
    }
}
