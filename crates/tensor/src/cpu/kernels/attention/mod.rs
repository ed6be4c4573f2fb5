//! Attention of several queries over the keys and values of one head, as the cache holds them.
//!
//! Values of 16 and 8 bits are widened to f32 while they are read; if many queries share them, a span of slots is widened once
//! for all. With VNNI, the scores of 8-bit keys are dot products in integers, and the queries are quantized for them. A score or
//! sum is computed by the same operations in the same order for any number of queries, however the slots are split into spans.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod tiles;

use super::{BLOCK, SLOTS, has_avx512, quantize_q8};
#[cfg(target_arch = "x86_64")]
use super::{HalfKind, half::has_vectors, has_avx2};

/// Queries up to which 16-bit keys and values are widened for each tile; more share a widened copy.
const DIRECT: usize = 8;

/// Keys or values of one head from a slot on.
///
/// Keys are interleaved in blocks of [`SLOTS`] slots: block, then dimension, then lane. Values are rows. 8-bit values are offset
/// by 128 and in words of four dimensions, which take the place of a dimension in the layout; a slot has one scale for each
/// [`BLOCK`] dimensions.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    F32(&'a [f32]),
    F16(&'a [u16]),
    /// 8-bit values with scales.
    Q8 {
        /// Words of four values.
        quants: &'a [[u8; 4]],
        scales: &'a [f32],
    },
}

/// Scales of a head of `d` values in 8 bits.
pub fn scales_of(d: usize) -> usize {
    d.div_ceil(BLOCK)
}

impl Held<'_> {
    /// The same from the slot `slot` on, a multiple of [`SLOTS`], for heads of `d` values.
    pub fn from_slot(self, slot: usize, d: usize) -> Self {
        debug_assert!(slot.is_multiple_of(SLOTS));
        match self {
            Held::F32(values) => Held::F32(&values[slot * d..]),
            Held::F16(values) => Held::F16(&values[slot * d..]),
            Held::Q8 { quants, scales } => {
                Held::Q8 { quants: &quants[slot * d / 4..], scales: &scales[slot * scales_of(d)..] }
            }
        }
    }

    /// Check that `slots` slots are held.
    fn check(&self, slots: usize, d: usize) {
        let held = match self {
            Held::F32(values) => values.len() >= slots * d,
            Held::F16(values) => values.len() >= slots * d,
            Held::Q8 { quants, scales } => {
                quants.len() >= slots * d / 4 && scales.len() >= slots * scales_of(d)
            }
        };
        assert!(held, "fewer slots are held");
    }
}

/// Queries of `d` values, with the forms that scores need; the buffers are kept between uses.
#[derive(Default)]
pub struct Queries {
    d: usize,
    values: Vec<f32>,
    /// Quantized, if the keys are: in blocks of up to [`BLOCK`], each with a scale and with -128 times the sum of its values,
    /// which cancels the offset of the keys.
    quants: Vec<i8>,
    scales: Vec<f32>,
    offsets: Vec<i32>,
}

impl Queries {
    /// Replace all queries by `queries`, each of `d` values, times `scale`; for scores of such keys.
    pub fn set<'a>(
        &mut self,
        d: usize,
        scale: f32,
        queries: impl Iterator<Item = &'a [f32]>,
        keys: Held<'_>,
    ) {
        self.d = d;
        self.values.clear();
        for query in queries {
            self.values.extend(query[..d].iter().map(|v| v * scale));
        }
        if matches!(keys, Held::Q8 { .. }) && has_avx512() {
            let (count, blocks) = (self.count(), scales_of(d));
            self.quants.resize(count * d, 0);
            self.scales.resize(count * blocks, 0.0);
            self.offsets.resize(count * blocks, 0);
            for n in 0..count {
                let (quants, blocks) = (&mut self.quants[n * d..][..d], n * blocks..(n + 1) * blocks);
                quantize_chunks(&self.values[n * d..][..d], quants, &mut self.scales[blocks.clone()]);
                for (offset, quants) in self.offsets[blocks].iter_mut().zip(quants.chunks(BLOCK)) {
                    *offset = quants.iter().map(|&q| i32::from(q)).sum::<i32>() * -128;
                }
            }
        }
    }

    pub fn count(&self) -> usize {
        self.values.len() / self.d.max(1)
    }
}

/// Quantize a row to 8 bits: blocks of [`BLOCK`] values, the last one perhaps shorter, with one scale each.
pub fn quantize_chunks(row: &[f32], quants: &mut [i8], scales: &mut [f32]) {
    let whole = row.len() / BLOCK;
    let (head, rest) = row.split_at(whole * BLOCK);
    let (scales, last) = scales.split_at_mut(whole);
    quantize_q8(head, &mut quants[..head.len()], scales);
    if let [last] = &mut *last {
        let (mut padded, mut padded_quants) = ([0f32; BLOCK], [0i8; BLOCK]);
        padded[..rest.len()].copy_from_slice(rest);
        quantize_q8(&padded, &mut padded_quants, std::slice::from_mut(last));
        quants[head.len()..].copy_from_slice(&padded_quants[..rest.len()]);
    }
    // The search for the largest magnitude may pass over NaN.
    for (scale, block) in scales.iter_mut().chain(last).zip(row.chunks(BLOCK)) {
        if !block.iter().all(|v| v.is_finite()) {
            *scale = f32::NAN;
        }
    }
}

/// Round a row to 16-bit floats; finite values stay finite.
pub fn narrow(row: &[f32], out: &mut [u16]) {
    for (out, &v) in out.iter_mut().zip(row) {
        let largest = f32::from(half::f16::MAX);
        let v = if v.is_finite() { v.clamp(-largest, largest) } else { v };
        *out = half::f16::from_f32(v).to_bits();
    }
}

