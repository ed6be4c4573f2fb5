//! Attention in 16-bit fixed point, with the dot products of VNNI: twice the multiply-adds of f32 in an instruction.
//!
//! Every query, key and value row has a scale of its own and integers below 2¹⁴ or 2¹⁵, so their rounding is no coarser than that of
//! f16, in which a cache holds them. Weights have a scale for each segment of slots. Sums of integers are exact: their order does
//! not matter, and a row's result depends on nothing but the slots that it sees.

use std::{
    arch::{asm, x86_64::*},
    ops::Range,
};

use super::{
    super::{BLOCK, SLOTS},
    Queries, SEGMENT, Weights, scales_of,
};

/// The largest magnitude in a key.
const LARGEST_KEY: f32 = 8192.0;
/// The largest magnitude in a row of values.
const LARGEST_VALUE: f32 = 4096.0;
/// The largest weight, and magnitude in a query.
const LARGEST_WEIGHT: f32 = 32767.0;
/// The largest sum of weights: with values up to [`LARGEST_VALUE`], their products stay below 2³¹.
const WEIGHTS: u32 = 523_000;

/// Queries up to which keys and values are converted as they are read: those of one tile.
pub const DIRECT: usize = 6;

/// True if heads of `d` values can be multiplied so.
pub fn takes(d: usize) -> bool {
    d.is_multiple_of(BLOCK)
}

/// Convert a query; returns the scale of its integers.
///
/// Its length is bounded: by the inequality of Cauchy and Schwarz, the product with a key is then below 2³¹.
pub fn quantize_query(query: &[f32], out: &mut [i16]) -> f32 {
    let (mut squares, mut largest) = ([0f32; BLOCK], [0f32; BLOCK]);
    for chunk in query.as_chunks::<BLOCK>().0 {
        for ((square, largest), v) in squares.iter_mut().zip(&mut largest).zip(chunk) {
            *square += v * v;
            *largest = largest.max(v.abs());
        }
    }
    let (length, largest) = (squares.iter().sum::<f32>().sqrt(), largest.into_iter().fold(0f32, f32::max));
    if !length.is_finite() {
        return f32::NAN;
    }
    let longest = 0.98 * 2f32.powi(31) / (LARGEST_KEY * (query.len() as f32).sqrt());
    let factor = if largest > 0.0 { (LARGEST_WEIGHT / largest).min(longest / length) } else { 0.0 };
    for (out, v) in out.iter_mut().zip(query) {
        *out = (v * factor).round_ties_even() as i16;
    }
    if factor > 0.0 { 1.0 / factor } else { 0.0 }
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

/// What makes integers of numbers with these scales; 0 for those that are 0 or not finite.
#[inline]
#[target_feature(enable = "avx512f")]
fn inverse(scales: __m512) -> __m512 {
    let some = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(scales, _mm512_setzero_ps());
    _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), scales)
}

/// The 16-bit integers next to `a` and `b` times their factors, in the lower and the upper half of each lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pairs(a: __m512, b: __m512, factor_a: __m512, factor_b: __m512) -> __m512i {
    // The last bits of the sum with 1.5 · 2²³ are the integer.
    let shift = _mm512_set1_ps(12_582_912.0);
    let a = _mm512_castps_si512(_mm512_fmadd_ps(a, factor_a, shift));
    let b = _mm512_castps_si512(_mm512_fmadd_ps(b, factor_b, shift));
    _mm512_mask_blend_epi16(0xaaaa_aaaa, a, _mm512_slli_epi32::<16>(b))
}

/// SAFETY: 16 values can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_f16(at: *const u16) -> __m512 {
    // SAFETY: the caller's.
    _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
}

/// Keys in blocks of [`SLOTS`] slots.
pub trait Keys: Copy {
    /// The scales of a block's slots.
    ///
    /// SAFETY: the block can be read; AVX-512 F and BW were detected.
    unsafe fn scales(self, block: usize) -> __m512;

    /// Dimensions `2 * word` and `2 * word + 1` of all slots of a block; `factors` are the inverse scales.
    ///
    /// SAFETY: as for [`Keys::scales`].
    unsafe fn word(self, block: usize, word: usize, factors: __m512) -> __m512i;
}

/// Interleaved keys of `d` values in f16, which are converted as they are read.
#[derive(Clone, Copy)]
pub struct HalfKeys<'a> {
    pub keys: &'a [u16],
    pub d: usize,
}

