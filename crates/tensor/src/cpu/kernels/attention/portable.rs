//! Attention for processors without AVX2 and NEON, with the bits of the others, and widening that no other implementation does.

use super::{
    super::{BLOCK, LANES, SIGN, SLOTS},
    Weights, scales_of,
};

/// See [`super::scores`].
pub fn scores(queries: &[f32], d: usize, keys: &[f32], blocks: usize, out: &mut [f32], stride: usize) {
    for (q, out) in queries.chunks_exact(d).zip(out.chunks_mut(stride)) {
        for (block, out) in keys.chunks_exact(d * SLOTS).zip(out.chunks_exact_mut(SLOTS)).take(blocks) {
            out.fill(0.0);
            for (&q, k) in q.iter().zip(block.chunks_exact(SLOTS)) {
                for (o, k) in out.iter_mut().zip(k) {
                    *o = q.mul_add(*k, *o);
                }
            }
        }
    }
}

/// See [`super::add_weighted_f32`]. Inlined for the caller's instructions: a multiply-add is a call of a function without them.
#[inline(always)]
pub fn add_weighted(weights: Weights<'_>, values: &[f32], d: usize, out: &mut [f32]) {
    for (n, out) in out.chunks_exact_mut(d).enumerate() {
        let row = &weights.rows[n * weights.stride..][..weights.slots];
        for (columns, out) in out.chunks_mut(LANES).enumerate() {
            let mut sums = [0f32; LANES];
            for (&weight, value) in row.iter().zip(values.chunks_exact(d)) {
                for (sum, v) in sums.iter_mut().zip(&value[columns * LANES..][..out.len()]) {
                    *sum = weight.mul_add(*v, *sum);
                }
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = out.mul_add(weights.keep[n], sum));
        }
    }
}

fn widen(quant: u8, scale: f32) -> f32 {
    f32::from((quant ^ SIGN) as i8) * scale
}

/// Widen rows of 8-bit values.
pub(crate) fn widen_q8(quants: &[u8], scales: &[f32], d: usize, out: &mut [f32]) {
    let rows = out.chunks_exact_mut(d).zip(quants.chunks_exact(d)).zip(scales.chunks_exact(scales_of(d)));
    for ((out, quants), scales) in rows {
        for ((out, quants), &scale) in out.chunks_mut(BLOCK).zip(quants.chunks(BLOCK)).zip(scales) {
            for (out, &quant) in out.iter_mut().zip(quants) {
                *out = widen(quant, scale);
            }
        }
    }
}
