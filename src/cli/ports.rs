//! What the faces need from the rest of the house, as functions, so that they can be tested without it.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::resolve::Studio;
use crate::{
    engine::Command,
    record::{Event, Failure},
};

/// What the command line asks of an engine.
pub trait EnginePort: Send + Sync {
    /// Hand over a command.
    ///
    /// # Errors
    /// The engine is gone.
    fn send(&self, command: Command) -> Result<(), Failure>;

    /// Cancel a run; its `done` event follows within one step. Returns at once.
    fn cancel(&self, run: u64);
}

/// An engine and the events that come from it.
pub type Started = (Arc<dyn EnginePort>, mpsc::Receiver<Event>);

/// The rooms that the command line opens.
#[derive(Clone, Copy)]
pub struct Ports {
    /// Start an engine without models.
    pub engine: fn() -> Result<Started, Failure>,
    /// Run the studio; gives the exit code.
    pub studio: fn(Studio) -> Result<i32, Failure>,
}
