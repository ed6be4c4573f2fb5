//! Products of 8-bit integers, in vectors of eight outputs: with the dot products of AVX-VNNI or NEON, or in AVX2 or NEON alone.
//! (AVX-512's dot products in 256 bits serve to test them, and processors on which 512 bits are switched off.)
//!
//! Eight outputs are computed together: their integers are arranged in groups of four inputs, so that one vector times four
//! broadcast inputs gives eight outputs, and the last step of every block, in f32, has one output in each lane.

mod blocks;
mod load;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod one_row;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use blocks::Arranged;
#[cfg(target_arch = "aarch64")]
pub use neon::{Int8, product_blocks, product_q8, scores_q8};
#[cfg(target_arch = "x86_64")]
pub use x86::{Int8, product_blocks, product_q8, scores_q8};

use super::{
    BLOCK, DisjointSliceMut, Product, Rows8, SLOTS,
    attention::{FEW, Keys8, Queries8, SEGMENT},
    blocks::BlockRows,
    quantized::{PANEL, Panels},
    vectors::{self as v, LANES},
};

/// Declares the implementations, the fastest first, each with its features on x86-64, a test for its instructions, the largest
/// number of rows of a tile, and its function `dots`.
///
/// `dots` adds dot products of `GROUPS` groups of four inputs of eight outputs with `R` rows to `start`. A group is `stride` bytes
/// after the one before. If the type is `SIGNED`, its integers are offset by [`v::OFFSET`]: a function that takes the offset off
/// is `signed true`, for others `start` makes up for it.
macro_rules! implementations {
    ($($variant:ident in $module:ident: $features:literal, if $has:expr, rows $rows:literal, signed $signed:literal, $dots:ident;)+) => {
        /// Which instructions to use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Int8 {
            $($variant),+
        }

        impl Int8 {
            /// The best that this processor has, if any.
            pub fn detect() -> Option<Self> {
                static FOUND: std::sync::OnceLock<Option<Int8>> = std::sync::OnceLock::new();
                *FOUND.get_or_init(|| {
                    let plain = std::env::var_os("SPECREEL_NO_VNNI").is_some();
                    if plain { Self::all().last() } else { Self::all().next() }
                })
            }

            /// All that this processor has, the fastest first.
            pub fn all() -> impl Iterator<Item = Self> {
                [$((Self::$variant, $has)),+].into_iter().filter(|(_, has)| *has).map(|(int8, _)| int8)
            }
        }

        /// Some columns of `y = x Wᵀ` of arranged 8-bit blocks.
        ///
        /// # Safety
        /// The instructions exist, the operands passed [`Product::check`], and the columns are the caller's.
        pub unsafe fn product_q8(int8: Int8, product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
            // SAFETY: as the caller guarantees.
            unsafe {
                match int8 {
                    $(Int8::$variant => $module::product_q8(product, w, x, y),)+
                }
            }
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
            #[cfg(target_arch = "aarch64")]
            if let (1, Some(kernel)) = (product.rows, int8.one_row::<K>()) {
                // SAFETY: as the caller guarantees.
                return unsafe { kernel(product, w, x, y) };
            }
            // SAFETY: as the caller guarantees.
            unsafe {
                match int8 {
                    $(Int8::$variant => $module::product_blocks::<K>(product, w, x, y),)+
                }
            }
        }

        /// Scores of queries with `blocks` blocks of keys: see `attention`.
        ///
        /// # Safety
        /// The instructions exist, the queries are whole blocks, the keys can be read, and `out` has rows of `stride` values.
        pub unsafe fn scores_q8(
            int8: Int8,
            queries: &Queries8,
            range: std::ops::Range<usize>,
            keys: Keys8<'_>,
            blocks: usize,
            out: &mut [f32],
            stride: usize,
        ) {
            // SAFETY: as the caller guarantees.
            unsafe {
                match int8 {
                    $(Int8::$variant => $module::scores_q8(queries, range, keys, blocks, out, stride),)+
                }
            }
        }

        $(int8_kernels!($module, $features, rows $rows, signed $signed, $dots);)+
    };
}
use implementations;

