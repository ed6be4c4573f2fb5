//! A comparison: several methods on one clip and prompt.

use super::run::Run;
use specreel_client::present::player::Race;
use specreel_record::difference;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Below {
    /// The selected caption, with the words in which it differs from the target's own.
    #[default]
    Words,
    Race,
    Chart,
}

impl Below {
    pub const ALL: [(Below, &'static str); 3] =
        [(Below::Words, "words"), (Below::Race, "race"), (Below::Chart, "chart")];
}

#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// Number of its run, which may not have started.
    pub run: u64,
    pub label: String,
    pub lossless: bool,
    pub autoregressive: bool,
    pub value: Option<f64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub title: String,
    pub lanes: Vec<Lane>,
    pub cursor: usize,
    pub swept: Option<&'static str>,
    pub below: Below,
    /// The race, once it was shown, with the indices of its lanes.
    pub race: Option<(Vec<usize>, Race)>,
}

impl Comparison {
    pub fn baseline(&self) -> Option<&Lane> {
        self.lanes.iter().find(|l| l.autoregressive)
    }
}

/// Index of the first token in which two runs differ, as far as both are written; `None` if they agree so far. If both runs are
/// over, a different length is also a difference.
pub(crate) fn first_difference(run: &Run, other: &Run) -> Option<usize> {
    let ids = |run: &Run| -> Vec<u32> { run.log.whole().tokens().map(|token| token.id).collect() };
    let (a, b) = (ids(run), ids(other));
    let common = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let both = common < a.len() && common < b.len();
    let ended = run.has_ended() && other.has_ended() && a.len() != b.len();
    (both || ended).then_some(common)
}

/// The words in which a caption differs from the target's own.
pub(crate) fn words(own: &Run, run: &Run) -> Vec<difference::Edit> {
    difference::difference(own.log.whole().shown().trim(), run.log.whole().shown().trim())
}

/// The values over which a parameter is swept: evenly spaced, or by doubling if it is a count.
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
    use specreel_record::{StopReason, Verdict};

    #[test]
    fn differences_count_only_what_is_written() {
        let mut studio = testing::after_a_run();
        testing::press(&mut studio, "r");
        let pair = |studio: &mut crate::tui::Studio| {
            let runs = &studio.model().runs.all;
            first_difference(&runs[0], &runs[1])
        };
        assert_eq!(pair(&mut studio), None);
        studio.handle(testing::step(2, &[("A red", Verdict::Exact), (" ball", Verdict::Exact)], 2));
        assert_eq!(pair(&mut studio), None, "the rest may still come");
        studio.handle(testing::done(2, StopReason::Eos, "A red ball"));
        assert_eq!(pair(&mut studio), Some(2), "both are over");
    }

    #[test]
    fn sweeps_cover_their_range() {
        assert_eq!(sweep_values((0.0, 1.0), false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(sweep_values((1.0, 32.0), true), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]);
    }
}
