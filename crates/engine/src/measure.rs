//! The speed of finished runs, measured in pairs while the engine has nothing else to do.
//!
//! A short run is repeated whole, in alternation with autoregressive decoding of as many tokens (A B B A, which cancels a
//! drift of the machine's speed); runs on one clip and prompt are measured in the same rounds, so that their order means
//! something. The first steps of a longer run are repeated with a pass of the target alone before each, or, where nothing can
//! be timed between its steps, in alternation with the first steps of autoregressive decoding. Everything is done again over
//! the prefilled contexts; nothing of it is reported but the ratio ([`EventKind::Speed`]).
//!
//! A method that prunes the target is compared with the whole target, whose context an earlier run must have left.
//!
//! A command, or cancelling the run, ends a measurement within one pass of the target. It is resumed when the engine is
//! idle again, as long as the contexts are the same.

use std::{ops::ControlFlow, time::Instant};

use crate::{
    cache::{ContextKey, PrefixCache},
    events::{CancelToken, EventSender, Stop, since},
    models::Models,
    observer::Observer,
    planner::RunPlan,
    stages::{BASELINE, Decoding, FinishedRun, Runner},
    timing::ContentionMeter,
};
use specreel_record::{
    EventKind, Measured, PairedRatio, Speedup, Stats, Step, StopReason, median,
    paired::{self, Pace},
};
use specreel_speculate::{Method, PlainPasses, Schedule};

/// Time for the measurement of one run, in milliseconds; a run that took longer than ten times this gets a tenth of its time.
const BUDGET_MS: f64 = 1000.0;
const BUDGET_SHARE: f64 = 0.1;
/// A measurement does not end before this many pairs: the interval of fewer is narrow by accident too often.
const PAIRS: usize = 10;
/// After a look at the interval, the next one is this many pairs later: each look is a chance to end by accident.
const LOOKS: usize = 5;
/// Steps of a longer run that are repeated together, in alternation with as many of autoregressive decoding, where nothing can
/// be timed between them.
const STEPS_TOGETHER: usize = 2;
/// A measurement may take this many times its budget until there are enough pairs for an interval, or for a good one on a busy
/// machine.
const PATIENCE: f64 = 3.0;
/// Runs that are measured together at most.
const TOGETHER: usize = 64;

/// A finished run whose speed is measured.
pub struct Trial {
    run: FinishedRun,
    /// The run's: a cancel ends its measurement.
    cancel: CancelToken,
    /// The pairs so far.
    ratios: Vec<f64>,
    /// Milliseconds per token of whole repetitions. Their pairs replace the pairs of single passes.
    repeated: Vec<f64>,
    contention: ContentionMeter,
    spent_ms: f64,
    /// At how many pairs it is decided next whether they are enough.
    next_look: usize,
    settled: bool,
    /// An interval has been reported.
    reported: bool,
}

impl Trial {
    pub(crate) fn new(run: FinishedRun, cancel: CancelToken) -> Self {
        Self {
            ratios: run.generated.pace.ratios(),
            run,
            cancel,
            repeated: Vec::new(),
            contention: ContentionMeter::default(),
            spent_ms: 0.0,
            next_look: PAIRS,
            settled: false,
            reported: false,
        }
    }

    fn number(&self) -> u64 {
        self.run.request.run
    }

    fn budget_ms(&self) -> f64 {
        f64::max(BUDGET_MS, BUDGET_SHARE * self.run.generated.pace.total_ms())
    }

    /// Decide whether the pairs are enough: their interval is narrow, or the budget is spent, or nothing was written.
    fn look(&mut self) {
        let is_busy = self.contention.share().is_some_and(|share| share >= paired::BUSY);
        let enough = if is_busy { PAIRS } else { paired::LEAST };
        let patience = if self.ratios.len() < enough { PATIENCE } else { 1.0 };
        self.settled |= self.run.generated.pace.tokens() == 0 || self.spent_ms >= patience * self.budget_ms();
        if self.ratios.len() >= self.next_look {
            self.next_look = self.ratios.len() + LOOKS;
            self.settled |= PairedRatio::of(&self.ratios).is_some_and(|ratio| ratio.is_settled());
        }
    }

