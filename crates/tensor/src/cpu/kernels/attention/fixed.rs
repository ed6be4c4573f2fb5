//! Attention in 16-bit fixed point, with the dot products of VNNI: twice the multiply-adds of f32 in an instruction.
//!
//! Every query, key and row of values has a scale of its own and integers of 13 to 15 bits, so the error is about that of f16.
//! Weights have a scale for each segment of slots. Sums of integers are exact: their order does not matter, and a row's result
//! depends on nothing but the slots that it sees.

use std::{
    arch::{asm, x86_64::*},
    ops::Range,
};

use super::{
    super::{BLOCK, SLOTS},
    LARGEST_KEY, LARGEST_VALUE, Queries, SEGMENT, Weights,
};

/// The largest weight, and magnitude in a query.
const LARGEST_WEIGHT: f32 = 32767.0;
/// The largest sum of weights: with values up to [`LARGEST_VALUE`], their products stay below 2³¹.
const WEIGHTS: u32 = 523_000;

/// Queries up to which 8-bit values are converted as they are read: those of one tile.
pub const DIRECT: usize = 6;

/// Convert a query; returns the scale of its integers, which is not a number if a value is not finite.
///
/// Its length is bounded: by the inequality of Cauchy and Schwarz, the product with a key is then below 2³¹.
#[target_feature(enable = "avx512f")]
pub fn fix_query(query: &[f32], out: &mut [i16]) -> f32 {
    let (peak, square) = measure(query);
    let longest = 0.98 * 2f32.powi(31) / (LARGEST_KEY * (query.len() as f32).sqrt());
    convert_row(query, out, (LARGEST_WEIGHT / peak).min(longest / square.sqrt()), square)
}

/// Convert a row to integers up to `largest`; returns their scale, which is not a number if a value is not finite.
#[target_feature(enable = "avx512f")]
pub fn fix(row: &[f32], largest: f32, out: &mut [i16]) -> f32 {
    let (peak, square) = measure(row);
    convert_row(row, out, largest / peak, square)
}

/// The largest magnitude of a row of whole vectors, and the sum of its squares.
#[inline]
#[target_feature(enable = "avx512f")]
fn measure(row: &[f32]) -> (f32, f32) {
    let (mut peak, mut square) = (_mm512_setzero_ps(), _mm512_setzero_ps());
    for values in row.as_chunks::<16>().0 {
        // SAFETY: sixteen values.
        let values = unsafe { _mm512_loadu_ps(values.as_ptr()) };
        peak = _mm512_max_ps(peak, _mm512_abs_ps(values));
        square = _mm512_fmadd_ps(values, values, square);
    }
    (_mm512_reduce_max_ps(peak), _mm512_reduce_add_ps(square))
}

/// `out = row · factor`, rounded; returns the inverse factor.
#[inline]
#[target_feature(enable = "avx512f")]
fn convert_row(row: &[f32], out: &mut [i16], factor: f32, square: f32) -> f32 {
    // Squares overflow from 10¹⁹ on, which no model's keys and values reach.
    let factor = if square > 0.0 && factor.is_finite() { factor } else { 0.0 };
    let factors = _mm512_set1_ps(factor);
    for (values, out) in row.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<16>().0) {
        // SAFETY: sixteen values of both.
        unsafe {
            let integers = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), factors));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(integers));
        }
    }
    if !square.is_finite() {
        f32::NAN
    } else if factor > 0.0 {
        1.0 / factor
    } else {
        0.0
    }
}

/// `sum + a · b` in each lane, of pairs of 16-bit integers. Not the intrinsic, which LLVM takes apart: a multiplication and an
/// addition take half as long again.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn dot(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: the instruction is VNNI's; it changes nothing but the sum.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {a}, {b}",
            sum = inout(zmm_reg) sum, a = in(zmm_reg) a, b = in(zmm_reg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// Keys as a cache holds them, see [`super::Held::Fixed`].
#[derive(Clone, Copy)]
pub struct FixedKeys<'a> {
    pub words: &'a [[i16; 2]],
    pub scales: &'a [f32],
}

/// Rows of values.
pub trait Values: Copy {
    /// Sixteen columns from `at` on of rows `2 * pair` and `2 * pair + 1`.
    ///
    /// SAFETY: the rows can be read; AVX-512 F and BW were detected.
    unsafe fn words(self, pair: usize, at: usize) -> __m512i;
}

