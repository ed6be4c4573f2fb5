//! How many tokens to draft while the target verifies.
//!
//! ParallelVLM's window is w = round(T_target / T_drafter) (eq. 6): as many tokens as the drafter writes in one verify pass. That
//! assumes that a pass costs the same with any number of rows, as on a GPU. Where more rows cost more, each longer window makes the pass
//! longer and so the next window, up to any limit. The window is therefore the one with the highest expected rate, from T(rows)
//! as measured and from the chance `a` that a draft passes once those before it have; where rows are free and most drafts pass,
//! it is the paper's.
//!
//! A run between two rejects is one pre-verify tick, then, with chance `a`, post-verify ticks of w drafts until one of them is
//! rejected: `a / (1 - a^w)` of them on average. It emits `1 / (1 - a)` tokens for any window, and takes
//! `max(T(1), w·t) + a / (1 - a^w) · max(T(w), w·t)`, where `t` is the drafter's time for one token.

use crate::fit::{FadingChance, PassTimes, UsualTime};

/// Shortest automatic window: one token is judged before the next can be drafted, and nothing overlaps.
const SHORTEST: usize = 2;

/// One tick, as it was measured.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Rows of the verify pass.
    pub rows: usize,
    /// Time of the pass in milliseconds.
    pub(crate) target_ms: f64,
    pub drafted: usize,
    /// The time of drafting them in milliseconds.
    pub drafter_ms: f64,
    pub judged: usize,
    pub accepted: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Fixed,
    /// Equation 6.
    Ratio,
    /// The highest expected rate.
    Fastest,
}

/// The window: fixed, by the ratio of times, or the one that is expected to be the fastest.
#[derive(Clone, Debug)]
pub struct WindowLength {
    start: usize,
    most: usize,
    rule: Rule,
    /// Times of verify passes by their rows.
    target: PassTimes,
    drafter: UsualTime,
    chance: FadingChance,
}

impl WindowLength {
    /// Always `length` tokens, at least one.
    pub fn fixed(length: usize) -> Self {
        let length = length.max(1);
        Self { rule: Rule::Fixed, start: length, ..Self::auto(length, length) }
    }

    /// As many tokens as the drafter writes during one pass of the target (equation 6), within the bounds of [`Self::auto`].
    pub fn ratio(start: usize, most: usize) -> Self {
        Self { rule: Rule::Ratio, ..Self::auto(start, most) }
    }

    /// `start` tokens until both workers were timed; never more than `most` (at least two), never less than two.
    pub fn auto(start: usize, most: usize) -> Self {
        let most = most.max(SHORTEST);
        Self {
            start: start.clamp(SHORTEST, most),
            most,
            rule: Rule::Fastest,
            target: PassTimes::default(),
            drafter: UsualTime::default(),
            chance: FadingChance::default(),
        }
    }

    pub(crate) fn saw(&mut self, tick: Seen) {
        self.target.push(tick.rows, tick.target_ms);
        if tick.drafted > 0 {
            self.drafter.push(tick.drafter_ms / tick.drafted as f64);
        }
        if tick.judged > 0 {
            self.chance.add(tick.judged.min(tick.accepted + 1), tick.accepted);
        }
    }