    /// True if enough pairs for an interval fit into the budget when the run is repeated whole. `plain_ms` is the time of an
    /// autoregressive step.
    fn is_short(&self, plain_ms: f64) -> bool {
        let round_ms =
            2.0 * (self.run.generated.pace.total_ms() + self.run.generated.pace.tokens() as f64 * plain_ms);
        !self.repeated.is_empty() || plain_ms > 0.0 && round_ms * paired::LEAST as f64 <= self.budget_ms()
    }

    /// What the pairs so far show.
    fn speedup(&self) -> Option<Speedup> {
        let per_token = match self.repeated.is_empty() {
            true => self.run.generated.pace.per_token()?,
            false => median(self.repeated.iter().copied())?,
        };
        let measured = Measured {
            ratios: &self.ratios,
            generate_ms: per_token * self.run.generated.pace.tokens() as f64,
            limits: self.run.generated.limits,
            contention: self.contention.share(),
            front_ms: self.run.generated.front.shared_ms,
            drafter_ms: self.run.generated.front.drafter_ms,
        };
        Speedup::of(BASELINE, self.run.emitted, &measured)
    }

    fn report(&mut self, sender: &EventSender, measuring: bool) {
        sender.send(EventKind::Speed { speedup: self.speedup(), measuring });
        self.reported = true;
    }
}

/// The runs that are being measured, all on one context.
#[derive(Default)]
pub(crate) struct Trials {
    trials: Vec<Trial>,
}

pub(crate) struct Bench<'a> {
    pub models: &'a Models,
    pub(crate) sender: &'a EventSender,
    /// True as soon as the engine has something else to do.
    pub busy: &'a (dyn Fn() -> bool + Sync),
    pub observer: Option<&'a dyn Observer>,
}

impl Bench<'_> {
    /// True as soon as the measurement of these runs has to end.
    fn ends(&self, runs: &[CancelToken]) -> bool {
        (self.busy)() || runs.iter().any(CancelToken::is_cancelled)
    }

    fn with_runner<T>(
        &self,
        trial: &Trial,
        ends: &(dyn Fn() -> bool + Sync),
        f: impl FnOnce(&Runner<'_>) -> T,
    ) -> T {
        let sender = self.sender.of(trial.number());
        f(&Runner {
            request: &trial.run.request,
            models: self.models,
            sender: &sender,
            cancel: &trial.cancel,
            ignore_memory: true,
            rates: None,
            idle: Some(ends),
            observer: self.observer,
        })
    }
}

impl Trials {
    /// True if nothing is being measured.
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    /// Measure this run as well. Runs on another clip or prompt are reported as they are.
    pub fn add(&mut self, trial: Trial, sender: &EventSender) {
        self.report_if(sender, |other| other.run.plain_key != trial.run.plain_key);
        if self.trials.len() == TOGETHER {
            let mut oldest = self.trials.remove(0);
            oldest.report(&sender.of(oldest.number()), false);
        }
        self.trials.push(trial);
    }

    /// Report the runs that are not measured any further, and forget them.
    fn report_if(&mut self, sender: &EventSender, ends: impl Fn(&Trial) -> bool) {
        for trial in &mut self.trials {
            if ends(trial) {
                trial.report(&sender.of(trial.number()), false);
            }
        }
        self.trials.retain(|trial| !ends(trial));
    }

    /// Report all as they are, and forget them.
    pub fn finish(&mut self, sender: &EventSender) {
        self.report_if(sender, |_| true);
    }