/// Rows of `d` integers, two by two.
#[derive(Clone, Copy)]
pub struct FixedValues<'a> {
    pub words: &'a [[i16; 2]],
    pub d: usize,
}

impl Values for FixedValues<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn words(self, pair: usize, at: usize) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_loadu_si512(self.words.as_ptr().add(pair * self.d + at).cast()) }
    }
}

/// Rows of `d` 8-bit values, which are converted as they are read.
#[derive(Clone, Copy)]
pub struct ByteValues<'a> {
    pub quants: &'a [u8],
    /// Of each block of all rows, see [`factors`].
    pub factors: &'a [f32],
    pub d: usize,
}

impl ByteValues<'_> {
    /// SAFETY: as for [`Values::words`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(self, row: usize, at: usize) -> __m512 {
        let at = self.quants.as_ptr().wrapping_add(row * self.d + at);
        // The next segment. A prefetch may be of any place.
        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SEGMENT * self.d).cast());
        // SAFETY: within the row.
        let bytes = unsafe { _mm_loadu_si128(at.cast()) };
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_xor_si128(bytes, _mm_set1_epi8(-128))))
    }
}

impl Values for ByteValues<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn words(self, pair: usize, at: usize) -> __m512i {
        // The last bits of a sum with 1.5 · 2²³ are the integer.
        let shift = _mm512_set1_ps(12_582_912.0);
        // SAFETY: the caller's; there are factors of all rows.
        unsafe {
            let factors = self.factors.as_ptr().add((2 * pair * self.d + at) / BLOCK);
            let (a, b) = (_mm512_set1_ps(*factors), _mm512_set1_ps(*factors.add(self.d / BLOCK)));
            let a = _mm512_castps_si512(_mm512_fmadd_ps(self.load(2 * pair, at), a, shift));
            let b = _mm512_castps_si512(_mm512_fmadd_ps(self.load(2 * pair + 1, at), b, shift));
            _mm512_mask_blend_epi16(0xaaaa_aaaa, a, _mm512_slli_epi32::<16>(b))
        }
    }
}

/// The scales of rows of 8-bit values, which have `chunks` scales each, in fixed point; and what their blocks are multiplied with.
pub fn factors(held: &[f32], chunks: usize, scales: &mut [f32], factors: &mut [f32]) {
    let held = held.chunks_exact(chunks).zip(factors.chunks_exact_mut(chunks));
    for (scale, (held, factors)) in scales.iter_mut().zip(held) {
        // The largest integer of a block is 127. By their bits, so that what is not a number is the largest: the scale of a block
        // with something that is not finite.
        let largest = f32::from_bits(held.iter().map(|scale| scale.to_bits()).max().unwrap_or(0));
        *scale = largest * (127.0 / LARGEST_VALUE);
        let factor = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
        factors.iter_mut().zip(held).for_each(|(to, scale)| *to = scale * factor);
    }
}

/// Convert rows of values.
///
/// SAFETY: the rows can be read.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn convert(rows: ByteValues<'_>, words: &mut [[i16; 2]]) {
    for (pair, words) in words.chunks_exact_mut(rows.d).enumerate() {
        for (at, words) in words.as_chunks_mut::<SLOTS>().0.iter_mut().enumerate() {
            // SAFETY: two rows of values and sixteen words.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), rows.words(pair, at * SLOTS)) };
        }
    }
}

