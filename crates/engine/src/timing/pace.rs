//! Speeds: from finished work to the time of work to come. Pure arithmetic; the caller has the clock.

use serde::{Deserialize, Serialize};

use specreel_model::mac_count::MacCount;

/// What a stage is: each has a speed of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Tower,
    Prompt,
    Token,
}

impl Part {
    /// The part's name in the file of speeds.
    pub fn name(self) -> &'static str {
        match self {
            Part::Tower => "tower",
            Part::Prompt => "prompt",
            Part::Token => "token",
        }
    }

    /// Time of a multiply-add of attention, relative to one of a matrix product, until both have been measured.
    fn attention_ratio(self) -> f64 {
        match self {
            Part::Tower => 2.0,
            Part::Prompt => 4.0,
            Part::Token => 1.0,
        }
    }
}

/// The speed of a stage: milliseconds per 10⁹ multiply-adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rate {
    pub products: f64,
    pub attention: f64,
}

impl Rate {
    /// The time of this work, in milliseconds.
    pub fn ms(&self, work: &MacCount) -> f64 {
        (self.products * work.products + self.attention * work.attention) / 1e9
    }

    /// The rate at which work takes so long, from its total alone; `like` says what attention costs relative to products.
    /// `None` where nothing was done or no time passed.
    pub fn of(work: &MacCount, ms: f64, like: &Rate) -> Option<Self> {
        let scale = ms / like.ms(work);
        let rate = like.times(scale);
        rate.is_sane().then_some(rate)
    }

    /// The rate of work that takes `factor` times as long.
    pub fn times(&self, factor: f64) -> Self {
        Self { products: self.products * factor, attention: self.attention * factor }
    }

    /// A rate of no particular speed with the usual cost of attention.
    pub fn unknown(part: Part) -> Self {
        Self { products: 1.0, attention: part.attention_ratio() }
    }

    /// True for a rate that a machine can have.
    pub(crate) fn is_sane(&self) -> bool {
        [self.products, self.attention].iter().all(|ms| (1e-6..1e9).contains(ms))
    }

    pub(crate) fn towards(&self, newer: &Rate) -> Self {
        let middle = |a: f64, b: f64| (a + b) / 2.0;
        Self {
            products: middle(self.products, newer.products),
            attention: middle(self.attention, newer.attention),
        }
    }
}

/// Pieces of work that are needed to separate the time of products from the time of attention.
const PIECES: usize = 4;
/// A ratio of attention to products outside of this range is noise.
const RATIOS: std::ops::Range<f64> = 0.1..100.0;

#[derive(Clone, Copy, Debug, Default)]
struct Pieces {
    count: usize,
    work: MacCount,
    ms: f64,
    /// Sums of products², products · attention, attention², products · ms, attention · ms, in units of 10⁹.
    sums: [f64; 5],
}

impl Pieces {
    fn add(&mut self, work: MacCount, ms: f64) {
        let (p, a) = (work.products / 1e9, work.attention / 1e9);
        self.count += 1;
        self.work = self.work + work;
        self.ms += ms;
        let terms = [p * p, p * a, a * a, p * ms, a * ms];
        self.sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += term);
    }

    /// The rate that fits best: least squares where the pieces differ enough, else as `like` has it. All pieces together take
    /// exactly as long as they did.
    fn rate(&self, like: &Rate) -> Option<Rate> {
        let [pp, pa, aa, pt, at] = self.sums;
        let determinant = pp * aa - pa * pa;
        let fitted = Rate {
            products: (pt * aa - at * pa) / determinant,
            attention: (at * pp - pt * pa) / determinant,
        };
        let is_clear = self.count >= PIECES && determinant > 1e-3 * pp * aa;
        let is_likely = fitted.is_sane() && RATIOS.contains(&(fitted.attention / fitted.products));
        Rate::of(&self.work, self.ms, if is_clear && is_likely { &fitted } else { like })
    }
}

/// How much the expected speed weighs against the measured one at the beginning of a stage, as a share of the stage.
const EXPECTED: f64 = 0.1;

#[derive(Clone, Debug)]
pub(crate) struct StagePace {
    total: MacCount,
    rate: Rate,
    /// The rate is a measured one, not only a ratio.
    known: bool,
    done: MacCount,
    elapsed_ms: f64,
    pieces: Pieces,
}

impl StagePace {
    /// A stage that begins, with its rate if that is known.
    pub fn new(part: Part, total: MacCount, rate: Option<Rate>) -> Self {
        Self {
            total,
            rate: rate.unwrap_or(Rate::unknown(part)),
            known: rate.is_some(),
            done: MacCount::default(),
            elapsed_ms: 0.0,
            pieces: Pieces::default(),
        }
    }

