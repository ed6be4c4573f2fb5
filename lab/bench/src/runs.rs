//! Runs one after another on one engine, each to its end.

use std::convert::Infallible;

use super::*;
use specreel_client::{Client, Ending, GRACE};
use specreel_engine::RunRequest;
use specreel_modelled::profile::Modelled;
use specreel_pruners::LabMethod;
use specreel_record::{Event, EventKind, Ready, RunLog, Stats, StopReason};
use specreel_video::Sampling;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Written {
    pub reason: Option<StopReason>,
    pub text: String,
    pub ids: Vec<u32>,
    /// Accepted drafts of each step.
    pub accepted: Vec<u32>,
    pub stats: Stats,
    /// The visual tokens that the drafter, or a pruned target, saw; `None` if all.
    pub kept: Option<Vec<u32>>,
    /// What it takes under each profile of the setup.
    pub modelled: Vec<Option<Modelled>>,
}

/// What all runs of a benchmark share.
#[derive(Clone, Debug)]
pub struct Setup {
    pub models: ModelSpec,
    /// Load them even if the available memory seems too small.
    pub ignore_memory: bool,
    /// The request; runs differ from it in number, video, method and length.
    pub request: RunRequest,
    /// Profiles that charge every run as well.
    pub profiles: Vec<Profile>,
}

/// An engine, and what all runs on it share.
pub struct Runs {
    client: Client,
    interrupt: Interrupt,
    setup: Setup,
    last: u64,
}

impl Runs {
    /// Runs on the engine of this client, until they are interrupted.
    pub fn new(client: Client, interrupt: Interrupt, setup: Setup) -> Self {
        Self { client, interrupt, setup, last: 0 }
    }

    pub(crate) fn limit(&self) -> usize {
        self.setup.request.max_new_tokens
    }

    pub(crate) fn profiles(&self) -> &[Profile] {
        &self.setup.profiles
    }

    /// Sample the text of further runs at this temperature, and this many frames of their clips; none is the models' own number.
    pub(crate) fn under(&mut self, temperature: f32, frames: Option<u32>) {
        self.setup.request.text.temperature = Some(temperature);
        self.setup.request.sampling = frames.map_or(Sampling::Auto, |n| Sampling::Frames(n as usize));
    }

    pub(crate) fn stopped(&self) -> bool {
        self.interrupt.asked()
    }

    /// Load the models. `None` if interrupted. Fails if they cannot be loaded.
    pub(crate) async fn load<R: Reporter>(&mut self, reporter: &mut R) -> Result<Option<Ready>, Failure> {
        let mut on = |kind: &EventKind| {
            if let EventKind::Stage { stage, done, total, .. } = kind {
                reporter.stage(*stage, *done, *total);
            }
        };
        let Setup { models, ignore_memory, .. } = &self.setup;
        let loaded =
            self.client.load_and_wait(models.clone(), *ignore_memory, &mut on, &self.interrupt).await?;
        // The models' own statements are not part of the results.
        Ok(loaded.map(|ready| Ready { notes: Vec::new(), parts: None, ..ready }))
    }

    /// Caption a video. `None` if interrupted. Fails if the run failed.
    pub(crate) async fn run(
        &mut self,
        video: &Path,
        lab: &LabMethod,
        max_new_tokens: usize,
    ) -> Result<Option<Written>, Failure> {
        self.last += 1;
        let request = RunRequest {
            before: Vec::new(),
            run: self.last,
            video: video.into(),
            method: lab.method.clone(),
            pruner: lab.pruner(),
            max_new_tokens,
            ..self.setup.request.clone()
        };
        let mut log = RunLog::new(self.last);
        let mut sink =
            |_: &Event, _: &RunLog| -> Result<ControlFlow<()>, Infallible> { Ok(ControlFlow::Continue(())) };
        let Ok(ending) = self.client.follow(request, &mut log, &mut sink, &self.interrupt, GRACE).await;
        match ending {
            Ending::Done(StopReason::Cancelled) | Ending::NotSent => Ok(None),
            Ending::Done(reason) => Ok(Some(Written {
                reason: Some(reason),
                text: log.text().to_owned(),
                ids: log.ids().to_vec(),
                accepted: log.steps().iter().map(|step| step.accepted_freely() as u32).collect(),
                stats: log.stats().clone(),
                kept: log.prompt().and_then(|prompt| prompt.kept.clone()),
                modelled: self
                    .profiles()
                    .iter()
                    .map(|profile| specreel_modelled::charge(profile, &log))
                    .collect(),
            })),
            Ending::Failed(failure) | Ending::NoModels(failure) | Ending::Lost(failure) => Err(failure),
        }
    }
}