impl Keys for HalfKeys<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales(self, block: usize) -> __m512 {
        // Magnitudes of f16 are in the order of their bits.
        let (mut peak, magnitude) = (_mm512_setzero_si512(), _mm512_set1_epi16(0x7fff));
        for i in (0..self.d).step_by(2) {
            // SAFETY: two dimensions of the block.
            let two =
                unsafe { _mm512_loadu_si512(self.keys.as_ptr().add((block * self.d + i) * SLOTS).cast()) };
            peak = _mm512_max_epu16(peak, _mm512_and_si512(two, magnitude));
        }
        let halves = (_mm512_castsi512_si256(peak), _mm512_extracti64x4_epi64::<1>(peak));
        let peak = _mm512_cvtph_ps(_mm256_max_epu16(halves.0, halves.1));
        _mm512_mul_ps(peak, _mm512_set1_ps(1.0 / LARGEST_KEY))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn word(self, block: usize, word: usize, factors: __m512) -> __m512i {
        let at = self.keys.as_ptr().wrapping_add((block * self.d + 2 * word) * SLOTS);
        // The blocks of the next tile. A prefetch may be of any place.
        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(4 * self.d * SLOTS).cast());
        // SAFETY: the caller's.
        unsafe { pairs(load_f16(at), load_f16(at.add(SLOTS)), factors, factors) }
    }
}

/// Converted keys.
#[derive(Clone, Copy)]
pub struct FixedKeys<'a> {
    pub words: &'a [[i16; 2]],
    pub scales: &'a [f32],
    pub d: usize,
}

impl Keys for FixedKeys<'_> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales(self, block: usize) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_loadu_ps(self.scales.as_ptr().add(block * SLOTS)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn word(self, block: usize, word: usize, _: __m512) -> __m512i {
        // SAFETY: the caller's.
        unsafe { _mm512_loadu_si512(self.words.as_ptr().add((block * self.d / 2 + word) * SLOTS).cast()) }
    }
}

/// Convert blocks of keys.
///
/// SAFETY: `words` and `scales` hold the blocks of `keys`.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn convert_keys(keys: HalfKeys<'_>, words: &mut [[i16; 2]], scales: &mut [f32]) {
    for (block, out) in scales.as_chunks_mut::<SLOTS>().0.iter_mut().enumerate() {
        // SAFETY: a block of keys and words.
        unsafe {
            let scales = keys.scales(block);
            let factors = inverse(scales);
            for word in 0..keys.d / 2 {
                let at = words.as_mut_ptr().add((block * keys.d / 2 + word) * SLOTS);
                _mm512_storeu_si512(at.cast(), keys.word(block, word, factors));
            }
            _mm512_storeu_ps(out.as_mut_ptr(), scales);
        }
    }
}

/// Rows of values.
pub trait Values: Copy {
    /// Sixteen columns from `at` on of rows `2 * pair` and `2 * pair + 1`.
    ///
    /// SAFETY: the rows can be read; AVX-512 F and BW were detected.
    unsafe fn words(self, pair: usize, at: usize) -> __m512i;
}

/// Rows of values as a cache holds them.
pub trait HeldValues: Copy {
    /// Values of a row that share a factor, a multiple of 16.
    const SHARED: usize;

    /// The scales of all rows, and the factors that make integers of their values: one for each [`HeldValues::SHARED`] of them.
    ///
    /// SAFETY: the rows can be read; AVX-512 F and BW were detected.
    unsafe fn scales(self, scales: &mut [f32], factors: &mut [f32]);

    /// Sixteen values from `at` on.
    ///
    /// SAFETY: as for [`HeldValues::scales`].
    unsafe fn load(self, row: usize, at: usize) -> __m512;
}

/// Rows of `d` values in f16.
#[derive(Clone, Copy)]
pub struct HalfValues<'a> {
    pub values: &'a [u16],
    pub d: usize,
}

impl HalfValues<'_> {
    /// The largest magnitude of a row.
    ///
    /// SAFETY: the row can be read.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn peak(self, row: usize) -> f32 {
        let (mut peak, magnitude) = (_mm512_setzero_si512(), _mm512_set1_epi16(0x7fff));
        for i in (0..self.d).step_by(32) {
            // SAFETY: within the row.
            let values = unsafe { _mm512_loadu_si512(self.values.as_ptr().add(row * self.d + i).cast()) };
            peak = _mm512_max_epu16(peak, _mm512_and_si512(values, magnitude));
        }
        let half = _mm256_max_epu16(_mm512_castsi512_si256(peak), _mm512_extracti64x4_epi64::<1>(peak));
        let quarter = _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        // The smallest of the complements.
        let ones = _mm_set1_epi16(-1);
        let least = _mm_xor_si128(_mm_minpos_epu16(_mm_xor_si128(quarter, ones)), ones);
        _mm512_cvtss_f32(_mm512_cvtph_ps(_mm256_castsi128_si256(least)))
    }
}