    /// Tokens to draft in the next tick.
    pub fn length(&self) -> usize {
        if self.rule == Rule::Fixed {
            return self.start;
        }
        let (Some((first, more)), Some(token)) = (self.target.line(), self.drafter.value()) else {
            return self.start;
        };
        if self.rule == Rule::Ratio {
            return ((first / token).round() as usize).clamp(SHORTEST, self.most);
        }
        let chance = self.chance.value();
        let time = |window: usize| {
            let (length, drafting) = (window as f64, window as f64 * token);
            let post = chance / (1.0 - chance.powf(length));
            first.max(drafting) + post * (first + more * (length - 1.0)).max(drafting)
        };
        (SHORTEST..=self.most).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// A machine: times of the first row, of each further one, and of a drafted token.
    #[derive(Clone, Copy)]
    struct Pair {
        first: f64,
        more: f64,
        token: f64,
        chance: f64,
    }

    /// Tokens per millisecond of a run of the schedule, and the window at its end.
    fn run(pair: Pair, mut window: WindowLength, ticks: usize) -> (f64, usize) {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let (mut tokens, mut time, mut pending) = (0.0, 0.0, 0);
        for _ in 0..ticks {
            let length = window.length();
            let rows = pending + 1;
            let noise = rng.random_range(0.95..1.05);
            let target_ms = (pair.first + pair.more * (rows - 1) as f64) * noise;
            let drafter_ms = pair.token * length as f64 * noise;
            let accepted = (0..rows).take_while(|_| rng.random::<f64>() < pair.chance).count();
            window.saw(Seen { rows, target_ms, drafted: length, drafter_ms, judged: rows, accepted });
            time += target_ms.max(drafter_ms);
            tokens += rows.min(accepted + 1) as f64;
            pending = if accepted == rows { length - 1 } else { 0 };
        }
        (tokens / time, window.length())
    }

    #[test]
    fn a_fixed_window_does_not_look_at_times() {
        let pair = Pair { first: 90.0, more: 10.0, token: 1.0, chance: 0.5 };
        assert_eq!(run(pair, WindowLength::fixed(5), 30).1, 5);
        assert_eq!(WindowLength::fixed(0).length(), 1);
    }

    #[test]
    fn the_ratio_of_times_does_not_look_at_acceptance() {
        for chance in [0.2, 0.95] {
            let pair = Pair { first: 420.0, more: 0.0, token: 47.0, chance };
            assert_eq!(run(pair, WindowLength::ratio(3, 32), 100).1, 9);
        }
        // Within its bounds.
        let slow = Pair { first: 40.0, more: 0.0, token: 47.0, chance: 0.5 };
        assert_eq!(run(slow, WindowLength::ratio(3, 32), 100).1, 2);
        let quick = Pair { token: 1.0, ..slow };
        assert_eq!(run(quick, WindowLength::ratio(3, 32), 100).1, 32);
    }

    #[test]
    fn where_rows_are_free_it_is_the_ratio_of_times() {
        // The paper's example: 420 ms over 78 ms, and over 47 ms with pruning.
        for (token, want) in [(78.0, 5), (47.0, 9)] {
            let pair = Pair { first: 420.0, more: 0.0, token, chance: 0.95 };
            let (_, window) = run(pair, WindowLength::auto(3, 32), 400);
            assert!(window.abs_diff(want) <= 1, "{window}, expected {want}");
        }
    }

    #[test]
    fn it_approaches_the_best_fixed_window() {
        for (first, more, token, chance) in [
            (1.0, 0.35, 0.12, 0.85),
            (1.0, 0.35, 0.12, 0.5),
            (1.0, 0.05, 0.3, 0.9),
            (1.0, 0.3, 1.0, 0.97),
            (5.0, 0.0, 0.5, 0.7),
        ] {
            let pair = Pair { first, more, token, chance };
            let best = (1..=32).map(|w| run(pair, WindowLength::fixed(w), 3000).0).fold(0.0, f64::max);
            let (rate, window) = run(pair, WindowLength::auto(4, 32), 3000);
            assert!(rate > 0.93 * best, "{first} {more} {token} {chance}: {rate} with {window}, best {best}");
        }
    }

    /// Rows that cost as much as the drafter's tokens gain: the ratio of times would climb to the limit.
    #[test]
    fn it_does_not_climb_where_rows_cost_time() {
        let pair = Pair { first: 1.0, more: 0.4, token: 0.12, chance: 0.8 };
        let (_, window) = run(pair, WindowLength::auto(4, 32), 400);
        assert!((2..=12).contains(&window), "{window}");
    }

    /// With one token per tick nothing overlaps, for any times.
    #[test]
    fn it_stays_within_its_bounds() {
        for (first, token) in [(1.0, 1000.0), (1000.0, 1.0), (1.0, 1.0)] {
            let pair = Pair { first, more: 0.0, token, chance: 0.9 };
            let (_, window) = run(pair, WindowLength::auto(20, 8), 200);
            assert!((2..=8).contains(&window), "{window}");
        }
        assert_eq!(WindowLength::auto(20, 8).length(), 8);
        assert_eq!(WindowLength::auto(1, 1).length(), 2);
    }

    fn timed(target_ms: f64, drafter_ms: f64) -> Seen {
        Seen { rows: 1, target_ms, drafted: 1, drafter_ms, judged: 1, accepted: 1 }
    }

    #[test]
    fn one_slow_pass_changes_nothing() {
        let mut window = WindowLength::auto(2, 100);
        (0..8).for_each(|_| window.saw(timed(10.0, 2.0)));
        let before = window.length();
        window.saw(timed(5000.0, 2.0));
        assert_eq!(window.length(), before);
    }

    #[test]
    fn invalid_times_are_ignored() {
        let mut window = WindowLength::auto(4, 100);
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            window.saw(timed(ms, ms));
        }
        assert_eq!(window.length(), 4);
    }
}
