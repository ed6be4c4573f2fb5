//! AVX2, FMA and F16C.

use std::arch::x86_64::*;

use super::super::FRACTION;

pub type Floats = __m256;
pub type Ints = __m256i;
/// Sums of products of pairs of 16-bit integers, before they are [totals](total_pairs).
pub type PairSums = Ints;

/// What is added to signed bytes that are multiplied, in each of four bytes: AVX's dot products take unsigned ones.
pub const OFFSET: i32 = 0x8080_8080_u32 as i32;

/// Defines functions of one instruction.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $out:ty { $body:expr })+) => {
        $(
            $(#[$doc])*
            #[inline]
            #[target_feature(enable = "avx2,fma")]
            pub fn $name($($arg: $type),*) -> $out {
                $body
            }
        )+
    };
}

operations! {
    zeros() -> Floats { _mm256_setzero_ps() }
    splat(value: f32) -> Floats { _mm256_set1_ps(value) }
    mul(a: Floats, b: Floats) -> Floats { _mm256_mul_ps(a, b) }
    /// `a b + c`, rounded once.
    fma(a: Floats, b: Floats, c: Floats) -> Floats { _mm256_fmadd_ps(a, b, c) }
    /// `c - a b`, rounded once.
    fnma(a: Floats, b: Floats, c: Floats) -> Floats { _mm256_fnmadd_ps(a, b, c) }
    to_floats(v: Ints) -> Floats { _mm256_cvtepi32_ps(v) }
    zero() -> Ints { _mm256_setzero_si256() }
    splat_int(value: i32) -> Ints { _mm256_set1_epi32(value) }
    /// The same four integers in both halves.
    splat_four(four: [i32; 4]) -> Ints {
        _mm256_broadcastsi128_si256(_mm_setr_epi32(four[0], four[1], four[2], four[3]))
    }
    and(a: Ints, b: Ints) -> Ints { _mm256_and_si256(a, b) }
    or(a: Ints, b: Ints) -> Ints { _mm256_or_si256(a, b) }
    xor(a: Ints, b: Ints) -> Ints { _mm256_xor_si256(a, b) }
    add(a: Ints, b: Ints) -> Ints { _mm256_add_epi32(a, b) }
    sub(a: Ints, b: Ints) -> Ints { _mm256_sub_epi32(a, b) }
    sub_bytes(a: Ints, b: Ints) -> Ints { _mm256_sub_epi8(a, b) }
    mul_int(a: Ints, b: Ints) -> Ints { _mm256_mullo_epi32(a, b) }
    /// In each lane, the sum of the products of two pairs of 16-bit integers.
    mul_pairs(a: Ints, b: Ints) -> Ints { _mm256_madd_epi16(a, b) }
    no_sums() -> PairSums { zero() }
    /// `sum` and the products of two pairs of 16-bit integers in each lane.
    add_pairs(sum: PairSums, a: Ints, b: Ints) -> PairSums { add(sum, mul_pairs(a, b)) }
    total_pairs(sum: PairSums) -> Ints { sum }
    shl(v: Ints, bits: usize) -> Ints { _mm256_sll_epi32(v, _mm_cvtsi32_si128(bits as i32)) }
    shr(v: Ints, bits: usize) -> Ints { _mm256_srl_epi32(v, _mm_cvtsi32_si128(bits as i32)) }
    /// As [`shr`], with the sign.
    sar(v: Ints, bits: usize) -> Ints { _mm256_sra_epi32(v, _mm_cvtsi32_si128(bits as i32)) }
    /// 255 in bytes that are equal, 0 in others.
    equal_bytes(a: Ints, b: Ints) -> Ints { _mm256_cmpeq_epi8(a, b) }
    /// In each half, the bytes of `table` at indices below 16.
    look_up(table: Ints, indices: Ints) -> Ints { _mm256_shuffle_epi8(table, indices) }
    /// Of both halves, the first two lanes of each in turn.
    zip_low(a: Ints, b: Ints) -> Ints { _mm256_unpacklo_epi32(a, b) }
    /// Of both halves, the last two lanes of each in turn.
    zip_high(a: Ints, b: Ints) -> Ints { _mm256_unpackhi_epi32(a, b) }
    /// Of both halves, the first two lanes of each.
    pairs_low(a: Ints, b: Ints) -> Ints { _mm256_unpacklo_epi64(a, b) }
    /// Of both halves, the last two lanes of each.
    pairs_high(a: Ints, b: Ints) -> Ints { _mm256_unpackhi_epi64(a, b) }
    /// The sum of the lanes: halves, quarters, then two.
    sum(v: Floats) -> f32 {{
        let s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)))
    }}
    /// The sum of each vector's lanes: two neighbors, four, then halves.
    sums(v: [Floats; 4]) -> [f32; 4] {{
        let s = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
        let s = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
        // SAFETY: both are four floats.
        unsafe { std::mem::transmute(s) }
    }}
    add_to_first(v: Floats, value: f32) -> Floats {
        _mm256_add_ps(v, _mm256_zextps128_ps256(_mm_set_ss(value)))
    }
    to_array(v: Floats) -> [f32; 8] {
        // SAFETY: both are eight floats.
        unsafe { std::mem::transmute(v) }
    }
    from_array(values: [f32; 8]) -> Floats {
        // SAFETY: both are eight floats.
        unsafe { std::mem::transmute(values) }
    }
}

