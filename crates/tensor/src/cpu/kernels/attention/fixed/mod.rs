//! Attention in 16-bit fixed point: products of integers, of which an instruction does twice as many as of f32.
//!
//! Every query, key and row of values has a scale of its own and integers of 13 to 15 bits, so the error is about that of f16.
//! Weights have a scale for each segment of slots. Sums of integers are exact, and what is done in f32 is done in one order, so a
//! row's result depends on nothing but the slots that it sees: it has the same bits on all processors.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod tiles;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

use std::ops::Range;

use super::{
    super::{BLOCK, FRACTION, INTEGER, SIGN, SLOTS, WIDEST, portable::halves, vectorized},
    Instructions, Queries, Weights,
};

/// The largest magnitude of integers in a key.
const LARGEST_KEY: f32 = 8192.0;
/// The largest magnitude of integers in a row of values.
const LARGEST_VALUE: f32 = 4096.0;
/// The largest weight, and magnitude in a query.
const LARGEST_WEIGHT: f32 = 32767.0;
/// The largest sum of weights: with values up to [`LARGEST_VALUE`], their products stay below 2³¹.
const WEIGHTS: u32 = 523_000;
/// The smallest weight that is not taken for zero.
const SMALLEST_WEIGHT: f32 = 1e-30;

/// True if 16-bit keys and values of heads of `d` values are held in fixed point.
pub fn holds_fixed(d: usize) -> bool {
    d.is_multiple_of(BLOCK)
}

/// Convert a key to fixed point; returns the scale of its integers, which is not a number if a value is not finite.
pub fn fix_key(key: &[f32], out: &mut [i16]) -> f32 {
    fix(key, LARGEST_KEY, out)
}

/// Convert a row of values to fixed point, as [`fix_key`].
pub fn fix_values(values: &[f32], out: &mut [i16]) -> f32 {
    fix(values, LARGEST_VALUE, out)
}

/// Convert a query, as [`fix_key`].
///
/// Its length is bounded: by the inequality of Cauchy and Schwarz, the product with a key is then below 2³¹.
pub fn fix_query(query: &[f32], out: &mut [i16]) -> f32 {
    let (peak, square) = measure(query);
    let longest = 0.98 * 2f32.powi(31) / (LARGEST_KEY * (query.len() as f32).sqrt());
    let factor = (LARGEST_WEIGHT / peak).min(longest / square.sqrt());
    convert_row(query, factor, square, out)
}

fn fix(row: &[f32], largest: f32, out: &mut [i16]) -> f32 {
    assert!(holds_fixed(row.len()) && out.len() == row.len(), "the row is not held in fixed point");
    let (peak, square) = measure(row);
    convert_row(row, largest / peak, square, out)
}

/// `out = row · factor`, rounded; returns the inverse factor, which is not a number if the sum of squares isn't finite.
fn convert_row(row: &[f32], factor: f32, square: f32, out: &mut [i16]) -> f32 {
    // Squares overflow from 10¹⁹ on, which no model's keys and values reach.
    let factor = if square > 0.0 && factor.is_finite() { factor } else { 0.0 };
    round(row, factor, out);
    if !square.is_finite() {
        f32::NAN
    } else if factor > 0.0 {
        1.0 / factor
    } else {
        0.0
    }
}

/// The largest magnitude of a row of whole blocks, and the sum of its squares.
fn measure(row: &[f32]) -> (f32, f32) {
    vectorized!(loops::measure(row: &[f32]) -> (f32, f32))
}

/// `out = row · factor`, rounded to even.
fn round(row: &[f32], factor: f32, out: &mut [i16]) {
    vectorized!(loops::round(row: &[f32], factor: f32, out: &mut [i16]))
}

/// Convert weights times the values' scales; the integers times what it returns are the products. There are whole vectors of
/// [`SLOTS`] scales and integers; the integers after the weights become zero.
pub fn quantize_weights(weights: &[f32], scales: &[f32], out: &mut [i16]) -> f32 {
    let room = weights.len().next_multiple_of(SLOTS);
    assert!(scales.len() >= room && out.len() >= room, "fewer scales or integers than weights");
    let (scales, (out, rest)) = (&scales[..weights.len()], out[..room].split_at_mut(weights.len()));
    rest.fill(0);
    vectorized!(loops::weights(weights: &[f32], scales: &[f32], out: &mut [i16]) -> f32)
}

