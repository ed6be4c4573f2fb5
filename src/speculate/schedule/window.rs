//! How many tokens to draft while the target verifies.

use std::collections::VecDeque;

/// Number of latest times that a running median covers.
const MEMORY: usize = 15;

/// The window: fixed, or as many tokens as the drafter writes in one verify pass, w = round(T_target / T_drafter)
/// (ParallelVLM, eq. 6), from running medians of measured times.
#[derive(Clone, Debug)]
pub struct WindowLength {
    start: usize,
    least: usize,
    most: usize,
    target: Recent,
    drafter: Recent,
}

impl WindowLength {
    /// Always `length` tokens, at least one.
    pub fn fixed(length: usize) -> Self {
        let length = length.max(1);
        Self { least: length, ..Self::auto(length, length) }
    }

    /// `start` tokens until both workers were timed; never more than `most`, never less than one.
    pub fn auto(start: usize, most: usize) -> Self {
        let most = most.max(1);
        let start = start.clamp(1, most);
        Self { start, least: 1, most, target: Recent::default(), drafter: Recent::default() }
    }

    /// Note the times of a tick in milliseconds: the verify pass, and the drafter's work on `drafted` tokens.
    pub fn saw(&mut self, target_ms: f64, drafter_ms: f64, drafted: usize) {
        self.target.push(target_ms);
        if drafted > 0 {
            self.drafter.push(drafter_ms / drafted as f64);
        }
    }

    /// Tokens to draft in the next tick.
    pub fn length(&self) -> usize {
        match (self.target_ms(), self.drafter_ms()) {
            (Some(target), Some(drafter)) => {
                ((target / drafter).round() as usize).clamp(self.least, self.most)
            }
            _ => self.start,
        }
    }

    /// Median time of a verify pass.
    pub fn target_ms(&self) -> Option<f64> {
        self.target.median()
    }

    /// Median time of one drafted token.
    pub fn drafter_ms(&self) -> Option<f64> {
        self.drafter.median()
    }
}

/// The latest times.
#[derive(Clone, Debug, Default)]
struct Recent(VecDeque<f64>);

impl Recent {
    /// Invalid times are ignored.
    fn push(&mut self, ms: f64) {
        if ms.is_finite() && ms > 0.0 {
            if self.0.len() == MEMORY {
                self.0.pop_front();
            }
            self.0.push_back(ms);
        }
    }

    fn median(&self) -> Option<f64> {
        let mut sorted: Vec<f64> = self.0.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let high = *sorted.get(sorted.len() / 2)?;
        let low = sorted[(sorted.len() - 1) / 2];
        Some((low + high) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_does_not_look_at_times() {
        let mut window = WindowLength::fixed(5);
        window.saw(90.0, 10.0, 10);
        assert_eq!(window.length(), 5);
        assert_eq!(WindowLength::fixed(0).length(), 1);
    }

    #[test]
    fn auto_is_the_rounded_ratio_of_times() {
        // The paper's example: 420 ms over 78 ms, and over 47 ms with pruning.
        for (drafter_ms, want) in [(78.0, 5), (47.0, 9)] {
            let mut window = WindowLength::auto(3, 12);
            assert_eq!(window.length(), 3);
            window.saw(420.0, 0.0, 0);
            assert_eq!(window.length(), 3, "the drafter was not timed yet");
            window.saw(420.0, drafter_ms * 4.0, 4);
            assert_eq!(window.length(), want);
        }
    }

    #[test]
    fn auto_stays_within_its_bounds() {
        for (target_ms, want) in [(1000.0, 8), (0.1, 1), (2.5, 3)] {
            let mut window = WindowLength::auto(20, 8);
            assert_eq!(window.length(), 8);
            window.saw(target_ms, 1.0, 1);
            assert_eq!(window.length(), want);
        }
    }

    #[test]
    fn one_slow_pass_changes_nothing_and_old_times_are_forgotten() {
        let mut window = WindowLength::auto(1, 100);
        (0..5).for_each(|_| window.saw(10.0, 2.0, 1));
        window.saw(5000.0, 2.0, 1);
        assert_eq!(window.length(), 5);
        (0..MEMORY).for_each(|_| window.saw(20.0, 2.0, 1));
        assert_eq!(window.length(), 10);
    }

    #[test]
    fn invalid_times_are_ignored() {
        let mut window = WindowLength::auto(4, 100);
        for ms in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            window.saw(ms, ms, 1);
        }
        assert_eq!((window.length(), window.target_ms(), window.drafter_ms()), (4, None, None));
    }
}