/// Ask for the line at any place.
#[inline]
#[target_feature(enable = "avx2")]
pub fn read_soon(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T1>(at.cast());
}

/// SAFETY: eight floats can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load(at: *const f32) -> Floats {
    // SAFETY: as the caller guarantees.
    unsafe { _mm256_loadu_ps(at) }
}

/// SAFETY: eight floats can be written.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn store(at: *mut f32, v: Floats) {
    // SAFETY: as the caller guarantees.
    unsafe { _mm256_storeu_ps(at, v) }
}

/// SAFETY: 32 bytes can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load_ints(at: *const u8) -> Ints {
    // SAFETY: as the caller guarantees.
    unsafe { _mm256_loadu_si256(at.cast()) }
}

/// SAFETY: 16 bytes can be read at both.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load_halves(low: *const u8, high: *const u8) -> Ints {
    // SAFETY: as the caller guarantees.
    let part = |at: *const u8| unsafe { _mm_loadu_si128(at.cast()) };
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(part(low)), part(high))
}

/// SAFETY: eight half-precision floats can be read.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub unsafe fn load_f16(at: *const u16) -> Floats {
    // SAFETY: as the caller guarantees.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(at.cast()) })
}

/// SAFETY: eight bfloat16 numbers can be read.
#[inline]
#[target_feature(enable = "avx2")]
pub unsafe fn load_bf16(at: *const u16) -> Floats {
    // SAFETY: as the caller guarantees.
    let bits = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(at.cast()) });
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
}

/// Eight columns of two rows of bytes in fixed point, in pairs: bytes, which are offset by 128, times factors over 128, rounded.
///
/// SAFETY: eight bytes can be read at both.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub unsafe fn byte_words(rows: [*const u8; 2], factors: [i32; 2]) -> Ints {
    let row = |i: usize| {
        // SAFETY: as the caller guarantees.
        let bytes = unsafe { _mm_xor_si128(_mm_loadl_epi64(rows[i].cast()), _mm_set1_epi8(-128)) };
        let product = mul_int(_mm256_cvtepi8_epi32(bytes), splat_int(factors[i]));
        _mm256_srai_epi32::<FRACTION>(add(product, splat_int(1 << (FRACTION - 1))))
    };
    _mm256_blend_epi16::<0b1010_1010>(row(0), _mm256_slli_epi32::<16>(row(1)))
}

/// The same of 32 columns, of one block, in the order that [`arrange`] undoes. The bytes `ahead` are read soon.
///
/// SAFETY: 32 bytes and a factor can be read at both.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub unsafe fn byte_group(rows: [*const u8; 2], factors: [*const i16; 2], ahead: usize) -> [Ints; 4] {
    let row = |i: usize| {
        read_soon(rows[i].wrapping_add(ahead));
        // SAFETY: as the caller guarantees.
        let (bytes, factor) = unsafe { (load_ints(rows[i]), _mm256_set1_epi16(*factors[i])) };
        let bytes = xor(bytes, splat_int(OFFSET));
        // Bytes times 256 times factors, over 2¹⁵.
        [_mm256_unpacklo_epi8(zero(), bytes), _mm256_unpackhi_epi8(zero(), bytes)]
            .map(|bytes| _mm256_mulhrs_epi16(bytes, factor))
    };
    let ([a, c], [b, d]) = (row(0), row(1));
    [
        _mm256_unpacklo_epi16(a, b),
        _mm256_unpackhi_epi16(a, b),
        _mm256_unpacklo_epi16(c, d),
        _mm256_unpackhi_epi16(c, d),
    ]
}

/// The columns of four vectors in order, where the halves of each have four columns of each sixteen.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub fn arrange([a, b, c, d]: [Floats; 4]) -> [Floats; 4] {
    [
        _mm256_permute2f128_ps::<0x20>(a, b),
        _mm256_permute2f128_ps::<0x20>(c, d),
        _mm256_permute2f128_ps::<0x31>(a, b),
        _mm256_permute2f128_ps::<0x31>(c, d),
    ]
}
