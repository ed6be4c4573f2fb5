//! Speed against a named baseline: always the target decoding alone.

use serde::{Deserialize, Serialize};

use super::{PairedRatio, Stats, paired};

/// How a baseline was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// A whole autoregressive run on the same clip, prompt and models.
    Measured,
    /// A few passes of the target alone, timed before the run or between its steps.
    Calibrated,
    /// Passes or runs of autoregressive decoding, timed in alternation with the method.
    Paired,
}

/// What a speedup is against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Always the target decoding alone.
    pub name: String,
    /// How it was obtained.
    pub kind: BaselineKind,
    /// Its decode speed in tokens per second.
    pub tokens_per_second: f64,
}

/// Speed against a named baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    /// What it is against.
    pub baseline: Baseline,
    /// Ratio of decode speeds, prefill not counted on either side.
    pub decode: f64,
    /// Ratio of times from file to last token; the baseline is charged with this run's own target stages.
    pub end_to_end: f64,
    /// The interval of `decode`; none where it was not measured in pairs, as in files of earlier versions.
    #[serde(flatten)]
    pub interval: Option<Interval>,
}

/// The 95 % interval of a ratio of decode speeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Number of paired measurements behind it.
    pub pairs: usize,
}

impl From<PairedRatio> for Interval {
    fn from(ratio: PairedRatio) -> Self {
        Self { low: ratio.low, high: ratio.high, pairs: ratio.pairs }
    }
}

/// The fastest of several methods on the same clip: the one whose interval is above all others'. None if two of the best
/// overlap, or one is not known. Autoregressive decoding has the interval [`Interval::ONE`].
pub fn winner(intervals: &[Option<Interval>]) -> Option<usize> {
    let known: Vec<&Interval> = intervals.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let is_above_all =
        |at: &usize| known.iter().enumerate().all(|(i, other)| i == *at || known[*at].is_above(other));
    (0..known.len()).find(is_above_all).filter(|_| known.len() > 1)
}

impl Interval {
    /// The baseline against itself.
    pub const ONE: Interval = Interval { low: 1.0, high: 1.0, pairs: 0 };

    /// True if all of this interval is above all of the other: the order of the two methods is not an accident of the timing.
    pub fn is_above(&self, other: &Interval) -> bool {
        self.low > other.high
    }

    /// True if it is wider than a quarter of its figure: too uncertain to be printed.
    pub fn is_noisy(&self, figure: f64) -> bool {
        let width = self.high - self.low;
        width.is_nan() || width > paired::NOISY * figure
    }
}

impl Speedup {
    /// True if the figure is too uncertain to be printed with an interval: there is none, or it is wider than a quarter of
    /// the figure.
    pub fn is_rough(&self) -> bool {
        self.interval.as_ref().is_none_or(|interval| interval.is_noisy(self.decode))
    }
}

impl Stats {
    /// Attach a baseline and compute both ratios. `front_ms` is the time that both sides spend before the first token (video,
    /// tower and prefill of the target, as measured when they were made), `drafter_ms` what only this run spends there.
    pub fn set_baseline(&mut self, baseline: Baseline, front_ms: f64, drafter_ms: f64) {
        if self.tokens_per_second <= 0.0 || baseline.tokens_per_second <= 0.0 {
            return;
        }
        let plain = front_ms + self.emitted as f64 * 1000.0 / baseline.tokens_per_second;
        self.speedup = Some(Speedup {
            decode: self.tokens_per_second / baseline.tokens_per_second,
            end_to_end: plain / (front_ms + drafter_ms + self.timings.generate_ms()),
            baseline,
            interval: None,
        });
    }

