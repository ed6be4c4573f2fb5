//! The runs of a comparison, and their speed relative to the baseline's.

use crate::tui::model::compare::{Comparison, Lane};
use crate::tui::model::{Model, Run};
use specreel_record::Interval;
use specreel_record::speedup::{plain_speed, winner};

pub(super) struct LaneRun<'a> {
    pub lane: &'a Lane,
    pub run: Option<&'a Run>,
    pub speedup: Option<f64>,
    /// The interval of the speedup; the baseline's is 1.
    pub interval: Option<Interval>,
    /// Decode speed that agrees with the speedup.
    pub tokens_per_second: Option<f64>,
}

/// The lanes with their runs and their speed relative to the baseline's, as measured in pairs.
pub(super) fn lane_runs<'a>(model: &'a Model, comparison: &'a Comparison) -> Vec<LaneRun<'a>> {
    let runs = comparison.lanes.iter().filter_map(|lane| model.runs.get(lane.run));
    let plain = plain_speed(runs.map(|run| run.log.whole().stats()));
    let of = |lane: &'a Lane| {
        let run = model.runs.get(lane.run);
        let stats = run.map(|run| run.log.whole().stats());
        let is_baseline = run.is_some_and(|run| run.autoregressive);
        let (speedup, interval) = match is_baseline {
            true => (Some(1.0), Some(Interval::ONE)),
            false => stats
                .and_then(|stats| stats.speedup.as_ref())
                .map(|told| (told.decode, told.interval))
                .unzip(),
        };
        let speed = stats.map(|stats| stats.speed_beside(plain, is_baseline)).filter(|speed| *speed > 0.0);
        LaneRun { lane, run, speedup, interval, tokens_per_second: speed }
    };
    comparison.lanes.iter().map(of).collect()
}

pub(super) fn fastest(lanes: &[LaneRun<'_>]) -> Option<usize> {
    winner(&lanes.iter().map(|one| one.interval).collect::<Vec<_>>())
}

pub(super) fn baseline<'a>(model: &'a Model, comparison: &Comparison) -> Option<&'a Run> {
    model.runs.get(comparison.baseline()?.run)
}
