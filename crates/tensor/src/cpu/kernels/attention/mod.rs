//! Attention of several queries over the keys and values of one head, as the cache holds them.
//!
//! A segment of keys and values is converted once for all queries, to the form in which products take them, and stays in the
//! processor's cache: f32, or integers if the cache holds 16 or 8 bits. Scores become weights segment by segment; when a larger
//! score comes up, the sums before it are scaled down ([`OnlineSoftmax`]). A score, weight or sum is computed by the same operations
//! in the same order for any number of queries, on any processor.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod fixed;
mod portable;
mod q8;
mod softmax;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tiles;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

use std::ops::Range;

pub use fixed::{fix_key, fix_values, holds_fixed};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use q8::{Keys8, Queries8};
pub use softmax::OnlineSoftmax;

#[cfg(target_arch = "x86_64")]
use super::has_avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::int8::Int8;
use super::{BLOCK, SLOTS, quantize_q8, vectorized};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::{HalfKind, half::has_vectors};

/// Slots whose scores are turned into weights at once: the softmax of a row is computed over segments of this length, counted from
/// its first slot, in their order.
pub const SEGMENT: usize = 512;
/// Largest number of queries in a tile that prefetches the next segment: with more, computing takes longer than reading.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const FEW: usize = 4;

/// The instructions that products of integers use.
#[derive(Clone, Copy, Debug)]
pub enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Vectors(Int8),
    Portable,
}

impl Instructions {
    /// The best that this process may use.
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            return Self::Avx512;
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(int8) = Int8::detect() {
            return Self::Vectors(int8);
        }
        Self::Portable
    }

    /// All that this process may use.
    #[cfg(test)]
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Portable];
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        all.extend(Int8::all().map(Self::Vectors));
        #[cfg(target_arch = "x86_64")]
        all.extend(has_avx512().then_some(Self::Avx512));
        all
    }
}

/// Keys or values of one head from a slot on.
///
/// Keys are interleaved in blocks of [`SLOTS`] slots: block, then dimension, then lane. Values are rows. 8-bit values have
/// [`SIGN`](super::SIGN) flipped and are in words of four dimensions, which take the place of a dimension in the layout; a slot has
/// one scale for each
/// [`BLOCK`] dimensions.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    F32(&'a [f32]),
    F16(&'a [u16]),
    /// 16-bit integers, with a scale for each slot. Keys are in words of two dimensions, which take the place of a dimension in
    /// the layout; values in words of two slots, `2 * i` and `2 * i + 1`.
    Fixed {
        integers: &'a [i16],
        scales: &'a [f32],
    },
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
            Held::Fixed { integers, scales } => {
                Held::Fixed { integers: &integers[slot * d..], scales: &scales[slot..] }
            }
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
            Held::Fixed { integers, scales } => {
                integers.len() >= slots.next_multiple_of(2) * d && scales.len() >= slots
            }
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
    /// Quantized, if the keys are.
    quantized: Queries8,
    /// In fixed point, if the keys are, with a scale for each query.
    fixed: Vec<i16>,
    fixed_scales: Vec<f32>,
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
        match keys {
            Held::Q8 { .. } => self.quantized.set(d, &self.values),
            Held::Fixed { .. } => {
                self.fixed.resize(self.values.len(), 0);
                self.fixed_scales.clear();
                let rows = self.values.chunks_exact(d).zip(self.fixed.chunks_exact_mut(d));
                self.fixed_scales.extend(rows.map(|(query, integers)| fixed::fix_query(query, integers)));
            }
            Held::F32(_) | Held::F16(_) => {}
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

/// The weights of several queries on the slots of a segment.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    /// A row for each query, `stride` values from one to the next. A weight of 0 leaves a sum unchanged, so slots that a query does
    /// not see cost time but do not affect the result.
    pub rows: &'a [f32],
    pub stride: usize,
    pub slots: usize,
    /// What the sums of each query are multiplied with first.
    pub keep: &'a [f32],
}

impl Weights<'_> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    /// The weights of all queries but the first `n`.
    fn after(self, n: usize) -> Self {
        Self { rows: &self.rows[n * self.stride..], keep: &self.keep[n..], ..self }
    }

    /// Check that there are weights of `count` queries.
    fn check(&self, count: usize) {
        let Self { rows, stride, slots, keep } = self;
        let inside =
            *stride >= *slots && rows.len() + stride >= count * stride + slots && keep.len() == count;
        assert!(inside, "there are fewer weights");
    }
}