/// Loops that the compiler vectorizes for the caller's instruction set.
mod loops {
    use super::*;

    #[inline(always)]
    pub fn measure(row: &[f32]) -> (f32, f32) {
        let (mut peaks, mut squares) = ([0f32; WIDEST], [0f32; WIDEST]);
        for values in row.as_chunks::<WIDEST>().0 {
            for ((peak, square), v) in peaks.iter_mut().zip(&mut squares).zip(values) {
                *peak = if v.abs() > *peak { v.abs() } else { *peak };
                *square = v.mul_add(*v, *square);
            }
        }
        (peaks.into_iter().fold(0.0, f32::max), halves(squares))
    }

    #[inline(always)]
    pub fn round(row: &[f32], factor: f32, out: &mut [i16]) {
        for (out, v) in out.iter_mut().zip(row) {
            *out = (v * factor + INTEGER).to_bits() as i16;
        }
    }

    /// A weight times a scale. What a query does not see may not be a number.
    #[inline(always)]
    fn product(weight: f32, scale: f32) -> f32 {
        if weight == 0.0 { 0.0 } else { weight * scale }
    }

    #[inline(always)]
    pub fn weights(weights: &[f32], scales: &[f32], out: &mut [i16]) -> f32 {
        // By their bits, so that what is not a number is the largest; nothing is negative.
        let mut peak = 0u32;
        for (weight, scale) in weights.iter().zip(scales) {
            peak = peak.max(product(*weight, *scale).to_bits());
        }
        let peak = f32::from_bits(peak);
        if peak < SMALLEST_WEIGHT {
            out.fill(0);
            return 0.0;
        }
        let (factor, mut sum) = (LARGEST_WEIGHT / peak, 0u32);
        for ((out, weight), scale) in out.iter_mut().zip(weights).zip(scales) {
            let integer = (product(*weight, *scale) * factor + INTEGER).to_bits() as u16;
            sum = sum.wrapping_add(u32::from(integer));
            *out = integer as i16;
        }
        // An exact sum: the same for all orders of the slots.
        let shift = (0..15).find(|&shift| sum >> shift <= WEIGHTS).unwrap_or(15);
        if shift > 0 {
            let half = (1i32 << shift) >> 1;
            for out in out {
                *out = ((i32::from(*out) + half) >> shift) as i16;
            }
        }
        peak / LARGEST_WEIGHT * (1u32 << shift) as f32
    }

    #[inline(always)]
    pub fn factors(held: &[f32], chunks: usize, scales: &mut [f32], factors: &mut [i16]) {
        // The usual widths of heads are compiled apart.
        match chunks {
            2 => factors_of(held, 2, scales, factors),
            4 => factors_of(held, 4, scales, factors),
            8 => factors_of(held, 8, scales, factors),
            _ => factors_of(held, chunks, scales, factors),
        }
    }

    #[inline(always)]
    fn factors_of(held: &[f32], chunks: usize, scales: &mut [f32], factors: &mut [i16]) {
        // The largest integer of a block is 127. By their bits, so that what is not a number is the largest: the scale of a block
        // with something that is not finite.
        for (scale, held) in scales.iter_mut().zip(held.chunks_exact(chunks)) {
            let mut largest = 0u32;
            for held in held {
                largest = largest.max(held.to_bits());
            }
            *scale = f32::from_bits(largest) * (127.0 / LARGEST_VALUE);
        }
        let rows = held.chunks_exact(chunks * SLOTS).zip(factors.chunks_exact_mut(chunks * SLOTS));
        let (whole, last) = scales.as_chunks::<SLOTS>();
        for (scales, (held, factors)) in whole.iter().zip(rows) {
            convert_factors(scales, held, chunks, factors);
        }
        let first = whole.len() * SLOTS * chunks;
        convert_factors(last, &held[first..], chunks, &mut factors[first..]);
    }

