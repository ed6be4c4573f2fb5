//! Ctrl-C during a bench: what runs now is cancelled, nothing new begins, and what is done is printed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use crate::{
    cli::{End, EnginePort, interrupt::Interrupt},
    engine::Command,
    record::Failure,
};

/// The engine as an interrupt sees it: whatever runs now is what it cancels. Without an engine it is only a flag.
#[derive(Clone)]
pub struct Stop(Arc<Inner>);

struct Inner {
    engine: Option<Arc<dyn EnginePort>>,
    /// The run of now; 0 before the first.
    run: AtomicU64,
    asked: AtomicBool,
}

impl Stop {
    /// Nothing was asked yet.
    pub fn new(engine: Option<Arc<dyn EnginePort>>) -> Self {
        Self(Arc::new(Inner { engine, run: AtomicU64::new(0), asked: AtomicBool::new(false) }))
    }

    /// Listen for Ctrl-C from now on; the second one ends the process at once.
    ///
    /// # Errors
    /// The system gives no signals or no thread.
    pub fn listen(&self) -> Result<Interrupt, End> {
        let interrupt = Interrupt::default();
        let inner = self.0.clone();
        interrupt.listen(move || inner.cancel(0))?;
        Ok(interrupt)
    }

    /// Somebody pressed Ctrl-C.
    #[cfg(test)]
    pub fn ask(&self) {
        self.0.cancel(0);
    }

    /// True if somebody pressed Ctrl-C.
    pub fn asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// This run is the one to cancel.
    pub fn runs(&self, run: u64) {
        self.0.run.store(run, Ordering::SeqCst);
    }
}

impl EnginePort for Inner {
    fn send(&self, command: Command) -> Result<(), Failure> {
        self.engine.as_ref().map_or(Ok(()), |engine| engine.send(command))
    }

    fn cancel(&self, _: u64) {
        self.asked.store(true, Ordering::SeqCst);
        if let Some(engine) = &self.engine {
            engine.cancel(self.run.load(Ordering::SeqCst));
        }
    }
}
