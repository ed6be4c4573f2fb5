//! The AVX-512 implementation, with VNNI's 8-bit dot products.
//!
//! Weights are in panels of 16 outputs: for each block of 32 inputs eight vectors of 16 outputs × 4 inputs, offset by 128 to be
//! unsigned. One vector times four broadcast inputs gives 16 outputs at once. Integer sums do not depend on their order, and
//! the scaled sums of blocks, then of outliers, are added in the same order in every tile.

use std::{arch::x86_64::*, mem::MaybeUninit, ops::Range};

use super::{
    BLOCK, DisjointSliceMut, Product, Rows8,
    ahead::{Ahead, CHUNK},
    quantized::{PANEL, Panels},
};

/// Maximum rows of a tile of `P` panels: its sums fill the registers, and each input is loaded once for all panels.
const fn tile_rows<const P: usize>() -> usize {
    if P == 4 { 3 } else { 6 }
}
/// Rows whose sums are kept at a time.
const GROUP: usize = 48;

/// The sums of a row, by panel.
type Sums = [__m512; 4];

/// Sums of zero: only as many as there are rows, since a product of a single row is short.
#[target_feature(enable = "avx512f")]
fn zeros(sums: &mut [MaybeUninit<Sums>]) -> &mut [Sums] {
    sums.fill(MaybeUninit::new([_mm512_setzero_ps(); 4]));
    // SAFETY: all of them were written.
    unsafe { std::slice::from_raw_parts_mut(sums.as_mut_ptr().cast(), sums.len()) }
}

/// SAFETY: the operands passed [`Product::check`]; the columns are the caller's.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub unsafe fn product_q8(product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
    let end = product.columns.end.div_ceil(PANEL);
    let mut panel = product.columns.start / PANEL;
    let mut sums = [const { MaybeUninit::uninit() }; GROUP];
    let sums = zeros(&mut sums[..product.rows.min(GROUP)]);
    while panel < end {
        // SAFETY: these panels are within the product.
        panel += unsafe {
            match end - panel {
                4.. => panels::<4>(product, w, x, panel, sums, y),
                2.. => panels::<2>(product, w, x, panel, sums, y),
                _ => panels::<1>(product, w, x, panel, sums, y),
            }
        };
    }
}

/// All rows times `P` panels from `panel` on. Returns `P`.
///
/// SAFETY: as for [`product_q8`]; the panels overlap the product's columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn panels<const P: usize>(
    product: &Product,
    w: &Panels,
    x: &Rows8,
    panel: usize,
    sums: &mut [Sums],
    y: &DisjointSliceMut<'_>,
) -> usize {
    for first in (0..product.rows).step_by(GROUP) {
        let rows = (product.rows - first).min(GROUP);
        // Tiles of about the same size: 7 rows are 4 and 3, not 6 and 1.
        let tiles = rows.div_ceil(tile_rows::<P>()).max(1);
        let taken = rows.div_ceil(tiles).max(1);
        // A single row uses each block once, and the processor's own prefetching keeps up with it.
        let chunk = if rows > 1 { CHUNK } else { w.blocks.max(1) };
        for from in (0..w.blocks).step_by(chunk) {
            let to = (from + chunk).min(w.blocks);
            let next = if to < w.blocks { (panel, to) } else { (panel + P, 0) };
            let is_last = next.0 * w.blocks * PANEL * BLOCK >= w.quants.len();
            let ahead = (rows > 1 && !is_last).then(|| Ahead::new::<P>(w, next, tiles));
            for (tile, r) in (0..rows).step_by(taken).enumerate() {
                let chunk = Chunk { w, x, panel, blocks: from..to, ahead: &ahead, step: tile * (to - from) };
                // SAFETY: these rows, blocks, and panels are within the product.
                unsafe {
                    match taken.min(rows - r) {
                        1 => chunk.multiply::<P, 1>(first + r, &mut sums[r..]),
                        2 => chunk.multiply::<P, 2>(first + r, &mut sums[r..]),
                        4 if P < 4 => chunk.multiply::<P, 4>(first + r, &mut sums[r..]),
                        5 if P < 4 => chunk.multiply::<P, 5>(first + r, &mut sums[r..]),
                        6 if P < 4 => chunk.multiply::<P, 6>(first + r, &mut sums[r..]),
                        _ => chunk.multiply::<P, 3>(first + r, &mut sums[r..]),
                    }
                }
            }
        }
        for (r, sums) in sums.iter_mut().enumerate().take(rows) {
            // SAFETY: as above.
            unsafe {
                add_outliers::<P>(w, x, panel, first + r, sums);
                for (p, sum) in sums.iter().enumerate().take(P) {
                    store(product, panel + p, first + r, *sum, y);
                }
            }
        }
    }
    P
}

