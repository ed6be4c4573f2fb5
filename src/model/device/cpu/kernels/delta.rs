//! One row of the gated delta rule, for the state of one head: `key_dim` rows of [`COLUMNS`] value columns.

use super::with_avx2;

/// Value columns of a state that are computed together.
pub const COLUMNS: usize = 16;

/// The values of one row in [`COLUMNS`] columns.
pub type Columns = [f32; COLUMNS];

/// A row's part of the rule that is the same for all columns of a head.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRow<'a> {
    /// The key, of length 1.
    pub key: &'a [f32],
    /// The query.
    pub query: &'a [f32],
    /// What the state keeps of what it held.
    pub decay: f32,
    /// How far the state turns to the new value.
    pub rate: f32,
}

/// `S ← decay · S`, `d = rate (value − Sᵀ key)`, `S ← S + key dᵀ`. Returns d and `Sᵀ query`.
pub fn delta_step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns) {
    assert!(row.key.len() == state.len() && row.query.len() == state.len(), "the row has another width");
    with_avx2!(portable::step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns))
}

/// The change of the state in [`delta_step`], with the d that it returned: the same bits.
pub fn delta_replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns) {
    assert!(key.len() == state.len(), "the row has another width");
    with_avx2!(portable::replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns))
}

/// `out[c] = silu(Σ weights[j][c] · rows[j][c])`: a causal convolution of each channel, and silu. `weights` are
/// `rows.len() × channels`.
pub fn convolve(rows: &[&[f32]], weights: &[f32], out: &mut [f32]) {
    let channels = out.len();
    let fits = rows.iter().all(|row| row.len() == channels) && weights.len() == rows.len() * channels;
    assert!(fits, "rows and weights differ in width");
    with_avx2!(portable::convolve(rows: &[&[f32]], weights: &[f32], out: &mut [f32]))
}

/// `x[i] *= y[i]`.
pub fn multiply(y: &[f32], x: &mut [f32]) {
    assert!(y.len() == x.len(), "the factors differ in length");
    with_avx2!(portable::multiply(y: &[f32], x: &mut [f32]))
}

/// `x[i] *= sigmoid(gates[i])`.
pub fn gate(gates: &[f32], x: &mut [f32]) {
    assert!(gates.len() == x.len(), "gates and values differ in length");
    with_avx2!(portable::gate(gates: &[f32], x: &mut [f32]))
}

/// Divide a vector by `sqrt(Σ x² + 1e-6)`, and multiply it by `factor`.
pub fn unit_length(x: &mut [f32], factor: f32) {
    with_avx2!(portable::unit_length(x: &mut [f32], factor: f32))
}

mod portable {
    use super::{COLUMNS, Columns, DeltaRow};
    use crate::model::device::cpu::kernels::exp;

    /// Sums that run side by side.
    const SUMS: usize = 4;