/// Convert weights times the values' scales, 16 slots after the other; the integers times what it returns are the products.
///
/// SAFETY: `scales` and `out` hold as many values, rounded up to 16.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn quantize_weights(weights: &[f32], scales: &[f32], out: &mut [i16]) -> f32 {
    let product = |i: usize| {
        let mask = ((1u32 << (weights.len() - i).min(16)) - 1) as __mmask16;
        // SAFETY: within both; the mask covers the weights.
        unsafe {
            let weight = _mm512_maskz_loadu_ps(mask, weights.as_ptr().add(i));
            // What a query does not see may not be a number.
            let seen = _mm512_cmp_ps_mask::<_CMP_NEQ_UQ>(weight, _mm512_setzero_ps());
            _mm512_maskz_mul_ps(seen, weight, _mm512_loadu_ps(scales.as_ptr().add(i)))
        }
    };
    // By their bits, so that what is not a number is the largest; nothing is negative.
    let mut peak = _mm512_setzero_si512();
    for i in (0..weights.len()).step_by(16) {
        peak = _mm512_max_epi32(peak, _mm512_castps_si512(product(i)));
    }
    let peak = f32::from_bits(_mm512_reduce_max_epi32(peak) as u32);
    if peak < 1e-30 {
        out[..weights.len().next_multiple_of(16)].fill(0);
        return 0.0;
    }
    let factor = _mm512_set1_ps(LARGEST_WEIGHT / peak);
    let mut sum = _mm512_setzero_si512();
    for i in (0..weights.len()).step_by(16) {
        let integers = _mm512_cvtps_epi32(_mm512_mul_ps(product(i), factor));
        sum = _mm512_add_epi32(sum, integers);
        // SAFETY: within `out`.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(i).cast(), _mm512_cvtepi32_epi16(integers)) };
    }
    // An exact sum: the same for all orders of the slots.
    let sum = _mm512_reduce_add_epi32(sum) as u32;
    let shift = (0..15).find(|&shift| sum >> shift <= WEIGHTS).unwrap_or(15);
    if shift > 0 {
        let half = _mm256_set1_epi16(1 << (15 - shift));
        for i in (0..weights.len()).step_by(16) {
            // SAFETY: within `out`.
            unsafe {
                let at: *mut __m256i = out.as_mut_ptr().add(i).cast();
                _mm256_storeu_si256(at, _mm256_mulhrs_epi16(_mm256_loadu_si256(at), half));
            }
        }
    }
    peak / LARGEST_WEIGHT * (1u32 << shift) as f32
}

/// Scores of some queries with `blocks` blocks of keys, see [`super::Segment::scores`].
///
/// SAFETY: the queries are converted and there; the blocks can be read, and `out` holds rows of `stride` values.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn scores(
    queries: &Queries,
    range: Range<usize>,
    keys: FixedKeys<'_>,
    blocks: usize,
    out: &mut [f32],
    stride: usize,
) {
    let d = queries.d;
    let mut n = range.start;
    while n < range.end {
        let left = range.end - n;
        let taken = left.div_ceil(left.div_ceil(6));
        let own = (&queries.fixed[n * d..], &queries.fixed_scales[n..]);
        let out = &mut out[(n - range.start) * stride..];
        let mut block = 0;
        while block < blocks {
            let out = &mut out[block * SLOTS..];
            // SAFETY: the tile's queries and blocks are within the slices, as the caller guarantees.
            block += unsafe {
                match (taken, blocks - block) {
                    (1, 4..) => score_tile::<1, 4>(own, keys, d, block, out, stride),
                    (1, _) => score_tile::<1, 1>(own, keys, d, block, out, stride),
                    (2, 4..) => score_tile::<2, 4>(own, keys, d, block, out, stride),
                    (2, _) => score_tile::<2, 1>(own, keys, d, block, out, stride),
                    (3, 4..) => score_tile::<3, 4>(own, keys, d, block, out, stride),
                    (3, _) => score_tile::<3, 1>(own, keys, d, block, out, stride),
                    (4, 4..) => score_tile::<4, 4>(own, keys, d, block, out, stride),
                    (4, _) => score_tile::<4, 1>(own, keys, d, block, out, stride),
                    (5, 4..) => score_tile::<5, 4>(own, keys, d, block, out, stride),
                    (5, _) => score_tile::<5, 1>(own, keys, d, block, out, stride),
                    (_, 4..) => score_tile::<6, 4>(own, keys, d, block, out, stride),
                    (_, _) => score_tile::<6, 1>(own, keys, d, block, out, stride),
                }
            };
        }
        n += taken;
    }
}

/// Scores of the first `N` queries in `V` blocks from `block` on; returns `V`.
///
/// SAFETY: as for [`scores`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn score_tile<const N: usize, const V: usize>(
    (queries, own): (&[i16], &[f32]),
    keys: FixedKeys<'_>,
    d: usize,
    block: usize,
    out: &mut [f32],
    stride: usize,
) -> usize {
    let mut acc = [[_mm512_setzero_si512(); V]; N];
    // SAFETY: every access is within the tile.
    unsafe {
        for word in 0..d / 2 {
            let key: [__m512i; V] = std::array::from_fn(|v| {
                _mm512_loadu_si512(keys.words.as_ptr().add(((block + v) * d / 2 + word) * SLOTS).cast())
            });
            for (n, acc) in acc.iter_mut().enumerate() {
                let two = queries.as_ptr().add(n * d + 2 * word).cast::<i32>().read_unaligned();
                let query = _mm512_set1_epi32(two);
                for (acc, key) in acc.iter_mut().zip(key) {
                    *acc = dot(*acc, key, query);
                }
            }
        }
        for (n, acc) in acc.into_iter().enumerate() {
            let own = _mm512_set1_ps(*own.as_ptr().add(n));
            for (v, acc) in acc.into_iter().enumerate() {
                let scale =
                    _mm512_mul_ps(own, _mm512_loadu_ps(keys.scales.as_ptr().add((block + v) * SLOTS)));
                let score = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), scale);
                _mm512_storeu_ps(out.as_mut_ptr().add(n * stride + v * SLOTS), score);
            }
        }
    }
    V
}

