//! The flag that an interrupt sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Whether the user has asked for an end. Clones share the flag; it is never cleared.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    woken: Arc<Notify>,
}

impl Interrupt {
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        self.woken.notify_one();
    }

    /// True once the flag is set.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Wait until the flag is set, and then for `grace`.
    pub async fn waited(&self, grace: Duration) {
        while !self.asked() {
            self.woken.notified().await;
        }
        tokio::time::sleep(grace).await;
    }
}