/// Keys and values of a segment, in the form in which products take them; the buffers are kept between uses.
#[derive(Default)]
pub struct Panel {
    keys: Vec<f32>,
    values: Vec<f32>,
    fixed: FixedPanel,
}

/// Values in fixed point, and weights.
#[derive(Default)]
struct FixedPanel {
    values: Vec<[i16; 2]>,
    scales: Vec<f32>,
    value_factors: Vec<i16>,
    weights: Vec<i16>,
    factors: Vec<f32>,
}

/// Keys and values of a segment.
pub struct Segment<'a> {
    d: usize,
    slots: usize,
    instructions: Instructions,
    keys: Keys<'a>,
    values: AttendedValues<'a>,
}

enum Keys<'a> {
    F32(&'a [f32]),
    Q8(Keys8<'a>),
    Fixed(fixed::FixedKeys<'a>),
}

enum AttendedValues<'a> {
    F32(&'a [f32]),
    Fixed {
        rows: fixed::FixedRows<'a>,
        scales: &'a [f32],
        weights: &'a mut Vec<i16>,
        factors: &'a mut Vec<f32>,
    },
}

impl Panel {
    /// The first `slots` slots of `keys` and `values`, heads of `d` values, for so many queries.
    pub fn load<'a>(
        &'a mut self,
        keys: Held<'a>,
        values: Held<'a>,
        slots: usize,
        d: usize,
        queries: usize,
    ) -> Segment<'a> {
        let (room, instructions) = (slots.next_multiple_of(SLOTS), Instructions::detect());
        keys.check(room, d);
        values.check(slots, d);
        let keys = match keys {
            Held::F32(keys) => Keys::F32(keys),
            Held::Q8 { quants, scales } => Keys::Q8(Keys8 { quants, scales }),
            Held::Fixed { integers, scales } => {
                Keys::Fixed(fixed::FixedKeys { words: integers.as_chunks().0, scales })
            }
            Held::F16(_) => {
                self.keys.resize(room * d, 0.0);
                widen_values(keys, d, &mut self.keys);
                Keys::F32(&self.keys)
            }
        };
        let values = match values {
            Held::F32(values) => AttendedValues::F32(values),
            Held::Fixed { .. } | Held::Q8 { .. } if holds_fixed(d) => {
                self.fixed.load(values, slots, d, queries, instructions)
            }
            values => {
                self.values.resize(slots * d, 0.0);
                widen_values(values, d, &mut self.values);
                AttendedValues::F32(&self.values)
            }
        };
        Segment { d, slots, instructions, keys, values }
    }
}

impl FixedPanel {
    /// Values of `slots` slots, for so many queries.
    fn load<'a>(
        &'a mut self,
        values: Held<'a>,
        slots: usize,
        d: usize,
        queries: usize,
        instructions: Instructions,
    ) -> AttendedValues<'a> {
        let even = slots.next_multiple_of(2);
        values.check(even, d);
        let Self { values: words, scales, value_factors, weights, factors } = self;
        let (rows, scales) = match values {
            Held::Fixed { integers, scales } => {
                let words = integers.as_chunks().0;
                (fixed::FixedRows::Converted(fixed::FixedValues { words, d }), scales)
            }
            Held::Q8 { quants, scales: held } => {
                scales.resize(slots.next_multiple_of(SLOTS), 0.0);
                value_factors.resize(even * scales_of(d), 0);
                fixed::factors(held, scales_of(d), &mut scales[..even], value_factors);
                let rows = fixed::ByteValues { quants: quants.as_flattened(), factors: value_factors, d };
                if queries <= instructions.direct() {
                    (fixed::FixedRows::Converting(rows), &scales[..])
                } else {
                    words.resize(even / 2 * d, [0; 2]);
                    fixed::convert(rows, words);
                    (fixed::FixedRows::Converted(fixed::FixedValues { words, d }), &scales[..])
                }
            }
            Held::F32(_) | Held::F16(_) => unreachable!("these values are widened"),
        };
        AttendedValues::Fixed { rows, scales, weights, factors }
    }
}

