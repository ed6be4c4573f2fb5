//! Products of 8-bit integers in vectors of 256 bits, for processors without AVX-512: with AVX-VNNI's dot products, or in AVX2
//! alone. (AVX-512's dot products in 256 bits serve to test them, and processors on which 512 bits are switched off.)
//!
//! Eight outputs are computed together: their integers are arranged in groups of four inputs, so that one vector times four
//! broadcast inputs gives eight outputs, and the last step of every block, in f32, has one output in each lane.

mod blocks;
mod load;

use std::arch::x86_64::*;

pub use blocks::Arranged;

use super::{
    BLOCK, DisjointSliceMut, Product, Rows8,
    blocks::BlockRows,
    quantized::{PANEL, Panels},
};

/// Outputs of a vector.
const LANES: usize = 8;

/// Which instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int8 {
    AvxVnni,
    /// AVX-512 VNNI in vectors of 256 bits.
    Avx512Vnni,
    Avx2,
}

impl Int8 {
    /// The best that this processor has; `None` without AVX2.
    pub fn detect() -> Option<Self> {
        static FOUND: std::sync::OnceLock<Option<Int8>> = std::sync::OnceLock::new();
        *FOUND.get_or_init(|| {
            let vnni = std::env::var_os("SPECREEL_NO_VNNI").is_none();
            Self::all().find(|int8| vnni || *int8 == Self::Avx2)
        })
    }

    /// All that this processor has, the fastest first.
    pub fn all() -> impl Iterator<Item = Self> {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = super::has_avx2() && has!("f16c");
        let found = [
            (Self::AvxVnni, has!("avxvnni")),
            (Self::Avx512Vnni, has!("avx512f") && has!("avx512vl") && has!("avx512vnni")),
            (Self::Avx2, true),
        ];
        found.into_iter().filter(move |(_, has)| avx2 && *has).map(|(int8, _)| int8)
    }
}

/// Evaluate a call in the module of the instructions in use.
macro_rules! with_int8 {
    ($int8:expr, $name:ident $(::<$kind:ident>)?($($argument:expr),*)) => {
        // SAFETY: the features were detected; the rest is the caller's.
        unsafe {
            match $int8 {
                Int8::AvxVnni => avx_vnni::$name$(::<$kind>)?($($argument),*),
                Int8::Avx512Vnni => avx512_vnni::$name$(::<$kind>)?($($argument),*),
                Int8::Avx2 => avx2::$name$(::<$kind>)?($($argument),*),
            }
        }
    };
}

/// Some columns of `y = x Wᵀ` of arranged 8-bit blocks.
///
/// # Safety
/// The instructions exist, the operands passed [`Product::check`], and the columns are the caller's.
pub unsafe fn product_q8(int8: Int8, product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
    with_int8!(int8, product_q8(product, w, x, y));
}

/// Some columns of `y = x Wᵀ` of blocks as a file has them.
///
/// # Safety
/// As for [`product_q8`]; the rows of the matrix are whole blocks.
pub unsafe fn product_blocks<K: Arranged>(
    int8: Int8,
    product: &Product,
    w: &[u8],
    x: BlockRows<'_>,
    y: &DisjointSliceMut<'_>,
) {
    with_int8!(int8, product_blocks::<K>(product, w, x, y));
}

/// Call `$tile::<…, R>` for a number of rows.
macro_rules! for_rows {
    ($rows:expr, $tile:ident[$($kind:ident)?]($($argument:expr),*)) => {
        match $rows {
            1 => $tile::<$($kind,)? 1>($($argument),*),
            2 => $tile::<$($kind,)? 2>($($argument),*),
            3 => $tile::<$($kind,)? 3>($($argument),*),
            4 => $tile::<$($kind,)? 4>($($argument),*),
            5 => $tile::<$($kind,)? 5>($($argument),*),
            _ => $tile::<$($kind,)? 6>($($argument),*),
        }
    };
}

