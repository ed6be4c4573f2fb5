//! The speed of finished runs, measured in pairs while the engine has nothing else to do.
//!
//! A short run is repeated whole, in alternation with autoregressive decoding of as many tokens (A B B A, which cancels a
//! drift of the machine's speed); runs on one context are measured in the same rounds, so that their order means something.
//! Of a longer run, the first steps are repeated with a pass of the target alone before each. Everything is done again over
//! the prefilled context; nothing of it is reported but the ratio ([`EventKind::Speed`]).
//!
//! A command, or cancelling the run, ends a measurement within one pass of the target. It is resumed when the engine is
//! idle again, as long as the context is the same.

use std::{ops::ControlFlow, time::Instant};

use super::{
    baseline::BASELINE,
    command::RunRequest,
    generate::{Decoding, Front, Generated},
    models::Models,
    prefix_cache::{ContextKey, PrefixCache},
    run::{Runner, Stop, since},
    thread::{Cancelled, EventSender},
};
use crate::{
    record::{
        EventKind, PairedRatio, Stats, Step,
        paired::{self, Pace},
    },
    speculate::{Method, PlainPasses, Schedule, context::Selection},
};

/// Time for the measurement of one run, in milliseconds; a run that took longer than ten times this gets a tenth of its time.
const BUDGET_MS: f64 = 1000.0;
const BUDGET_SHARE: f64 = 0.1;
/// A measurement does not end before this many pairs: the interval of fewer is narrow by accident too often.
const PAIRS: usize = 10;
/// After a look at the interval, the next one is this many pairs later: each look is a chance to end by accident.
const LOOKS: usize = 5;
/// Passes timed after a run whose steps cannot be repeated one by one.
const PASSES_AFTER: usize = 12;
/// Runs that are measured together at most.
const TOGETHER: usize = 64;

/// A finished run whose speed is measured.
pub struct Trial {
    request: RunRequest,
    key: ContextKey,
    selection: Selection,
    stats: Stats,
    pace: Pace,
    front: Front,
    /// The pairs so far.
    ratios: Vec<f64>,
    /// True once they come from whole repetitions, which replace those of single passes.
    whole: bool,
    spent_ms: f64,
    /// At how many pairs it is decided next whether they are enough.
    next_look: usize,
    settled: bool,
    /// An interval has been reported.
    reported: bool,
}

impl Trial {
    pub(super) fn new(
        request: RunRequest,
        key: ContextKey,
        selection: Selection,
        stats: Stats,
        generated: Generated,
    ) -> Self {
        let Generated { pace, front, .. } = generated;
        let ratios = pace.ratios();
        Self {
            request,
            key,
            selection,
            stats,
            pace,
            front,
            ratios,
            whole: false,
            spent_ms: 0.0,
            next_look: PAIRS,
            settled: false,
            reported: false,
        }
    }

    fn budget_ms(&self) -> f64 {
        f64::max(BUDGET_MS, BUDGET_SHARE * self.pace.total_ms())
    }

    /// Decide whether the pairs are enough: their interval is narrow, or the budget is spent, or nothing was written.
    fn look(&mut self) {
        self.settled |= self.pace.tokens() == 0 || self.spent_ms >= self.budget_ms();
        if self.ratios.len() >= self.next_look {
            self.next_look = self.ratios.len() + LOOKS;
            self.settled |= PairedRatio::of(&self.ratios).is_some_and(|ratio| ratio.is_settled());
        }
    }

    /// True if enough pairs for an interval fit into the budget when the run is repeated whole. `plain_ms` is the time of an
    /// autoregressive step.
    fn is_short(&self, plain_ms: f64) -> bool {
        let round_ms = 2.0 * (self.pace.total_ms() + self.pace.tokens() as f64 * plain_ms);
        self.whole || plain_ms > 0.0 && round_ms * paired::LEAST as f64 <= self.budget_ms()
    }

    fn report(&mut self, sender: &EventSender, measuring: bool) {
        self.stats.set_paired(BASELINE, &self.ratios, self.front.shared_ms, self.front.drafter_ms);
        sender.send(EventKind::Speed { speedup: self.stats.speedup.clone(), measuring });
        self.reported = true;
    }
}

