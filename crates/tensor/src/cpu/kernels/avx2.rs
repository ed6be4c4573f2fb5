//! The AVX2 and FMA implementation.

use std::arch::x86_64::*;

use super::{BLOCK, DisjointSliceMut, LANES, Product};

/// The sum of eight lanes.
#[inline]
#[target_feature(enable = "avx2,fma")]
pub fn sum8(v: __m256) -> f32 {
    let s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)))
}

/// SAFETY: `x0` holds at least `(R - 1) * stride + w.len()` values.
#[target_feature(enable = "avx2,fma")]
pub unsafe fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
    let n = w.len();
    let whole = n / LANES * LANES;
    let mut acc = [_mm256_setzero_ps(); R];
    let mut i = 0;
    while i < whole {
        // SAFETY: i + 8 <= n, the length of `w`.
        let wv = unsafe { _mm256_loadu_ps(w.as_ptr().add(i)) };
        for (r, acc) in acc.iter_mut().enumerate() {
            // SAFETY: row r holds n values, as the caller guarantees.
            let xv = unsafe { _mm256_loadu_ps(x0.as_ptr().add(r * stride + i)) };
            *acc = _mm256_fmadd_ps(wv, xv, *acc);
        }
        i += LANES;
    }
    let mut out = [0f32; R];
    for r in 0..R {
        let mut s = sum8(acc[r]);
        for k in whole..n {
            s += w[k] * x0[r * stride + k];
        }
        out[r] = s;
    }
    out
}

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

/// Sums of four vectors, each over its eight lanes in one fixed order.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn sums(v: [__m256; 4]) -> [f32; 4] {
    let s = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    let s = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    let mut out = [0f32; 4];
    // SAFETY: `out` holds four values.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), s) };
    out
}

/// Walk the tiles of a product: `O` columns by `R` rows. Every dot product is summed in the same order in any tile.
macro_rules! tiles {
    ($product:expr, $y:expr, $tile:ident, $($operand:expr),+) => {{
        let p = $product;
        let mut r = 0;
        while r < p.rows {
            let mut o = p.columns.start;
            if p.rows - r >= 4 {
                while o < p.columns.end {
                    // SAFETY: rows r to r + 4 and column o are within the product.
                    let v = unsafe { $tile::<1, 4>($($operand),+, o, r) };
                    for (i, sum) in sums(v[0]).into_iter().enumerate() {
                        // SAFETY: the column is this call's.
                        unsafe { $y.set(p.at(r + i, o), sum) };
                    }
                    o += 1;
                }
                r += 4;
            } else {
                while o < p.columns.end {
                    let zero = _mm256_setzero_ps();
                    let n = (p.columns.end - o).min(4);
                    // SAFETY: row r and columns o to o + n are within the product.
                    let v = unsafe {
                        if n == 4 {
                            let v = $tile::<4, 1>($($operand),+, o, r);
                            [v[0][0], v[1][0], v[2][0], v[3][0]]
                        } else {
                            [$tile::<1, 1>($($operand),+, o, r)[0][0], zero, zero, zero]
                        }
                    };
                    let n = if n == 4 { 4 } else { 1 };
                    for (i, sum) in sums(v).into_iter().take(n).enumerate() {
                        // SAFETY: the columns are this call's.
                        unsafe { $y.set(p.at(r, o + i), sum) };
                    }
                    o += n;
                }
                r += 1;
            }
        }
    }};
}

/// SAFETY: the operands passed [`Product::check`]; the columns are the caller's.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &DisjointSliceMut<'_>) {
    tiles!(product, y, tile_f32, w, x, product.inputs);
}

/// Unsummed dot products of `O` rows of `w` from `o` on with `R` rows of `x` from `r` on; the remainder of a width that 8 does not
/// divide is added to the first lane.
///
/// SAFETY: those rows exist in both operands.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile_f32<const O: usize, const R: usize>(
    w: &[f32],
    x: &[f32],
    n: usize,
    o: usize,
    r: usize,
) -> [[__m256; R]; O] {
    let mut acc = [[_mm256_setzero_ps(); R]; O];
    let whole = n / LANES * LANES;
    // SAFETY: every access is within rows that the caller guarantees.
    unsafe {
        let (w, x) = (w.as_ptr().add(o * n), x.as_ptr().add(r * n));
        for at in (0..whole).step_by(LANES) {
            for (i, acc) in acc.iter_mut().enumerate() {
                let wv = _mm256_loadu_ps(w.add(i * n + at));
                for (j, acc) in acc.iter_mut().enumerate() {
                    *acc = _mm256_fmadd_ps(wv, _mm256_loadu_ps(x.add(j * n + at)), *acc);
                }
            }
        }
        if whole < n {
            for (i, acc) in acc.iter_mut().enumerate() {
                for (j, acc) in acc.iter_mut().enumerate() {
                    let rest: f32 = (whole..n).map(|k| *w.add(i * n + k) * *x.add(j * n + k)).sum();
                    *acc = _mm256_add_ps(*acc, _mm256_zextps128_ps256(_mm_set_ss(rest)));
                }
            }
        }
    }
    acc
}
