//! Speed against a named baseline: always the target decoding alone.
//!
//! A speedup is reported only with an interval: it comes from at least [`paired::LEAST`] pairs of times measured close together,
//! and from nothing less. It stays within the limits of the run's own counts ([`Limits`]).

use serde::{Deserialize, Deserializer, Serialize};

use super::{PairedRatio, Stats, StopReason, median, paired};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// Passes or runs of autoregressive decoding, timed in alternation with the method.
    Paired,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Always the target decoding alone.
    pub name: String,
    pub kind: BaselineKind,
    /// Its decode speed in tokens per second.
    pub tokens_per_second: f64,
}

/// Speed against a named baseline. All figures come from the same measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    pub baseline: Baseline,
    /// Decode speed of the method in tokens per second: `decode` times the baseline's.
    pub tokens_per_second: f64,
    /// Ratio of decode speeds, prefill not counted on either side.
    pub decode: f64,
    /// Ratio of times from file to last token; the baseline is charged with this run's own target stages.
    pub end_to_end: f64,
    #[serde(flatten)]
    pub interval: Interval,
    /// Share of the time, 0 to 1, that the measurement waited for processors that other programs used; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contention: Option<f64>,
}

/// Read a speedup that may be of an earlier version, which also wrote figures without an interval: those are left out.
pub(super) fn with_interval<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Speedup>, D::Error> {
    Ok(serde_json::from_value(Option::deserialize(value)?.unwrap_or_default()).ok())
}

/// The 95 % interval of a ratio of decode speeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

impl From<PairedRatio> for Interval {
    fn from(ratio: PairedRatio) -> Self {
        Self { low: ratio.low, high: ratio.high, pairs: ratio.pairs }
    }
}

/// The fastest of several methods on the same clip: the one whose interval is above all others'. `None` if two of the best
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

/// What a decoding speedup can be, from the counts and the clock of the run itself.
///
/// Drafting saves target passes. For n tokens (the end token counted) autoregressive decoding makes n passes over one row, the
/// method `steps` passes over `rows` rows in all. A pass over one row takes no longer than one over several, so the speedup is
/// at most n / steps. A pass over r rows takes no longer than r passes over one, so it is at least n / rows of the share of the
/// run's time that its target passes took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub low: f64,
    pub high: f64,
}

impl Limits {
    /// No limits: for a method that prunes the target, whose passes differ from the baseline's.
    pub const NONE: Limits = Limits { low: 0.0, high: f64::INFINITY };

    /// The limits of a run that ended so; none are known of a run without tokens or times.
    pub fn of(stats: &Stats, reason: StopReason) -> Limits {
        let tokens = stats.emitted + u64::from(reason == StopReason::Eos);
        let (steps, rows) = (stats.steps as f64, (stats.judged + stats.forced + stats.steps) as f64);
        let share = stats.timings.verify_ms / stats.timings.generate_ms();
        if tokens == 0 || steps == 0.0 || !share.is_finite() {
            return Limits::NONE;
        }
        Limits { low: tokens as f64 / rows * share.min(1.0), high: tokens as f64 / steps }
    }

    /// The possible ratio that is nearest to a measured one.
    pub fn clamp(&self, ratio: f64) -> f64 {
        ratio.max(self.low.min(self.high)).min(self.high)
    }

