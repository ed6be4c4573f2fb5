//! Runs one after another on one engine, each to its end.

use std::{convert::Infallible, ops::ControlFlow, path::Path};

use crate::cli::output::progress::Progress;
use specreel_client::{Client, Ending, GRACE, Interrupt, present::modelled};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{
    Event, EventKind, Failure, RunLog, Stats, StopReason,
    profile::{Modelled, Profile},
};
use specreel_speculate::Method;
use specreel_video::Sampling;

pub use specreel_client::Loaded;

/// What a run wrote.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Why it ended.
    pub reason: Option<StopReason>,
    /// The text.
    pub text: String,
    /// Its ids.
    pub ids: Vec<u32>,
    /// Accepted drafts of each step.
    pub accepted: Vec<u32>,
    /// Statistics.
    pub stats: Stats,
    /// What it takes under the profile.
    pub modelled: Option<Modelled>,
}

/// An engine and the request that all runs share.
pub struct Runs {
    client: Client,
    interrupt: Interrupt,
    base: RunRequest,
    profile: Option<Profile>,
    last: u64,
}

impl Runs {
    /// Runs that differ from `base` in number, video, method and length.
    pub fn new(client: Client, interrupt: Interrupt, base: RunRequest) -> Self {
        Self { client, interrupt, base, profile: None, last: 0 }
    }

    /// The same runs, charged by this profile as well.
    pub fn with_profile(mut self, profile: Option<Profile>) -> Self {
        self.profile = profile;
        self
    }

    /// Token limit of a run.
    pub fn limit(&self) -> usize {
        self.base.max_new_tokens
    }

    /// Sample the text of further runs at this temperature, and this many frames of their clips; none is the models' own number.
    pub fn under(&mut self, temperature: f32, frames: Option<u32>) {
        self.base.text.temperature = temperature;
        self.base.sampling = frames.map_or(Sampling::Auto, |n| Sampling::Frames(n as usize));
    }

    /// True once interrupted.
    pub fn stopped(&self) -> bool {
        self.interrupt.asked()
    }

    /// Load models. None if interrupted.
    ///
    /// # Errors
    /// They cannot be loaded.
    pub async fn load(
        &mut self,
        models: ModelSpec,
        ignore_memory: bool,
        progress: &mut Progress,
    ) -> Result<Option<Loaded>, Failure> {
        let mut on = |kind: &EventKind| {
            if let EventKind::Stage { stage, done, total, .. } = kind {
                progress.stage(*stage, *done, *total);
            }
        };
        self.client.load_and_wait(models, ignore_memory, &mut on, &self.interrupt).await
    }

    /// Caption a video. None if interrupted.
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
        let request = RunRequest {
            before: Vec::new(),
            run: self.last,
            video: video.into(),
            method: method.clone(),
            max_new_tokens,
            ..self.base.clone()
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
                accepted: log.steps().iter().map(|step| step.accepted as u32).collect(),
                stats: log.stats().clone(),
                modelled: self.profile.as_ref().and_then(|profile| modelled::charge(profile, &log)),
            })),
            Ending::Failed(failure) | Ending::NoModels(failure) | Ending::Lost(failure) => Err(failure),
        }
    }
}
