//! Products in fixed point with VNNI's dot products in 512 bits.

use std::arch::{asm, x86_64::*};

use super::{
    super::{
        super::{BLOCK, FRACTION, SLOTS},
        FEW, SEGMENT, Weights,
    },
    ByteValues, FixedKeys, FixedRows, FixedValues,
    tiles::{fixed_tiles, tile},
};
use {
    _mm512_fmadd_ps as fma, _mm512_loadu_ps as load, _mm512_mul_ps as mul, _mm512_set1_ps as splat,
    _mm512_setzero_si512 as no_sums, _mm512_storeu_ps as store,
};

type Floats = __m512;
type Words = __m512i;

/// Ask for the line at any place.
#[inline]
#[target_feature(enable = "avx512f")]
fn read_soon(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T1>(at.cast());
}

/// SAFETY: 16 words can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_words(at: *const [i16; 2]) -> Words {
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

/// SAFETY: two integers can be read.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn splat_word(at: *const i16) -> Words {
    // SAFETY: the caller's.
    _mm512_set1_epi32(unsafe { at.cast::<i32>().read_unaligned() })
}

/// `sum + a · b` in each lane, of pairs of 16-bit integers. Not the intrinsic, which LLVM takes apart: a multiplication and an
/// addition take half as long again.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_pairs(mut sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
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

#[inline]
#[target_feature(enable = "avx512f")]
fn totals(sums: __m512i) -> __m512 {
    _mm512_cvtepi32_ps(sums)
}

/// Sixteen columns of two rows of bytes in fixed point, see [`super::fixed_byte`].
///
/// SAFETY: 16 bytes can be read at both.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn byte_words(rows: [*const u8; 2], factors: [i32; 2]) -> Words {
    let row = |i: usize| {
        // SAFETY: the caller's.
        let bytes = unsafe { _mm_xor_si128(_mm_loadu_si128(rows[i].cast()), _mm_set1_epi8(-128)) };
        let product = _mm512_mullo_epi32(_mm512_cvtepi8_epi32(bytes), _mm512_set1_epi32(factors[i]));
        _mm512_srai_epi32::<{ FRACTION as u32 }>(_mm512_add_epi32(
            product,
            _mm512_set1_epi32(1 << (FRACTION - 1)),
        ))
    };
    _mm512_mask_blend_epi16(0xaaaa_aaaa, row(0), _mm512_slli_epi32::<16>(row(1)))
}

/// The same of 64 columns, of two blocks, in the order that [`arrange`] undoes. The bytes `ahead` are read soon.
///
/// SAFETY: 64 bytes and two factors can be read at both.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn byte_group(rows: [*const u8; 2], factors: [*const i16; 2], ahead: usize) -> [Words; 4] {
    let row = |i: usize| {
        read_soon(rows[i].wrapping_add(ahead));
        // SAFETY: the caller's.
        let (bytes, low, high) = unsafe {
            let [low, high] = [*factors[i], *factors[i].add(1)].map(|factor| _mm256_set1_epi16(factor));
            (_mm512_loadu_si512(rows[i].cast()), low, high)
        };
        let factors = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        // Bytes times 256 times factors times 128, over 2¹⁵.
        let (bytes, zero) = (_mm512_xor_si512(bytes, _mm512_set1_epi8(-128)), _mm512_setzero_si512());
        [_mm512_unpacklo_epi8(zero, bytes), _mm512_unpackhi_epi8(zero, bytes)]
            .map(|bytes| _mm512_mulhrs_epi16(bytes, factors))
    };
    let ([a, c], [b, d]) = (row(0), row(1));
    [
        _mm512_unpacklo_epi16(a, b),
        _mm512_unpackhi_epi16(a, b),
        _mm512_unpacklo_epi16(c, d),
        _mm512_unpackhi_epi16(c, d),
    ]
}

/// The first to fourth parts of the vectors, where they have the first to fourth four columns of each part.
#[inline]
#[target_feature(enable = "avx512f")]
fn arrange([a, b, c, d]: [Floats; 4]) -> [Floats; 4] {
    let (low, high) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0x44>(c, d));
    let (third, fourth) = (_mm512_shuffle_f32x4::<0xee>(a, b), _mm512_shuffle_f32x4::<0xee>(c, d));
    [
        _mm512_shuffle_f32x4::<0x88>(low, high),
        _mm512_shuffle_f32x4::<0xdd>(low, high),
        _mm512_shuffle_f32x4::<0x88>(third, fourth),
        _mm512_shuffle_f32x4::<0xdd>(third, fourth),
    ]
}

fixed_tiles!(
    "avx512f,avx512bw,avx512vnni", lanes 16,
    scores [1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4], sums [1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4]
);
