//! The AVX-512 implementation, with VNNI's 8-bit dot products.
//!
//! Weights are in panels of 16 outputs: for each block of 32 inputs eight vectors of 16 outputs × 4 inputs, offset by 128 to be
//! unsigned. One vector times four broadcast inputs gives 16 outputs at once. Integer sums do not depend on their order, and
//! the scaled sums of blocks, then of outliers, are added in the same order in every tile.

use std::arch::x86_64::*;

use super::{
    BLOCK, DisjointSliceMut, Product, Rows8,
    quantized::{PANEL, Panels},
};

/// Maximum rows of a tile. With two panels its sums fill the registers, and each input is loaded once for both.
const ROWS: usize = 6;

/// SAFETY: the operands passed [`Product::check`]; the columns are the caller's.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn product_q8(product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
    let end = product.columns.end.div_ceil(PANEL);
    let mut panel = product.columns.start / PANEL;
    while panel < end {
        // One or two rows are too few independent sums to keep the multipliers busy.
        let wanted = if product.rows <= 2 { 4 } else { 2 };
        let taken = if panel + wanted <= end { wanted } else { 1 };
        // Tiles of about the same size: 7 rows are 4 and 3, not 6 and 1. The panels stay in the cache for all of them.
        let rows = product.rows.div_ceil(product.rows.div_ceil(ROWS).max(1)).max(1);
        for r in (0..product.rows).step_by(rows) {
            let rows = rows.min(product.rows - r);
            // SAFETY: these rows and panels are within the product.
            unsafe {
                match (taken, rows) {
                    (4, 1) => panels::<4, 1>(product, w, x, panel, r, y),
                    (4, _) => panels::<4, 2>(product, w, x, panel, r, y),
                    (2, 1) => panels::<2, 1>(product, w, x, panel, r, y),
                    (2, 2) => panels::<2, 2>(product, w, x, panel, r, y),
                    (2, 3) => panels::<2, 3>(product, w, x, panel, r, y),
                    (2, 4) => panels::<2, 4>(product, w, x, panel, r, y),
                    (2, 5) => panels::<2, 5>(product, w, x, panel, r, y),
                    (2, _) => panels::<2, 6>(product, w, x, panel, r, y),
                    (_, 1) => panels::<1, 1>(product, w, x, panel, r, y),
                    (_, 2) => panels::<1, 2>(product, w, x, panel, r, y),
                    (_, 3) => panels::<1, 3>(product, w, x, panel, r, y),
                    (_, 4) => panels::<1, 4>(product, w, x, panel, r, y),
                    (_, 5) => panels::<1, 5>(product, w, x, panel, r, y),
                    _ => panels::<1, 6>(product, w, x, panel, r, y),
                }
            }
        }
        panel += taken;
    }
}

/// `R` rows from `r` on times `P` panels from `panel` on.
///
/// SAFETY: as for [`product_q8`]; the panels overlap the product's columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn panels<const P: usize, const R: usize>(
    product: &Product,
    w: &Panels,
    x: &Rows8,
    panel: usize,
    r: usize,
    y: &DisjointSliceMut<'_>,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        for (p, sums) in tile::<P, R>(w, x, panel, r).into_iter().enumerate() {
            store(product, panel + p, r, &sums, y);
        }
    }
}

/// SAFETY: the panel overlaps the product's columns, which are the caller's.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store(product: &Product, panel: usize, r: usize, sums: &[__m512], y: &DisjointSliceMut<'_>) {
    let first = panel * PANEL;
    let from = product.columns.start.max(first);
    let to = product.columns.end.min(first + PANEL);
    for (i, sum) in sums.iter().enumerate() {
        let at = product.at(r + i, 0);
        // SAFETY: these columns of row r + i are the caller's.
        unsafe {
            if to - from == PANEL {
                _mm512_storeu_ps(y.slice(at + first, PANEL).as_mut_ptr(), *sum);
            } else {
                let mut all = [0f32; PANEL];
                _mm512_storeu_ps(all.as_mut_ptr(), *sum);
                y.slice(at + from, to - from).copy_from_slice(&all[from - first..to - first]);
            }
        }
    }
}

