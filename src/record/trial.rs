//! One method on one clip whose true facts are known: what it wrote, how true that is, what it cost.

use serde::{Deserialize, Serialize};

use super::{Stats, StopReason};

/// How many of the true facts a text states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactCount {
    /// True facts that the text states.
    pub right: usize,
    /// True facts in whose place the text states something else.
    pub wrong: usize,
    /// True facts on which the text is silent.
    pub missing: usize,
    /// All true facts.
    pub total: usize,
    /// Things that the text states and that are not there.
    pub extra: usize,
}

impl FactCount {
    /// Share of the true facts that the text states, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.right as f64 / self.total as f64 }
    }

    /// Count another text as well.
    pub fn add(&mut self, other: &FactCount) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.total += other.total;
        self.extra += other.extra;
    }
}

/// One method on one clip.
///
/// The account's speedup is against the autoregressive run on the same clip in the same process, and its equality is with
/// the ids of that run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The clip's seed.
    pub clip: u64,
    /// The method's name in this comparison.
    pub system: String,
    /// Why the text ends.
    pub reason: StopReason,
    /// The text.
    pub text: String,
    /// The text against the truth.
    pub facts: FactCount,
    /// What every method spends before the first token: reading the video, the target's tower and prefill, in milliseconds.
    pub front_ms: f64,
    /// What this method alone spends there: the drafter's tower, selection and prefill, in milliseconds. Work that was
    /// re-used from an earlier run on the clip is charged as it was measured then.
    pub drafter_front_ms: f64,
    /// The account.
    pub stats: Stats,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_nothing_is_no_share() {
        assert_eq!(FactCount::default().share(), 0.0);
        let mut sum = FactCount { right: 3, wrong: 1, missing: 0, total: 4, extra: 2 };
        sum.add(&FactCount { right: 1, wrong: 1, missing: 2, total: 4, extra: 0 });
        assert_eq!(sum, FactCount { right: 4, wrong: 2, missing: 2, total: 8, extra: 2 });
        assert_eq!(sum.share(), 0.5);
    }
}
