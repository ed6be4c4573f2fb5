//! The gated delta rule, in loops that the compiler vectorizes: a row of a state is one vector, or two.

use super::{COLUMNS, Columns, DeltaRow, SUMS};
use crate::cpu::kernels::exp;

#[inline(always)]
pub fn step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns) {
    let mut sums = [Columns::default(); SUMS];
    let ((rows, last), (keys, last_keys)) = (state.as_chunks::<SUMS>(), row.key.as_chunks::<SUMS>());
    for (rows, keys) in rows.iter().zip(keys) {
        for at in 0..SUMS {
            add_weighted(&rows[at], keys[at], &mut sums[at]);
        }
    }
    for ((sum, held), key) in sums.iter_mut().zip(last).zip(last_keys) {
        add_weighted(held, *key, sum);
    }
    let seen = total(sums);
    let mut delta = Columns::default();
    for ((delta, value), seen) in delta.0.iter_mut().zip(&value.0).zip(&seen.0) {
        *delta = (-row.decay).mul_add(*seen, *value) * row.rate;
    }
    let mut sums = [Columns::default(); SUMS];
    let (rows, last) = state.as_chunks_mut::<SUMS>();
    let (queries, last_queries) = row.query.as_chunks::<SUMS>();
    for ((rows, keys), queries) in rows.iter_mut().zip(keys).zip(queries) {
        for at in 0..SUMS {
            turn(&mut rows[at], keys[at], row.decay, &delta);
            add_weighted(&rows[at], queries[at], &mut sums[at]);
        }
    }
    for (((sum, held), key), query) in sums.iter_mut().zip(last).zip(last_keys).zip(last_queries) {
        turn(held, *key, row.decay, &delta);
        add_weighted(held, *query, sum);
    }
    (delta, total(sums))
}

#[inline(always)]
pub fn replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns) {
    for (held, key) in state.iter_mut().zip(key) {
        turn(held, *key, decay, delta);
    }
}

#[inline(always)]
fn turn(held: &mut Columns, key: f32, decay: f32, delta: &Columns) {
    for (held, delta) in held.0.iter_mut().zip(&delta.0) {
        *held = key.mul_add(*delta, *held * decay);
    }
}

#[inline(always)]
fn add_weighted(held: &Columns, weight: f32, sum: &mut Columns) {
    for (sum, held) in sum.0.iter_mut().zip(&held.0) {
        *sum = held.mul_add(weight, *sum);
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
    let mut all = Columns::default();
    for (at, all) in all.0.iter_mut().enumerate() {
        *all = (a.0[at] + b.0[at]) + (c.0[at] + d.0[at]);
    }
    all
}
