//! What a running generation has measured: the latest times, a line through them, and the chance that a draft passes.

use std::collections::VecDeque;

use crate::record::summary::median;

/// Share by which older observations count less at each new one.
const MEMORY: f64 = 0.96;

/// Number of latest times that a running median covers.
const LATEST: usize = 15;

/// The median of the latest times. A machine that other programs use makes single passes many times as long, and no pass
/// shorter: of up to half of the times, the median does not notice.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningMedian(VecDeque<f64>);

impl RunningMedian {
    /// Invalid times are ignored.
    pub(super) fn push(&mut self, ms: f64) {
        if ms.is_finite() && ms > 0.0 {
            if self.0.len() == LATEST {
                self.0.pop_front();
            }
            self.0.push_back(ms);
        }
    }

    pub(super) fn median(&self) -> Option<f64> {
        median(self.0.iter().copied())
    }
}

/// The latest times of target passes, with their numbers of rows.
#[derive(Clone, Debug, Default)]
pub(super) struct PassTimes(VecDeque<(f64, f64)>);

/// Number of passes that a line goes through.
const PASSES: usize = 24;

impl PassTimes {
    /// Invalid times are ignored.
    pub(super) fn push(&mut self, rows: usize, ms: f64) {
        if ms.is_finite() && ms > 0.0 {
            if self.0.len() == PASSES {
                self.0.pop_front();
            }
            self.0.push_back((rows as f64, ms));
        }
    }

    /// Time of the first row, and of each further one: the line whose slope is the median over all pairs of passes (Theil 1950,
    /// Sen 1968), which single passes of many times the usual length do not move. Neither is below a hundredth of the median row.
    /// None without a pass.
    pub(super) fn line(&self) -> Option<(f64, f64)> {
        let mx = median(self.0.iter().map(|pass| pass.0))?;
        let my = median(self.0.iter().map(|pass| pass.1))?;
        let pairs = self.0.iter().enumerate().flat_map(|(at, a)| self.0.range(at + 1..).map(move |b| (a, b)));
        let slopes = pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
        let least = 0.01 * my / mx.max(1.0);
        // All passes of one number of rows: a further row is taken to cost a quarter of the median one.
        let slope = median(slopes).unwrap_or(0.25 * my / mx).max(least);
        let first = median(self.0.iter().map(|(rows, ms)| ms - slope * (rows - 1.0)))?;
        Some((first.max(least), slope))
    }
}

/// The chance that a draft passes once those before it have.
#[derive(Clone, Debug)]
pub(super) struct FadingChance {
    passed: f64,
    judged: f64,
}

impl Default for FadingChance {
    /// Three of four, with the weight of two drafts.
    fn default() -> Self {
        Self { passed: 1.5, judged: 2.0 }
    }
}

impl FadingChance {
    /// Note that of a chain of `drafts` (at least one) the first `accepted` passed.
    pub(super) fn add(&mut self, drafts: usize, accepted: usize) {
        // The draft after the accepted ones was rejected; those after it were not judged.
        let turns = (accepted + 1).min(drafts) as f64;
        self.passed = self.passed * MEMORY + accepted as f64;
        self.judged = self.judged * MEMORY + turns;
    }

    /// The chance, below 1.
    pub(super) fn value(&self) -> f64 {
        (self.passed / self.judged).clamp(0.0, 0.995)
    }
}