/// Scores of queries against the first `slots` keys: `out[n * stride + j] = queries[n] · k[j]`.
///
/// `stride` is at least `slots` rounded up to [`SLOTS`]; the values of a row beyond `slots` are unspecified. `wide` is a buffer.
pub fn scores(
    queries: &Queries,
    keys: Held<'_>,
    slots: usize,
    wide: &mut Vec<f32>,
    out: &mut [f32],
    stride: usize,
) {
    let (blocks, count, d) = (slots.div_ceil(SLOTS), queries.count(), queries.d);
    let q = &queries.values;
    keys.check(blocks * SLOTS, d);
    assert!(stride >= blocks * SLOTS && out.len() + stride >= count * stride + blocks * SLOTS);
    match keys {
        Held::F32(keys) => scores_f32(q, d, keys, blocks, out, stride),
        #[cfg(target_arch = "x86_64")]
        Held::F16(keys) if count <= DIRECT && has_avx2() && has_vectors(HalfKind::F16) => {
            // SAFETY: the features were detected, and the assertions above bound every access.
            unsafe {
                if has_avx512() {
                    avx512::half::scores(q, d, keys, blocks, out, stride);
                } else {
                    avx2::half::scores(q, d, keys, blocks, out, stride);
                }
            }
        }
        #[cfg(target_arch = "x86_64")]
        Held::Q8 { quants, scales } if has_avx512() => {
            assert!(queries.quants.len() == q.len(), "the queries are not quantized");
            // SAFETY: as above.
            unsafe { avx512::scores_q8(queries, quants, scales, blocks, out, stride) }
        }
        _ => {
            wide.resize(blocks * SLOTS * d, 0.0);
            match keys {
                Held::Q8 { quants, scales } => portable::widen_keys(quants, scales, d, wide),
                keys => widen_values(keys, d, wide),
            }
            scores_f32(q, d, wide, blocks, out, stride);
        }
    }
}

/// As [`scores`], in f32: `queries` are rows of `d` values, `keys` `blocks` interleaved blocks.
pub fn scores_f32(queries: &[f32], d: usize, keys: &[f32], blocks: usize, out: &mut [f32], stride: usize) {
    let count = queries.len() / d;
    assert!(stride >= blocks * SLOTS && out.len() + stride >= count * stride + blocks * SLOTS);
    assert!(keys.len() >= blocks * d * SLOTS, "fewer keys than blocks");
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected; the caller checked the sizes.
        return unsafe { avx512::scores(queries, d, keys, blocks, out, stride) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as above.
        return unsafe { avx2::scores(queries, d, keys, blocks, out, stride) };
    }
    portable::scores(queries, d, keys, blocks, out, stride);
}

/// Add weighted value rows to the sums of several queries: `out[n] += sum_j weights[n * stride + j] * values[j]`, `j < slots`.
///
/// `out` are rows of `d` values. A weight of 0 leaves a sum unchanged, so slots that a query does not see cost time but do not
/// affect the result. `wide` is a buffer.
pub fn add_weighted(
    weights: &[f32],
    stride: usize,
    values: Held<'_>,
    slots: usize,
    d: usize,
    wide: &mut Vec<f32>,
    out: &mut [f32],
) {
    let count = out.len() / d;
    values.check(slots, d);
    assert!(stride >= slots && weights.len() + stride >= count * stride + slots);
    match values {
        Held::F32(values) => add_weighted_f32(weights, stride, values, slots, d, out),
        #[cfg(target_arch = "x86_64")]
        Held::F16(values)
            if count <= DIRECT && has_avx2() && has_vectors(HalfKind::F16) && d.is_multiple_of(8) =>
        {
            // SAFETY: the features were detected, and the assertions above bound every access.
            unsafe {
                if has_avx512() && d.is_multiple_of(16) {
                    avx512::half::add_weighted(weights, stride, values, slots, d, out);
                } else {
                    avx2::half::add_weighted(weights, stride, values, slots, d, out);
                }
            }
        }
        _ => {
            wide.resize(slots * d, 0.0);
            widen_values(values, d, wide);
            add_weighted_f32(weights, stride, wide, slots, d, out);
        }
    }
}

fn add_weighted_f32(weights: &[f32], stride: usize, values: &[f32], slots: usize, d: usize, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() && d.is_multiple_of(16) {
        // SAFETY: the features were detected; the caller checked the sizes.
        return unsafe { avx512::add_weighted(weights, stride, values, slots, d, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() && d.is_multiple_of(8) {
        // SAFETY: as above.
        return unsafe { avx2::add_weighted(weights, stride, values, slots, d, out) };
    }
    portable::add_weighted(weights, stride, values, slots, d, out);
}

/// Widen as many values as `out` takes, in the order in which they are held: rows, or interleaved floats.
fn widen_values(held: Held<'_>, d: usize, out: &mut [f32]) {
    match held {
        Held::F32(values) => out.copy_from_slice(&values[..out.len()]),
        Held::F16(values) => {
            #[cfg(target_arch = "x86_64")]
            if has_avx512() {
                // SAFETY: the features were detected; the function takes the shorter length.
                return unsafe { avx512::widen_f16(values, out) };
            }
            for (out, &bits) in out.iter_mut().zip(values) {
                *out = half::f16::from_bits(bits).to_f32();
            }
        }
        Held::Q8 { quants, scales } => {
            #[cfg(target_arch = "x86_64")]
            if has_avx512() && d.is_multiple_of(BLOCK) {
                // SAFETY: the features were detected; the function takes the shorter length.
                return unsafe { avx512::widen_q8(quants.as_flattened(), scales, out) };
            }
            portable::widen_q8(quants.as_flattened(), scales, d, out);
        }
    }
}

#[cfg(test)]
mod tests;
