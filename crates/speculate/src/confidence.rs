//! Where a chain of drafts ends, judged by the drafter's own confidence.
//!
//! A drafter gives each draft a probability. How often drafts with such a probability pass is counted while it drafts, in classes
//! ([`Calibration`]), and kept between runs. The length of a chain is then a problem of optimal stopping. If all drafts so far pass with
//! probability `P`, another draft costs a row of the drafter and a row of the target's pass, and yields a token with probability `P · c`,
//! where `c` is the chance of its class, known once it has been drafted. At `rate` tokens per millisecond, the largest expected gain from
//! there is
//!
//! `W(P) = max(0, Σ share(c) · max(0, P·c − rate · more + W(P·c)) − rate · row)`
//!
//! in tokens, where `row` is the time of a row of the drafter and `more` the time of an additional row of the
//! target. The chain ends where `W` is 0, and before a draft whose term in the sum is 0. The rate is the rate
//! of the policy itself (Dinkelbach 1967): the tokens of a step divided by its time.

use crate::{
    Drafter,
    fit::{FadingChance, RowTimes},
};

/// Upper ends of the classes of probabilities.
const EDGES: [f32; CLASSES] = [0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, f32::INFINITY];
/// Classes of probabilities.
pub const CLASSES: usize = 9;
/// A probability in the middle of each class.
const MIDDLES: [f64; CLASSES] = [0.05, 0.15, 0.28, 0.43, 0.58, 0.73, 0.85, 0.94, 0.99];
/// How often drafts are of each class, of a draft model of which nothing is known: as on captions and prose.
const SHARES: [f64; CLASSES] = [0.02, 0.04, 0.09, 0.1, 0.1, 0.12, 0.1, 0.12, 0.31];
/// The same of prompt lookup, whose n-grams are mostly short and rare.
const LOOKUP_SHARES: [f64; CLASSES] = [0.05, 0.1, 0.15, 0.15, 0.3, 0.15, 0.06, 0.03, 0.01];
/// How often what prompt lookup finds passes, until that is known: rather too high, so that it is tried.
const LOOKUP_CHANCES: [f64; CLASSES] = [0.02, 0.05, 0.08, 0.12, 0.2, 0.35, 0.6, 0.8, 0.9];
/// How many drafts the expected shares count for.
const SHARES_WEIGHT: f64 = 24.0;
/// Most that shares are tilted, and how often the range of tilts is halved: to less than a hundredth.
const STEEPEST: f64 = 24.0;
const HALVINGS: usize = 13;
/// Share by which older drafts count less for the shares with each new one.
const MEMORY: f64 = 0.99;

/// The class of a probability.
pub(crate) fn class(probability: f32) -> usize {
    EDGES.iter().position(|edge| probability < *edge).unwrap_or(CLASSES - 1)
}

/// What is known of a drafter's probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// The chance that a draft of each class passes once those before it have; it does not fall from class to class.
    pub chances: [f64; CLASSES],
    /// How often drafts are of each class; the sum is 1.
    pub shares: [f64; CLASSES],
}

impl Calibration {
    /// From counts of earlier runs. `None` if they are none.
    pub fn of(chances: [f64; CLASSES], shares: [f64; CLASSES]) -> Option<Self> {
        let sum: f64 = shares.iter().sum();
        let is_sane = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value >= 0.0);
        (is_sane(&chances) && is_sane(&shares) && sum > 0.0).then(|| Self {
            chances: isotonic(chances.map(|chance| chance.min(1.0)), shares),
            shares: shares.map(|share| share / sum),
        })
    }

    /// Of a drafter of which nothing is known.
    pub fn of_drafter(drafter: &Drafter, chance: f64) -> Self {
        match drafter {
            Drafter::Lookup { .. } => Self { chances: LOOKUP_CHANCES, shares: LOOKUP_SHARES },
            _ => Self::usual(chance),
        }
    }

    /// Of a model of whose drafts this share passes, and no more is known.
    pub fn usual(chance: f64) -> Self {
        let mean: f64 = MIDDLES.iter().zip(SHARES).map(|(middle, share)| middle * share).sum();
        Self { chances: MIDDLES, shares: SHARES }.failing((1.0 - chance) / (1.0 - mean))
    }

    /// The same, with drafts of all classes failing `factor` times as often.
    pub fn failing(self, factor: f64) -> Self {
        let chances = self.chances.map(|chance| (1.0 - (1.0 - chance) * factor).clamp(0.01, 0.995));
        Self { chances, ..self }
    }

    /// The same drafter on a text in which this share of its drafts passes: what it gives a draft means as much, and it gives much more
    /// or less often. The shares are tilted exponentially by the chances, which changes them least for such a mean (Csiszár 1975).
    pub(crate) fn on_average(self, chance: f64) -> Self {
        let tilted = |tilt: f64| {
            let shares: [f64; CLASSES] =
                std::array::from_fn(|class| self.shares[class] * (tilt * self.chances[class]).exp());
            let sum: f64 = shares.iter().sum();
            shares.map(|share| share / sum)
        };
        let mean = |shares: &[f64; CLASSES]| -> f64 {
            shares.iter().zip(self.chances).map(|(share, chance)| share * chance).sum()
        };
        let (mut low, mut high) = (-STEEPEST, STEEPEST);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if mean(&tilted(middle)) < chance { low = middle } else { high = middle }
        }
        Self { shares: tilted((low + high) / 2.0), ..self }
    }
}

