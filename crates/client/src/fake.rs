//! A scripted engine for tests: it records what it is sent and answers as the test says.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use super::{Backend, Client, cancelled};
use specreel_engine::{Command, RunRequest};
use specreel_record::testing::{self, about, ended};
use specreel_record::{Event, EventKind, Failure, FailureClass, Started, Stats, StopReason, Verdict};
use specreel_speculate::Method;

type Answer = dyn Fn(&RunRequest) -> Vec<EventKind> + Send + Sync;

/// The test's end of a fake engine. By itself it answers nothing but a cancel, with `done` (cancelled).
#[derive(Clone)]
pub struct FakeEngine {
    state: Arc<Mutex<State>>,
    answer: Arc<Answer>,
}

struct State {
    events: Option<mpsc::Sender<Event>>,
    commands: Vec<Command>,
    cancelled: Vec<u64>,
    answers_cancel: bool,
    full: bool,
    stops_at: Option<u64>,
}

impl FakeEngine {
    /// An engine that answers no run.
    pub fn silent() -> (Self, Client) {
        Self::answering(|_| Vec::new())
    }

    /// An engine that answers each run with these events.
    pub fn answering(
        answer: impl Fn(&RunRequest) -> Vec<EventKind> + Send + Sync + 'static,
    ) -> (Self, Client) {
        let (sender, events) = mpsc::channel(256);
        let state = State {
            events: Some(sender),
            commands: Vec::new(),
            cancelled: Vec::new(),
            answers_cancel: true,
            full: false,
            stops_at: None,
        };
        let fake = Self { state: Arc::new(Mutex::new(state)), answer: Arc::new(answer) };
        let client = Client::new(fake.clone(), events);
        (fake, client)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn ignore_cancels(&self) {
        self.state().answers_cancel = false;
    }

    /// From now on refuse commands, as an engine with a full queue does.
    pub fn refuse_commands(&self) {
        self.state().full = true;
    }

    pub fn emit(&self, run: u64, kind: EventKind) {
        let state = self.state();
        if let Some(events) = &state.events {
            events.try_send(Event::new(run, kind)).expect("the test reads its events");
        }
    }

    /// Stop: the client receives nothing more.
    pub fn stop(&self) {
        self.state().events = None;
    }

    /// Stop as soon as this run, or a later one, is requested.
    pub fn stop_at(&self, run: u64) {
        let mut state = self.state();
        state.stops_at = Some(state.stops_at.map_or(run, |earlier| earlier.min(run)));
    }

    pub fn commands(&self) -> Vec<Command> {
        self.state().commands.clone()
    }

    pub fn requests(&self) -> Vec<RunRequest> {
        let request = |command| if let Command::Run(request) = command { Some(*request) } else { None };
        self.commands().into_iter().filter_map(request).collect()
    }

    /// Runs that were cancelled, in order.
    pub fn cancelled(&self) -> Vec<u64> {
        self.state().cancelled.clone()
    }
}

impl Backend for FakeEngine {
    fn send(&self, command: Command) -> Result<(), Failure> {
        if self.state().full {
            let error = "the engine's queue is full".into();
            return Err(Failure { class: FailureClass::Internal, error, hint: None });
        }
        self.state().commands.push(command.clone());
        if let Command::Run(request) = command {
            if self.state().stops_at.is_some_and(|run| request.run >= run) {
                self.stop();
            }
            for kind in (self.answer)(&request) {
                // What is found about a run has its number.
                let of = request.verifies.as_ref().filter(|_| matches!(kind, EventKind::Verified(_)));
                self.emit(of.map_or(request.run, |of| of.run), kind);
            }
        }
        Ok(())
    }

    fn cancel(&self, run: u64) {
        self.state().cancelled.push(run);
        if self.state().answers_cancel {
            self.emit(run, cancelled(run).kind);
        }
    }
}

/// A request for the named preset; tests change what they need.
pub fn request(run: u64, method: &str) -> RunRequest {
    RunRequest {
        run,
        video: "v.mp4".into(),
        prompt: "p".into(),
        method: Method::preset(method).expect("a preset"),
        max_new_tokens: 8,
        ..RunRequest::default()
    }
}

pub fn started(method: &str) -> EventKind {
    let method = serde_json::json!({ "name": method, "drafter": { "kind": "model" } });
    EventKind::Started(Started { method, lossless: true, ..about() })
}

/// The `prompt` event of a drafter that sees the whole clip.
pub fn prompt() -> EventKind {
    testing::prompt(None)
}

/// A step that accepts one draft token.
pub fn step(text: &str) -> EventKind {
    testing::step(&[(text, Verdict::Exact)])
}

/// The `done` event of a run that wrote `text`.
pub fn done(reason: StopReason, text: &str) -> EventKind {
    let ids = Vec::from_iter((!text.is_empty()).then_some(1));
    ended(reason, text, &ids, Stats { emitted: ids.len() as u64, ..Stats::default() })
}

pub fn failed(class: FailureClass, error: &str) -> EventKind {
    EventKind::Failed(Failure { class, error: error.into(), hint: None })
}
