//! One row of the gated delta rule, for the state of one head: `key_dim` rows of [`COLUMNS`] value columns.

mod portable;

use super::vectorized;

/// Value columns of a state that are computed together.
pub const COLUMNS: usize = 16;

/// Sums over the rows of a state that run side by side.
const SUMS: usize = 4;

/// The values of one row in [`COLUMNS`] columns: one line of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(align(64))]
pub struct Columns(pub [f32; COLUMNS]);

/// A row's part of the rule that is the same for all columns of a head.
#[derive(Clone, Copy, Debug)]
pub struct DeltaRow<'a> {
    /// The key, of length 1.
    pub key: &'a [f32],
    pub query: &'a [f32],
    /// The share of its old values that the state keeps.
    pub decay: f32,
    /// How far the state turns to the new value.
    pub rate: f32,
}

/// `S ← decay · S`, `d = rate (value − Sᵀ key)`, `S ← S + key dᵀ`. Returns d and `Sᵀ query`.
pub fn delta_step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns) {
    assert!(row.key.len() == state.len() && row.query.len() == state.len(), "the row has another width");
    vectorized!(portable::step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns))
}

/// The change of the state in [`delta_step`], with the d that it returned: the same bits.
pub fn delta_replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns) {
    assert!(key.len() == state.len(), "the row has another width");
    vectorized!(portable::replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns))
}

/// `out[c] = silu(Σ weights[j][c] · rows[j][c])`: a causal convolution of each channel, and silu. `weights` are
/// `rows.len() × channels`.
pub fn convolve(rows: &[&[f32]], weights: &[f32], out: &mut [f32]) {
    let channels = out.len();
    let fits = rows.iter().all(|row| row.len() == channels) && weights.len() == rows.len() * channels;
    assert!(fits, "rows and weights differ in width");
    vectorized!(portable::convolve(rows: &[&[f32]], weights: &[f32], out: &mut [f32]))
}

/// `x[i] *= y[i]`.
pub fn multiply(y: &[f32], x: &mut [f32]) {
    assert!(y.len() == x.len(), "the factors differ in length");
    vectorized!(portable::multiply(y: &[f32], x: &mut [f32]))
}

/// `x[i] *= sigmoid(gates[i])`.
pub fn gate(gates: &[f32], x: &mut [f32]) {
    assert!(gates.len() == x.len(), "gates and values differ in length");
    vectorized!(portable::gate(gates: &[f32], x: &mut [f32]))
}

/// Divide a vector by `sqrt(Σ x² + 1e-6)`, and multiply it by `factor`.
pub fn unit_length(x: &mut [f32], factor: f32) {
    vectorized!(portable::unit_length(x: &mut [f32], factor: f32))
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

    type Step = fn(&mut [Columns], DeltaRow<'_>, &Columns) -> (Columns, Columns);
    type Replay = fn(&mut [Columns], &[f32], f32, &Columns);

    #[test]
    fn a_step_is_the_rule_and_a_replay_its_state() {
        let implementations: [(Step, Replay); 2] =
            [(delta_step, delta_replay), (portable::step, portable::replay)];
        for width in [1, 3, 4, 16, 130] {
            let results = implementations.map(|(step, replay)| follow(step, replay, width));
            assert!(results[0] == results[1], "{width}: other bits");
        }
    }

    /// Follow a few steps of both, and return the bits of what they computed.
    fn follow(step: Step, replay: Replay, width: usize) -> Vec<[u32; COLUMNS]> {
        let mut results = Vec::new();
        let columns = |seed| Columns(values(COLUMNS, seed).try_into().unwrap());
        let mut state: Vec<Columns> = (0..width).map(|i| columns(7 + i as u32)).collect();
        let mut replayed = state.clone();
        let mut exact: Vec<Vec<f64>> =
            state.iter().map(|row| row.0.iter().map(|v| f64::from(*v)).collect()).collect();
        for r in 0..5 {
            let (key, query) = (values(width, 100 + r), values(width, 200 + r));
            let value = columns(300 + r);
            let (decay, rate) = (0.9 - 0.1 * r as f32, 0.2 + 0.1 * r as f32);
            let row = DeltaRow { key: &key, query: &query, decay, rate };
            let (delta, out) = step(&mut state, row, &value);
            replay(&mut replayed, &key, decay, &delta);
            assert_eq!(state, replayed, "{width}");
            results.extend([delta, out].map(|columns| columns.0.map(f32::to_bits)));
            for c in 0..COLUMNS {
                exact.iter_mut().for_each(|row| row[c] *= f64::from(decay));
                let seen: f64 = exact.iter().zip(&key).map(|(row, k)| row[c] * f64::from(*k)).sum();
                let d = (f64::from(value.0[c]) - seen) * f64::from(rate);
                exact.iter_mut().zip(&key).for_each(|(row, k)| row[c] += f64::from(*k) * d);
                let o: f64 = exact.iter().zip(&query).map(|(row, q)| row[c] * f64::from(*q)).sum();
                let size = 1.0 + width as f64;
                assert!((f64::from(delta.0[c]) - d).abs() < 1e-5 * size, "{width} {r} {c}");
                assert!((f64::from(out.0[c]) - o).abs() < 1e-5 * size, "{width} {r} {c}");
            }
        }
        results
    }
}