/// Defines a module for some instructions: `$dot(sum, w, x)` adds products of four integers each, unsigned times signed, to the
/// lanes of `sum`; with `$signed` both are signed. A tile has at most `$rows` rows.
macro_rules! int8_kernels {
    ($name:ident, $features:literal, rows $rows:literal, signed $signed:literal, $dot:ident) => {
        mod $name {
            use std::arch::x86_64::*;

            use super::{
                BLOCK, BlockRows, DisjointSliceMut, LANES, PANEL, Panels, Product, Rows8,
                blocks::{Arranged, Group, WIDE},
                load::Outputs,
                $dot,
            };

            /// The rows of each tile, in tiles of about the same size.
            fn tiles(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
                let taken = rows.div_ceil(rows.div_ceil($rows).max(1)).max(1);
                (0..rows).step_by(taken).map(move |r| r..(r + taken).min(rows))
            }

            /// See [`super::product_q8`].
            #[target_feature(enable = $features)]
            pub unsafe fn product_q8(product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
                let mut o = product.columns.start;
                while o < product.columns.end {
                    // Half a panel, of which some columns may be others'.
                    let first = o / LANES * LANES;
                    let end = product.columns.end.min(first + LANES);
                    for rows in tiles(product.rows) {
                        // SAFETY: these rows and columns are within the product.
                        unsafe {
                            for_rows!(rows.len(), half_panel[](product, w, x, first, o..end, rows.start, y))
                        };
                    }
                    o = end;
                }
            }

            /// `R` rows from `r` on times eight outputs.
            ///
            /// SAFETY: as for [`product_q8`].
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn half_panel<const R: usize>(
                product: &Product,
                w: &Panels,
                x: &Rows8,
                first: usize,
                columns: std::ops::Range<usize>,
                r: usize,
                y: &DisjointSliceMut<'_>,
            ) {
                let (blocks, mut sums) = (w.blocks, [_mm256_setzero_ps(); R]);
                // SAFETY: as the caller guarantees.
                unsafe {
                    let at = first / PANEL * blocks;
                    let half = first % PANEL;
                    let quants = w.quants.as_ptr().add(at * PANEL * BLOCK + half * 4);
                    let scales = w.scales.as_ptr().add(at * PANEL + half);
                    for b in 0..blocks {
                        let start =
                            std::array::from_fn(|i| offset(*x.offsets.as_ptr().add((r + i) * blocks + b)));
                        let inputs = x.quants.as_ptr().add((r * blocks + b) * BLOCK);
                        let groups = quants.add(b * PANEL * BLOCK);
                        let dots = dots::<R, 8, true>(groups.cast(), 64, inputs, blocks * BLOCK, start);
                        let d = _mm256_loadu_ps(scales.add(b * PANEL));
                        for i in 0..R {
                            let scale = _mm256_set1_ps(*x.scales.as_ptr().add((r + i) * blocks + b));
                            let scale = _mm256_mul_ps(d, scale);
                            sums[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[i]), scale, sums[i]);
                        }
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        for (column, value) in x.outliers.of(r + i) {
                            // The column's byte becomes the highest, then a signed integer.
                            let up = _mm_cvtsi32_si128(24 - 8 * (column % 4) as i32);
                            let block = column / BLOCK;
                            let group = quants.add(block * PANEL * BLOCK + column % BLOCK / 4 * 64);
                            let four = _mm256_loadu_si256(group.cast());
                            let four = _mm256_xor_si256(four, _mm256_set1_epi8(-128));
                            let q = _mm256_srai_epi32::<24>(_mm256_sll_epi32(four, up));
                            let d = _mm256_loadu_ps(scales.add(block * PANEL));
                            let weight = _mm256_mul_ps(_mm256_cvtepi32_ps(q), d);
                            *sums = _mm256_fmadd_ps(weight, _mm256_set1_ps(value), *sums);
                        }
                    }
                    for (i, sums) in sums.into_iter().enumerate() {
                        store(product, r + i, first, columns.clone(), sums, y);
                    }
                }
            }

            /// Minus 128 times the sum of a block's inputs, if the weights are offset.
            #[inline]
            #[target_feature(enable = $features)]
            fn offset(sum: i32) -> __m256i {
                _mm256_set1_epi32(if $signed { 0 } else { sum })
            }

            /// Minus the integer that stands for zero, as it is stored, times a sum of inputs.
            #[inline]
            #[target_feature(enable = $features)]
            fn zero_times<K: Arranged>(sum: i32) -> __m256i {
                match K::OFFSET {
                    0 => _mm256_setzero_si256(),
                    _ if K::SIGNED => offset(-128 * sum),
                    zero => _mm256_set1_epi32(-zero * sum),
                }
            }

            /// SAFETY: the columns of row `r` are the caller's.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn store(
                product: &Product,
                r: usize,
                first: usize,
                columns: std::ops::Range<usize>,
                sums: __m256,
                y: &DisjointSliceMut<'_>,
            ) {
                let mut all = [0f32; LANES];
                // SAFETY: as the caller guarantees.
                unsafe {
                    _mm256_storeu_ps(all.as_mut_ptr(), sums);
                    let out = y.slice(product.at(r, columns.start), columns.len());
                    out.copy_from_slice(&all[columns.start - first..columns.end - first]);
                }
            }

            /// Dot products of `GROUPS` groups of four inputs of eight outputs with `R` rows, added to `start`. A group is `stride`
            /// bytes after the one before. If it is `OFFSET`, its integers are offset by 128.
            ///
            /// SAFETY: the groups exist, and each row `x[r * row ..]` has as many inputs.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn dots<const R: usize, const GROUPS: usize, const OFFSET: bool>(
                groups: *const u8,
                stride: usize,
                x: *const i8,
                row: usize,
                start: [__m256i; R],
            ) -> [__m256i; R] {
                let mut dots = start;
                for g in 0..GROUPS {
                    // SAFETY: as the caller guarantees.
                    let w = unsafe { _mm256_loadu_si256(groups.add(g * stride).cast()) };
                    let signed = OFFSET && $signed;
                    let w = if signed { _mm256_xor_si256(w, _mm256_set1_epi8(-128)) } else { w };
                    let magnitude = if signed { _mm256_abs_epi8(w) } else { w };
                    for r in 0..R {
                        // SAFETY: as the caller guarantees.
                        let four = unsafe { x.add(r * row + g * 4).cast::<i32>().read_unaligned() };
                        let four = _mm256_set1_epi32(four);
                        let four = if signed { _mm256_sign_epi8(four, w) } else { four };
                        dots[r] = $dot(dots[r], magnitude, four);
                    }
                }
                dots
            }

            /// See [`super::product_blocks`].
            #[target_feature(enable = $features)]
            pub unsafe fn product_blocks<K: Arranged>(
                product: &Product,
                w: &[u8],
                x: BlockRows<'_>,
                y: &DisjointSliceMut<'_>,
            ) {
                let bytes = product.inputs / K::VALUES * K::BYTES;
                let together = WIDE / K::VALUES;
                let blocks = product.inputs / K::VALUES;
                let mut group = Group::zeros();
                let mut o = product.columns.start;
                while o < product.columns.end {
                    let columns = o..product.columns.end.min(o + LANES);
                    // SAFETY: the rows of both operands exist, and the columns are the caller's.
                    unsafe {
                        let outputs = Outputs::new(w.as_ptr().add(o * bytes), bytes, columns.len());
                        for first in (0..product.rows).step_by(ROWS) {
                            let rows = (product.rows - first).min(ROWS);
                            let mut sums = [_mm256_setzero_ps(); ROWS];
                            for b in (0..blocks).step_by(together) {
                                let count = together.min(blocks - b);
                                K::arrange(&outputs, b * K::BYTES, count, &mut group);
                                for rows in tiles(rows) {
                                    let index = (first + rows.start) * blocks + b;
                                    let sums = &mut sums[rows.clone()];
                                    for_rows!(rows.len(), tile[K](&group, x, index, blocks, count, sums));
                                }
                            }
                            for (r, sums) in sums.into_iter().enumerate().take(rows) {
                                store(product, first + r, o, columns.clone(), sums, y);
                            }
                        }
                    }
                    o = columns.end;
                }
            }

            /// Rows whose sums are kept at a time.
            const ROWS: usize = 96;

            /// The blocks of a group times `R` rows; `index` is the first row's first block of the inputs.
            ///
            /// SAFETY: those blocks of the inputs exist, and `R` sums.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tile<K: Arranged, const R: usize>(
                group: &Group,
                x: BlockRows<'_>,
                index: usize,
                blocks: usize,
                count: usize,
                sums: &mut [__m256],
            ) {
                // SAFETY: as the caller guarantees.
                unsafe {
                    let quants: *const u8 = group.quants.as_ptr().cast();
                    if K::VALUES == BLOCK {
                        let mut acc: [__m256; R] = std::array::from_fn(|r| sums[r]);
                        for i in 0..count {
                            let at = |r: usize| index + r * blocks + i;
                            let start = std::array::from_fn(|r| {
                                let sum = *x.q8.offsets.as_ptr().add(at(r));
                                zero_times::<K>(sum / -128)
                            });
                            let inputs = x.q8.quants.as_ptr().add((index + i) * BLOCK);
                            let groups = quants.add(i * BLOCK * LANES);
                            let dots = match K::SIGNED {
                                true => dots::<R, 8, true>(groups, 32, inputs, blocks * BLOCK, start),
                                false => dots::<R, 8, false>(groups, 32, inputs, blocks * BLOCK, start),
                            };
                            for r in 0..R {
                                let scale = _mm256_set1_ps(*x.q8.scales.as_ptr().add(at(r)));
                                let d = _mm256_mul_ps(group.scales[i], scale);
                                acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[r]), d, acc[r]);
                                if K::MINIMA {
                                    let sum = *x.q8.offsets.as_ptr().add(at(r)) / -128;
                                    let d = _mm256_mul_ps(group.minimums[i], scale);
                                    acc[r] = _mm256_fmadd_ps(_mm256_set1_ps(sum as f32), d, acc[r]);
                                }
                            }
                        }
                        sums.copy_from_slice(&acc);
                        return;
                    }
                    let mut totals = [_mm256_setzero_si256(); R];
                    let inputs = x.k.quants.as_ptr().add(index * WIDE);
                    for sub in 0..K::VALUES / K::PART {
                        let at = K::PART * sub;
                        let (groups, inputs) = (quants.add(at * LANES), inputs.add(at));
                        let start = std::array::from_fn(|r| {
                            let sums = x.k.sums.as_ptr().add((index + r * blocks) * 16 + at / 16);
                            zero_times::<K>((0..K::PART / 16).map(|i| i32::from(*sums.add(i))).sum())
                        });
                        let row = blocks * WIDE;
                        let dots = match (K::PART, K::SIGNED) {
                            (16, true) => dots::<R, 4, true>(groups, 32, inputs, row, start),
                            (16, false) => dots::<R, 4, false>(groups, 32, inputs, row, start),
                            (_, true) => dots::<R, 8, true>(groups, 32, inputs, row, start),
                            (_, false) => dots::<R, 8, false>(groups, 32, inputs, row, start),
                        };
                        for r in 0..R {
                            let scaled = _mm256_mullo_epi32(dots[r], group.sub_scales[sub]);
                            totals[r] = _mm256_add_epi32(totals[r], scaled);
                        }
                    }
                    for r in 0..R {
                        let index = index + r * blocks;
                        let scale = _mm256_set1_ps(*x.k.scales.as_ptr().add(index));
                        let d = _mm256_mul_ps(group.scales[0], scale);
                        sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(totals[r]), d, sums[r]);
                        if K::MINIMA {
                            let count = K::VALUES / K::PART / 2;
                            let pairs = if K::PART == 32 { x.k.pairs.as_ptr() } else { x.k.sums.as_ptr() };
                            let pairs: *const i32 = pairs.add(index * count * 2).cast();
                            let mut minima = _mm256_setzero_si256();
                            for (i, m) in group.minima.iter().take(count).enumerate() {
                                let pair = _mm256_set1_epi32(pairs.add(i).read_unaligned());
                                minima = _mm256_add_epi32(minima, _mm256_madd_epi16(*m, pair));
                            }
                            let d = _mm256_mul_ps(group.minimums[0], scale);
                            sums[r] = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(minima), d, sums[r]);
                        }
                    }
                }
            }
        }
    };
}

#[inline]
#[target_feature(enable = "avxvnni,avx2")]
fn dot_avx_vnni(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_avx_epi32(sum, w, x)
}

#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512vnni")]
fn dot_avx512_vnni(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_epi32(sum, w, x)
}

/// The sums of two products must fit into 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn dot_avx2(sum: __m256i, w: __m256i, x: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(w, x);
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

int8_kernels!(avx_vnni, "avx2,fma,f16c,avxvnni", rows 6, signed false, dot_avx_vnni);
int8_kernels!(avx512_vnni, "avx2,fma,f16c,avx512f,avx512vl,avx512vnni", rows 6, signed false, dot_avx512_vnni);
int8_kernels!(avx2, "avx2,fma,f16c", rows 4, signed true, dot_avx2);
