//! One method on one clip with known facts: its text, how true it is, and its statistics.

use serde::{Deserialize, Serialize};

use specreel_record::{Stats, StopReason};

/// How many of the true facts a text states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactCount {
    /// True facts that the text states.
    pub right: usize,
    /// True facts that the text contradicts.
    pub wrong: usize,
    /// True facts that the text does not mention.
    pub missing: usize,
    pub total: usize,
    /// Objects in the text that are not in the clip.
    pub extra: usize,
}

impl FactCount {
    /// Share of the true facts that the text states, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.right as f64 / self.total as f64 }
    }

    /// False facts: true ones contradicted, and objects that are not in the clip.
    pub fn false_facts(&self) -> usize {
        self.wrong + self.extra
    }

    /// Facts stated, true or false.
    pub fn said(&self) -> usize {
        self.right + self.false_facts()
    }

    /// Share of the stated facts that are true, 0 to 1; `None` where none is stated.
    pub fn precision(&self) -> Option<f64> {
        (self.said() > 0).then(|| self.right as f64 / self.said() as f64)
    }

    pub fn add(&mut self, other: &FactCount) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.total += other.total;
        self.extra += other.extra;
    }
}

/// A run's speed divided by the autoregressive run's on the same clip: one pair of times. A method's speedup is the median over
/// many of them ([`Summary`](crate::Summary)).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Ratio of decode speeds, prefill not counted, within the limits of the run's counts ([`Limits`](specreel_record::Limits)).
    pub decode_ratio: f64,
    /// Ratio of times from file to last token.
    pub end_to_end_ratio: f64,
}

/// One method on one clip.
///
/// Pair and equality are against the autoregressive run on the same clip in the same process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    pub clip: u64,
    /// The method's name in this comparison.
    pub system: String,
    /// Why the run ended.
    pub reason: StopReason,
    pub text: String,
    /// The text against the truth.
    pub facts: FactCount,
    /// Time that every method spends before the first token, in milliseconds: the video, the target's tower and prefill.
    pub front_ms: f64,
    /// Time that only this method spends there: the drafter's tower, selection and prefill, in milliseconds. Work reused from an
    /// earlier run on the clip is charged as it was measured then.
    pub drafter_front_ms: f64,
    pub stats: Stats,
    /// The run's speed relative to autoregressive decoding.
    #[serde(flatten)]
    pub pair: Option<Pair>,
    /// Decode speedup over autoregressive decoding on the hardware of a profile, modelled from the steps; `None` without a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modelled: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_no_facts_have_no_share() {
        assert_eq!(FactCount::default().share(), 0.0);
        let mut sum = FactCount { right: 3, wrong: 1, missing: 0, total: 4, extra: 2 };
        sum.add(&FactCount { right: 1, wrong: 1, missing: 2, total: 4, extra: 0 });
        assert_eq!(sum, FactCount { right: 4, wrong: 2, missing: 2, total: 8, extra: 2 });
        assert_eq!(sum.share(), 0.5);
        // Of the 8 facts stated 4 are true; two of the others are objects that are not there.
        assert_eq!((sum.said(), sum.false_facts(), sum.precision()), (8, 4, Some(0.5)));
        let silent = FactCount { missing: 4, total: 4, ..FactCount::default() };
        assert_eq!((silent.share(), silent.precision()), (0.0, None));
    }
}