/// Pool adjacent violators: the nondecreasing values that are nearest, by weight.
fn isotonic(values: [f64; CLASSES], weights: [f64; CLASSES]) -> [f64; CLASSES] {
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(CLASSES);
    for (value, weight) in values.into_iter().zip(weights) {
        pools.push((value, weight.max(1e-9), 1));
        while let [.., before, last] = &pools[..]
            && before.0 > last.0
        {
            let weight = before.1 + last.1;
            let pooled = ((before.0 * before.1 + last.0 * last.1) / weight, weight, before.2 + last.2);
            pools.truncate(pools.len() - 2);
            pools.push(pooled);
        }
    }
    let mut all = pools.into_iter().flat_map(|(value, _, count)| std::iter::repeat_n(value, count));
    std::array::from_fn(|_| all.next().unwrap_or(0.0))
}

/// A calibration that follows the drafts of a run.
#[derive(Clone, Debug)]
pub(crate) struct Calibrator {
    chances: [FadingChance; CLASSES],
    shares: [f64; CLASSES],
    seen: [f64; CLASSES],
}

impl Calibrator {
    pub fn new(expected: Calibration) -> Self {
        let Calibration { chances, shares } = expected;
        Self { chances: chances.map(FadingChance::of), shares, seen: [0.0; CLASSES] }
    }

    /// Note a token that the drafter would draft with this probability, whether it is verified or not.
    pub fn see(&mut self, probability: f32) {
        self.seen.iter_mut().for_each(|seen| *seen *= MEMORY);
        self.seen[class(probability)] += 1.0;
    }

    /// Note the drafts of a step that were judged: their probabilities, and whether they passed.
    pub fn judge(&mut self, drafts: impl Iterator<Item = (f32, bool)>) {
        let mut counts = [[0; 2]; CLASSES];
        for (probability, passed) in drafts {
            let [judged, all_passed] = &mut counts[class(probability)];
            *judged += 1;
            *all_passed += usize::from(passed);
        }
        for (chance, [judged, passed]) in
            self.chances.iter_mut().zip(counts).filter(|(_, [judged, _])| *judged > 0)
        {
            chance.add(judged, passed);
        }
    }

    /// See [`FadingChance::fade`].
    pub fn fade(&mut self) {
        self.chances.iter_mut().for_each(FadingChance::fade);
    }

    /// What is known now.
    pub fn value(&self) -> Calibration {
        let all = self.seen.iter().sum::<f64>() + SHARES_WEIGHT;
        let share = |class: usize| (self.seen[class] + SHARES_WEIGHT * self.shares[class]) / all;
        let shares = std::array::from_fn(share);
        // What is only expected of a class that hardly occurs does not hold up what others show.
        let weights = std::array::from_fn(|class| self.chances[class].judged() + shares[class]);
        Calibration { chances: isotonic(self.chances.each_ref().map(FadingChance::value), weights), shares }
    }
}

/// Chances that all drafts so far pass are computed at powers of 2 with exponents of a quarter.
const POINTS: usize = 26;
const PER_OCTAVE: f64 = 4.0;
/// Passes over the points: a chance that hardly falls with a draft is found from itself.
const ROUNDS: usize = 6;

/// What drafting and verifying take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainTimes {
    /// A row of the drafter.
    pub row: f64,
    /// What it takes before its first row, each time.
    pub once: f64,
    pub target: RowTimes,
    /// Share of the steps in which it has a draft at all.
    pub offers: f64,
    /// Its second and third choices may be drafted next to its first.
    pub others: bool,
}

/// Where a drafter's first choice fails, how often its second one is the target's token, and its third: of 162 failures of
/// Qwen2.5-Coder's 0.5B with its 1.5B, in prose and code.
const OTHERS: [f64; 2] = [0.39, 0.16];