/// The runs that are being measured, all on one context.
#[derive(Default)]
pub(super) struct Trials {
    trials: Vec<Trial>,
}

/// What a measurement works with.
pub(super) struct Bench<'a> {
    pub models: &'a Models,
    pub cancelled: &'a Cancelled,
    /// The sender of a run's events.
    pub sender: &'a (dyn Fn(u64) -> EventSender + Sync),
    /// True as soon as the engine has something else to do.
    pub busy: &'a (dyn Fn() -> bool + Sync),
}

impl Bench<'_> {
    /// True as soon as the measurement of these runs has to end.
    fn ends(&self, runs: &[u64]) -> bool {
        (self.busy)() || runs.iter().any(|run| self.cancelled.contains(*run))
    }

    fn with_runner<T>(
        &self,
        trial: &Trial,
        ends: &(dyn Fn() -> bool + Sync),
        f: impl FnOnce(&Runner<'_>) -> T,
    ) -> T {
        let sender = (self.sender)(trial.request.run);
        f(&Runner {
            request: &trial.request,
            models: self.models,
            sender: &sender,
            cancelled: self.cancelled,
            ignore_memory: true,
            rates: None,
            idle: Some(ends),
        })
    }
}

impl Trials {
    /// The context that is being measured.
    pub fn key(&self) -> Option<ContextKey> {
        self.trials.first().map(|trial| trial.key.clone())
    }

    /// Measure this run, too. Runs on another context are reported as they are.
    pub fn add(&mut self, trial: Trial, sender: &dyn Fn(u64) -> EventSender) {
        self.report_if(sender, |other| other.key != trial.key);
        if self.trials.len() == TOGETHER {
            let mut oldest = self.trials.remove(0);
            oldest.report(&sender(oldest.request.run), false);
        }
        self.trials.push(trial);
    }

    /// Report the runs that are not measured any further, and forget them.
    fn report_if(&mut self, sender: &dyn Fn(u64) -> EventSender, ends: impl Fn(&Trial) -> bool) {
        for trial in &mut self.trials {
            if ends(trial) {
                trial.report(&sender(trial.request.run), false);
            }
        }
        self.trials.retain(|trial| !ends(trial));
    }

    /// Report all as they are, and forget them.
    pub fn finish(&mut self, sender: &dyn Fn(u64) -> EventSender) {
        self.report_if(sender, |_| true);
    }

    /// Measure until all are settled or the engine has something else to do.
    ///
    /// # Errors
    /// If a forward pass fails; the runs stay unsettled.
    pub fn measure(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        loop {
            self.trials.iter_mut().for_each(Trial::look);
            // A context that has been evicted cannot be measured any more.
            let gone = |trial: &Trial| !cache.contexts.keys().any(|key| *key == trial.key);
            let cancelled = |trial: &Trial| bench.cancelled.contains(trial.request.run);
            let over = |trial: &Trial| trial.settled || gone(trial) || cancelled(trial);
            let ended: Vec<u64> = self.trials.iter().filter(|t| over(t)).map(|t| t.request.run).collect();
            self.report_if(bench.sender, over);
            ended.iter().for_each(|run| bench.cancelled.forget(*run));
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
                    trial.report(&(bench.sender)(trial.request.run), true);
                }
            }
        }
    }

    /// One round: of all short runs together, or some passes of the first longer one.
    fn round(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        let key = self.trials[0].key.clone();
        let plain_ms = cache.entry(&key)?.1.t1_ms;
        if let Some(longer) = self.trials.iter_mut().find(|trial| !trial.is_short(plain_ms)) {
            return longer.repeat_steps(cache, bench);
        }
        let runs: Vec<u64> = self.trials.iter().map(|trial| trial.request.run).collect();
        let ends = || bench.ends(&runs);
        let most = self.trials.iter().map(|trial| trial.pace.tokens()).max().unwrap_or_default();
        let plain = Method::preset(BASELINE)?;
        let started = Instant::now();
        let mut own = vec![0.0; self.trials.len()];
        let mut plain_ms = 0.0;
        let there = (0..own.len()).map(Some);
        let order = std::iter::once(None).chain(there.clone()).chain(there.rev()).chain([None]);
        for at in order {
            let (trial, method) = match at {
                None => (&self.trials[0], Some(&plain)),
                Some(at) => (&self.trials[at], None),
            };
            let Some(per_token) = trial.time(cache, bench, &ends, method, most)? else { return Ok(()) };
            match at {
                None => plain_ms += per_token,
                Some(at) => own[at] += per_token,
            }
        }
        let share_ms = since(started) / own.len() as f64;
        for (trial, own_ms) in self.trials.iter_mut().zip(own) {
            if !trial.whole {
                trial.ratios.clear();
                trial.whole = true;
            }
            trial.ratios.push(plain_ms / own_ms);
            trial.spent_ms += share_ms;
        }
        Ok(())
    }
}