    #[inline(always)]
    pub fn step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns) {
        let mut sums = [[0f32; COLUMNS]; SUMS];
        for (rows, keys) in state.chunks(SUMS).zip(row.key.chunks(SUMS)) {
            for ((sum, row), key) in sums.iter_mut().zip(rows).zip(keys) {
                for (sum, value) in sum.iter_mut().zip(row) {
                    *sum += value * key;
                }
            }
        }
        let seen = total(sums);
        let mut delta = [0f32; COLUMNS];
        for ((delta, value), seen) in delta.iter_mut().zip(value).zip(&seen) {
            *delta = (value - row.decay * seen) * row.rate;
        }
        let mut sums = [[0f32; COLUMNS]; SUMS];
        let (keys, queries) = (row.key.chunks(SUMS), row.query.chunks(SUMS));
        for ((rows, keys), queries) in state.chunks_mut(SUMS).zip(keys).zip(queries) {
            for (((sum, held), key), query) in sums.iter_mut().zip(rows).zip(keys).zip(queries) {
                add(held, *key, row.decay, &delta);
                for (sum, held) in sum.iter_mut().zip(held) {
                    *sum += *held * query;
                }
            }
        }
        (delta, total(sums))
    }

    #[inline(always)]
    pub fn replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns) {
        for (held, key) in state.iter_mut().zip(key) {
            add(held, *key, decay, delta);
        }
    }

    #[inline(always)]
    fn add(held: &mut Columns, key: f32, decay: f32, delta: &Columns) {
        for (held, delta) in held.iter_mut().zip(delta) {
            *held = *held * decay + key * delta;
        }
    }

    #[inline(always)]
    pub fn convolve(rows: &[&[f32]], weights: &[f32], out: &mut [f32]) {
        let channels = out.len();
        out.fill(0.0);
        for (row, weights) in rows.iter().zip(weights.chunks_exact(channels.max(1))) {
            for ((out, value), weight) in out.iter_mut().zip(*row).zip(weights) {
                *out += value * weight;
            }
        }
        for value in out {
            *value /= 1.0 + exp(-*value);
        }
    }

    #[inline(always)]
    pub fn multiply(y: &[f32], x: &mut [f32]) {
        for (x, y) in x.iter_mut().zip(y) {
            *x *= y;
        }
    }

    #[inline(always)]
    pub fn gate(gates: &[f32], x: &mut [f32]) {
        for (value, gate) in x.iter_mut().zip(gates) {
            *value /= 1.0 + exp(-*gate);
        }
    }

    #[inline(always)]
    pub fn unit_length(x: &mut [f32], factor: f32) {
        let mut lanes = [0f32; COLUMNS];
        let (chunks, rest) = x.as_chunks::<COLUMNS>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane += value * value;
            }
        }
        let squares = lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>();
        let factor = factor / (squares + 1e-6).sqrt();
        for value in x {
            *value *= factor;
        }
    }

    #[inline(always)]
    fn total([a, b, c, d]: [Columns; SUMS]) -> Columns {
        let mut all = [0f32; COLUMNS];
        for (at, all) in all.iter_mut().enumerate() {
            *all = (a[at] + b[at]) + (c[at] + d[at]);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that differ, in -1..1.
    fn values(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 * 2.0 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn a_step_is_the_rule_and_a_replay_its_state() {
        for width in [1, 3, 4, 16, 130] {
            let mut state: Vec<Columns> =
                (0..width).map(|i| values(COLUMNS, 7 + i as u32).try_into().unwrap()).collect();
            let mut replayed = state.clone();
            let mut exact: Vec<Vec<f64>> =
                state.iter().map(|row| row.iter().map(|v| f64::from(*v)).collect()).collect();
            for r in 0..5 {
                let (key, query) = (values(width, 100 + r), values(width, 200 + r));
                let value: Columns = values(COLUMNS, 300 + r).try_into().unwrap();
                let (decay, rate) = (0.9 - 0.1 * r as f32, 0.2 + 0.1 * r as f32);
                let row = DeltaRow { key: &key, query: &query, decay, rate };
                let (delta, out) = delta_step(&mut state, row, &value);
                delta_replay(&mut replayed, &key, decay, &delta);
                assert_eq!(state, replayed, "{width}");
                for c in 0..COLUMNS {
                    exact.iter_mut().for_each(|row| row[c] *= f64::from(decay));
                    let seen: f64 = exact.iter().zip(&key).map(|(row, k)| row[c] * f64::from(*k)).sum();
                    let d = (f64::from(value[c]) - seen) * f64::from(rate);
                    exact.iter_mut().zip(&key).for_each(|(row, k)| row[c] += f64::from(*k) * d);
                    let o: f64 = exact.iter().zip(&query).map(|(row, q)| row[c] * f64::from(*q)).sum();
                    let size = 1.0 + width as f64;
                    assert!((f64::from(delta[c]) - d).abs() < 1e-5 * size, "{width} {r} {c}");
                    assert!((f64::from(out[c]) - o).abs() < 1e-5 * size, "{width} {r} {c}");
                }
            }
        }
    }
}