    /// Note that so much is done, `elapsed_ms` after the beginning. Returns the time left in milliseconds; `None` where it cannot
    /// be known yet.
    pub fn tick(&mut self, done: MacCount, elapsed_ms: f64) -> Option<f64> {
        let (piece, ms) = (done - self.done, elapsed_ms - self.elapsed_ms);
        if piece.total() > 0.0 {
            self.pieces.add(piece, ms);
            (self.done, self.elapsed_ms) = (done, elapsed_ms);
        }
        let (all, past) = (self.rate.ms(&self.total), self.rate.ms(&done));
        let expected = if self.known { EXPECTED * all } else { 0.0 };
        let slower = (elapsed_ms + expected) / (past + expected);
        let left = (all - past).max(0.0) * slower;
        left.is_finite().then_some(left)
    }

    /// The rate of the finished work; `None` if there is none.
    pub fn rate(&self) -> Option<Rate> {
        self.pieces.rate(&self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_model::{mac_count, shapes};

    /// Any machine: 4 ms per 10⁹ multiply-adds of products, 20 of attention.
    const MACHINE: Rate = Rate { products: 4.0, attention: 20.0 };

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1.0)
    }

    /// The chunks of a long prompt: the share that is done after each.
    fn chunks(rows: usize) -> Vec<MacCount> {
        let config = shapes::find("qwen2.5-vl-3b").unwrap();
        (0..=rows / 128).map(|n| mac_count::prompt(&config, 0, 128 * n)).collect()
    }

    #[test]
    fn a_stage_tells_products_from_attention() {
        let chunks = chunks(4096);
        let total = chunks[chunks.len() - 1];
        let mut pace = StagePace::new(Part::Prompt, total, None);
        for done in &chunks {
            pace.tick(*done, MACHINE.ms(done));
        }
        let rate = pace.rate().unwrap();
        assert!(near(rate.products, 4.0) && near(rate.attention, 20.0), "{rate:?}");
    }

    #[test]
    fn few_or_equal_pieces_give_the_usual_ratio_and_the_exact_total() {
        let chunks = chunks(256);
        let mut pace = StagePace::new(Part::Prompt, chunks[2], None);
        for done in &chunks {
            pace.tick(*done, 2.0 * MACHINE.ms(done));
        }
        let rate = pace.rate().unwrap();
        assert!(
            near(rate.attention / rate.products, 4.0)
                && near(rate.ms(&chunks[2]), 2.0 * MACHINE.ms(&chunks[2]))
        );

        let piece = MacCount { products: 1e9, attention: 1e7 };
        let mut pace = StagePace::new(Part::Tower, piece * 9.0, Some(MACHINE));
        for n in (0..10).map(f64::from) {
            pace.tick(piece * n, n * 7.0);
        }
        let rate = pace.rate().unwrap();
        assert!(near(rate.attention / rate.products, 5.0) && near(rate.ms(&(piece * 9.0)), 63.0), "{rate:?}");
        assert_eq!(StagePace::new(Part::Tower, piece, None).rate(), None, "nothing was done");
    }

    #[test]
    fn the_time_left_follows_the_work_and_not_the_rows() {
        let chunks = chunks(8192);
        let total = chunks[chunks.len() - 1];
        let mut pace = StagePace::new(Part::Prompt, total, Some(MACHINE));
        let half = chunks[chunks.len() / 2];
        assert!(near(pace.tick(MacCount::default(), 0.0).unwrap(), MACHINE.ms(&total)), "the estimate");
        let left = pace.tick(half, MACHINE.ms(&half)).unwrap();
        assert!(near(left, MACHINE.ms(&total) - MACHINE.ms(&half)), "as fast as expected");
        assert!(left > 1.2 * MACHINE.ms(&half), "later chunks take longer: a straight line would say less");
        assert!(near(pace.tick(total, MACHINE.ms(&total)).unwrap(), 0.0));
    }

    #[test]
    fn the_time_left_follows_the_measured_pace() {
        let total = MacCount { products: 100e9, attention: 0.0 };
        let at = |done: f64, elapsed_ms: f64, rate| {
            StagePace::new(Part::Tower, total, rate).tick(total * done, elapsed_ms)
        };
        // Three times as slow as expected: soon believed.
        let left: Vec<f64> =
            [0.0, 0.1, 0.5, 0.9].map(|done| at(done, 1200.0 * done, Some(MACHINE)).unwrap()).into();
        assert!(near(left[0], 400.0) && near(left[1], 720.0), "{left:?}");
        assert!((530.0..540.0).contains(&left[2]) && (110.0..120.0).contains(&left[3]), "{left:?}");
        // Without an expectation, the first piece says it.
        assert_eq!(at(0.0, 5.0, None), None);
        assert!(near(at(0.25, 300.0, None).unwrap(), 900.0));
        // A machine that was suspended counts as slow, and not as endless.
        assert!(at(0.5, 1e7, Some(MACHINE)).unwrap() < 1e7);
    }

    #[test]
    fn impossible_rates_are_refused() {
        let work = MacCount { products: 1e9, attention: 0.0 };
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::of(&work, ms, &MACHINE), None, "{ms}");
        }
        assert_eq!(Rate::of(&MacCount::default(), 5.0, &MACHINE), None);
        assert_eq!(MACHINE.towards(&Rate { products: 6.0, attention: 20.0 }).products, 5.0);
    }
}
