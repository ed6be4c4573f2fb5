//! Methods side by side: one row per method, from the logs of its runs.
//!
//! All ratios are against autoregressive decoding in the same comparison: same clip, prompt, models and prefill. If a method
//! ran several times, its row has the figures of one of its runs: the one that the engine has measured in the most pairs
//! ([`EventKind::Speed`](super::EventKind::Speed)), else the one of median speed. Its speedup is that run's, or over the pairs of its
//! i-th run and the baseline's, if these are more. All speeds of a comparison follow from the baseline's
//! and these ratios.

mod ttft;

use serde::Serialize;

use super::{
    Failure, Interval, Limits, PairedRatio, RunLog, RunState, StopReason,
    speedup::{plain_speed, winner},
    stats::Equality,
};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the method that all others are compared with: autoregressive decoding.
    pub baseline: String,
    /// One row per method, in the order of their first runs.
    pub rows: Vec<Row>,
}

/// The outcome of all runs of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    Waiting,
    /// At least one run finished.
    Done,
    /// It was cancelled before its first run finished.
    Cancelled,
    Failed,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub method: String,
    /// True if it emits exactly what autoregressive decoding would.
    pub lossless: bool,
    pub state: RowState,
    pub runs: Vec<u64>,
    /// What was measured; `None` if no run finished.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The run that these are the figures of: the one that was measured in the most pairs, else the one of median speed (of an even number,
    /// the slower of the middle two).
    pub run: u64,
    /// Emitted tokens, the end token not counted.
    pub emitted: u64,
    /// Decode speed: `decode_speedup` times the baseline's; else by the run's own clock.
    pub tokens_per_second: f64,
    /// Ratio of decode speeds, from the first token on; `None` until it has been measured in enough pairs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_speedup: Option<f64>,
    /// The interval of `decode_speedup`; for the baseline 1, of no pairs.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// Share of the measurement's time spent waiting for processors, 0 to 1; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
    /// Ratio of times from file to last token for the same number of tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_speedup: Option<f64>,
    /// Accepted drafts per step; `None` without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// Emitted tokens per step; `None` without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emitted_per_step: Option<f64>,
    /// Share of the tokens that the target would not have written itself, 0 to 1; `None` without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loosened_share: Option<f64>,
    /// How the ids compare with the baseline's; `None` for the baseline itself, and if it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equality: Option<Equality>,
}

impl Comparison {
    /// Compare the runs; runs of one [name](RunLog::name) share a row. `baseline` names the autoregressive method among
    /// them; without a finished run of it there are neither speedups nor equality.
    pub fn of(runs: &[RunLog], baseline: &str) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for run in runs {
            if !names.contains(&run.name()) {
                names.push(run.name());
            }
        }
        let plain = Plain::of(runs, baseline);
        let rows = names.into_iter().map(|name| row(runs, name, plain)).collect();
        Self { baseline: baseline.to_owned(), rows }
    }

    /// The fastest method, if the measurements say which it is ([`winner`]).
    pub fn fastest(&self) -> Option<&Row> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.figures.is_some()).collect();
        let interval = |row: &&Row| match row.method == self.baseline {
            true => Some(Interval::ONE),
            false => row.figures.as_ref()?.interval,
        };
        let intervals: Vec<Option<Interval>> = rows.iter().map(interval).collect();
        winner(&intervals).map(|at| rows[at])
    }

    pub fn has_figures(&self) -> bool {
        self.rows.iter().any(|row| row.figures.is_some())
    }

    /// The run whose figures a row has.
    pub fn run<'a>(&self, row: &Row, runs: &'a [RunLog]) -> Option<&'a RunLog> {
        let figures = row.figures.as_ref()?;
        runs.iter().find(|run| run.run() == figures.run)
    }

    /// The run that the others are compared with.
    pub fn baseline_run<'a>(&self, runs: &'a [RunLog]) -> Option<&'a RunLog> {
        self.run(self.rows.iter().find(|row| row.method == self.baseline)?, runs)
    }
}

fn row(runs: &[RunLog], name: &str, plain: Option<Plain<'_>>) -> Row {
    let own = || runs.iter().filter(|run| run.name() == name);
    let finished: Vec<u64> = own().filter(|run| run.is_finished()).map(RunLog::run).collect();
    let failure = own().find_map(RunLog::failure).cloned();
    let cancelled = own().any(|run| *run.state() == RunState::Done(StopReason::Cancelled));
    let state = match (&failure, finished.is_empty(), cancelled) {
        (Some(_), _, _) => RowState::Failed,
        (None, false, _) => RowState::Done,
        (None, true, true) => RowState::Cancelled,
        (None, true, false) => RowState::Waiting,
    };
    Row {
        method: name.to_owned(),
        lossless: own().all(RunLog::is_lossless),
        state,
        runs: finished,
        figures: shown(runs, name).map(|run| figures(runs, run, plain)),
        failure,
    }
}