impl HeldValues for HalfValues<'_> {
    const SHARED: usize = usize::MAX;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales(self, scales: &mut [f32], factors: &mut [f32]) {
        for (row, (scale, factor)) in scales.iter_mut().zip(factors).enumerate() {
            // SAFETY: the caller's.
            *scale = unsafe { self.peak(row) } * (1.0 / LARGEST_VALUE);
            *factor = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(self, row: usize, at: usize) -> __m512 {
        let at = self.values.as_ptr().wrapping_add(row * self.d + at);
        // The next segment. A prefetch may be of any place.
        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SEGMENT * self.d).cast());
        // SAFETY: within the row.
        unsafe { load_f16(at) }
    }
}

/// Rows of `d` 8-bit values with scales, see [`super::Held::Q8`].
#[derive(Clone, Copy)]
pub struct ByteValues<'a> {
    pub quants: &'a [u8],
    pub scales: &'a [f32],
    pub d: usize,
}

impl HeldValues for ByteValues<'_> {
    const SHARED: usize = BLOCK;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales(self, scales: &mut [f32], factors: &mut [f32]) {
        let chunks = scales_of(self.d);
        let held = self.scales.chunks_exact(chunks).zip(factors.chunks_exact_mut(chunks));
        for (scale, (held, factors)) in scales.iter_mut().zip(held) {
            // The largest integer of a block is 127. By their bits, so that what is not a number is the largest: the scale of a
            // block with something that is not finite.
            let largest = f32::from_bits(held.iter().map(|scale| scale.to_bits()).max().unwrap_or(0));
            *scale = largest * (127.0 / LARGEST_VALUE);
            let factor = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
            factors.iter_mut().zip(held).for_each(|(to, scale)| *to = scale * factor);
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn load(self, row: usize, at: usize) -> __m512 {
        let at = self.quants.as_ptr().wrapping_add(row * self.d + at);
        // The next segment. A prefetch may be of any place.
        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SEGMENT * self.d).cast());
        // SAFETY: within the row.
        let bytes = unsafe { _mm_loadu_si128(at.cast()) };
        let signed = _mm_xor_si128(bytes, _mm_set1_epi8(-128));
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(signed))
    }
}

/// Rows of `d` values that are converted as they are read, with their factors.
#[derive(Clone, Copy)]
pub struct Converting<'a, V> {
    pub rows: V,
    pub factors: &'a [f32],
    pub d: usize,
}

impl<V: HeldValues> Values for Converting<'_, V> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn words(self, pair: usize, at: usize) -> __m512i {
        let in_row = if V::SHARED < usize::MAX { self.d / V::SHARED } else { 1 };
        // SAFETY: the caller's; there are factors of all rows.
        unsafe {
            let factors = self.factors.as_ptr().add(2 * pair * in_row + at / V::SHARED);
            let (a, b) = (self.rows.load(2 * pair, at), self.rows.load(2 * pair + 1, at));
            pairs(a, b, _mm512_set1_ps(*factors), _mm512_set1_ps(*factors.add(in_row)))
        }
    }
}

/// Converted rows of `d` values, two by two.
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

/// Convert rows of `d` values.
///
/// SAFETY: the rows can be read.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn convert_values(rows: impl Values, d: usize, words: &mut [[i16; 2]]) {
    for (pair, words) in words.chunks_exact_mut(d).enumerate() {
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
    keys: impl Keys,
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
    keys: impl Keys,
    d: usize,
    block: usize,
    out: &mut [f32],
    stride: usize,
) -> usize {
    let mut acc = [[_mm512_setzero_si512(); V]; N];
    // SAFETY: every access is within the tile.
    unsafe {
        let scales: [__m512; V] = std::array::from_fn(|v| keys.scales(block + v));
        let factors = scales.map(|scales| inverse(scales));
        for word in 0..d / 2 {
            let key: [__m512i; V] = std::array::from_fn(|v| keys.word(block + v, word, factors[v]));
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
                let score = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_mul_ps(own, scales[v]));
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
        let (w, i, f) = (weights.from_query(n), &integers[n * weights.stride..], &factors[n..]);
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
