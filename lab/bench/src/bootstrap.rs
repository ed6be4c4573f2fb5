//! Confidence intervals by bootstrap: how much a figure over some clips varies with other clips.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The percentile bootstrap interval of a ratio of sums: the parts are resampled with replacement `rounds` times, and the
/// interval covers the middle `confidence` (0 to 1) of the ratios. Parts are (numerator, denominator), one per clip, so that
/// clips are resampled as a whole. `None` without parts, or if no round has a denominator above 0.
pub fn ratio_interval(parts: &[(f64, f64)], confidence: f64, rounds: usize, seed: u64) -> Option<(f64, f64)> {
    if parts.is_empty() {
        return None;
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ratios: Vec<f64> = (0..rounds)
        .filter_map(|_| {
            let (mut above, mut below) = (0.0, 0.0);
            for _ in parts {
                let part = parts[rng.random_range(0..parts.len())];
                above += part.0;
                below += part.1;
            }
            (below > 0.0).then_some(above / below)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let last = ratios.len().checked_sub(1)?;
    let cut = ((1.0 - confidence.clamp(0.0, 1.0)) / 2.0 * ratios.len() as f64).floor() as usize;
    Some((ratios[cut.min(last)], ratios[last - cut.min(last)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_ratio_have_an_interval_of_no_width() {
        let parts = [(3.0, 4.0), (6.0, 8.0), (0.75, 1.0)];
        assert_eq!(ratio_interval(&parts, 0.95, 500, 1), Some((0.75, 0.75)));
    }

    #[test]
    fn the_interval_holds_the_ratio_and_narrows_with_more_parts() {
        let parts = |n: usize| (0..n).map(|i| ((i % 4) as f64, 3.0)).collect::<Vec<_>>();
        let width = |n| {
            let (low, high) = ratio_interval(&parts(n), 0.95, 2000, 7).unwrap();
            assert!(low <= 0.5 && 0.5 <= high, "{low} {high}");
            high - low
        };
        assert!(width(400) < width(40) / 2.0);
    }

    #[test]
    fn its_width_is_that_of_the_normal_distribution() {
        // The mean of 400 coins: standard deviation 0.025, so that 95 % span 0.098.
        let coins: Vec<(f64, f64)> = (0..400).map(|i| (f64::from(i % 2), 1.0)).collect();
        let (low, high) = ratio_interval(&coins, 0.95, 4000, 3).unwrap();
        assert!((high - low - 0.098).abs() < 0.01, "{low} {high}");
        assert!((low + high - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_nothing_has_none() {
        let parts = [(1.0, 2.0), (2.0, 2.0), (0.0, 1.0)];
        assert_eq!(ratio_interval(&parts, 0.9, 100, 5), ratio_interval(&parts, 0.9, 100, 5));
        assert_eq!(ratio_interval(&[], 0.9, 100, 5), None);
        assert_eq!(ratio_interval(&[(1.0, 0.0)], 0.9, 100, 5), None);
        assert_eq!(ratio_interval(&parts, 0.9, 0, 5), None);
    }
}