    #[inline(always)]
    fn convert_factors(scales: &[f32], held: &[f32], chunks: usize, factors: &mut [i16]) {
        let mut inverse = [0f32; SLOTS];
        for (inverse, scale) in inverse.iter_mut().zip(scales) {
            let factor = (1u32 << FRACTION) as f32 / *scale;
            *inverse = if *scale > 0.0 { factor } else { 0.0 };
        }
        let rows = held.chunks_exact(chunks).zip(factors.chunks_exact_mut(chunks));
        for (inverse, (held, factors)) in inverse.iter().zip(rows).take(scales.len()) {
            for (to, scale) in factors.iter_mut().zip(held) {
                *to = (scale * inverse + INTEGER).to_bits() as i16;
            }
        }
    }

    #[inline(always)]
    pub fn convert(rows: ByteValues<'_>, words: &mut [[i16; 2]]) {
        let (d, chunks) = (rows.d, rows.d / BLOCK);
        let pairs = rows.quants.chunks_exact(2 * d).zip(rows.factors.chunks_exact(2 * chunks));
        for (words, (quants, factors)) in words.chunks_exact_mut(d).zip(pairs) {
            let (a, b) = quants.split_at(d);
            let blocks = a.as_chunks::<BLOCK>().0.iter().zip(b.as_chunks::<BLOCK>().0);
            let words = words.as_chunks_mut::<BLOCK>().0.iter_mut();
            for (block, (words, (a, b))) in words.zip(blocks).enumerate() {
                let factors = [factors[block], factors[chunks + block]];
                for (word, (a, b)) in words.iter_mut().zip(a.iter().zip(b)) {
                    *word = [fixed_byte(*a, factors[0]), fixed_byte(*b, factors[1])];
                }
            }
        }
    }
}

/// An 8-bit value times the factor of its block, rounded.
#[inline(always)]
fn fixed_byte(byte: u8, factor: i16) -> i16 {
    let product = i32::from((byte ^ SIGN) as i8) * i32::from(factor);
    ((product + (1 << (FRACTION - 1))) >> FRACTION) as i16
}

/// Keys as a cache holds them, see [`super::Held::Fixed`].
#[derive(Clone, Copy)]
pub struct FixedKeys<'a> {
    pub words: &'a [[i16; 2]],
    pub scales: &'a [f32],
}

/// Rows of `d` integers, two by two.
#[derive(Clone, Copy)]
pub struct FixedValues<'a> {
    pub words: &'a [[i16; 2]],
    pub d: usize,
}

/// Rows of `d` 8-bit values, which are converted as they are read.
#[derive(Clone, Copy)]
pub struct ByteValues<'a> {
    pub quants: &'a [u8],
    /// Of each block of all rows, see [`factors`].
    pub factors: &'a [i16],
    pub d: usize,
}