impl Trial {
    /// Decode once more, with the run's own method or as many tokens with another one: milliseconds per token. None if it had
    /// to end early.
    fn time(
        &self,
        cache: &mut PrefixCache,
        bench: &Bench<'_>,
        ends: &(dyn Fn() -> bool + Sync),
        other: Option<&Method>,
        tokens: usize,
    ) -> Result<Option<f64>, Stop> {
        let mut pace = Pace::default();
        let plan = Decoding {
            method: other.unwrap_or(&self.request.method),
            max_new_tokens: if other.is_some() { tokens } else { self.request.max_new_tokens },
            plain_passes: PlainPasses::Never,
            on_draft: None,
        };
        let whole = self.decode(cache, bench, ends, &plan, &mut |step| {
            pace.add(&step);
            if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let per_token = pace.total_ms() / pace.tokens().max(1) as f64;
        Ok((whole && pace.tokens() > 0).then_some(per_token))
    }

    /// Repeat the first steps of a longer run with a pass of the target alone before each, as far as the budget goes. Under the
    /// parallel schedule there is nothing between the steps: a few passes are timed alone.
    fn repeat_steps(&mut self, cache: &mut PrefixCache, bench: &Bench<'_>) -> Result<(), Stop> {
        let run = self.request.run;
        let ends = || bench.ends(&[run]);
        let (started, budget_ms) = (Instant::now(), self.budget_ms() - self.spent_ms);
        let goes_on = || match ends() || since(started) >= budget_ms {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let mut steps: Vec<Step> = Vec::new();
        if let Schedule::Parallel { .. } = self.request.method.schedule {
            let plain = Method::preset(BASELINE)?;
            let (method, passes) = (&plain, PlainPasses::Never);
            let plan =
                Decoding { method, max_new_tokens: PASSES_AFTER + 1, plain_passes: passes, on_draft: None };
            self.decode(cache, bench, &ends, &plan, &mut |step| {
                steps.push(step);
                goes_on()
            })?;
            // The first one warms up.
            let after = steps.iter().skip(1).filter_map(|step| self.pace.ratio_after(step.total_ms()));
            self.ratios.extend(after);
            // More of them would only seem to be more certain.
            self.settled |= !ends();
        } else {
            let method = &self.request.method;
            let max_new_tokens = self.request.max_new_tokens;
            let plan =
                Decoding { method, max_new_tokens, plain_passes: PlainPasses::EveryStep, on_draft: None };
            self.decode(cache, bench, &ends, &plan, &mut |step| {
                steps.push(step);
                goes_on()
            })?;
            self.ratios.extend(self.pace.ratios_of_repeat(&steps));
        }
        self.spent_ms += since(started);
        Ok(())
    }

    /// True if the generation came to its own end.
    fn decode(
        &self,
        cache: &mut PrefixCache,
        bench: &Bench<'_>,
        ends: &(dyn Fn() -> bool + Sync),
        plan: &Decoding<'_>,
        on: &mut dyn FnMut(Step) -> ControlFlow<()>,
    ) -> Result<bool, Stop> {
        #[cfg(test)]
        super::thread::tests::repeat_point(&self.request.prompt, ends)?;
        bench.with_runner(self, ends, |runner| {
            let own = plan.method.drafts();
            let drafter = match own {
                true => runner.ensure_drafter(cache, &self.key, &self.selection, &mut Stats::default())?,
                false => None,
            };
            let context = cache.entry(&self.key)?.1;
            let decoded = runner.decode(context, drafter.as_ref(), plan, on)?;
            Ok(decoded.finished.reason.is_some())
        })
    }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