impl Segment<'_> {
    /// Scores of some of the queries against the first `slots` keys: `out[n * stride + j] = queries[range.start + n] · k[j]`.
    ///
    /// `stride` is at least `slots` rounded up to [`SLOTS`]; the values of a row beyond `slots` are unspecified.
    pub fn scores(
        &self,
        queries: &Queries,
        range: Range<usize>,
        slots: usize,
        out: &mut [f32],
        stride: usize,
    ) {
        let (blocks, d) = (slots.div_ceil(SLOTS), queries.d);
        assert!(slots <= self.slots && d == self.d && range.end <= queries.count(), "fewer slots or queries");
        assert!(stride >= blocks * SLOTS && out.len() + stride >= range.len() * stride + blocks * SLOTS);
        let q = &queries.values[range.start * d..range.end * d];
        match self.keys {
            Keys::F32(keys) => scores_f32(q, d, keys, blocks, out, stride),
            Keys::Q8(keys) => {
                self.instructions.scores_q8(&queries.quantized, range, keys, blocks, out, stride);
            }
            Keys::Fixed(keys) => self.instructions.scores_fixed(queries, range, keys, blocks, out, stride),
        }
    }

    /// `out[n] = keep[n] * out[n] + sum_j weights[n * stride + j] * values[j]`; `out` are rows of a head's values.
    pub fn add_weighted(&mut self, weights: Weights<'_>, out: &mut [f32]) {
        let (d, count) = (self.d, out.len() / self.d);
        assert!(weights.slots <= self.slots, "fewer slots are held");
        weights.check(count);
        match &mut self.values {
            AttendedValues::F32(values) => add_weighted_f32(weights, values, d, out),
            AttendedValues::Fixed { rows: values, scales, weights: integers, factors } => {
                assert!(weights.stride.is_multiple_of(SLOTS), "rows of weights are whole vectors");
                integers.resize(count * weights.stride, 0);
                factors.clear();
                let rows = weights.rows.chunks(weights.stride).zip(integers.chunks_exact_mut(weights.stride));
                factors.extend(
                    rows.map(|(row, integers)| {
                        fixed::quantize_weights(&row[..weights.slots], scales, integers)
                    }),
                );
                self.instructions.add_weighted_fixed(weights, integers, factors, *values, d, out);
            }
        }
    }
}

/// As `Segment::scores`, in f32: `queries` are rows of `d` values, `keys` `blocks` interleaved blocks.
pub fn scores_f32(queries: &[f32], d: usize, keys: &[f32], blocks: usize, out: &mut [f32], stride: usize) {
    let count = queries.len() / d;
    assert!(stride >= blocks * SLOTS && out.len() + stride >= count * stride + blocks * SLOTS);
    assert!(keys.len() >= blocks * d * SLOTS, "fewer keys than blocks");
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected; the caller checked the sizes.
        return unsafe { avx512::scores(queries, d, keys, blocks, out, stride) };
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if super::has_vectors() {
        // SAFETY: as above.
        return unsafe { vectors::scores(queries, d, keys, blocks, out, stride) };
    }
    portable::scores(queries, d, keys, blocks, out, stride);
}

/// As `Segment::add_weighted`, in f32.
pub fn add_weighted_f32(weights: Weights<'_>, values: &[f32], d: usize, out: &mut [f32]) {
    weights.check(out.len() / d);
    assert!(values.len() >= weights.slots * d, "fewer slots are held");
    #[cfg(target_arch = "x86_64")]
    if has_avx512() && d.is_multiple_of(16) {
        // SAFETY: the features were detected, and the assertions bound every access.
        return unsafe { avx512::add_weighted(weights, values, d, out) };
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if super::has_vectors() && d.is_multiple_of(8) {
        // SAFETY: as above.
        return unsafe { vectors::add_weighted(weights, values, d, out) };
    }
    vectorized!(portable::add_weighted(weights: Weights<'_>, values: &[f32], d: usize, out: &mut [f32]))
}

/// Widen as many values as `out` takes, in the order in which they are held: rows, or interleaved floats.
fn widen_values(held: Held<'_>, d: usize, out: &mut [f32]) {
    match held {
        Held::F32(values) => out.copy_from_slice(&values[..out.len()]),
        Held::F16(values) => {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            if has_vectors(HalfKind::F16) {
                // SAFETY: the features were detected.
                return unsafe { vectors::widen_f16(values, out) };
            }
            for (out, &bits) in out.iter_mut().zip(values) {
                *out = half::f16::from_bits(bits).to_f32();
            }
        }
        Held::Fixed { .. } => unreachable!("integers are multiplied as they are"),
        Held::Q8 { quants, scales } => portable::widen_q8(quants.as_flattened(), scales, d, out),
    }
}

#[cfg(test)]
mod tests;
