//! Speed ratios from paired measurements, with an interval that makes no assumption about the noise.
//!
//! A pair is one ratio of two times measured close together: autoregressive decoding and a method, in milliseconds per token.
//! The figure is the median of the pairs. Its interval consists of two order statistics: with n independent pairs, the number
//! that fall below the true median is Binomial(n, ½), so the k-th smallest and the k-th largest pair enclose it with a
//! probability that does not depend on how the times are distributed (the inverted sign test; Conover, Practical Nonparametric
//! Statistics, 3.2). A machine that is shared or throttles has heavy tails; a mean, or a bootstrap of few pairs, is too sure
//! of itself there.

use std::collections::BTreeMap;

use super::{Step, StopReason, median};

/// Fewer pairs give no interval: min and max of 5 enclose the median with less than 95 %.
pub const LEAST: usize = 6;
/// Intervals wider than this share of the figure are too noisy to be printed.
pub const NOISY: f64 = 0.25;
/// Intervals up to this share of the figure are settled: more pairs are not worth their time.
pub const SETTLED: f64 = 0.10;
/// What pairs measured close together cannot show, as a share of the figure: a machine's slower drifts, and what a repetition
/// leaves out, such as sending events to a reader that wakes up for them. No interval of repetitions is narrower on either
/// side. `cargo bench -p specreel-lab --bench speedup` measures it.
pub const ALLOWANCE: f64 = 0.07;
/// Further allowance for each share of the time that was spent waiting for processors: what other programs take varies from
/// second to second, and more from the side that uses all processors.
pub const CONTENTION_ALLOWANCE: f64 = 0.4;
/// From this share of the time on, waiting for processors is noticeable.
pub const BUSY: f64 = 0.1;
/// Probability that the truth lies beyond either end of an interval.
const TAIL: f64 = 0.025;
/// Pairs beyond this number are not used.
const MOST: usize = 1000;

/// A ratio of speeds (above 1: the method is faster than the baseline) and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedRatio {
    /// The median of the pairs.
    pub middle: f64,
    /// Lower end of the interval.
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

impl PairedRatio {
    /// From the ratio of each pair; those that are not positive numbers are left out. None with fewer than [`LEAST`] pairs.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let mut sorted = positive(ratios);
        sorted.truncate(MOST);
        sorted.sort_by(f64::total_cmp);
        let pairs = sorted.len();
        let cut = cut(pairs)?;
        Some(Self {
            middle: median(sorted.iter().copied())?,
            low: sorted[cut],
            high: sorted[pairs - 1 - cut],
            pairs,
        })
    }

    /// With an allowance on either side at least: the interval of pairs that are repetitions of a run. It is [`ALLOWANCE`] on a
    /// quiet machine, and more on one that other programs keep busy for this share of the time (0 to 1).
    pub fn of_repetitions(self, contention: f64) -> Self {
        let Self { middle, low, high, .. } = self;
        let allowance = ALLOWANCE + CONTENTION_ALLOWANCE * contention.clamp(0.0, 1.0);
        Self { low: low.min(middle * (1.0 - allowance)), high: high.max(middle * (1.0 + allowance)), ..self }
    }

    /// Width of the interval as a share of the figure.
    pub fn width(&self) -> f64 {
        (self.high - self.low) / self.middle
    }

    /// True if more pairs are not worth their time.
    pub fn is_settled(&self) -> bool {
        self.width() <= SETTLED
    }
}

fn positive(ratios: &[f64]) -> Vec<f64> {
    ratios.iter().copied().filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()
}

/// How many of `n` sorted pairs lie beyond each end of the interval: the largest k with P(X ≤ k) ≤ 2.5 % for
/// X ~ Binomial(n, ½). `None` if no k qualifies.
fn cut(n: usize) -> Option<usize> {
    if n < LEAST {
        return None;
    }
    let mut term = 0.5_f64.powi(n as i32);
    let (mut sum, mut k) = (term, 0);
    loop {
        term *= (n - k) as f64 / (k + 1) as f64;
        sum += term;
        if sum > TAIL {
            return Some(k);
        }
        k += 1;
    }
}

/// The times of a run's steps, for the pairs of a run that is too long to be repeated often: passes of the target alone, timed
/// between its steps ([`Step::plain_ms`]) or afterwards, against the run's own time per token.
///
/// A pass between steps is compared with the steps up to the next one: a machine that is slow for a while slows both. Steps
/// differ in tokens, rows and drafters, so their times are first divided by the median over the steps of the same drafter with as many
/// rows; what remains is the machine. A step in which another drafter took over also read the prompt, which says nothing of the machine:
/// it counts for the run's time only. With p the time of the pass, T and n the run's time and tokens, and f the mean factor of those steps
/// relative to the whole run, the ratio is p · n / (T · f).
///
/// n counts the end token: its pass takes time on both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pace {
    steps: Vec<StepTime>,
    /// The names of the drafters of a run that may change between them.
    drafters: Vec<String>,
    ends: bool,
}

