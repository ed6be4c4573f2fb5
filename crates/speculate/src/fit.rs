//! What a running generation has measured: the latest times, a line through them, and the chance that a draft passes.

use std::collections::VecDeque;

/// Share by which older observations count less at each new one.
const MEMORY: f64 = 0.96;

/// Which of the latest times counts: a tenth of them are shorter. Other programs on the machine make passes many times as long,
/// and none shorter: as long as a tenth of the times are undisturbed, this one is.
const QUANTILE: f64 = 0.1;

/// Number of latest times of the drafter.
const TIMES: usize = 15;

/// The usual one of the latest times.
#[derive(Clone, Debug, Default)]
pub(super) struct UsualTime(VecDeque<f64>);

impl UsualTime {
    /// Invalid times are ignored.
    pub(super) fn push(&mut self, ms: f64) {
        push_valid(&mut self.0, TIMES, ms, ms);
    }

    /// The time that a tenth of the times are below; `None` without a time.
    pub(super) fn value(&self) -> Option<f64> {
        quantile(self.0.iter().copied())
    }
}

fn push_valid<T>(latest: &mut VecDeque<T>, most: usize, item: T, ms: f64) {
    if ms.is_finite() && ms > 0.0 {
        if latest.len() == most {
            latest.pop_front();
        }
        latest.push_back(item);
    }
}

fn quantile(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get((QUANTILE * sorted.len() as f64) as usize).copied()
}

/// Number of latest passes that a line goes through.
const PASSES: usize = 24;
/// A line through more passes than this changes little with each: it is fitted after one of [`REFIT`] passes. A fit takes
/// microseconds, which counts between the passes of a small model.
const FEW: usize = 12;
const REFIT: usize = 4;

/// The latest times of target passes, with their numbers of rows, and a line through them.
#[derive(Clone, Debug, Default)]
pub(super) struct PassTimes {
    latest: VecDeque<(f64, f64)>,
    line: Option<(f64, f64)>,
    /// Passes since the line was fitted.
    since: usize,
}

impl PassTimes {
    /// Invalid times are ignored.
    pub(super) fn push(&mut self, rows: usize, ms: f64) {
        push_valid(&mut self.latest, PASSES, (rows as f64, ms), ms);
        self.since += 1;
        if self.latest.len() <= FEW || self.since >= REFIT {
            (self.line, self.since) = (fit(self.latest.make_contiguous()), 0);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.latest.len()
    }

    /// True if a line through them says what a further row takes.
    pub(super) fn tell_further(&self) -> bool {
        let rows = || self.latest.iter().map(|pass| pass.0);
        self.len() >= FEW && rows().any(|some| Some(some) != rows().next())
    }

    /// Time of the first row, and of each further one: the line below which a tenth of the passes are. Neither value is below
    /// a hundredth of the usual row. `None` without a pass.
    pub(super) fn line(&self) -> Option<(f64, f64)> {
        self.line
    }
}

/// The line below which a tenth of the passes are, by rows and time (quantile regression, Koenker and Bassett 1978).
///
/// The best one goes through two of the passes, with at most a tenth of them below: in each number of rows, only the shortest
/// passes are tried. It is fitted between the steps of a generation, so it must take next to nothing.
fn fit(passes: &[(f64, f64)]) -> Option<(f64, f64)> {
    let usual = quantile(passes.iter().map(|pass| pass.1))?;
    let rows = passes.iter().map(|pass| pass.0).sum::<f64>() / passes.len() as f64;
    let least = 0.01 * usual / rows.max(1.0);
    let through = |pass: &(f64, f64), slope: f64| (pass.1 - slope * (pass.0 - 1.0), slope);
    if passes.iter().all(|pass| pass.0 == passes[0].0) {
        // Passes of one number of rows: a further row is taken to cost a quarter of the usual one.
        let (first, slope) = through(&(rows, usual), 0.25 * usual / rows);
        return Some((first.max(least), slope.max(least)));
    }
    let mut sorted = passes.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let below = (QUANTILE * sorted.len() as f64) as usize;
    let is_short = |at: &usize| *at <= below || sorted[at - below - 1].0 != sorted[*at].0;
    let short: Vec<(f64, f64)> = (0..sorted.len()).filter(is_short).map(|at| sorted[at]).collect();
    let short = &short[..];
    let pairs = (0..short.len()).flat_map(|a| (0..a).map(move |b| (&short[a], &short[b])));
    let steep = pairs.filter(|(a, b)| a.0 != b.0).map(|(a, b)| through(a, (b.1 - a.1) / (b.0 - a.0)));
    let flat = short.iter().map(|pass| through(pass, least));
    // Branch-free: whether a pass is above or below a line cannot be predicted.
    let weigh = |off: f64| (QUANTILE * off).max((QUANTILE - 1.0) * off);
    let loss = |(first, slope): &(f64, f64)| -> f64 {
        passes.iter().map(|(rows, ms)| weigh(ms - first - slope * (rows - 1.0))).sum()
    };
    let lines = steep.filter(|line| line.1 >= least).chain(flat);
    let (_, (first, slope)) = lines.map(|line| (loss(&line), line)).min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((first.max(least), slope))
}

/// What passes of the target take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowTimes {
    /// A pass over one row.
    pub alone: f64,
    /// The line of passes over more: its first row, and each further one. Where several rows are computed in another way than one,
    /// or on more processors, its first row takes longer than a row alone.
    pub first: f64,
    pub more: f64,
}