/// Values of a segment.
#[derive(Clone, Copy)]
pub enum FixedRows<'a> {
    Converting(ByteValues<'a>),
    Converted(FixedValues<'a>),
}

/// The scales of rows of 8-bit values, which have `chunks` scales each, in fixed point; and what their blocks are multiplied with.
pub fn factors(held: &[f32], chunks: usize, scales: &mut [f32], factors: &mut [i16]) {
    vectorized!(loops::factors(held: &[f32], chunks: usize, scales: &mut [f32], factors: &mut [i16]))
}

/// Convert rows of values, as many pairs as there are words for.
pub fn convert(rows: ByteValues<'_>, words: &mut [[i16; 2]]) {
    vectorized!(loops::convert(rows: ByteValues<'_>, words: &mut [[i16; 2]]))
}

impl Instructions {
    /// Queries up to which 8-bit values are converted as they are read.
    pub fn direct(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => 6,
            // Tiles of more queries have only two vectors; converting a group of bytes at once needs four.
            _ => 2,
        }
    }

    /// Scores of some queries with `blocks` blocks of keys, see [`super::Segment::scores`].
    pub fn scores_fixed(
        self,
        queries: &Queries,
        range: Range<usize>,
        keys: FixedKeys<'_>,
        blocks: usize,
        out: &mut [f32],
        stride: usize,
    ) {
        let d = queries.d;
        assert!(queries.fixed.len() == queries.values.len(), "the queries are not converted");
        assert!(keys.words.len() >= blocks * SLOTS * d / 2 && keys.scales.len() >= blocks * SLOTS);
        let own = (&queries.fixed[range.start * d..range.end * d], &queries.fixed_scales[range]);
        // SAFETY: the features were detected, and the assertions bound every access; the caller's bound the output.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => avx512::scores(own, d, keys, blocks, out, stride),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Self::Vectors(int8) => vectors::scores(int8, own, d, keys, blocks, out, stride),
                Self::Portable => portable::scores(own, d, keys, blocks, out, stride),
            }
        }
    }

    /// As [`super::Segment::add_weighted`]: `integers` are rows of the weights' stride, `factors` what [`quantize_weights`]
    /// returned; there are as many of both as `out` has rows of `d` values.
    pub fn add_weighted_fixed(
        self,
        weights: Weights<'_>,
        integers: &[i16],
        factors: &[f32],
        values: FixedRows<'_>,
        d: usize,
        out: &mut [f32],
    ) {
        let pairs = weights.slots.div_ceil(2);
        let held = match values {
            FixedRows::Converting(v) => {
                v.d == d && v.quants.len() >= 2 * pairs * d && v.factors.len() >= 2 * pairs * d / BLOCK
            }
            FixedRows::Converted(v) => v.d == d && v.words.len() >= pairs * d,
        };
        assert!(held && holds_fixed(d), "fewer slots are held");
        let count = out.len() / d;
        assert!(integers.len() >= count * weights.stride && factors.len() >= count, "fewer weights");
        let weights = (weights, integers, factors);
        // SAFETY: the features were detected, and the assertions bound every access.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Self::Avx512 => avx512::add_weighted(weights, values, d, out),
                #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
                Self::Vectors(int8) => vectors::add_weighted(int8, weights, values, d, out),
                Self::Portable => portable::add_weighted(weights, values, d, out),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::tests::noise, *};

    /// As they are compiled for this process, and for any processor.
    #[test]
    fn conversions_have_the_same_bits() {
        for (d, scale) in [(32, 1.0), (64, 1e-3), (96, 1e4), (256, 0.0), (32, f32::INFINITY)] {
            let row: Vec<f32> = noise(2 * d, 3).into_iter().map(|v| v * scale).collect();
            let (a, b) = (measure(&row), loops::measure(&row));
            assert_eq!([a.0.to_bits(), a.1.to_bits()], [b.0.to_bits(), b.1.to_bits()]);
            let (mut ours, mut plain) = (vec![0; 2 * d], vec![0; 2 * d]);
            round(&row, 0.7 * LARGEST_KEY / a.0, &mut ours);
            loops::round(&row, 0.7 * LARGEST_KEY / a.0, &mut plain);
            assert_eq!(ours, plain);
            let quants: Vec<u8> = (0..2 * d).map(|i| (i * 37 % 255) as u8 ^ SIGN).collect();
            let factors: Vec<i16> =
                noise(2 * d / BLOCK, 4).into_iter().map(|v| (v.abs() * 4128.0) as i16).collect();
            let rows = ByteValues { quants: &quants, factors: &factors, d };
            let (mut ours, mut plain) = (vec![[0; 2]; d], vec![[0; 2]; d]);
            convert(rows, &mut ours);
            loops::convert(rows, &mut plain);
            assert_eq!(ours, plain);
        }
        // One weight outweighs the others, or all are the same, and their sum has to be halved several times.
        for (slots, flat) in [(1usize, 0.0), (16, 1.0), (37, 0.1), (512, 1.0)] {
            let room = slots.next_multiple_of(SLOTS);
            let weights: Vec<f32> =
                noise(slots, 5).into_iter().map(|v| flat + (1.0 - flat) * v.abs().powi(8)).collect();
            let scales: Vec<f32> = noise(room, 6).into_iter().map(f32::abs).collect();
            let (mut ours, mut plain) = (vec![7; room], vec![7; slots]);
            let factor = quantize_weights(&weights, &scales, &mut ours);
            assert_eq!(factor.to_bits(), loops::weights(&weights, &scales[..slots], &mut plain).to_bits());
            assert_eq!(ours[..slots], plain);
            assert!(ours[slots..].iter().all(|integer| *integer == 0));
            for ((integer, weight), scale) in ours.iter().zip(&weights).zip(&scales) {
                assert!((f32::from(*integer) * factor - weight * scale).abs() <= 0.76 * factor.max(1e-6));
            }
        }
    }
}
