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
        let parts: Vec<Vec<Part>> = parts.iter().map(|part| part.iter().copied().collect()).collect();
        Figure::of_draws(&parts)
    }

    /// The figure of parts, for each clip one of each draw of what a method leaves to chance; none where a clip has none. A round
    /// of the bootstrap resamples the clips, and the draws of each of them. `None` without any part.
    pub(crate) fn of_draws(parts: &[Vec<Part>]) -> Option<Figure> {
        let value = total(parts.iter().flatten().copied())?;
        if parts.iter().filter(|draws| !draws.is_empty()).count() < LEAST {
            return Some(Figure::new(value, Vec::new()));
        }
        // The seed is the same for all figures, and draws have a generator of their own: two figures are compared on the same
        // resampled clips.
        let mut clips = ChaCha8Rng::seed_from_u64(SEED);
        let mut chance = ChaCha8Rng::seed_from_u64(SEED + 1);
        let mut round = || {
            let picked = (0..parts.len()).map(|_| &parts[clips.random_range(0..parts.len())]);
            let picked: Vec<&Vec<Part>> = picked.collect();
            let draw = |draws: &Vec<Part>| -> Vec<Part> {
                (0..draws.len()).map(|_| draws[chance.random_range(0..draws.len())]).collect()
            };
            total(picked.into_iter().flat_map(draw))
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

    /// The figure of a curve at `x`, on a line between the two of its points (x, y) that lie around it; `None` where `x` lies outside of
    /// the curve. Each round has its own points.
    pub(crate) fn interpolated(points: &[(&Figure, &Figure)], x: &Figure) -> Option<Figure> {
        let mut order: Vec<&(&Figure, &Figure)> = points.iter().collect();
        order.sort_by(|a, b| a.0.value.total_cmp(&b.0.value));
        let upper = order.iter().position(|point| point.0.value >= x.value).filter(|at| *at > 0)?;
        let ((x0, y0), (x1, y1)) = (*order[upper - 1], *order[upper]);
        let line = |x0: f64, y0: f64, x1: f64, y1: f64, x: f64| y0 + (y1 - y0) * (x - x0) / (x1 - x0);
        let rounds = [x0, y0, x1, y1, x].map(|figure| figure.rounds.len()).into_iter().min().unwrap_or(0);
        let round = |n: usize| line(x0.rounds[n], y0.rounds[n], x1.rounds[n], y1.rounds[n], x.rounds[n]);
        let value = line(x0.value, y0.value, x1.value, y1.value, x.value);
        Some(Figure::new(value, (0..rounds).map(round).collect()))
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
    fn a_curve_is_linear_between_its_points_and_ends_at_the_last() {
        let point = |value: f64| Figure::new(value, vec![value, value + 1.0]);
        let [x0, y0, x1, y1, x2, y2] = [1.0, 10.0, 3.0, 6.0, 5.0, 0.0].map(point);
        let points = [(&x2, &y2), (&x0, &y0), (&x1, &y1)];
        let at = |x: f64| Figure::interpolated(&points, &point(x)).map(|figure| figure.value);
        assert_eq!((at(2.0), at(3.0), at(4.5)), (Some(8.0), Some(6.0), Some(1.5)));
        assert_eq!((at(0.5), at(5.5)), (None, None));
        // In the second round everything is one higher.
        assert_eq!(Figure::interpolated(&points, &point(2.0)).unwrap().rounds, [8.0, 9.0]);
    }

    #[test]
    fn draws_of_a_clip_are_summed_and_widen_the_interval() {
        let width = |figure: &Figure| figure.interval.map(|(low, high)| high - low).unwrap();
        // All clips are equal in the mean, but their draws are not.
        let parts: Vec<Vec<Part>> =
            (0..40).map(|_| [0.0, 1.0, 2.0].map(|n| Part::Ratio(n, 1.0)).to_vec()).collect();
        let drawn = Figure::of_draws(&parts).unwrap();
        assert!(drawn.value == 1.0 && width(&drawn) > 0.2, "{drawn:?}");
        let sums = vec![vec![Part::Ratio(3.0, 3.0)]; 40];
        assert_eq!(width(&Figure::of_draws(&sums).unwrap()), 0.0);
        // Clips are resampled alike, with or without draws.
        let one = |n: usize| Part::Ratio((n % 7) as f64, 1.0);
        let single: Vec<Option<Part>> = (0..40).map(|n| Some(one(n))).collect();
        let same: Vec<Vec<Part>> = (0..40).map(|n| vec![one(n); 3]).collect();
        let (a, b) = (Figure::of(&single).unwrap(), Figure::of_draws(&same).unwrap());
        let (low, high) = a.minus(&b).unwrap();
        assert!(low.abs() < 1e-9 && high.abs() < 1e-9, "{low} {high}");
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