/// The chance that a draft passes once those before it have: what was expected, and what was seen lately.
#[derive(Clone, Debug)]
pub(super) struct FadingChance {
    expected: f64,
    /// How many drafts the expectation counts for at first, and now.
    full: f64,
    weight: f64,
    passed: f64,
    judged: f64,
}

impl Default for FadingChance {
    /// Three of four, with the weight of two drafts.
    fn default() -> Self {
        Self { expected: 0.75, full: 2.0, weight: 2.0, passed: 0.0, judged: 0.0 }
    }
}

impl FadingChance {
    /// A chance that was seen in earlier runs, with the weight of four drafts.
    pub(super) fn of(expected: f64) -> Self {
        Self { expected, full: 4.0, weight: 4.0, ..Self::default() }
    }

    /// Record so many drafts that were judged one after the other, those after the first that failed not counted.
    pub(super) fn add(&mut self, judged: usize, passed: usize) {
        self.passed = self.passed * MEMORY + passed as f64;
        self.judged = self.judged * MEMORY + judged as f64;
        self.weight *= MEMORY;
    }

    /// Weigh observations less and the expectation more, after a step in which another drafter drafted.
    pub(super) fn fade(&mut self) {
        self.passed *= MEMORY;
        self.judged *= MEMORY;
        self.weight = self.weight * MEMORY + self.full * (1.0 - MEMORY);
    }

    /// How many drafts have been seen, older ones for less.
    pub(super) fn judged(&self) -> f64 {
        self.judged
    }

    /// The chance, below 1.
    pub(super) fn value(&self) -> f64 {
        let chance = (self.passed + self.weight * self.expected) / (self.judged + self.weight);
        chance.clamp(0.0, 0.995)
    }
}

/// A place of the text that the drafter had a draft for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// The drafter's first choice passed.
    pub passed: bool,
    /// What the drafter gave it, if it says that.
    pub probability: Option<f32>,
    /// What the target gives its own token.
    pub sure: f32,
}

/// How much failures are expected to weigh against those that are seen.
const DISAGREEMENT_WEIGHT: f64 = 2.0;

/// How often drafts fail relative to how unsure the target is at the same places: where it gives its own token the probability p, it is
/// unsure by 1 - p. This ratio belongs to the drafter and hardly depends on the text, so what the target writes without drafts says
/// how often drafts would have passed.
#[derive(Clone, Debug)]
pub(super) struct Disagreement {
    expected: f64,
    failed: f64,
    unsure: f64,
}

impl Disagreement {
    /// A ratio that was seen in earlier runs.
    pub(super) fn of(expected: f64) -> Self {
        Self { expected, failed: 0.0, unsure: 0.0 }
    }

    pub(super) fn add(&mut self, place: &Place) {
        self.failed = self.failed * MEMORY + f64::from(u8::from(!place.passed));
        self.unsure = self.unsure * MEMORY + 1.0 - f64::from(place.sure);
    }

    pub(super) fn value(&self) -> f64 {
        (self.failed + DISAGREEMENT_WEIGHT * self.expected) / (self.unsure + DISAGREEMENT_WEIGHT)
    }
}