/// What prompt lookup contributes alongside another drafter: the share of the tokens that its steps write, and their rate in tokens per
/// millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Beside {
    share: f64,
    rate: f64,
}

impl Beside {
    /// The rate of a text if all other tokens are written at another rate.
    pub fn with(self, other: f64) -> f64 {
        1.0 / (self.share / self.rate.max(1e-9) + (1.0 - self.share) / other.max(1e-9)).max(1e-9)
    }
}

/// Where a chain ends.
#[derive(Clone, Debug)]
pub struct Stopping {
    chances: [f64; CLASSES],
    /// What a row has to give in tokens.
    price: f64,
    /// For each point what is gained by going on, in tokens.
    worth: [f64; POINTS],
    /// Tokens per millisecond of a text that is drafted like this, and of the steps in which the drafter has a draft.
    pub(crate) rate: f64,
    pub(crate) offered: f64,
    /// What it contributes alongside another drafter. Only for prompt lookup, whose drafts are free.
    pub(crate) beside: Beside,
}

impl Stopping {
    /// The policy for these times; `near` is a rate that is taken for near, such as an earlier policy's.
    pub(crate) fn new(known: &Calibration, times: &ChainTimes, near: Option<f64>) -> Self {
        let ChainTimes { row, once, offers, others, target: RowTimes { alone, first, more } } = *times;
        let others = if others { &OTHERS[..] } else { &[] };
        let plain = 1.0 / alone.max(1e-9);
        let mut rate = near.unwrap_or(plain);
        let (mut worth, mut offered, mut price) = ([0.0; POINTS], rate, 0.0);
        let mut step = [0.0; 3];
        for _ in 0..if near.is_some() { 2 } else { 3 } {
            // Time is worth what the target alone would write in it, at least.
            let worth_of_time = rate.max(plain);
            (worth, step) = values(known, [row, more], worth_of_time, others);
            price = worth_of_time * more;
            let [emitted, taken] = [1.0 + step[0], once + first + step[1]];
            offered = emitted / taken.max(1e-9);
            rate = (offers * emitted + 1.0 - offers) / (offers * taken + (1.0 - offers) * alone).max(1e-9);
        }
        // Of the steps in which a draft is worth its row.
        let [tokens, ms, drafting] = step;
        let [found, in_ms] = [drafting + tokens, drafting * first + ms].map(|of| offers * of);
        let share = found / (found + 1.0 - offers * drafting);
        let beside = Beside { share, rate: found / in_ms.max(1e-9) };
        Self { chances: known.chances, price, worth, rate, offered, beside }
    }

    /// The policy of a drafter that costs nothing, for a text that another drafter writes at this rate.
    pub(crate) fn beside(known: &Calibration, more: f64, rate: f64) -> Self {
        let (worth, _) = values(known, [0.0, more], rate, &[]);
        let beside = Beside { share: 0.0, rate };
        Self { chances: known.chances, price: rate * more, worth, rate, offered: rate, beside }
    }

    /// What is gained by drafting at all, in tokens.
    pub(crate) fn gain(&self) -> f64 {
        self.worth[0]
    }

    /// What is gained by verifying drafts of these probabilities, in tokens.
    pub(crate) fn gain_of(&self, probabilities: impl Iterator<Item = f32>) -> f64 {
        let (mut passing, mut gain) = (1.0, 0.0);
        for probability in probabilities {
            passing *= self.chances[class(probability)];
            gain += passing - self.price;
        }
        gain
    }

    /// True if a drafter's other choice, of this probability, is worth its row where the drafts before it pass with the chance `passing` and
    /// its first choice has the probability `first`: where that fails, the others have their shares of what is left.
    pub fn admits_other(&self, passing: f64, first: f32, other: f32) -> bool {
        let left = (1.0 - f64::from(first)).max(1e-6);
        let chance = (1.0 - self.chances[class(first)]) * (f64::from(other) / left).min(1.0);
        passing * chance > self.price
    }

    /// True if another draft is worth its time once all before it pass with this chance.
    pub fn goes_on(&self, passing: f64) -> bool {
        at(&self.worth, passing) > 0.0
    }

    /// The chance that all drafts pass with one of this probability after those that pass with the chance `passing`; `None` if it is not worth
    /// its row.
    pub fn take(&self, passing: f64, probability: f32) -> Option<f64> {
        let next = passing * self.chances[class(probability)];
        (next - self.price + at(&self.worth, next) > 0.0).then_some(next)
    }
}

