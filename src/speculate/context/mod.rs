//! Which visual tokens the drafter sees: pure functions from counts to indices.

use rand::{SeedableRng, seq::index};
use rand_chacha::ChaCha8Rng;

use super::method::Context;

/// The number of tokens a keep ratio leaves of `n`: floor(n · keep + 1e-9), so that 0.1 of 1000 is 100.
pub fn budget(n: usize, keep: f64) -> usize {
    ((n as f64 * keep + 1e-9).floor() as usize).min(n)
}

/// The kept visual tokens, ascending, as indices into the flattened order (time, row, column); none = all of them.
///
/// `grid` is time × rows × columns of the visual tokens.
pub fn select(context: &Context, grid: [usize; 3]) -> Option<Vec<usize>> {
    let n: usize = grid.iter().product();
    match *context {
        Context::Full {} => None,
        Context::None {} => Some(Vec::new()),
        Context::Random { keep, seed } => {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut kept = index::sample(&mut rng, n, budget(n, keep)).into_vec();
            kept.sort_unstable();
            Some(kept)
        }
        Context::Uniform { keep } => Some(evenly(n, budget(n, keep))),
        Context::Frames { keep } => {
            let [frames, rows, columns] = grid;
            let cells = rows * columns;
            let wanted = if keep > 0.0 { budget(frames, keep).max(1) } else { 0 };
            let frames = evenly(frames, wanted.min(frames));
            Some(frames.into_iter().flat_map(|f| f * cells..(f + 1) * cells).collect())
        }
    }
}

/// `count` of `0..n` at even distances, first and last included: linspace(0, n - 1, count), truncated.
pub fn evenly(n: usize, count: usize) -> Vec<usize> {
    match count.min(n) {
        0 => Vec::new(),
        1 => vec![0],
        count => (0..count).map(|i| i * (n - 1) / (count - 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_do_not_fall_into_the_floating_point_gap() {
        assert_eq!(budget(1000, 0.1), 100);
        assert_eq!(budget(1000, 1.0 - 0.9), 100);
        assert_eq!(budget(64, 0.1), 6);
        assert_eq!(budget(5, 1.0), 5);
        assert_eq!(budget(5, 0.0), 0);
    }

    #[test]
    fn evenly_is_linspace_truncated() {
        assert_eq!(evenly(8, 3), [0, 3, 7]);
        assert_eq!(evenly(5, 5), [0, 1, 2, 3, 4]);
        assert_eq!(evenly(5, 1), [0]);
        assert!(evenly(5, 0).is_empty() && evenly(0, 3).is_empty());
    }

    #[test]
    fn every_context_gives_ascending_indices_within_the_budget() {
        for grid in [[1, 1, 1], [4, 4, 4], [3, 5, 7]] {
            let n: usize = grid.iter().product();
            for keep in [0.0, 0.1, 0.37, 1.0] {
                for context in
                    [Context::Random { keep, seed: 7 }, Context::Uniform { keep }, Context::Frames { keep }]
                {
                    let kept = select(&context, grid).unwrap();
                    assert!(kept.windows(2).all(|w| w[0] < w[1]), "{context:?} {grid:?} {kept:?}");
                    assert!(kept.iter().all(|&i| i < n));
                    if !matches!(context, Context::Frames { .. }) {
                        assert_eq!(kept.len(), budget(n, keep));
                    }
                    if keep == 1.0 {
                        assert_eq!(kept.len(), n);
                    }
                }
            }
        }
        assert_eq!(select(&Context::Full {}, [2, 2, 2]), None);
        assert_eq!(select(&Context::None {}, [2, 2, 2]), Some(vec![]));
    }

    #[test]
    fn frames_are_whole_and_random_is_seeded() {
        let kept = select(&Context::Frames { keep: 0.5 }, [4, 2, 2]).unwrap();
        assert_eq!(kept, [0, 1, 2, 3, 12, 13, 14, 15]);
        let of = |seed| select(&Context::Random { keep: 0.3, seed }, [4, 4, 4]);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
