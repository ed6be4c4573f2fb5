//! Attention of several queries over the keys and values of one head, as the cache holds them.
//!
//! A segment of keys and values is converted once for all queries, to the form in which products take them, and stays in the
//! processor's cache: f32, or integers with AVX-512 and VNNI, if the cache holds 16 or 8 bits. Scores become weights segment by
//! segment; when a larger score comes up, the sums before it are scaled down ([`OnlineSoftmax`]). A score, weight or sum is
//! computed by the same operations in the same order for any number of queries.

#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod fixed;
mod portable;
mod softmax;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tiles;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

use std::ops::Range;

pub use softmax::OnlineSoftmax;

use super::{BLOCK, SLOTS, has_avx512, quantize_q8};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::{HalfKind, half::has_vectors};

/// Slots whose scores are turned into weights at once: the softmax of a row is computed over segments of this length, counted from
/// its first slot, in their order.
pub const SEGMENT: usize = 512;
/// Queries up to which 16-bit keys and values are widened for each tile; more share a widened copy.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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
    /// Quantized, if the keys are: in blocks of up to [`BLOCK`], each with a scale and with -128 times the sum of its values,
    /// which cancels the offset of the keys.
    quants: Vec<i8>,
    scales: Vec<f32>,
    offsets: Vec<i32>,
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
        #[cfg(target_arch = "x86_64")]
        if matches!(keys, Held::Fixed { .. }) {
            self.fixed.resize(self.values.len(), 0);
            self.fixed_scales.clear();
            for (query, fixed) in self.values.chunks_exact(d).zip(self.fixed.chunks_exact_mut(d)) {
                // SAFETY: the features were detected, or nothing were held so.
                self.fixed_scales.push(unsafe { fixed::fix_query(query, fixed) });
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

/// True if this processor holds keys and values of 16 bits in fixed point: its integer dot products are the fastest.
pub fn holds_fixed(d: usize) -> bool {
    has_avx512() && d.is_multiple_of(BLOCK)
}

/// The largest magnitude of integers in a key.
const LARGEST_KEY: f32 = 8192.0;
/// The largest magnitude of integers in a row of values.
const LARGEST_VALUE: f32 = 4096.0;

/// Convert a key to fixed point; returns the scale, which is not a number if a value is not finite.
pub fn fix_key(key: &[f32], out: &mut [i16]) -> f32 {
    fix(key, LARGEST_KEY, out)
}

/// Convert a row of values to fixed point, as [`fix_key`].
pub fn fix_values(values: &[f32], out: &mut [i16]) -> f32 {
    fix(values, LARGEST_VALUE, out)
}

fn fix(row: &[f32], largest: f32, out: &mut [i16]) -> f32 {
    assert!(holds_fixed(row.len()) && out.len() == row.len(), "the row is not held in fixed point");
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the features were detected.
    return unsafe { fixed::fix(row, largest, out) };
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("{largest}: only AVX-512 holds fixed point");
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
    /// Those of all queries but the first `n`.
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
    #[cfg(target_arch = "x86_64")]
    fixed: FixedPanel,
}

/// Values in fixed point, and weights.
#[cfg(target_arch = "x86_64")]
#[derive(Default)]
struct FixedPanel {
    values: Vec<[i16; 2]>,
    scales: Vec<f32>,
    value_factors: Vec<f32>,
    weights: Vec<i16>,
    factors: Vec<f32>,
}

/// Keys and values of a segment.
pub struct Segment<'a> {
    d: usize,
    slots: usize,
    keys: Keys<'a>,
    values: Values<'a>,
}

enum Keys<'a> {
    F32(&'a [f32]),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    F16(&'a [u16]),
    #[cfg(target_arch = "x86_64")]
    Q8(&'a [[u8; 4]], &'a [f32]),
    #[cfg(target_arch = "x86_64")]
    Fixed(fixed::FixedKeys<'a>),
}

enum Values<'a> {
    F32(&'a [f32]),
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    F16(&'a [u16]),
    #[cfg(target_arch = "x86_64")]
    Fixed {
        rows: FixedRows<'a>,
        scales: &'a [f32],
        weights: &'a mut Vec<i16>,
        factors: &'a mut Vec<f32>,
    },
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum FixedRows<'a> {
    Converting(fixed::ByteValues<'a>),
    Converted(fixed::FixedValues<'a>),
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
        let room = slots.next_multiple_of(SLOTS);
        keys.check(room, d);
        values.check(slots, d);
        #[cfg(target_arch = "x86_64")]
        if let Held::Fixed { .. } | Held::Q8 { .. } = values
            && holds_fixed(d)
        {
            return self.fixed.load(keys, values, slots, d, queries);
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let direct = queries <= DIRECT && has_vectors(HalfKind::F16) && !has_avx512();
        let keys = match keys {
            Held::F32(keys) => Keys::F32(keys),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Held::F16(keys) if direct => Keys::F16(keys),
            #[cfg(target_arch = "x86_64")]
            Held::Q8 { quants, scales } if has_avx512() => Keys::Q8(quants, scales),
            keys => {
                self.keys.resize(room * d, 0.0);
                match keys {
                    Held::Q8 { quants, scales } => portable::widen_keys(quants, scales, d, &mut self.keys),
                    keys => widen_values(keys, d, &mut self.keys),
                }
                Keys::F32(&self.keys)
            }
        };
        let values = match values {
            Held::F32(values) => Values::F32(values),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Held::F16(values) if direct && d.is_multiple_of(8) => Values::F16(values),
            values => {
                self.values.resize(slots * d, 0.0);
                widen_values(values, d, &mut self.values);
                Values::F32(&self.values)
            }
        };
        Segment { d, slots, keys, values }
    }
}

#[cfg(target_arch = "x86_64")]
impl FixedPanel {
    fn load<'a>(
        &'a mut self,
        keys: Held<'a>,
        values: Held<'a>,
        slots: usize,
        d: usize,
        queries: usize,
    ) -> Segment<'a> {
        let even = slots.next_multiple_of(2);
        values.check(even, d);
        let keys = match keys {
            Held::Q8 { quants, scales } => Keys::Q8(quants, scales),
            Held::Fixed { integers, scales } => {
                Keys::Fixed(fixed::FixedKeys { words: integers.as_chunks().0, scales })
            }
            Held::F32(_) | Held::F16(_) => unreachable!("keys are of the values' type"),
        };
        let Self { values: words, scales, value_factors, weights, factors } = self;
        let (rows, scales) = match values {
            Held::Fixed { integers, scales } => {
                let words = integers.as_chunks().0;
                (FixedRows::Converted(fixed::FixedValues { words, d }), scales)
            }
            Held::Q8 { quants, scales: held } => {
                scales.resize(slots.next_multiple_of(SLOTS), 0.0);
                value_factors.resize(even * scales_of(d), 0.0);
                fixed::factors(held, scales_of(d), &mut scales[..even], value_factors);
                let rows = fixed::ByteValues { quants: quants.as_flattened(), factors: value_factors, d };
                if queries <= fixed::DIRECT {
                    (FixedRows::Converting(rows), &scales[..])
                } else {
                    words.resize(even / 2 * d, [0; 2]);
                    // SAFETY: the features were detected; the values were checked.
                    unsafe { fixed::convert(rows, words) };
                    (FixedRows::Converted(fixed::FixedValues { words, d }), &scales[..])
                }
            }
            Held::F32(_) | Held::F16(_) => unreachable!("these values are widened"),
        };
        Segment { d, slots, keys, values: Values::Fixed { rows, scales, weights, factors } }
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
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            // SAFETY: the features were detected by `load`, and the assertions bound every access.
            Keys::F16(keys) => unsafe { vectors::half::scores(q, d, keys, blocks, out, stride) },
            #[cfg(target_arch = "x86_64")]
            Keys::Q8(quants, scales) => {
                assert!(queries.quants.len() == queries.values.len(), "the queries are not quantized");
                // SAFETY: as above.
                unsafe { avx512::scores_q8(queries, range, quants, scales, blocks, out, stride) }
            }
            #[cfg(target_arch = "x86_64")]
            Keys::Fixed(keys) => {
                assert!(queries.fixed.len() == queries.values.len(), "the queries are not converted");
                // SAFETY: as above.
                unsafe { fixed::scores(queries, range, keys, blocks, out, stride) }
            }
        }
    }

    /// `out[n] = keep[n] * out[n] + sum_j weights[n * stride + j] * values[j]`; `out` are rows of a head's values.
    pub fn add_weighted(&mut self, weights: Weights<'_>, out: &mut [f32]) {
        let (d, count) = (self.d, out.len() / self.d);
        assert!(weights.slots <= self.slots, "fewer slots are held");
        weights.check(count);
        match &mut self.values {
            Values::F32(values) => add_weighted_f32(weights, values, d, out),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            // SAFETY: the features were detected by `load`, and the assertions bound every access.
            Values::F16(values) => unsafe { vectors::half::add_weighted(weights, values, d, out) },
            #[cfg(target_arch = "x86_64")]
            Values::Fixed { rows: values, scales, weights: integers, factors } => {
                assert!(weights.stride.is_multiple_of(SLOTS), "rows of weights are whole vectors");
                integers.resize(count * weights.stride, 0);
                factors.clear();
                let rows = weights.rows.chunks(weights.stride);
                for (row, integers) in rows.zip(integers.chunks_exact_mut(weights.stride)) {
                    // SAFETY: the scales and the integers have whole vectors.
                    factors.push(unsafe { fixed::quantize_weights(&row[..weights.slots], scales, integers) });
                }
                // SAFETY: as above.
                unsafe {
                    match *values {
                        FixedRows::Converting(v) => {
                            fixed::add_weighted(weights, integers, factors, v, d, out)
                        }
                        FixedRows::Converted(v) => fixed::add_weighted(weights, integers, factors, v, d, out),
                    }
                }
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
    portable::add_weighted(weights, values, d, out);
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
        Held::Q8 { quants, scales } => {
            portable::widen_q8(quants.as_flattened(), scales, d, out);
        }
    }
}

#[cfg(test)]
mod tests;