/// The value at a chance, interpolated between its two nearest points.
fn at(values: &[f64; POINTS], chance: f64) -> f64 {
    let place = -PER_OCTAVE * chance.max(1e-9).log2();
    between(values, place)
}

fn between(values: &[f64; POINTS], place: f64) -> f64 {
    let low = place as usize;
    if low + 1 >= POINTS {
        return 0.0;
    }
    let share = place - low as f64;
    values[low] * (1.0 - share) + values[low + 1] * share
}

/// What is gained by going on from each point at this rate, and from the first one the tokens and the time of it, and the share of tokens
/// that are drafted there.
fn values(
    known: &Calibration,
    [row, more]: [f64; 2],
    rate: f64,
    others: &[f64],
) -> ([f64; POINTS], [f64; 3]) {
    let falls: [f64; CLASSES] = known.chances.map(|chance| -PER_OCTAVE * chance.max(1e-9).log2());
    let (mut worth, mut tokens, mut ms) = ([0.0; POINTS], [0.0; POINTS], [0.0; POINTS]);
    let mut drafting = 0.0;
    for _ in 0..ROUNDS {
        for point in (0..POINTS).rev() {
            let passing = (-(point as f64) / PER_OCTAVE).exp2();
            let (mut gain, mut emitted, mut taken, mut drafted) = (-rate * row, 0.0, row, 0.0);
            for ((chance, share), fall) in known.chances.iter().zip(known.shares).zip(falls) {
                let (next, place) = (passing * chance, point as f64 + fall);
                let term = next - rate * more + between(&worth, place);
                if term > 0.0 {
                    gain += share * term;
                    drafted += share;
                    emitted += share * (next + between(&tokens, place));
                    taken += share * (more + between(&ms, place));
                    let beside = others.iter().map(|other| passing * (1.0 - chance) * other);
                    for token in beside.filter(|token| *token > rate * more) {
                        gain += share * (token - rate * more);
                        emitted += share * token;
                        taken += share * more;
                    }
                }
            }
            (worth[point], tokens[point], ms[point], drafting) =
                if gain > 0.0 { (gain, emitted, taken, drafted) } else { (0.0, 0.0, 0.0, 0.0) };
        }
    }
    (worth, [tokens[0], ms[0], drafting])
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn times(row: f64, more: f64) -> ChainTimes {
        let target = RowTimes { alone: 1.0, first: 1.0, more };
        ChainTimes { row, once: 0.0, target, offers: 1.0, others: false }
    }

    /// Tokens per millisecond of a drafter whose drafts pass as its calibration says; `ends` says where a chain ends, by the number of
    /// drafts before it and the probability of the next one.
    fn write(
        known: &Calibration,
        times: &ChainTimes,
        mut go: impl FnMut(usize) -> bool,
        mut take: impl FnMut(usize, f32) -> bool,
    ) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut tokens, mut ms) = (0.0, 0.0);
        for _ in 0..4000 {
            let (mut drafts, mut alive) = (0, true);
            tokens += 1.0;
            ms += times.target.first;
            while drafts < 64 && go(drafts) {
                ms += times.row;
                let mut left: f64 = rng.random();
                let class = known
                    .shares
                    .iter()
                    .position(|share| {
                        left -= share;
                        left < 0.0
                    })
                    .unwrap_or(CLASSES - 1);
                if !take(drafts, MIDDLES[class] as f32) {
                    break;
                }
                drafts += 1;
                ms += times.target.more;
                alive &= rng.random::<f64>() < known.chances[class];
                tokens += f64::from(u8::from(alive));
            }
        }
        tokens / ms
    }

    #[test]
    fn it_writes_faster_than_any_fixed_length_and_any_threshold() {
        for (chance, row, more) in [(0.75, 0.43, 0.13), (0.6, 0.2, 0.1), (0.85, 0.1, 0.05), (0.75, 0.02, 0.4)]
        {
            let (known, times) = (Calibration::usual(chance), times(row, more));
            let stopping = Stopping::new(&known, &times, None);
            let passing = std::cell::Cell::new(1.0);
            let policy = write(
                &known,
                &times,
                |drafts| {
                    if drafts == 0 {
                        passing.set(1.0);
                    }
                    stopping.goes_on(passing.get())
                },
                |_, p| stopping.take(passing.get(), p).inspect(|next| passing.set(*next)).is_some(),
            );
            let fixed =
                (0..12).map(|k| write(&known, &times, |drafts| drafts < k, |_, _| true)).fold(0.0, f64::max);
            let cut =
                [0.3, 0.5, 0.6, 0.75, 0.9].into_iter().flat_map(|least| (1..12).map(move |k| (least, k)));
            let cut = cut
                .map(|(least, k)| write(&known, &times, |drafts| drafts < k, |_, p| p >= least))
                .fold(0.0, f64::max);
            assert!(
                policy > 0.99 * cut && policy > 1.01 * fixed,
                "{policy}, {fixed} and {cut} at {chance} {row} {more}"
            );
            assert!((policy / stopping.rate - 1.0).abs() < 0.03, "{policy} and {} expected", stopping.rate);
        }
    }

    #[test]
    fn nothing_is_drafted_where_it_cannot_pay() {
        let stopping = Stopping::new(&Calibration::usual(0.75), &times(1.0, 0.5), None);
        assert!(!stopping.goes_on(1.0));
        // A drafter that costs nothing, as lookup: only the draft's own row counts.
        let stopping = Stopping::new(&Calibration::usual(0.75), &times(0.0, 0.5), None);
        assert!(
            stopping.goes_on(1.0) && stopping.take(1.0, 0.3).is_none() && stopping.take(1.0, 0.98).is_some()
        );
        // Less and less is worth drafting along a chain.
        let taken = |passing: f64| {
            (0..CLASSES).filter(|&class| stopping.take(passing, MIDDLES[class] as f32).is_some()).count()
        };
        let counts = [1.0, 0.9, 0.8, 0.7, 0.5].map(taken);
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[4] == 0, "{counts:?}");
    }

    #[test]
    fn on_another_text_drafts_are_sure_more_or_less_often() {
        let known = Calibration::usual(0.7);
        let mean = |of: &Calibration| -> f64 { of.shares.iter().zip(of.chances).map(|(s, c)| s * c).sum() };
        for chance in [0.2, 0.5, 0.7, 0.9, 0.95] {
            let other = known.on_average(chance);
            assert!((mean(&other) - chance).abs() < 0.01, "{chance}: {other:?}");
            assert_eq!(other.chances, known.chances);
            let is_sure = other.shares[CLASSES - 1] > known.shares[CLASSES - 1];
            assert_eq!(is_sure, chance > mean(&known));
        }
        // No mixture of its drafts is better than the best of them.
        assert!(mean(&known.on_average(0.999)) < known.chances[CLASSES - 1]);
    }

    /// Rows that cost little, and a drafter whose first choice often fails: its second one is verified too, and its third if that is about
    /// as likely; not where rows cost more than that, nor after drafts that hardly pass.
    #[test]
    fn other_choices_are_verified_where_a_row_costs_less() {
        let known = Calibration::usual(0.6);
        let policy =
            |more: f64, others: bool| Stopping::new(&known, &ChainTimes { others, ..times(0.3, more) }, None);
        let cheap = policy(0.04, true);
        assert!(cheap.admits_other(1.0, 0.5, 0.3) && !cheap.admits_other(1.0, 0.5, 0.03));
        assert!(!cheap.admits_other(1.0, 0.99, 0.005) && !cheap.admits_other(0.1, 0.5, 0.3));
        assert!(!policy(0.4, true).admits_other(1.0, 0.5, 0.3));
        // They are counted in what is expected.
        assert!(cheap.rate > 1.04 * policy(0.04, false).rate);
        assert_eq!(policy(0.4, true).rate, policy(0.4, false).rate);
    }

    #[test]
    fn chances_follow_what_passes_and_do_not_fall_with_the_probability() {
        let mut calibrator = Calibrator::new(Calibration::usual(0.75));
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..3000 {
            let probability: f32 = rng.random();
            calibrator.see(probability);
            // A drafter that is too sure of itself, and knows nothing below a half.
            let real = if probability < 0.5 { 0.2 } else { f64::from(probability) - 0.25 };
            calibrator.judge(std::iter::once((probability, rng.random::<f64>() < real)));
        }
        let Calibration { chances, shares } = calibrator.value();
        assert!(chances.is_sorted(), "{chances:?}");
        assert!((chances[2] - 0.2).abs() < 0.1 && (chances[6] - 0.6).abs() < 0.12, "{chances:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9 && shares[8] < 0.1, "{shares:?}");
    }

    #[test]
    fn values_are_pooled_where_they_fall() {
        let mut values = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8];
        assert_eq!(isotonic(values, [1.0; CLASSES]), values);
        (values[2], values[3]) = (0.5, 0.2);
        let pooled = isotonic(values, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert!((pooled[2] - 0.3).abs() < 1e-12 && pooled[3] == pooled[2], "{pooled:?}");
        assert_eq!(Calibration::of([f64::NAN; CLASSES], SHARES), None);
        assert_eq!(Calibration::of(MIDDLES, [0.0; CLASSES]), None);
    }
}