/// Dot products of `P` panels with `R` rows.
///
/// SAFETY: those panels and rows exist, and the outliers' columns are within the rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[expect(clippy::needless_range_loop, reason = "rows and panels index several arrays and pointers at once")]
unsafe fn tile<const P: usize, const R: usize>(
    w: &Panels,
    x: &Rows8,
    panel: usize,
    r: usize,
) -> [[__m512; R]; P] {
    let blocks = w.blocks;
    let mut acc = [[_mm512_setzero_ps(); R]; P];
    // SAFETY: every access is within panels and rows that the caller guarantees.
    unsafe {
        let weights = w.quants.as_ptr().add(panel * blocks * PANEL * BLOCK);
        let scales = w.scales.as_ptr().add(panel * blocks * PANEL);
        let inputs = x.quants.as_ptr().add(r * blocks * BLOCK);
        let (xs, xo) = (x.scales.as_ptr().add(r * blocks), x.offsets.as_ptr().add(r * blocks));
        for b in 0..blocks {
            let offsets: [__m512i; R] = std::array::from_fn(|i| _mm512_set1_epi32(*xo.add(i * blocks + b)));
            let mut dots = [offsets; P];
            for g in 0..BLOCK / 4 {
                let wv: [__m512i; P] = std::array::from_fn(|p| {
                    _mm512_loadu_si512(weights.add(((p * blocks + b) * (BLOCK / 4) + g) * 64).cast())
                });
                for i in 0..R {
                    let four = inputs.add((i * blocks + b) * BLOCK + g * 4).cast::<i32>().read_unaligned();
                    let xv = _mm512_set1_epi32(four);
                    for p in 0..P {
                        dots[p][i] = _mm512_dpbusd_epi32(dots[p][i], wv[p], xv);
                    }
                }
            }
            for p in 0..P {
                let ws = _mm512_loadu_ps(scales.add((p * blocks + b) * PANEL));
                for i in 0..R {
                    let scale = _mm512_mul_ps(ws, _mm512_set1_ps(*xs.add(i * blocks + b)));
                    acc[p][i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[p][i]), scale, acc[p][i]);
                }
            }
        }
        for i in 0..R {
            for (column, value) in x.outliers.of(r + i) {
                // The column's byte becomes the highest, then a signed integer.
                let up = _mm_cvtsi32_si128(24 - 8 * (column % 4) as i32);
                let value = _mm512_set1_ps(value);
                for p in 0..P {
                    let block = p * blocks + column / BLOCK;
                    let group = block * (BLOCK / 4) + column % BLOCK / 4;
                    let four = _mm512_loadu_si512(weights.add(group * 64).cast());
                    let four = _mm512_xor_si512(four, _mm512_set1_epi8(-128));
                    let q = _mm512_srai_epi32::<24>(_mm512_sll_epi32(four, up));
                    let d = _mm512_loadu_ps(scales.add(block * PANEL));
                    let weight = _mm512_mul_ps(_mm512_cvtepi32_ps(q), d);
                    acc[p][i] = _mm512_fmadd_ps(weight, value, acc[p][i]);
                }
            }
        }
    }
    acc
}

/// As [`super::quantize_q8`]; `offsets` are the sums of the blocks times -128.
///
/// SAFETY: the four slices hold the same number of blocks.
#[target_feature(enable = "avx512f,avx512bw")]
pub unsafe fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32], offsets: &mut [i32]) {
    for (b, (scale, offset)) in scales.iter_mut().zip(offsets).enumerate() {
        // SAFETY: block b is within the values.
        let v: [__m512; 2] =
            std::array::from_fn(|i| unsafe { _mm512_loadu_ps(x.as_ptr().add(b * BLOCK + i * 16)) });
        let peak = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(v[0]), _mm512_abs_ps(v[1])));
        *scale = peak / 127.0;
        let inverse = _mm512_set1_ps(if peak > 0.0 { 127.0 / peak } else { 0.0 });
        let q = v.map(|v| _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse)));
        // Wraps for values that are not finite.
        *offset = _mm512_reduce_add_epi32(_mm512_add_epi32(q[0], q[1])).wrapping_mul(-128);
        for (i, q) in q.into_iter().enumerate() {
            // SAFETY: block b is within the quants.
            unsafe {
                _mm_storeu_si128(quants.as_mut_ptr().add(b * BLOCK + i * 16).cast(), _mm512_cvtepi32_epi8(q))
            };
        }
    }
}