/// Call `$tile::<…, R>` for a number of rows, at most `$most`, which is 4 or 6.
macro_rules! for_rows {
    ($rows:expr, most $most:literal, $tile:ident[$($kind:ident)?]($($argument:expr),*)) => {
        match $rows {
            1 => $tile::<$($kind,)? 1>($($argument),*),
            2 => $tile::<$($kind,)? 2>($($argument),*),
            3 => $tile::<$($kind,)? 3>($($argument),*),
            5 if $most == 6 => $tile::<$($kind,)? 5>($($argument),*),
            6 if $most == 6 => $tile::<$($kind,)? 6>($($argument),*),
            _ => $tile::<$($kind,)? 4>($($argument),*),
        }
    };
}
use for_rows;

/// Defines a module for some instructions, see [`implementations`].
macro_rules! int8_kernels {
    ($name:ident, $features:literal, rows $rows:literal, signed $signed:literal, $dots:ident) => {
        mod $name {
            use super::{
                super::{
                    BLOCK, BlockRows, DisjointSliceMut, FEW, Keys8, LANES, PANEL, Panels, Product, Queries8, Rows8, SEGMENT, SLOTS,
                    blocks::{Arranged, PanelGroup, WIDE},
                    for_rows,
                    load::Outputs,
                    v::{self, Floats, Ints},
                },
                $dots as dots,
            };

            /// The rows of each tile, in tiles of about the same size.
            fn tiles(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
                let taken = rows.div_ceil(rows.div_ceil($rows).max(1)).max(1);
                (0..rows).step_by(taken).map(move |r| r..(r + taken).min(rows))
            }

            /// See [`super::product_q8`].
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            pub unsafe fn product_q8(product: &Product, w: &Panels, x: &Rows8, y: &DisjointSliceMut<'_>) {
                let mut o = product.columns.start;
                while o < product.columns.end {
                    // Half a panel, of which some columns may be others'.
                    let first = o / LANES * LANES;
                    let end = product.columns.end.min(first + LANES);
                    for rows in tiles(product.rows) {
                        // SAFETY: these rows and columns are within the product.
                        unsafe {
                            for_rows!(rows.len(), most $rows, half_panel[](product, w, x, first, o..end, rows.start, y))
                        };
                    }
                    o = end;
                }
            }

            /// `R` rows from `r` on times eight outputs.
            ///
            /// SAFETY: as for [`product_q8`].
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn half_panel<const R: usize>(
                product: &Product,
                w: &Panels,
                x: &Rows8,
                first: usize,
                columns: std::ops::Range<usize>,
                r: usize,
                y: &DisjointSliceMut<'_>,
            ) {
                let (blocks, mut sums) = (w.blocks, [v::zeros(); R]);
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
                        let dots = dots::<R, 8, true>(groups, 64, inputs, blocks * BLOCK, start);
                        let d = v::load(scales.add(b * PANEL));
                        for i in 0..R {
                            let scale = v::splat(*x.scales.as_ptr().add((r + i) * blocks + b));
                            let scale = v::mul(d, scale);
                            sums[i] = v::fma(v::to_floats(dots[i]), scale, sums[i]);
                        }
                    }
                    for (i, sums) in sums.iter_mut().enumerate() {
                        for (column, value) in x.outliers.of(r + i) {
                            let block = column / BLOCK;
                            let group = quants.add(block * PANEL * BLOCK + column % BLOCK / 4 * 64);
                            let four = v::xor(v::load_ints(group), v::splat_int(v::OFFSET));
                            // The column's byte becomes the highest, then a signed integer.
                            let q = v::sar(v::shl(four, 24 - 8 * (column % 4)), 24);
                            let d = v::load(scales.add(block * PANEL));
                            let weight = v::mul(v::to_floats(q), d);
                            *sums = v::fma(weight, v::splat(value), *sums);
                        }
                    }
                    for (i, sums) in sums.into_iter().enumerate() {
                        store(product, r + i, first, columns.clone(), sums, y);
                    }
                }
            }

            /// See [`super::scores_q8`].
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            pub unsafe fn scores_q8(
                queries: &Queries8,
                range: std::ops::Range<usize>,
                keys: Keys8<'_>,
                blocks: usize,
                out: &mut [f32],
                stride: usize,
            ) {
                for rows in tiles(range.len()) {
                    let (n, out) = (range.start + rows.start, &mut out[rows.start * stride..]);
                    for vector in 0..blocks * (SLOTS / LANES) {
                        // SAFETY: these queries and keys are the caller's.
                        unsafe {
                            for_rows!(rows.len(), most $rows, scores[](queries, n, keys, vector, out, stride))
                        };
                    }
                }
            }

            /// Scores of `R` queries from `n` on with a vector of keys.
            ///
            /// SAFETY: as for [`scores_q8`].
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn scores<const R: usize>(
                queries: &Queries8,
                n: usize,
                keys: Keys8<'_>,
                vector: usize,
                out: &mut [f32],
                stride: usize,
            ) {
                let (d, chunks, mut sums) = (queries.d, queries.d / BLOCK, [v::zeros(); R]);
                let (block, lane) = (vector * LANES / SLOTS, vector * LANES % SLOTS);
                // SAFETY: as the caller guarantees.
                unsafe {
                    let quants = keys.quants.as_ptr().add(block * SLOTS * d / 4 + lane);
                    let scales = keys.scales.as_ptr().add(block * SLOTS * chunks + lane);
                    for chunk in 0..chunks {
                        let own = |i: usize| (n + i) * chunks + chunk;
                        let start = std::array::from_fn(|i| offset(*queries.offsets.as_ptr().add(own(i))));
                        let inputs = queries.quants.as_ptr().add(n * d + chunk * BLOCK);
                        let groups: *const u8 = quants.add(chunk * BLOCK / 4 * SLOTS).cast();
                        if R <= FEW && lane == 0 {
                            // The next segment's keys, a line for each group.
                            for group in 0..BLOCK / 4 {
                                v::read_soon(groups.wrapping_add(SEGMENT * d + group * 4 * SLOTS));
                            }
                        }
                        let dots = dots::<R, 8, true>(groups, 4 * SLOTS, inputs, d, start);
                        let scale = v::load(scales.add(chunk * SLOTS));
                        for i in 0..R {
                            let scale = v::mul(v::splat(*queries.scales.as_ptr().add(own(i))), scale);
                            sums[i] = v::fma(v::to_floats(dots[i]), scale, sums[i]);
                        }
                    }
                    for (i, sums) in sums.into_iter().enumerate() {
                        v::store(out.as_mut_ptr().add(i * stride + vector * LANES), sums);
                    }
                }
            }

            /// Minus 128 times the sum of a block's inputs, if the weights are offset.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            fn offset(sum: i32) -> Ints {
                v::splat_int(if $signed { 0 } else { sum })
            }

            /// Minus the integer that stands for zero, as it is stored, times a sum of inputs.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            fn zero_times<K: Arranged>(sum: i32) -> Ints {
                match K::OFFSET {
                    0 => v::zero(),
                    _ if K::SIGNED => offset(-128 * sum),
                    zero => v::splat_int(-zero * sum),
                }
            }

            /// SAFETY: the columns of row `r` are the caller's.
            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn store(
                product: &Product,
                r: usize,
                first: usize,
                columns: std::ops::Range<usize>,
                sums: Floats,
                y: &DisjointSliceMut<'_>,
            ) {
                // SAFETY: as the caller guarantees.
                let out = unsafe { y.slice(product.at(r, columns.start), columns.len()) };
                out.copy_from_slice(&v::to_array(sums)[columns.start - first..columns.end - first]);
            }

            /// See [`super::product_blocks`].
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            pub unsafe fn product_blocks<K: Arranged>(
                product: &Product,
                w: &[u8],
                x: BlockRows<'_>,
                y: &DisjointSliceMut<'_>,
            ) {
                let bytes = product.inputs / K::VALUES * K::BYTES;
                let together = WIDE / K::VALUES;
                let blocks = product.inputs / K::VALUES;
                let mut group = PanelGroup::zeros();
                let mut o = product.columns.start;
                while o < product.columns.end {
                    let columns = o..product.columns.end.min(o + LANES);
                    // SAFETY: the rows of both operands exist, and the columns are the caller's.
                    unsafe {
                        let outputs = Outputs::new(w.as_ptr().add(o * bytes), bytes, columns.len());
                        for first in (0..product.rows).step_by(ROWS) {
                            let rows = (product.rows - first).min(ROWS);
                            let mut sums = [v::zeros(); ROWS];
                            for b in (0..blocks).step_by(together) {
                                let count = together.min(blocks - b);
                                K::arrange(&outputs, b * K::BYTES, count, &mut group);
                                for rows in tiles(rows) {
                                    let index = (first + rows.start) * blocks + b;
                                    let sums = &mut sums[rows.clone()];
                                    for_rows!(rows.len(), most $rows, tile[K](&group, x, index, blocks, count, sums));
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
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn tile<K: Arranged, const R: usize>(
                group: &PanelGroup,
                x: BlockRows<'_>,
                index: usize,
                blocks: usize,
                count: usize,
                sums: &mut [Floats],
            ) {
                // SAFETY: as the caller guarantees.
                unsafe {
                    let quants: *const u8 = group.quants.as_ptr().cast();
                    if K::VALUES == BLOCK {
                        let mut acc: [Floats; R] = std::array::from_fn(|r| sums[r]);
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
                                let scale = v::splat(*x.q8.scales.as_ptr().add(at(r)));
                                let d = v::mul(group.scales[i], scale);
                                acc[r] = v::fma(v::to_floats(dots[r]), d, acc[r]);
                                if K::MINIMA {
                                    let sum = *x.q8.offsets.as_ptr().add(at(r)) / -128;
                                    let d = v::mul(group.minimums[i], scale);
                                    acc[r] = v::fma(v::splat(sum as f32), d, acc[r]);
                                }
                            }
                        }
                        sums.copy_from_slice(&acc);
                        return;
                    }
                    let mut totals = [v::zero(); R];
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
                            let scaled = v::mul_int(dots[r], group.sub_scales[sub]);
                            totals[r] = v::add(totals[r], scaled);
                        }
                    }
                    for r in 0..R {
                        let index = index + r * blocks;
                        let scale = v::splat(*x.k.scales.as_ptr().add(index));
                        let d = v::mul(group.scales[0], scale);
                        sums[r] = v::fma(v::to_floats(totals[r]), d, sums[r]);
                        if K::MINIMA {
                            let count = K::VALUES / K::PART / 2;
                            let pairs = if K::PART == 32 { x.k.pairs.as_ptr() } else { x.k.sums.as_ptr() };
                            let pairs: *const i32 = pairs.add(index * count * 2).cast();
                            let mut minima = v::zero();
                            for (i, m) in group.minima.iter().take(count).enumerate() {
                                let pair = v::splat_int(pairs.add(i).read_unaligned());
                                minima = v::add(minima, v::mul_pairs(*m, pair));
                            }
                            let d = v::mul(group.minimums[0], scale);
                            sums[r] = v::fnma(v::to_floats(minima), d, sums[r]);
                        }
                    }
                }
            }
        }
    };
}
use int8_kernels;