    /// Attach a speedup measured in pairs, each the ratio of the times of autoregressive decoding and of this run's method
    /// ([`paired`]). The baseline's speed is this run's divided by the ratio, so that both come from the same measurement.
    /// `front_ms` and `drafter_ms` as in [`Stats::set_baseline`]. Too few pairs for an interval give a speedup without one;
    /// no pairs change nothing.
    pub fn set_paired(&mut self, name: &str, ratios: &[f64], front_ms: f64, drafter_ms: f64) {
        let ratio = PairedRatio::of(ratios).map(PairedRatio::of_repetitions);
        let Some(middle) = ratio.map(|ratio| ratio.middle).or_else(|| paired::middle(ratios)) else { return };
        let kind = if ratio.is_some() { BaselineKind::Paired } else { BaselineKind::Calibrated };
        let tokens_per_second = self.tokens_per_second / middle;
        self.set_baseline(Baseline { name: name.into(), kind, tokens_per_second }, front_ms, drafter_ms);
        if let Some(speedup) = &mut self.speedup {
            // Exactly, not up to the rounding of two divisions.
            speedup.decode = middle;
            speedup.interval = ratio.map(Interval::from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> Stats {
        let mut stats = Stats { emitted: 12, tokens_per_second: 1000.0, ..Stats::default() };
        stats.timings.verify_ms = 12.0;
        stats
    }

    #[test]
    fn both_ratios_are_against_the_baseline() {
        let mut stats = stats();
        let baseline =
            Baseline { name: "plain".into(), kind: BaselineKind::Measured, tokens_per_second: 500.0 };
        stats.set_baseline(baseline, 6.0, 3.0);
        let speedup = stats.speedup.unwrap();
        assert_eq!((speedup.decode, speedup.end_to_end), (2.0, (6.0 + 24.0) / (6.0 + 3.0 + 12.0)));
        assert!(speedup.is_rough(), "there is no interval");
    }

    #[test]
    fn pairs_give_an_interval_and_a_baseline_that_agrees_with_it() {
        let mut stats = stats();
        stats.set_paired("plain", &[1.8, 2.0, 2.2, 2.0, 2.0, 2.0], 6.0, 3.0);
        let speedup = stats.speedup.clone().unwrap();
        assert_eq!((speedup.decode, speedup.baseline.kind), (2.0, BaselineKind::Paired));
        assert_eq!(speedup.baseline.tokens_per_second, 500.0);
        assert_eq!(speedup.interval, Some(Interval { low: 1.8, high: 2.2, pairs: 6 }));
        assert!(!speedup.is_rough());
        let other = Interval { low: 1.2, high: 1.8, pairs: 6 };
        assert!(!speedup.interval.unwrap().is_above(&other), "they touch");
        assert!(speedup.interval.unwrap().is_above(&Interval { high: 1.79, ..other }));

        stats.set_paired("plain", &[1.0, 1.5, 2.1, 2.0, 2.0, 2.0], 6.0, 3.0);
        assert!(stats.speedup.as_ref().unwrap().is_rough(), "wider than a quarter");
    }

    #[test]
    fn too_few_pairs_have_no_interval_and_none_change_nothing() {
        let mut stats = stats();
        stats.set_paired("plain", &[], 6.0, 3.0);
        assert_eq!(stats.speedup, None);
        stats.set_paired("plain", &[2.0, 3.0], 6.0, 3.0);
        let speedup = stats.speedup.as_ref().unwrap();
        assert_eq!((speedup.decode, speedup.interval), (2.5, None));
        assert_eq!(speedup.baseline.kind, BaselineKind::Calibrated);
    }

    #[test]
    fn a_winner_is_above_all_others() {
        let of = |low, high| Some(Interval { low, high, pairs: 9 });
        let one = Some(Interval::ONE);
        assert_eq!(winner(&[one, of(1.2, 1.4), of(1.5, 1.6)]), Some(2));
        assert_eq!(winner(&[one, of(1.2, 1.5), of(1.5, 1.6)]), None, "they touch");
        assert_eq!(winner(&[one, of(0.8, 0.9)]), Some(0), "the baseline itself");
        assert_eq!(winner(&[one, of(0.8, 1.2)]), None);
        assert_eq!(winner(&[one, None, of(1.5, 1.6)]), None, "one is not known");
        assert_eq!((winner(&[one]), winner(&[])), (None, None));
    }

    #[test]
    fn files_of_earlier_versions_have_no_interval() {
        let old = r#"{"baseline":{"name":"autoregressive","kind":"calibrated","tokens_per_second":500.0},"decode":2.0,"end_to_end":1.5}"#;
        let speedup: Speedup = serde_json::from_str(old).unwrap();
        assert_eq!((speedup.decode, speedup.interval), (2.0, None));
        assert_eq!(serde_json::to_string(&speedup).unwrap(), old);
        let interval = Some(Interval { low: 1.9, high: 2.1, pairs: 8 });
        let json = serde_json::to_value(Speedup { interval, ..speedup.clone() }).unwrap();
        assert_eq!((&json["low"], &json["high"], &json["pairs"]), (&1.9.into(), &2.1.into(), &8.into()));
        assert_eq!(serde_json::from_value::<Speedup>(json).unwrap().interval, interval);
    }
}
