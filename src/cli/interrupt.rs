//! Ctrl-C: the first one asks, the second ends the process at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use super::{End, INTERRUPTED};

/// Whether somebody pressed Ctrl-C.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    woken: Arc<Notify>,
}

impl Interrupt {
    /// Somebody did.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// True if somebody did.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Wait until somebody did, and then this long.
    pub async fn waited(&self, grace: Duration) {
        while !self.asked() {
            self.woken.notified().await;
        }
        tokio::time::sleep(grace).await;
    }

    /// Listen on a thread of its own, so that a blocked write cannot make us deaf. `cancel` is called after
    /// [`Interrupt::asked`] has become true.
    ///
    /// # Errors
    /// The system gives no thread or no signal.
    pub fn listen(&self, cancel: impl Fn() + Send + 'static) -> Result<(), End> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        // Registered here: an interrupt from now on is ours.
        let guard = runtime.enter();
        let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        drop(guard);
        let this = self.clone();
        std::thread::Builder::new().name("interrupts".into()).spawn(move || {
            runtime.block_on(async move {
                interrupts.recv().await;
                this.ask();
                cancel();
                interrupts.recv().await;
                std::process::exit(INTERRUPTED);
            });
        })?;
        Ok(())
    }
}