    /// Measure until all are settled or the engine has something else to do. The runs stay unsettled if a pass fails.
    pub fn measure(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        loop {
            self.trials.iter_mut().for_each(Trial::look);
            // A context that has been evicted cannot be measured any more.
            let is_kept = |key: &ContextKey| cache.contexts.keys().any(|kept| kept == key);
            let gone = |trial: &Trial| !is_kept(&trial.run.key) || !is_kept(&trial.run.plain_key);
            let cancelled = |trial: &Trial| trial.cancel.is_cancelled();
            self.report_if(bench.sender, |trial| trial.settled || gone(trial) || cancelled(trial));
            if self.trials.is_empty() || (bench.busy)() {
                return Ok(());
            }
            match self.round(cache, bench) {
                // A run was cancelled in the middle of its repetition: it is reported as far as it was measured.
                Err(Stop::Cancelled) if self.trials.iter().any(cancelled) => continue,
                other => other?,
            }
            for trial in &mut self.trials {
                if !trial.reported && trial.ratios.len() >= PAIRS {
                    trial.report(&bench.sender.of(trial.number()), true);
                }
            }
        }
    }

    /// One round: of all short runs together, or some passes of the first longer one.
    fn round(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        let plain_ms = cache.entry(&self.trials[0].run.plain_key)?.1.t1_ms;
        if let Some(longer) = self.trials.iter_mut().find(|trial| !trial.is_short(plain_ms)) {
            return longer.repeat_steps(cache, bench);
        }
        let runs: Vec<CancelToken> = self.trials.iter().map(|trial| trial.cancel.clone()).collect();
        let ends = || bench.ends(&runs);
        let most =
            self.trials.iter().map(|trial| trial.run.generated.pace.tokens()).max().unwrap_or_default();
        let plain = Method::default();
        let started = Instant::now();
        let mut own = vec![0.0; self.trials.len()];
        let mut plain_ms = 0.0;
        let mut contention = ContentionMeter::default();
        let there = (0..own.len()).map(Some);
        let order = std::iter::once(None).chain(there.clone()).chain(there.rev()).chain([None]);
        for at in order {
            // Only the baseline's: a method whose drafter works in parallel may itself need more processors than there are.
            let trial = &self.trials[at.unwrap_or_default()];
            let per_token = match at {
                None => contention.during(|| trial.time(cache, bench, &ends, trial.baseline(&plain, most))),
                Some(_) => trial.time(cache, bench, &ends, trial.own()),
            };
            let Some(per_token) = per_token? else { return Ok(()) };
            match at {
                None => plain_ms += per_token / 2.0,
                Some(at) => own[at] += per_token / 2.0,
            }
        }
        let share_ms = since(started) / own.len() as f64;
        for (trial, own_ms) in self.trials.iter_mut().zip(own) {
            if trial.repeated.is_empty() {
                trial.ratios.clear();
                trial.contention = ContentionMeter::default();
            }
            trial.repeated.push(own_ms);
            trial.ratios.push(plain_ms / own_ms);
            trial.contention.add(&contention);
            trial.spent_ms += share_ms;
        }
        Ok(())
    }
}

/// What is repeated: a method over its context.
#[derive(Clone, Copy)]
struct Repeated<'a> {
    key: &'a ContextKey,
    method: &'a Method,
    max_new_tokens: usize,
}

