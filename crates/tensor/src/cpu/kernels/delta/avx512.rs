//! The gated delta rule with AVX-512: one vector is one row of a state.

use std::arch::x86_64::*;

use super::{Columns, DeltaRow, SUMS};

#[target_feature(enable = "avx512f")]
pub fn step(state: &mut [Columns], row: DeltaRow<'_>, value: &Columns) -> (Columns, Columns) {
    let ((rows, last), (keys, last_keys)) = (state.as_chunks::<SUMS>(), row.key.as_chunks::<SUMS>());
    let mut sums = [_mm512_setzero_ps(); SUMS];
    for (rows, keys) in rows.iter().zip(keys) {
        for at in 0..SUMS {
            sums[at] = _mm512_fmadd_ps(load(&rows[at]), _mm512_set1_ps(keys[at]), sums[at]);
        }
    }
    for ((sum, held), key) in sums.iter_mut().zip(last).zip(last_keys) {
        *sum = _mm512_fmadd_ps(load(held), _mm512_set1_ps(*key), *sum);
    }
    let decay = _mm512_set1_ps(row.decay);
    let change = _mm512_fnmadd_ps(decay, total(sums), load(value));
    let delta = _mm512_mul_ps(change, _mm512_set1_ps(row.rate));
    let (rows, last) = state.as_chunks_mut::<SUMS>();
    let (queries, last_queries) = row.query.as_chunks::<SUMS>();
    let mut sums = [_mm512_setzero_ps(); SUMS];
    for ((rows, keys), queries) in rows.iter_mut().zip(keys).zip(queries) {
        for at in 0..SUMS {
            let held = turn(&mut rows[at], keys[at], decay, delta);
            sums[at] = _mm512_fmadd_ps(held, _mm512_set1_ps(queries[at]), sums[at]);
        }
    }
    for (((sum, held), key), query) in sums.iter_mut().zip(last).zip(last_keys).zip(last_queries) {
        let held = turn(held, *key, decay, delta);
        *sum = _mm512_fmadd_ps(held, _mm512_set1_ps(*query), *sum);
    }
    (stored(delta), stored(total(sums)))
}

#[target_feature(enable = "avx512f")]
pub fn replay(state: &mut [Columns], key: &[f32], decay: f32, delta: &Columns) {
    let (decay, delta) = (_mm512_set1_ps(decay), load(delta));
    for (held, key) in state.iter_mut().zip(key) {
        turn(held, *key, decay, delta);
    }
}

/// `held ← decay · held + key · delta`.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn(held: &mut Columns, key: f32, decay: __m512, delta: __m512) -> __m512 {
    let turned = _mm512_fmadd_ps(_mm512_set1_ps(key), delta, _mm512_mul_ps(load(held), decay));
    // SAFETY: 16 values.
    unsafe { _mm512_storeu_ps(held.0.as_mut_ptr(), turned) };
    turned
}

#[inline]
#[target_feature(enable = "avx512f")]
fn total([a, b, c, d]: [__m512; SUMS]) -> __m512 {
    _mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(columns: &Columns) -> __m512 {
    // SAFETY: 16 values.
    unsafe { _mm512_loadu_ps(columns.0.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn stored(values: __m512) -> Columns {
    let mut columns = Columns::default();
    // SAFETY: 16 values.
    unsafe { _mm512_storeu_ps(columns.0.as_mut_ptr(), values) };
    columns
}
