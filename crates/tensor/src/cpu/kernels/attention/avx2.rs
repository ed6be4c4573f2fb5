//! Attention with AVX2 and FMA.

use std::arch::x86_64::*;

use super::{super::SLOTS, tiles::attention_tiles};

attention_tiles!(
    "avx2,fma", __m256, width 8, queries 4, f32, _mm256_loadu_ps,
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
    scores [1 x 8, 2 x 4, 3 x 2, 4 x 2], sums [1, 2]
);

/// 16-bit floats.
pub mod half {
    use std::arch::x86_64::*;

    use super::{super::super::SLOTS, attention_tiles, load_f16};

    attention_tiles!(
        "avx2,fma,f16c", __m256, width 8, queries 4, u16, load_f16,
        _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps,
        scores [1 x 8, 2 x 4, 3 x 2, 4 x 2], sums [1, 2]
    );
}

/// SAFETY: 8 values can be read.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load_f16(at: *const u16) -> __m256 {
    // SAFETY: the caller's.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(at.cast()) })
}