/// Store row `r` of a panel, as far as its outputs are the product's columns.
///
/// SAFETY: the panel overlaps these columns, which are the caller's.
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn store(product: &Product, panel: usize, r: usize, sum: __m512, y: &DisjointSliceMut<'_>) {
    let first = panel * PANEL;
    let from = product.columns.start.max(first);
    let to = product.columns.end.min(first + PANEL);
    let at = product.at(r, 0);
    // SAFETY: these columns of row r are the caller's.
    unsafe {
        if to - from == PANEL {
            _mm512_storeu_ps(y.slice(at + first, PANEL).as_mut_ptr(), sum);
        } else {
            let mut all = [0f32; PANEL];
            _mm512_storeu_ps(all.as_mut_ptr(), sum);
            y.slice(at + from, to - from).copy_from_slice(&all[from - first..to - first]);
        }
    }
}

/// Some blocks of some panels.
struct Chunk<'a> {
    w: &'a Panels,
    x: &'a Rows8,
    panel: usize,
    blocks: Range<usize>,
    ahead: &'a Option<Ahead>,
    /// The steps of `ahead` that were taken.
    step: usize,
}

impl Chunk<'_> {
    /// Add the products of these blocks of `P` panels with `R` rows from `r` on to their sums, which begin with the first block.
    ///
    /// SAFETY: those panels, blocks, and rows exist.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[expect(
        clippy::needless_range_loop,
        reason = "rows and panels index several arrays and pointers at once"
    )]
    unsafe fn multiply<const P: usize, const R: usize>(&self, r: usize, sums: &mut [Sums]) {
        let (w, x, blocks) = (self.w, self.x, self.w.blocks);
        let mut acc = [[_mm512_setzero_ps(); R]; P];
        if self.blocks.start > 0 {
            for p in 0..P {
                for i in 0..R {
                    acc[p][i] = sums[i][p];
                }
            }
        }
        // SAFETY: every access is within panels, blocks, and rows that the caller guarantees.
        unsafe {
            let weights = w.quants.as_ptr().add(self.panel * blocks * PANEL * BLOCK);
            let scales = w.scales.as_ptr().add(self.panel * blocks * PANEL);
            let inputs = x.quants.as_ptr().add(r * blocks * BLOCK);
            let (xs, xo) = (x.scales.as_ptr().add(r * blocks), x.offsets.as_ptr().add(r * blocks));
            for b in self.blocks.clone() {
                if let Some(ahead) = self.ahead {
                    ahead.read::<P>(self.step + b - self.blocks.start);
                }
                let offsets: [__m512i; R] =
                    std::array::from_fn(|i| _mm512_set1_epi32(*xo.add(i * blocks + b)));
                let mut dots = [offsets; P];
                for g in 0..BLOCK / 4 {
                    let wv: [__m512i; P] = std::array::from_fn(|p| {
                        _mm512_loadu_si512(weights.add(((p * blocks + b) * (BLOCK / 4) + g) * 64).cast())
                    });
                    for i in 0..R {
                        let four = inputs.add((i * blocks + b) * BLOCK + g * 4).cast::<i32>();
                        let xv = _mm512_set1_epi32(four.read_unaligned());
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
        }
        for p in 0..P {
            for i in 0..R {
                sums[i][p] = acc[p][i];
            }
        }
    }
}

/// Add the outliers of row `r` to the sums of `P` panels.
///
/// SAFETY: those panels and the row exist, and the outliers' columns are within the row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn add_outliers<const P: usize>(w: &Panels, x: &Rows8, panel: usize, r: usize, sums: &mut Sums) {
    for (column, value) in x.outliers.of(r) {
        // The column's byte becomes the highest, then a signed integer.
        let up = _mm_cvtsi32_si128(24 - 8 * (column % 4) as i32);
        let value = _mm512_set1_ps(value);
        for (p, sum) in sums.iter_mut().enumerate().take(P) {
            let block = (panel + p) * w.blocks + column / BLOCK;
            let group = block * (BLOCK / 4) + column % BLOCK / 4;
            // SAFETY: as the caller guarantees.
            let (four, d) = unsafe {
                (
                    _mm512_loadu_si512(w.quants.as_ptr().add(group * 64).cast()),
                    _mm512_loadu_ps(w.scales.as_ptr().add(block * PANEL)),
                )
            };
            let four = _mm512_xor_si512(four, _mm512_set1_epi8(-128));
            let q = _mm512_srai_epi32::<24>(_mm512_sll_epi32(four, up));
            *sum = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(q), d), value, *sum);
        }
    }
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
