//! The largest values of rows and their indices.
//!
//! Loops over whole lanes, compiled once for any processor and once for AVX2.

use super::vectorized;

/// Values compared at a time.
const LANES: usize = 16;
/// Up to this number, the largest values are kept sorted lane by lane; above, each row is partitioned.
const FEW: usize = 32;

/// The three largest values, descending; minus infinity if there are fewer. NaN is skipped.
pub fn largest3(x: &[f32]) -> [f32; 3] {
    vectorized!(lanes::largest3(x: &[f32]) -> [f32; 3])
}

pub fn position(x: &[f32], value: f32) -> Option<usize> {
    vectorized!(lanes::position(x: &[f32], value: f32) -> Option<usize>)
}

/// For each row, the sum of its `n` largest of `count` values: row `r` begins at `r * stride`. `n` is from 1 to
/// `count`; `rows`, which may be reordered, hold `sums.len()` such rows.
pub fn largest_sums(rows: &mut [f32], stride: usize, count: usize, n: usize, sums: &mut [f32]) {
    vectorized!(lanes::largest_sums(rows: &mut [f32], stride: usize, count: usize, n: usize, sums: &mut [f32]))
}

mod lanes {
    use super::{FEW, LANES};

    /// Insert `falling` into lanes sorted in descending order; the smallest values drop out.
    #[inline(always)]
    fn insert(sorted: &mut [[f32; LANES]], mut falling: [f32; LANES]) {
        for best in sorted {
            for (best, v) in best.iter_mut().zip(&mut falling) {
                let higher = *v > *best;
                (*best, *v) = (if higher { *v } else { *best }, if higher { *best } else { *v });
            }
        }
    }

    #[inline(always)]
    pub(crate) fn largest3(x: &[f32]) -> [f32; 3] {
        let mut sorted = [[f32::NEG_INFINITY; LANES]; 3];
        let (whole, rest) = x.as_chunks::<LANES>();
        for chunk in whole {
            insert(&mut sorted, *chunk);
        }
        let mut most = [f32::NEG_INFINITY; 3];
        for &v in sorted.as_flattened().iter().chain(rest) {
            if v > most[0] {
                most = [v, most[0], most[1]];
            } else if v > most[1] {
                most = [most[0], v, most[1]];
            } else if v > most[2] {
                most[2] = v;
            }
        }
        most
    }

    #[inline(always)]
    pub fn position(x: &[f32], value: f32) -> Option<usize> {
        const GROUP: usize = 4 * LANES;
        for (at, group) in x.chunks(GROUP).enumerate() {
            let mut holds = false;
            for v in group {
                holds |= *v == value;
            }
            if holds {
                return Some(at * GROUP + group.iter().position(|v| *v == value)?);
            }
        }
        None
    }

    #[inline(always)]
    pub(crate) fn largest_sums(rows: &mut [f32], stride: usize, count: usize, n: usize, sums: &mut [f32]) {
        if n > FEW {
            for (row, sum) in rows.chunks_mut(stride).zip(sums) {
                let row = &mut row[..count];
                row.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
                *sum = row[..n].iter().sum();
            }
            return;
        }
        // A lane for each row.
        for (rows, sums) in rows.chunks(LANES * stride).zip(sums.chunks_mut(LANES)) {
            let mut sorted = [[f32::NEG_INFINITY; LANES]; FEW];
            let mut values = [0f32; LANES];
            for at in 0..count {
                for (value, row) in values.iter_mut().zip(rows.chunks(stride)) {
                    *value = row[at];
                }
                insert(&mut sorted[..n], values);
            }
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sorted[..n].iter().map(|best| best[lane]).sum();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Few different values, so that ties are common.
    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| (rng.random::<f32>() * 20.0).floor() - 13.0).collect()
    }

    fn descending(x: &[f32]) -> Vec<f32> {
        let mut sorted: Vec<f32> = x.iter().copied().filter(|v| !v.is_nan()).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted
    }

    #[test]
    fn largest3_and_position_agree_with_sorting_with_and_without_vectors() {
        for n in [0, 1, 2, 7, 8, 16, 31, 64, 65, 768, 1003] {
            let mut x = values(n, n as u64);
            if n > 20 {
                x[n / 3] = f32::NAN;
            }
            let mut sorted = descending(&x);
            sorted.resize(n.max(3), f32::NEG_INFINITY);
            assert_eq!(
                (largest3(&x), lanes::largest3(&x)),
                ([sorted[0], sorted[1], sorted[2]], largest3(&x)),
                "{n}"
            );
            let want = x.iter().position(|v| *v == sorted[0]);
            assert_eq!((position(&x, sorted[0]), lanes::position(&x, sorted[0])), (want, want), "{n}");
        }
    }

    #[test]
    fn largest_sums_agree_with_sorting_each_row() {
        for (rows, count, n) in
            [(1, 1, 1), (3, 40, 10), (10, 64, 10), (16, 17, 17), (17, 50, 32), (33, 90, 40)]
        {
            let stride = count + 3;
            let x = values(rows * stride, count as u64);
            let mut sums = vec![0f32; rows];
            largest_sums(&mut x.clone(), stride, count, n, &mut sums);
            for (row, sum) in sums.into_iter().enumerate() {
                let sorted = descending(&x[row * stride..row * stride + count]);
                assert_eq!(sum, sorted[..n].iter().sum::<f32>(), "row {row} of {rows}, {n} of {count}");
            }
        }
    }
}