/// As [`super::Segment::add_weighted`]: `integers` are rows of the weights' stride, `factors` what [`quantize_weights`] returned.
///
/// SAFETY: they are of as many queries as `out` has rows of `d` values; the slots of `values` can be read, in pairs; `d` is a multiple of 32.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn add_weighted(
    weights: Weights<'_>,
    integers: &[i16],
    factors: &[f32],
    values: impl Values,
    d: usize,
    out: &mut [f32],
) {
    let (mut n, count) = (0, out.len() / d);
    while n < count {
        let left = count - n;
        let taken = left.div_ceil(left.div_ceil(6));
        let (w, i, f) = (weights.after(n), &integers[n * weights.stride..], &factors[n..]);
        let out = &mut out[n * d..];
        let mut at = 0;
        while at < d {
            // SAFETY: the tile's queries and columns are within the slices, as the caller guarantees.
            at += unsafe {
                match (taken, (d - at) / 16) {
                    (1, 4..) => sum_tile::<1, 4>(w, (i, f), values, d, out, at),
                    (1, _) => sum_tile::<1, 2>(w, (i, f), values, d, out, at),
                    (2, 4..) => sum_tile::<2, 4>(w, (i, f), values, d, out, at),
                    (2, _) => sum_tile::<2, 2>(w, (i, f), values, d, out, at),
                    (3, 4..) => sum_tile::<3, 4>(w, (i, f), values, d, out, at),
                    (3, _) => sum_tile::<3, 2>(w, (i, f), values, d, out, at),
                    (4, 4..) => sum_tile::<4, 4>(w, (i, f), values, d, out, at),
                    (4, _) => sum_tile::<4, 2>(w, (i, f), values, d, out, at),
                    (5, 4..) => sum_tile::<5, 4>(w, (i, f), values, d, out, at),
                    (5, _) => sum_tile::<5, 2>(w, (i, f), values, d, out, at),
                    (_, 4..) => sum_tile::<6, 4>(w, (i, f), values, d, out, at),
                    (_, _) => sum_tile::<6, 2>(w, (i, f), values, d, out, at),
                }
            };
        }
        n += taken;
    }
}

/// Columns `at..at + C * 16` of `N` sums; returns their number.
///
/// SAFETY: as for [`add_weighted`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn sum_tile<const N: usize, const C: usize>(
    weights: Weights<'_>,
    (integers, factors): (&[i16], &[f32]),
    values: impl Values,
    d: usize,
    out: &mut [f32],
    at: usize,
) -> usize {
    let mut acc = [[_mm512_setzero_si512(); C]; N];
    // SAFETY: these columns of the N sums, and of every pair of rows, are within the slices.
    unsafe {
        for pair in 0..weights.slots.div_ceil(2) {
            let value: [__m512i; C] = std::array::from_fn(|c| values.words(pair, at + c * 16));
            for (n, acc) in acc.iter_mut().enumerate() {
                let two = integers.as_ptr().add(n * weights.stride + 2 * pair).cast::<i32>().read_unaligned();
                let weight = _mm512_set1_epi32(two);
                for (acc, value) in acc.iter_mut().zip(value) {
                    *acc = dot(*acc, value, weight);
                }
            }
        }
        for (n, acc) in acc.into_iter().enumerate() {
            let factor = _mm512_set1_ps(*factors.as_ptr().add(n));
            let keep = _mm512_set1_ps(*weights.keep.as_ptr().add(n));
            for (c, acc) in acc.into_iter().enumerate() {
                let sum = out.as_mut_ptr().add(n * d + at + c * 16);
                let kept = _mm512_mul_ps(_mm512_loadu_ps(sum), keep);
                _mm512_storeu_ps(sum, _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), factor, kept));
            }
        }
    }
    C * 16
}
