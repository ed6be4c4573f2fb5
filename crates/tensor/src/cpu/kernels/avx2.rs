//! Quantization with AVX2.

use std::arch::x86_64::*;

use super::{BLOCK, LANES};

/// SAFETY: the three slices hold the same number of blocks.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
    let magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (b, scale) in scales.iter_mut().enumerate() {
        // SAFETY: block b is within the values.
        let v: [__m256; 4] =
            std::array::from_fn(|i| unsafe { _mm256_loadu_ps(x.as_ptr().add(b * BLOCK + i * LANES)) });
        let m = v.map(|v| _mm256_and_ps(v, magnitude));
        let m = _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3]));
        let m = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
        let m = _mm_max_ps(m, _mm_movehl_ps(m, m));
        let peak = _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
        *scale = peak / 127.0;
        let inverse = _mm256_set1_ps(if peak > 0.0 { 127.0 / peak } else { 0.0 });
        let i = v.map(|v| _mm256_cvtps_epi32(_mm256_mul_ps(v, inverse)));
        let bytes = _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3]));
        // The packs work within 128-bit halves; this restores the order.
        let bytes = _mm256_permutevar8x32_epi32(bytes, order);
        // SAFETY: block b is within the quants.
        unsafe { _mm256_storeu_si256(quants.as_mut_ptr().add(b * BLOCK).cast(), bytes) };
    }
}