    /// The part of a measured interval that is possible; `None` if there is none, and the measurement says nothing.
    pub fn cut(&self, ratio: PairedRatio) -> Option<PairedRatio> {
        let (low, high) = (ratio.low.max(self.low), ratio.high.min(self.high));
        (low <= high).then(|| PairedRatio { low, high, middle: ratio.middle.clamp(low, high), ..ratio })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The ratio of each pair: autoregressive decoding's time over the method's, for as many tokens.
    pub ratios: &'a [f64],
    /// How long the method took to generate in this measurement, in milliseconds.
    pub generate_ms: f64,
    /// What the ratio can be.
    pub limits: Limits,
    /// Share of the time spent waiting for other programs, 0 to 1; `None` if unknown.
    pub contention: Option<f64>,
    /// Milliseconds that both sides spend before the first token: video, tower and prefill of the target.
    pub front_ms: f64,
    /// What only the method spends there.
    pub drafter_ms: f64,
}

impl Speedup {
    /// The speedup that a measurement shows, over `emitted` tokens against the baseline of this name. None with fewer than
    /// [`paired::LEAST`] pairs, and if none of the interval is possible.
    pub fn of(name: &str, emitted: u64, measured: &Measured<'_>) -> Option<Self> {
        let Measured { generate_ms, front_ms, drafter_ms, contention, .. } = *measured;
        let ratio = PairedRatio::of(measured.ratios)?.of_repetitions(contention.unwrap_or_default());
        let ratio = measured.limits.cut(ratio)?;
        let decode = ratio.middle;
        let plain_ms = generate_ms * decode;
        let per_second = |ms: f64| emitted as f64 * 1000.0 / ms;
        (generate_ms > 0.0 && emitted > 0).then(|| Self {
            baseline: Baseline {
                name: name.into(),
                kind: BaselineKind::Paired,
                tokens_per_second: per_second(plain_ms),
            },
            tokens_per_second: per_second(generate_ms),
            decode,
            end_to_end: (front_ms + plain_ms) / (front_ms + drafter_ms + generate_ms),
            interval: Interval::from(ratio),
            contention,
        })
    }

    /// True if the figure is too uncertain to be printed with its interval, which is wider than a quarter of it.
    pub fn is_rough(&self) -> bool {
        self.interval.is_noisy(self.decode)
    }
}

/// The decode speed of autoregressive decoding to compare these runs of one clip with, in tokens per second: the median of
/// their paired measurements. Times a method's `decode`, it is that method's speed, so that the speeds of a table agree with its
/// speedups. `None` if nothing was measured.
pub fn plain_speed<'a>(runs: impl IntoIterator<Item = &'a Stats>) -> Option<f64> {
    median(runs.into_iter().filter_map(|stats| Some(stats.speedup.as_ref()?.baseline.tokens_per_second)))
}

impl Stats {
    /// Decode speed in tokens per second: as measured in pairs with the baseline, else by the run's own clock.
    pub fn speed(&self) -> f64 {
        self.speedup.as_ref().map_or(self.tokens_per_second, |speedup| speedup.tokens_per_second)
    }

    /// The same next to other runs of the clip, whose [`plain_speed`] is `plain`: no two speeds contradict a speedup.
    pub fn speed_beside(&self, plain: Option<f64>, is_baseline: bool) -> f64 {
        let decode =
            if is_baseline { Some(1.0) } else { self.speedup.as_ref().map(|speedup| speedup.decode) };
        plain.zip(decode).map_or_else(|| self.speed(), |(plain, decode)| plain * decode)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn measured(ratios: &[f64]) -> Measured<'_> {
        Measured {
            ratios,
            generate_ms: 12.0,
            limits: Limits::NONE,
            contention: None,
            front_ms: 6.0,
            drafter_ms: 3.0,
        }
    }

    #[test]
    fn all_figures_agree_with_the_pairs() {
        let speedup = Speedup::of("plain", 12, &measured(&[1.8, 2.0, 2.2, 2.0, 2.0, 2.0])).unwrap();
        assert_eq!((speedup.decode, speedup.tokens_per_second), (2.0, 1000.0));
        assert_eq!(speedup.baseline.tokens_per_second, 500.0);
        assert_eq!(speedup.end_to_end, (6.0 + 24.0) / (6.0 + 3.0 + 12.0));
        assert_eq!(speedup.interval, Interval { low: 1.8, high: 2.2, pairs: 6 });
        assert!(!speedup.is_rough());
        let other = Interval { low: 1.2, high: 1.8, pairs: 6 };
        assert!(!speedup.interval.is_above(&other), "they touch");
        assert!(speedup.interval.is_above(&Interval { high: 1.79, ..other }));
        let rough = Speedup::of("plain", 12, &measured(&[1.0, 1.5, 2.1, 2.0, 2.0, 2.0])).unwrap();
        assert!(rough.is_rough(), "wider than a quarter");
    }

