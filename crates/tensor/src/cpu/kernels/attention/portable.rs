//! Attention for processors without AVX2 and NEON, and widening that no other implementation does.

use super::{
    super::{BLOCK, LANES, SLOTS},
    Weights, scales_of,
};

/// See [`super::scores`].
pub fn scores(queries: &[f32], d: usize, keys: &[f32], blocks: usize, out: &mut [f32], stride: usize) {
    for (q, out) in queries.chunks_exact(d).zip(out.chunks_mut(stride)) {
        for (block, out) in keys.chunks_exact(d * SLOTS).zip(out.chunks_exact_mut(SLOTS)).take(blocks) {
            out.fill(0.0);
            for (&q, k) in q.iter().zip(block.chunks_exact(SLOTS)) {
                for (o, k) in out.iter_mut().zip(k) {
                    *o += q * k;
                }
            }
        }
    }
}

/// See [`super::add_weighted`].
pub fn add_weighted(weights: Weights<'_>, values: &[f32], d: usize, out: &mut [f32]) {
    for (n, out) in out.chunks_exact_mut(d).enumerate() {
        let row = &weights.rows[n * weights.stride..][..weights.slots];
        for (columns, out) in out.chunks_mut(LANES).enumerate() {
            let mut sums = [0f32; LANES];
            for (&weight, value) in row.iter().zip(values.chunks_exact(d)) {
                for (sum, v) in sums.iter_mut().zip(&value[columns * LANES..][..out.len()]) {
                    *sum += weight * v;
                }
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = *out * weights.keep[n] + sum);
        }
    }
}

fn widen(quant: u8, scale: f32) -> f32 {
    f32::from(i16::from(quant) - 128) * scale
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

/// Widen interleaved 8-bit keys to interleaved floats.
pub(crate) fn widen_keys(quants: &[[u8; 4]], scales: &[f32], d: usize, out: &mut [f32]) {
    let blocks = out.chunks_exact_mut(d * SLOTS).zip(quants.chunks_exact(d / 4 * SLOTS));
    for ((out, quants), scales) in blocks.zip(scales.chunks_exact(scales_of(d) * SLOTS)) {
        for (i, out) in out.chunks_exact_mut(SLOTS).enumerate() {
            let (words, scales) = (&quants[i / 4 * SLOTS..][..SLOTS], &scales[i / BLOCK * SLOTS..][..SLOTS]);
            for ((out, word), &scale) in out.iter_mut().zip(words).zip(scales) {
                *out = widen(word[i % 4], scale);
            }
        }
    }
}
