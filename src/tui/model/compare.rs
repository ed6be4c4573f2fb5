//! Several methods over one clip and prompt: which runs belong together, and what one sees of them.

use super::{player::Player, run::Run};
use crate::record::difference;

/// What the lower part of the comparison shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Below {
    /// The selected caption with the words in which it differs from the target's own.
    #[default]
    Words,
    /// All captions side by side at their true relative speed.
    Race,
    /// Speed against what it costs.
    Chart,
}

impl Below {
    pub const ALL: [(Below, &'static str); 3] =
        [(Below::Words, "words"), (Below::Race, "race"), (Below::Chart, "chart")];

    pub fn next(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|(b, _)| *b == self).unwrap_or(0) as isize;
        Self::ALL[(at + by).rem_euclid(Self::ALL.len() as isize) as usize].0
    }
}

/// One method of the comparison.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Number of its run; it may not have begun.
    pub run: u64,
    pub label: String,
    pub lossless: bool,
    pub autoregressive: bool,
}

/// A comparison.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub title: String,
    /// The target alone first, where it is there.
    pub lanes: Vec<Lane>,
    pub cursor: usize,
    pub below: Below,
    /// The race's clock, once it was begun.
    pub player: Option<Player>,
}

impl Comparison {
    /// The lane that the others are measured against.
    pub fn baseline(&self) -> Option<&Lane> {
        self.lanes.iter().find(|l| l.autoregressive)
    }
}

/// Times at which a run's steps ended, counted from its first draft, in milliseconds.
pub(crate) fn step_times(run: &Run) -> Vec<f64> {
    let mut now = 0.0;
    let time = |step: &crate::record::Step| {
        now += (step.draft_ms + step.verify_ms + step.other_ms).max(0.0);
        now
    };
    run.steps.iter().map(time).collect()
}

/// How many tokens a run had written at a time.
pub(crate) fn tokens_at(run: &Run, at_ms: f64) -> usize {
    let times = step_times(run);
    let steps = times.partition_point(|t| *t <= at_ms);
    run.steps[..steps].iter().map(|s| s.tokens.len()).sum()
}

/// The first token in which two runs differ, as far as both are written; none where they agree so far. Of two runs that are
/// over, the end of one is a difference, too.
pub(crate) fn first_difference(run: &Run, other: &Run) -> Option<usize> {
    let ids = |run: &Run| -> Vec<u32> { run.steps.iter().flat_map(|s| &s.tokens).map(|t| t.id).collect() };
    let (a, b) = (ids(run), ids(other));
    let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let both = common < a.len() && common < b.len();
    let ended = run.is_over() && other.is_over() && a.len() != b.len();
    (both || ended).then_some(common)
}

/// The words in which a caption differs from the target's own.
pub(crate) fn words(own: &Run, run: &Run) -> Vec<difference::Edit> {
    difference::difference(own.text().trim(), run.text().trim())
}

/// The values over which a number is swept: evenly, or by doubling where it counts things.
pub(crate) fn sweep_values((low, high): (f64, f64), counts: bool) -> Vec<f64> {
    if counts {
        let powers = (0..).map(|i| f64::from(1 << i)).take_while(|v| *v <= high);
        return powers.filter(|v| *v >= low).collect();
    }
    (0..=5).map(|i| ((low + (high - low) * f64::from(i) / 5.0) * 1e6).round() / 1e6).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::testing;

    #[test]
    fn a_race_shows_what_was_written_at_a_time() {
        let run = testing::after_a_run().model().runs.shown().unwrap().clone();
        assert_eq!(step_times(&run), [20.0, 40.0]);
        assert_eq!([0.0, 19.9, 20.0, 39.0, 40.0, 99.0].map(|t| tokens_at(&run, t)), [0, 0, 3, 3, 5, 5]);
    }

    #[test]
    fn differences_count_only_what_is_written() {
        let run = testing::after_a_run().model().runs.shown().unwrap().clone();
        let mut other = run.clone();
        assert_eq!(first_difference(&run, &other), None);
        other.steps.pop();
        assert_eq!(first_difference(&run, &other), Some(3), "both are over");
        other.state = crate::tui::model::run::RunState::Sent;
        assert_eq!(first_difference(&run, &other), None, "it may still come");
        other.steps[0].tokens[1].id = 9;
        assert_eq!(first_difference(&run, &other), Some(1));
    }

    #[test]
    fn sweeps_cover_their_range() {
        assert_eq!(sweep_values((0.0, 1.0), false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(sweep_values((1.0, 32.0), true), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    }
}