    #[test]
    fn too_few_pairs_say_nothing() {
        for few in [&[][..], &[2.0; 5], &[2.0, 2.0, 2.0, 2.0, 2.0, f64::NAN]] {
            assert_eq!(Speedup::of("plain", 12, &measured(few)), None);
        }
        assert_eq!(Speedup::of("plain", 0, &measured(&[2.0; 6])), None);
    }

    /// 9 tokens and the end token in 4 passes over 20 rows, which took half of the time.
    fn run() -> Stats {
        let mut stats = Stats { emitted: 9, steps: 4, judged: 16, accepted: 5, ..Stats::default() };
        (stats.timings.verify_ms, stats.timings.draft_ms) = (10.0, 10.0);
        stats
    }

    #[test]
    fn limits_come_from_passes_and_rows() {
        assert_eq!(Limits::of(&run(), StopReason::Eos), Limits { low: 0.25, high: 2.5 });
        assert_eq!(Limits::of(&run(), StopReason::Length).high, 9.0 / 4.0, "no end token was written");
        for unknown in [Stats::default(), Stats { emitted: 0, ..run() }, Stats { steps: 0, ..run() }] {
            assert_eq!(Limits::of(&unknown, StopReason::Length), Limits::NONE);
        }
    }

    #[test]
    fn a_method_that_accepted_nothing_is_never_faster() {
        let stats = Stats { emitted: 9, steps: 10, judged: 40, accepted: 0, ..run() };
        let limits = Limits::of(&stats, StopReason::Eos);
        let told = |ratio: f64| Speedup::of("plain", 9, &Measured { limits, ..measured(&[ratio; 8]) });
        let speedup = told(1.02).unwrap();
        assert_eq!((speedup.decode, speedup.interval.high), (1.0, 1.0));
        assert!(!speedup.interval.is_above(&Interval::ONE));
        assert_eq!(told(3.0), None, "impossible: the machine was disturbed");
    }

    proptest! {
        /// A reported speedup is possible, and its figure is within its interval, for any readings of the clock.
        #[test]
        fn no_told_speedup_is_impossible(
            ratios in prop::collection::vec(prop_oneof![0.001..100.0_f64, Just(0.0), Just(f64::INFINITY)], 0..40),
            emitted in 1_u64..300,
            steps in 1_u64..300,
            judged in 0_u64..3000,
            verify in 0.001..1e4_f64,
            draft in 0.0..1e4_f64,
            contention in prop::option::of(0.0..1.0_f64),
        ) {
            let mut stats = Stats { emitted, steps: steps.min(emitted), judged, ..Stats::default() };
            (stats.timings.verify_ms, stats.timings.draft_ms) = (verify, draft);
            let limits = Limits::of(&stats, StopReason::Eos);
            if let Some(told) = Speedup::of("plain", emitted, &Measured { limits, contention, ..measured(&ratios) }) {
                let Interval { low, high, pairs } = told.interval;
                prop_assert!(low <= told.decode && told.decode <= high && pairs >= paired::LEAST);
                prop_assert!(high <= (emitted + 1) as f64 / stats.steps as f64 && low >= limits.low);
                let ratio = told.tokens_per_second / told.baseline.tokens_per_second;
                prop_assert!((ratio / told.decode - 1.0).abs() < 1e-9);
            }
        }
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
    fn figures_without_an_interval_in_earlier_files_are_left_out() {
        let old = r#"{"emitted":3,"speedup":{"baseline":{"name":"a","kind":"calibrated","tokens_per_second":5.0},"decode":17.27,"end_to_end":1.5}}"#;
        let stats: Stats = serde_json::from_str(old).unwrap();
        assert_eq!((stats.emitted, stats.speedup), (3, None));
        let speedup = Speedup::of("plain", 12, &measured(&[2.0; 8]));
        let json = serde_json::to_value(Stats { speedup: speedup.clone(), ..Stats::default() }).unwrap();
        let told = &json["speedup"];
        assert!(told["low"].is_f64() && told["high"].is_f64() && told["pairs"] == 8, "{told}");
        assert_eq!(serde_json::from_value::<Stats>(json).unwrap().speedup, speedup);
    }
}