impl Trial {
    fn own(&self) -> Repeated<'_> {
        let RunPlan { method, max_new_tokens, .. } = &self.run.plan;
        Repeated { key: &self.run.key, method, max_new_tokens: *max_new_tokens }
    }

    /// The baseline, `plain`, up to so many tokens.
    fn baseline<'a>(&'a self, plain: &'a Method, max_new_tokens: usize) -> Repeated<'a> {
        Repeated { key: &self.run.plain_key, method: plain, max_new_tokens }
    }

    /// Decode once more: milliseconds per token. `None` if it had to end early.
    fn time(
        &self,
        cache: &mut PrefixCache,
        bench: &Bench<'_>,
        ends: &(dyn Fn() -> bool + Sync),
        repeated: Repeated<'_>,
    ) -> Result<Option<f64>, Stop> {
        let mut pace = Pace::default();
        let reason = self.decode(cache, bench, ends, repeated, PlainPasses::Never, &mut |step| {
            pace.add(&step);
            if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(reason.and_then(|reason| {
            pace.end(reason);
            pace.per_token()
        }))
    }

    /// Repeat the first steps of a longer run with a pass of the target alone before each, as far as the budget goes. Under the
    /// parallel schedule nothing can be timed between the steps, and of a pruned target such a pass is not the baseline's:
    /// there, a few steps alternate with a few of autoregressive decoding.
    fn repeat_steps(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        let run = [self.cancel.clone()];
        let ends = || bench.ends(&run);
        let (started, budget_ms) = (Instant::now(), self.budget_ms() - self.spent_ms);
        let (plain, own) = (Method::default(), self.own());
        let baseline = self.baseline(&plain, own.max_new_tokens);
        let mut contention = ContentionMeter::default();
        let ratios = if own.key != baseline.key || matches!(own.method.schedule, Schedule::Parallel { .. }) {
            let passes = contention.during(|| self.first_steps(cache, bench, &ends, baseline))?;
            let steps = self.first_steps(cache, bench, &ends, own)?;
            let plain_ms = median(passes.iter().map(Step::total_ms)).unwrap_or_default();
            let ratio = self.run.generated.pace.ratio_of_repeat(plain_ms, &steps);
            (!ends()).then(|| ratio.into_iter().collect())
        } else {
            let mut steps: Vec<Step> = Vec::new();
            contention.during(|| {
                self.decode(cache, bench, &ends, own, PlainPasses::EveryStep, &mut |step| {
                    steps.push(step);
                    match ends() || since(started) >= budget_ms {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                })
            })?;
            Some(self.run.generated.pace.ratios_of_repeat(&steps))
        };
        if let Some(ratios) = ratios {
            self.ratios.extend(ratios);
            self.contention.add(&contention);
        }
        self.spent_ms += since(started);
        Ok(())
    }

    /// The first steps, after one that warms up.
    fn first_steps(
        &self,
        cache: &mut PrefixCache,
        bench: &Bench<'_>,
        ends: &(dyn Fn() -> bool + Sync),
        repeated: Repeated<'_>,
    ) -> Result<Vec<Step>, Stop> {
        let mut steps = Vec::new();
        self.decode(cache, bench, ends, repeated, PlainPasses::Never, &mut |step| {
            steps.push(step);
            match ends() || steps.len() > STEPS_TOGETHER {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(steps.split_off(1.min(steps.len())))
    }

    /// Why the generation ended, if it came to its own end.
    fn decode(
        &self,
        cache: &mut PrefixCache,
        bench: &Bench<'_>,
        ends: &(dyn Fn() -> bool + Sync),
        Repeated { key, method, max_new_tokens }: Repeated<'_>,
        plain_passes: PlainPasses,
        on: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<Option<StopReason>, Stop> {
        if let Some(observer) = bench.observer {
            observer.repeats(&self.run.request, ends)?;
        }
        // If this fails, the context may be half-written.
        cache.writing = Some(key.clone());
        let FinishedRun { plan, selection, .. } = &self.run;
        let RunPlan { contenders, earlier, sampling, .. } = plan;
        let decoding =
            Decoding { method, contenders, earlier, sampling, max_new_tokens, plain_passes, on_draft: None };
        let reason = bench.with_runner(self, ends, |runner| {
            let drafter = match method.drafts() {
                true => runner.ensure_drafter(plan, cache, key, selection, &mut Stats::default())?,
                false => None,
            };
            let (clip, context) = cache.entry(key)?;
            let decoded = runner.decode(clip, context, drafter.as_ref(), &decoding, on)?;
            Ok::<_, Stop>(decoded.finished.reason)
        })?;
        cache.writing = None;
        Ok(reason)
    }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
