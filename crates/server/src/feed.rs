//! The events of all runs, for those who follow the server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::broadcast;

use specreel_record::{Event, EventKind};

/// Events that a follower may be behind; one that is further behind is dropped.
const BEHIND: usize = 4096;

/// What has happened in the runs in progress.
pub type Past = Vec<Arc<Event>>;
/// What happens from now on.
pub type Live = broadcast::Receiver<Arc<Event>>;

/// The events of runs, passed on to any number of followers.
pub struct Feed(Mutex<State>);

struct State {
    /// None if nobody may follow, and once the server is ending.
    live: Option<broadcast::Sender<Arc<Event>>>,
    /// What has happened in each run in progress.
    running: BTreeMap<u64, Vec<Arc<Event>>>,
}

impl Feed {
    /// A feed that may be followed, or one that keeps nothing.
    pub fn new(is_open: bool) -> Self {
        let live = is_open.then(|| broadcast::Sender::new(BEHIND));
        Self(Mutex::new(State { live, running: BTreeMap::new() }))
    }

    /// Pass an event on, without waiting for anybody.
    pub fn publish(&self, event: &Event) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { live: Some(live), running } = &mut *state else { return };
        let event = Arc::new(event.clone());
        match event.kind {
            _ if event.ends_run() => drop(running.remove(&event.run)),
            // Progress, which the next event replaces.
            EventKind::Stage { .. } | EventKind::Draft(_) => {}
            _ => running.entry(event.run).or_default().push(event.clone()),
        }
        // There may be no followers.
        let _ = live.send(event);
    }

    /// What has happened in the runs in progress, and what happens from now on. None if nobody may follow, or the server
    /// is ending.
    pub fn follow(&self) -> Option<(Past, Live)> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live = state.live.as_ref()?.subscribe();
        Some((state.running.values().flatten().cloned().collect(), live))
    }

    /// Nothing more happens.
    pub fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).live = None;
    }
}