/// How many tokens the expectation counts for at first.
const UNWRITTEN: f64 = 8.0;
/// Share by which older tokens count less: a text turns from prose to code within a line.
const TEXT_MEMORY: f64 = 0.94;

/// How unsure the target is of the tokens that it wrote lately.
#[derive(Clone, Debug)]
pub(super) struct Unsureness {
    unsure: f64,
    tokens: f64,
    weight: f64,
}

impl Default for Unsureness {
    fn default() -> Self {
        Self { unsure: 0.0, tokens: 0.0, weight: UNWRITTEN }
    }
}

impl Unsureness {
    /// Note a token to which the target gives this probability.
    pub(super) fn add(&mut self, sure: f32) {
        self.unsure = self.unsure * TEXT_MEMORY + 1.0 - f64::from(sure);
        self.tokens = self.tokens * TEXT_MEMORY + 1.0;
        self.weight *= TEXT_MEMORY;
    }

    /// The chance that a draft passes in such a text, of a drafter with this [`Disagreement`] that was expected to have the chance
    /// `expected`.
    pub(super) fn chance(&self, disagreement: f64, expected: f64) -> f64 {
        let failed = disagreement * self.unsure + self.weight * (1.0 - expected);
        (1.0 - failed / (self.tokens + self.weight)).clamp(0.01, 0.995)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// The loss of a line, and the loss of the best line through any two of the passes.
    fn losses(passes: &[(f64, f64)], line: (f64, f64)) -> (f64, f64) {
        let loss = |first: f64, slope: f64| -> f64 {
            let off = |pass: &(f64, f64)| pass.1 - first - slope * (pass.0 - 1.0);
            passes.iter().map(off).map(|off| (QUANTILE * off).max((QUANTILE - 1.0) * off)).sum()
        };
        let pairs = passes.iter().flat_map(|a| passes.iter().map(move |b| (a, b)));
        let through = |(a, b): (&(f64, f64), &(f64, f64))| {
            let slope = (b.1 - a.1) / (b.0 - a.0);
            (a.1 - slope * (a.0 - 1.0), slope)
        };
        let lines = pairs.filter(|(a, b)| a.0 != b.0).map(through).filter(|line| line.1 > 0.0);
        let best = lines.map(|(first, slope)| loss(first, slope)).fold(f64::INFINITY, f64::min);
        (loss(line.0, line.1), best)
    }

    #[test]
    fn only_short_passes_are_tried_and_none_is_missed() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for n in 2..=PASSES {
            for _ in 0..40 {
                let mut passes = Vec::new();
                for _ in 0..n {
                    let rows = f64::from(rng.random_range(1..6u32));
                    let late = if rng.random_bool(0.3) { rng.random_range(0.0..4.0) } else { 0.0 };
                    passes.push((rows, 0.2 + 0.07 * (rows - 1.0) + rng.random_range(0.0..0.02) + late));
                }
                let line = fit(&passes).unwrap();
                // A line whose first row would take next to nothing is moved up.
                if passes.iter().any(|pass| pass.0 != passes[0].0) && line.0 > 0.1 {
                    let (loss, best) = losses(&passes, line);
                    assert!(loss <= best + 1e-9, "{loss} and {best}: {passes:?}");
                }
            }
        }
    }

    #[test]
    fn a_line_through_many_passes_follows_them_after_some() {
        let mut times = PassTimes::default();
        assert!(times.line().is_none() && !times.tell_further());
        for at in 0..PASSES {
            times.push(1 + at % 4, 1.0 + 0.1 * (at % 4) as f64);
            assert_eq!(times.tell_further(), at + 1 >= FEW);
        }
        let near = |times: &PassTimes, first: f64, more: f64| {
            let line = times.line().unwrap();
            assert!((line.0 - first).abs() < 1e-9 && (line.1 - more).abs() < 1e-9, "{line:?}");
        };
        near(&times, 1.0, 0.1);
        // Faster from now on.
        for at in 0..PASSES + REFIT {
            times.push(1 + at % 4, 0.5 + 0.2 * (at % 4) as f64);
        }
        near(&times, 0.5, 0.2);
        let mut alike = PassTimes::default();
        (0..PASSES).for_each(|_| alike.push(5, 1.0));
        assert!(alike.line().is_some() && !alike.tell_further());
    }
}
