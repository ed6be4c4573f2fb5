//! Methods side by side: one row a method, from the records of its runs.
//!
//! Everything is against an autoregressive run of the same comparison: the same clip, prompt, models and kept context. Where a
//! method ran several times, the run of median speed stands for it.

mod front;

use serde::Serialize;

use super::{Baseline, BaselineKind, Failure, RunRecord, RunState, StopReason, stats::Equality};

/// The rows of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the method that all others are compared with: the target decoding alone.
    pub baseline: String,
    /// One row a method, in the order of the first runs.
    pub rows: Vec<Row>,
}

/// How a method's runs went, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RowState {
    /// Nothing of it ran.
    Waiting,
    /// At least one run came to its end.
    Done,
    /// It was cancelled before its first run's end.
    Cancelled,
    /// A run failed.
    Failed,
}

/// One method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub method: String,
    /// True if it emits exactly what autoregressive decoding would.
    pub lossless: bool,
    /// How its runs went.
    pub state: RowState,
    /// The runs that came to their end.
    pub runs: Vec<u64>,
    /// What was measured; none where no run came to its end.
    #[serde(flatten)]
    pub figures: Option<Figures>,
    /// Why a run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// What was measured of a method.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The run that the figures are of: the one of median speed, of an even number the slower of the middle two.
    pub run: u64,
    /// Emitted tokens, the end token not counted.
    pub emitted: u64,
    /// Emitted tokens over the time between first and last token.
    pub tokens_per_second: f64,
    /// Ratio of decode speeds, nothing before the first token counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode_speedup: Option<f64>,
    /// Ratio of times from file to last token for as many tokens, everything before the first one counted on both sides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_speedup: Option<f64>,
    /// Accepted drafts per step; none without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tau: Option<f64>,
    /// Emitted tokens per step; none without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emitted_per_step: Option<f64>,
    /// Share of the tokens that the target would not have written itself, 0 to 1; none without speculation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loosened_share: Option<f64>,
    /// How the ids compare with the baseline's; none for the baseline itself, and where it did not finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equality: Option<Equality>,
}

impl Comparison {
    /// Compare the runs. `baseline` names the autoregressive method among them; without a finished run of it there are
    /// neither speedups nor equality.
    pub fn of(runs: &[RunRecord], baseline: &str) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for run in runs {
            if !names.contains(&run.method.as_str()) {
                names.push(&run.method);
            }
        }
        let plain = middle(runs, baseline);
        let rows = names.into_iter().map(|name| row(runs, name, plain)).collect();
        Self { baseline: baseline.to_owned(), rows }
    }

    /// True if a method has figures.
    pub fn has_figures(&self) -> bool {
        self.rows.iter().any(|row| row.figures.is_some())
    }

    /// The run that stands for a row.
    pub fn run<'a>(&self, row: &Row, runs: &'a [RunRecord]) -> Option<&'a RunRecord> {
        let figures = row.figures.as_ref()?;
        runs.iter().find(|run| run.run == figures.run)
    }
}

fn row(runs: &[RunRecord], name: &str, plain: Option<&RunRecord>) -> Row {
    let own = || runs.iter().filter(|run| run.method == name);
    let finished: Vec<u64> = own().filter(|run| run.is_finished()).map(|run| run.run).collect();
    let failure = own().find_map(RunRecord::failure).cloned();
    let cancelled = own().any(|run| run.state == RunState::Done(StopReason::Cancelled));
    let state = match (&failure, finished.is_empty(), cancelled) {
        (Some(_), _, _) => RowState::Failed,
        (None, false, _) => RowState::Done,
        (None, true, true) => RowState::Cancelled,
        (None, true, false) => RowState::Waiting,
    };
    Row {
        method: name.to_owned(),
        lossless: own().all(|run| run.lossless),
        state,
        runs: finished,
        figures: middle(runs, name).map(|run| figures(runs, run, plain)),
        failure,
    }
}

fn figures(runs: &[RunRecord], run: &RunRecord, plain: Option<&RunRecord>) -> Figures {
    let mut stats = run.stats.clone();
    // What the engine knew while it ran may have been a calibration.
    stats.speedup = None;
    if let Some(plain) = plain {
        let baseline = Baseline {
            name: plain.method.clone(),
            kind: BaselineKind::Measured,
            tokens_per_second: plain.stats.tokens_per_second,
        };
        stats.set_baseline(baseline, front::shared_ms(runs), front::drafter_ms(runs, run));
    }
    let speculates = run.drafter.is_some();
    Figures {
        run: run.run,
        emitted: stats.emitted,
        tokens_per_second: stats.tokens_per_second,
        decode_speedup: stats.speedup.as_ref().map(|s| s.decode),
        end_to_end_speedup: stats.speedup.as_ref().map(|s| s.end_to_end),
        tau: speculates.then_some(stats.tau),
        emitted_per_step: speculates.then_some(stats.emitted_per_step),
        loosened_share: speculates.then(|| stats.loosened_share()),
        equality: plain.filter(|p| p.method != run.method).map(|p| Equality::of(&run.ids, &p.ids)),
    }
}

/// The finished run of median speed.
fn middle<'a>(runs: &'a [RunRecord], method: &str) -> Option<&'a RunRecord> {
    let mut own: Vec<&RunRecord> = runs.iter().filter(|r| r.method == method && r.is_finished()).collect();
    own.sort_by(|a, b| a.stats.tokens_per_second.total_cmp(&b.stats.tokens_per_second));
    own.get(own.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
