//! Runs one after another on one engine, each to its end.

use std::{path::Path, sync::Arc, time::Duration};

use serde::Serialize;
use tokio::sync::mpsc;

use super::stop::Stop;
use crate::{
    cli::{EnginePort, interrupt::Interrupt, progress::Progress},
    engine::{Command, RunRequest},
    model::ModelSpec,
    record::{Event, EventKind, Failure, FailureClass, Stage, Stats, StopReason},
    speculate::Method,
};

/// How long a cancelled run may take to say that it is done.
const GRACE: Duration = Duration::from_secs(5);

/// What the engine has loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// Name of the target.
    pub target: String,
    /// Name of the drafter, if there is one.
    pub drafter: Option<String>,
    /// Device in words.
    pub device: String,
    /// Weight type of the language models.
    pub dtype: String,
}

/// What a run wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Why it ended.
    pub reason: Option<StopReason>,
    /// The text.
    pub text: String,
    /// Its ids.
    pub ids: Vec<u32>,
    /// The account.
    pub stats: Stats,
}

/// An engine and the request that all runs share.
pub struct Runs {
    engine: Arc<dyn EnginePort>,
    events: mpsc::Receiver<Event>,
    stop: Stop,
    interrupt: Interrupt,
    base: RunRequest,
    last: u64,
}

impl Runs {
    /// Runs that differ from `base` in number, video, method and length.
    pub fn new(
        (engine, events): (Arc<dyn EnginePort>, mpsc::Receiver<Event>),
        stop: Stop,
        interrupt: Interrupt,
        base: RunRequest,
    ) -> Self {
        Self { engine, events, stop, interrupt, base, last: 0 }
    }

    /// Tokens at most.
    pub fn limit(&self) -> usize {
        self.base.max_new_tokens
    }

    /// True if nothing new is to begin.
    pub fn stopped(&self) -> bool {
        self.stop.asked()
    }

    /// Load the models. None if that was interrupted.
    ///
    /// # Errors
    /// They cannot be loaded.
    pub async fn load(
        &mut self,
        models: ModelSpec,
        progress: &mut Progress,
    ) -> Result<Option<Loaded>, Failure> {
        self.engine.send(Command::Load(models))?;
        loop {
            // Nobody answers to a cancel while models load, and nothing is lost.
            let Some(event) = self.event(Duration::ZERO).await? else { return Ok(None) };
            match event.kind {
                EventKind::Stage { stage: stage @ Stage::Load, done, total } => {
                    progress.stage(stage, done, total)
                }
                EventKind::Ready { target, drafter, device, dtype, .. } => {
                    return Ok(Some(Loaded { target, drafter, device, dtype }));
                }
                EventKind::Failed(failure) => return Err(failure),
                _ => {}
            }
        }
    }

    /// Caption a video. None if that was interrupted.
    ///
    /// # Errors
    /// The run failed.
    pub async fn run(
        &mut self,
        video: &Path,
        method: &Method,
        max_new_tokens: usize,
    ) -> Result<Option<Written>, Failure> {
        self.last += 1;
        let run = self.last;
        self.stop.runs(run);
        // Asked before the number was known: nobody has cancelled this run.
        if self.stopped() {
            return Ok(None);
        }
        let request = RunRequest {
            before: Vec::new(),
            run,
            video: video.into(),
            method: method.clone(),
            max_new_tokens,
            ..self.base.clone()
        };
        self.engine.send(Command::Run(Box::new(request)))?;
        loop {
            let Some(event) = self.event(GRACE).await? else { return Ok(None) };
            match event.kind {
                _ if event.run != run => {}
                EventKind::Done { reason: StopReason::Cancelled, .. } => return Ok(None),
                EventKind::Done { reason, text, ids, stats } => {
                    return Ok(Some(Written { reason: Some(reason), text, ids, stats: *stats }));
                }
                EventKind::Failed(failure) => return Err(failure),
                _ => {}
            }
        }
    }

    /// The next event; none this long after an interrupt.
    async fn event(&mut self, grace: Duration) -> Result<Option<Event>, Failure> {
        let event = tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = self.interrupt.waited(grace) => return Ok(None),
        };
        event.map(Some).ok_or_else(|| Failure {
            class: FailureClass::Internal,
            error: "the engine ended without an answer".into(),
            hint: Some("its log file may say why: see specreel doctor".into()),
        })
    }
}