/// What a step's time depends on, apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    /// The number of the drafter; `None` if there is one only, or nothing was drafted.
    drafter: Option<usize>,
    rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct StepTime {
    /// `None` if it also did what no other step does.
    work: Option<Work>,
    tokens: usize,
    ms: f64,
    plain_ms: Option<f64>,
}

impl Pace {
    pub fn of(steps: &[Step]) -> Self {
        let mut pace = Self::default();
        steps.iter().for_each(|step| pace.add(step));
        pace
    }

    pub fn add(&mut self, step: &Step) {
        let (tokens, ms) = (step.tokens.len(), step.total_ms());
        if let Some(name) = step.drafter.as_ref().filter(|name| !self.drafters.contains(name)) {
            self.drafters.push(name.clone());
        }
        let work = self.work(step);
        self.steps.push(StepTime { work, tokens, ms, plain_ms: step.plain_ms });
    }

    fn work(&self, step: &Step) -> Option<Work> {
        let number = |name: &String| self.drafters.iter().position(|other| other == name);
        let drafter = step.drafter.as_ref().and_then(number);
        step.switched.is_none().then_some(Work { drafter, rows: step.judged })
    }

    /// The sum of these times relative to what such steps usually take: the machine's factor.
    fn factor(usual: &BTreeMap<Work, f64>, steps: impl Iterator<Item = (Option<Work>, f64)>) -> Option<f64> {
        let known = steps.filter_map(|(work, ms)| Some((*usual.get(&work?)?, ms)));
        let (usual, ms) = known.fold((0.0, 0.0), |sum, (usual, ms)| (sum.0 + usual, sum.1 + ms));
        (usual > 0.0 && ms > 0.0).then(|| ms / usual)
    }

    /// The factor of the whole run.
    fn whole(&self, usual: &BTreeMap<Work, f64>) -> f64 {
        Self::factor(usual, self.steps.iter().map(|step| (step.work, step.ms))).unwrap_or(1.0)
    }

    pub fn end(&mut self, reason: StopReason) {
        self.ends = reason == StopReason::Eos;
    }

    /// Time of all steps, in milliseconds.
    pub fn total_ms(&self) -> f64 {
        self.steps.iter().map(|step| step.ms).sum()
    }

    /// Tokens of all steps, the end token counted: as many passes as autoregressive decoding makes.
    pub fn tokens(&self) -> usize {
        self.steps.iter().map(|step| step.tokens).sum::<usize>() + usize::from(self.ends)
    }

    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// One ratio for each pass between its steps.
    pub fn ratios(&self) -> Vec<f64> {
        let Some(per_token) = self.per_token() else { return Vec::new() };
        let usual = self.usual();
        let whole = self.whole(&usual);
        let passes: Vec<(usize, f64)> =
            self.steps.iter().enumerate().filter_map(|(i, step)| Some((i, step.plain_ms?))).collect();
        let ends = passes.iter().skip(1).map(|(i, _)| *i).chain([self.steps.len()]);
        let ratio = |((begin, ms), end): (&(usize, f64), usize)| {
            let beside = self.steps[*begin..end].iter().map(|step| (step.work, step.ms));
            Some(ms / per_token * whole / Self::factor(&usual, beside)?)
        };
        passes.iter().zip(ends).filter_map(ratio).collect()
    }

    /// The ratios of a later repetition of the same run, with a pass before each of its steps. Steps with a number of rows
    /// that this run did not have are left out.
    pub fn ratios_of_repeat(&self, steps: &[Step]) -> Vec<f64> {
        let Some(per_token) = self.per_token() else { return Vec::new() };
        let usual = self.usual();
        let whole = self.whole(&usual);
        let ratio = |step: &Step| {
            let factor = Self::factor(&usual, std::iter::once((self.work(step), step.total_ms())))?;
            Some(step.plain_ms? / per_token * whole / factor)
        };
        steps.iter().filter_map(ratio).collect()
    }

    /// The ratio of some later repeated steps of the same run and a pass timed with them.
    pub fn ratio_of_repeat(&self, plain_ms: f64, steps: &[Step]) -> Option<f64> {
        let (per_token, usual) = (self.per_token()?, self.usual());
        let factor = Self::factor(&usual, steps.iter().map(|step| (self.work(step), step.total_ms())))?;
        Some(plain_ms / per_token * self.whole(&usual) / factor)
    }

    /// Milliseconds per token, the end token counted.
    pub fn per_token(&self) -> Option<f64> {
        let (ms, tokens) = (self.total_ms(), self.tokens());
        (tokens > 0 && ms > 0.0).then(|| ms / tokens as f64)
    }

    /// The median time of a step by its work, in milliseconds.
    fn usual(&self) -> BTreeMap<Work, f64> {
        let mut by_work: BTreeMap<Work, Vec<f64>> = BTreeMap::new();
        for (work, ms) in self.steps.iter().filter_map(|step| Some((step.work?, step.ms))) {
            by_work.entry(work).or_default().push(ms);
        }
        by_work.into_iter().map(|(work, times)| (work, median(times).unwrap_or_default())).collect()
    }
}

#[cfg(test)]
mod tests;
