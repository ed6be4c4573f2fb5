//! A figure over clips, or over the tokens of a text, with its bootstrap over them.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use specreel_record::median;

/// Resampled sets of clips.
const ROUNDS: usize = 1000;
/// Share that an interval covers.
const CONFIDENCE: f64 = 0.95;
/// Fewest clips for an interval: resampling fewer makes it too narrow.
const LEAST: usize = 6;
const SEED: u64 = 18;

/// What one clip adds to a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part {
    /// A numerator and a denominator: the figure is the ratio of their sums.
    Ratio(f64, f64),
    /// A value: the figure is the median.
    Value(f64),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    pub(crate) value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) interval: Option<(f64, f64)>,
    /// Its value on resampled clips; the same clips for every figure of a run.
    #[serde(skip)]
    rounds: Vec<f64>,
}

impl Figure {
    pub(crate) fn new(value: f64, rounds: Vec<f64>) -> Figure {
        Figure { value, interval: middle(rounds.clone()), rounds }
    }

    /// The figure of parts, one for each clip of the run; `None` where a clip has none. `None` without any part.
    pub fn of(parts: &[Option<Part>]) -> Option<Figure> {
        let value = total(parts.iter().flatten().copied())?;
        if parts.iter().flatten().count() < LEAST {
            return Some(Figure::new(value, Vec::new()));
        }
        // The seed is the same for all figures: two of them are compared on the same resampled clips.
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        let mut round = || {
            let picks: Vec<usize> = parts.iter().map(|_| rng.random_range(0..parts.len())).collect();
            total(picks.into_iter().filter_map(|pick| parts[pick]))
        };
        let rounds = (0..ROUNDS).map(|_| round().unwrap_or(value)).collect();
        Some(Figure::new(value, rounds))
    }

    /// The figure in another unit; `to` increases.
    pub(crate) fn map(self, to: impl Fn(f64) -> f64) -> Figure {
        Figure {
            value: to(self.value),
            interval: self.interval.map(|(low, high)| (to(low), to(high))),
            rounds: self.rounds.into_iter().map(to).collect(),
        }
    }

    /// How many times as large this figure is as another on the same clips; `None` if the other one is 0.
    pub(crate) fn over(&self, other: &Figure) -> Option<Figure> {
        let rounds = self.rounds.iter().zip(&other.rounds);
        let rounds = rounds.filter(|(_, below)| **below > 0.0).map(|(above, below)| above / below).collect();
        (other.value > 0.0).then(|| Figure::new(self.value / other.value, rounds))
    }

    /// The 95 % interval of the difference to another figure on the same clips; none with too few clips.
    pub(crate) fn minus(&self, other: &Figure) -> Option<(f64, f64)> {
        middle(self.rounds.iter().zip(&other.rounds).map(|(a, b)| a - b).collect())
    }
}

fn total(parts: impl Iterator<Item = Part>) -> Option<f64> {
    let (mut above, mut below) = (0.0, 0.0);
    let mut values = Vec::new();
    for part in parts {
        match part {
            Part::Ratio(numerator, denominator) => {
                above += numerator;
                below += denominator;
            }
            Part::Value(value) => values.push(value),
        }
    }
    if values.is_empty() { (below > 0.0).then(|| above / below) } else { median(values) }
}

fn middle(mut rounds: Vec<f64>) -> Option<(f64, f64)> {
    rounds.sort_by(f64::total_cmp);
    let last = rounds.len().checked_sub(1)?;
    let cut = ((1.0 - CONFIDENCE) / 2.0 * rounds.len() as f64).floor() as usize;
    Some((*rounds.get(cut)?, *rounds.get(last - cut)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_sums_and_values_have_a_median() {
        let ratio = [Some(Part::Ratio(1.0, 2.0)), None, Some(Part::Ratio(5.0, 2.0))];
        assert_eq!(Figure::of(&ratio).unwrap().value, 1.5);
        let values = [Some(Part::Value(1.0)), Some(Part::Value(9.0)), Some(Part::Value(2.0))];
        let figure = Figure::of(&values).unwrap();
        assert_eq!((figure.value, figure.interval), (2.0, None));
        assert_eq!(Figure::of(&[None, None]), None);
        assert_eq!(Figure::of(&[Some(Part::Ratio(0.0, 0.0))]), None);
    }

    #[test]
    fn an_interval_holds_the_value_and_figures_share_their_clips() {
        let parts = |shift: f64| -> Vec<Option<Part>> {
            (0..40).map(|n| Some(Part::Ratio(f64::from(n % 5) + shift, 1.0))).collect()
        };
        let (a, b) = (Figure::of(&parts(0.1)).unwrap(), Figure::of(&parts(0.0)).unwrap());
        let (low, high) = a.interval.unwrap();
        assert!(low < a.value && a.value < high && high - low > 0.5, "{a:?}");
        // Each varies by more than they differ, but on the same clips the difference is always the same.
        let (low, high) = a.minus(&b).unwrap();
        assert!((low - 0.1).abs() < 1e-9 && (high - 0.1).abs() < 1e-9, "{low} {high}");
        let (low, high) = a.over(&a).unwrap().interval.unwrap();
        assert_eq!((low, high), (1.0, 1.0));
        assert_eq!(a.over(&Figure::new(0.0, Vec::new())), None);
    }
}
