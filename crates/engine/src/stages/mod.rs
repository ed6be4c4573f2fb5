//! One run: what its stages share, and how they report progress.

mod baseline;
mod clip;
mod divergence;
mod draft;
mod generate;
mod prefill;
mod pruned;
mod repeats;
mod reuse;
mod run;
mod thinking;
mod validate;
mod writing;

use std::{
    ops::ControlFlow,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::{
    command::RunRequest,
    events::{CancelToken, EventSender, since},
    models::{Models, load_progress},
    observer::Observer,
    planner::Planner,
    timing::{Part, Rates, StagePace, rates},
};
use specreel_checkpoint::LoadProgress;
use specreel_model::{decoder::together::pause, family::VideoLlm, mac_count::MacCount};
use specreel_record::{EventKind, Stage};

pub(crate) use self::{
    generate::{BASELINE, Decoding},
    run::FinishedRun,
};

pub(crate) struct Runner<'a> {
    pub request: &'a RunRequest,
    pub models: &'a Models,
    pub(crate) sender: &'a EventSender,
    pub cancel: &'a CancelToken,
    /// Run even if the available memory seems too small.
    pub ignore_memory: bool,
    /// Speeds that are known, and that stages teach; `None` where the run is only repeated.
    pub rates: Option<&'a Mutex<Rates>>,
    /// Set where the run is only repeated to measure its speed: true as soon as that has to end. Nothing is reported then.
    pub(crate) idle: Option<&'a (dyn Fn() -> bool + Sync)>,
    pub(crate) observer: Option<&'a dyn Observer>,
}

impl Runner<'_> {
    pub(crate) fn planner(&self) -> Planner<'_> {
        let Self { request, models, ignore_memory, rates, .. } = *self;
        Planner { request, models, ignore_memory, rates }
    }

    /// Whether other runs use the device meanwhile, so that times say nothing about this one.
    pub(crate) fn shares_device(&self) -> bool {
        self.rates.is_some_and(|rates| rates.lock().unwrap_or_else(PoisonError::into_inner).is_shared())
    }

    /// Report progress; break if the run is cancelled.
    pub(crate) fn progress(&self, stage: Stage, done: usize, total: usize) -> ControlFlow<()> {
        self.report(stage, done, total, None)
    }

    /// Reports the progress of a load within a run, from another thread too; breaks if the run is cancelled.
    pub(crate) fn load_progress(&self) -> LoadProgress {
        load_progress(self.sender, self.cancel)
    }

    /// Report progress with the time left, if it is known; break if the run is cancelled.
    pub(crate) fn report(
        &self,
        stage: Stage,
        done: usize,
        total: usize,
        left_ms: Option<f64>,
    ) -> ControlFlow<()> {
        if let Some(observer) = self.observer {
            observer.progress(self.request, self.models, stage);
        }
        if let Some(ends) = self.idle {
            return if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        // Steps wait for each other where passes are computed together.
        let waits = self.models.target.decoder().joins();
        if !(waits && matches!(stage, Stage::Generate | Stage::Calibrate)) {
            pause();
        }
        if self.cancel.is_cancelled() {
            return ControlFlow::Break(());
        }
        // Steps report themselves; only the beginning of the stage is sent.
        if stage != Stage::Generate || done == 0 {
            let left_ms = left_ms.map(f64::round);
            self.sender.offer(EventKind::Stage { stage, done: done as u64, total: total as u64, left_ms });
        }
        ControlFlow::Continue(())
    }

    /// Watch a stage: its progress gets the time left, and its end teaches its speed.
    pub(crate) fn watch<'r>(
        &'r self,
        stage: Stage,
        part: Part,
        model: &VideoLlm,
        total: MacCount,
    ) -> StageWatch<'r> {
        let key = rates::key(part, model);
        let rate = self
            .rates
            .and_then(|rates| Some(rates.lock().unwrap_or_else(PoisonError::into_inner).get(&key)?.0));
        let pace = StagePace::new(part, total, rate);
        StageWatch { runner: self, stage, key, pace, started: Instant::now() }
    }
}

pub(crate) struct StageWatch<'r> {
    runner: &'r Runner<'r>,
    stage: Stage,
    key: String,
    pace: StagePace,
    started: Instant,
}

impl StageWatch<'_> {
    /// Report progress and the time left, given the work that is done; break if the run is cancelled.
    pub fn tick(&mut self, done: usize, total: usize, work: MacCount) -> ControlFlow<()> {
        let left_ms = self.pace.tick(work, since(self.started));
        self.runner.report(self.stage, done, total, left_ms)
    }

    /// The stage is complete, and nothing else used the device meanwhile: learn its speed.
    pub(crate) fn learn(self) {
        let Some(rates) = self.runner.rates else { return };
        if let Some(rate) = self.pace.rate() {
            rates.lock().unwrap_or_else(PoisonError::into_inner).learn(&self.key, rate);
        }
    }
}