/// The baseline of a comparison: its run, and its decode speed in tokens per second. Where methods were measured in pairs, the
/// speed comes from the same measurement, so that no figure contradicts another.
#[derive(Clone, Copy)]
struct Plain<'a> {
    run: &'a RunLog,
    tokens_per_second: f64,
}

impl<'a> Plain<'a> {
    fn of(runs: &'a [RunLog], baseline: &str) -> Option<Self> {
        let run = middle(runs, baseline)?;
        let paired = plain_speed(runs.iter().map(RunLog::stats));
        let tokens_per_second = paired.unwrap_or(run.stats().tokens_per_second);
        Some(Self { run, tokens_per_second })
    }

    /// Decode speedup, its interval and the speedup end to end of a method, or of the baseline itself.
    fn ratios(&self, runs: &[RunLog], run: &RunLog) -> Option<(f64, Interval, f64)> {
        if run.name() == self.run.name() {
            return Some((1.0, Interval::ONE, 1.0));
        }
        let (decode, interval) = measured(runs, run, self.run.name())?;
        let plain_ms = run.stats().emitted as f64 * 1000.0 / self.tokens_per_second;
        let (shared_ms, drafter_ms) = (ttft::shared_ms(runs), ttft::drafter_ms(runs, run));
        Some((decode, interval, (shared_ms + plain_ms) / (shared_ms + drafter_ms + plain_ms / decode)))
    }
}

fn figures(runs: &[RunLog], run: &RunLog, plain: Option<Plain<'_>>) -> Figures {
    let stats = run.stats();
    let ratios =
        plain.filter(|plain| plain.tokens_per_second > 0.0).and_then(|plain| plain.ratios(runs, run));
    let speed = plain.zip(ratios).map(|(plain, (decode, ..))| plain.tokens_per_second * decode);
    let speculates = run.started().is_some_and(|started| started.drafter.is_some());
    Figures {
        run: run.run(),
        emitted: stats.emitted,
        tokens_per_second: speed.unwrap_or(stats.tokens_per_second),
        decode_speedup: ratios.map(|(decode, ..)| decode),
        interval: ratios.map(|(_, interval, _)| interval),
        contention: stats.speedup.as_ref().and_then(|told| told.contention),
        end_to_end_speedup: ratios.map(|(.., end_to_end)| end_to_end),
        tau: speculates.then_some(stats.tau),
        emitted_per_step: speculates.then_some(stats.emitted_per_step),
        loosened_share: speculates.then(|| stats.loosened_share()),
        equality: plain.filter(|p| p.run.name() != run.name()).map(|p| Equality::of(run.ids(), p.run.ids())),
    }
}

/// The measured speedup of a run with the most pairs: the engine's own, or over the pairs of its i-th finished run
/// and the baseline's. `None` where there are too few.
fn measured(runs: &[RunLog], run: &RunLog, baseline: &str) -> Option<(f64, Interval)> {
    let own = || runs.iter().filter(|other| other.name() == run.name() && other.is_finished());
    let plain = runs.iter().filter(|run| run.name() == baseline && run.is_finished());
    let speed = |run: &RunLog| run.stats().tokens_per_second;
    let ratios: Vec<f64> = own().zip(plain).map(|(own, plain)| speed(own) / speed(plain)).collect();
    let limits = match (run.started().and_then(|started| started.drafter.as_ref()), run.state()) {
        (Some(_), RunState::Done(reason)) => Limits::of(run.stats(), *reason),
        // Without a drafter it prunes the target.
        _ => Limits::NONE,
    };
    let of_engine = run.stats().speedup.as_ref().map(|told| (told.decode, told.interval));
    let of_runs = PairedRatio::of(&ratios).and_then(|ratio| limits.cut(ratio));
    let of_runs = of_runs.map(|ratio| (ratio.middle, Interval::from(ratio)));
    of_engine.into_iter().chain(of_runs).max_by_key(|(_, interval)| interval.pairs)
}

/// The finished run whose figures a row has. A method may do something else in each of its runs, as `auto` does, so no row has a figure of one
/// and a figure of another.
fn shown<'a>(runs: &'a [RunLog], method: &str) -> Option<&'a RunLog> {
    let pairs = |run: &RunLog| run.stats().speedup.as_ref().map(|told| told.interval.pairs);
    let own = runs.iter().filter(|run| run.name() == method && run.is_finished() && pairs(run).is_some());
    own.reduce(|best, run| if pairs(run) > pairs(best) { run } else { best }).or_else(|| middle(runs, method))
}

/// The finished run of median speed.
fn middle<'a>(runs: &'a [RunLog], method: &str) -> Option<&'a RunLog> {
    let mut own: Vec<&RunLog> = runs.iter().filter(|r| r.name() == method && r.is_finished()).collect();
    own.sort_by(|a, b| a.stats().tokens_per_second.total_cmp(&b.stats().tokens_per_second));
    own.get(own.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests;
