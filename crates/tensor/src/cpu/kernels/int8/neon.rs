//! Dot products for 64-bit ARM: `smmla` (i8mm), `sdot` (dotprod), or widening products, which every processor has.
//!
//! `std::arch` has the instructions of i8mm and dotprod in unstable functions only. They are assembly that names the extension: a
//! function with `target_feature` cannot be `inline(always)`, and without it vectors pass through memory.

use std::{
    arch::{aarch64::*, asm, is_aarch64_feature_detected as has},
    array::from_fn,
};

use super::{
    Arranged, BlockRows, DisjointSliceMut, Keys8, Panels, Product, Queries8, Rows8, implementations,
    int8_kernels,
    one_row::{Dot, OneRow},
    v::{self, Ints},
};

implementations! {
    I8mm in i8mm: "neon", if has!("dotprod") && has!("i8mm"), rows 4, signed true, dots_i8mm;
    DotProd in dot_prod: "neon", if has!("dotprod"), rows 4, signed true, dots_dot_prod;
    Neon in neon: "neon", if true, rows 4, signed true, dots_neon;
}

/// Adds to each lane of `sum` the product of four bytes of `w` and the four bytes of `x` at word `LANE`.
///
/// SAFETY: the processor has dotprod.
#[inline(always)]
unsafe fn sdot<const LANE: i32>(mut sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the caller's; the instruction only computes.
    unsafe {
        asm!(
            ".arch_extension dotprod",
            "sdot {sum:v}.4s, {w:v}.16b, {x:v}.4b[{lane}]",
            sum = inout(vreg) sum, w = in(vreg) w, x = in(vreg) x, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// As [`sdot`], on any processor. The sums of two products must fit into 16 bits.
#[inline(always)]
unsafe fn widening<const LANE: i32>(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: NEON is part of the target.
    unsafe {
        let x = vreinterpretq_s8_s32(vdupq_laneq_s32::<LANE>(vreinterpretq_s32_s8(x)));
        let products = [vmull_s8(vget_low_s8(w), vget_low_s8(x)), vmull_high_s8(w, x)];
        vpadalq_s16(sum, vpaddq_s16(products[0], products[1]))
    }
}

/// Adds the products of two rows of eight bytes of `w` and two of `x` to the four integers of `sum`.
///
/// SAFETY: the processor has i8mm.
#[inline(always)]
unsafe fn smmla(mut sum: int32x4_t, w: int32x4_t, x: int32x4_t) -> int32x4_t {
    // SAFETY: the caller's; the instruction only computes.
    unsafe {
        asm!(
            ".arch_extension i8mm",
            "smmla {sum:v}.4s, {w:v}.16b, {x:v}.16b",
            sum = inout(vreg) sum, w = in(vreg) w, x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}

/// `sdot` of vectors.
pub struct Sdot;

impl Dot for Sdot {
    #[inline(always)]
    unsafe fn dot(mut sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: the caller's; the instruction only computes.
        unsafe {
            asm!(
                ".arch_extension dotprod",
                "sdot {sum:v}.4s, {w:v}.16b, {x:v}.16b",
                sum = inout(vreg) sum, w = in(vreg) w, x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    }
}

/// As [`Sdot`], on any processor.
pub struct Widening;

impl Dot for Widening {
    #[inline(always)]
    unsafe fn dot(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // SAFETY: NEON is part of the target.
        unsafe {
            let products = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            vpadalq_s16(vpadalq_s16(sum, products), vmull_high_s8(w, x))
        }
    }
}

impl Int8 {
    /// The kernel for one row of a type, if it has one of its own.
    pub(super) fn one_row<K: Arranged>(self) -> Option<OneRow> {
        let [dot_product, widening] = K::ONE_ROW?;
        Some(if self == Self::Neon { widening } else { dot_product })
    }
}

/// Defines `dots`, see [`implementations`].
macro_rules! dots {
    ($name:ident, $dot:ident) => {
        /// SAFETY: the instructions and the groups exist, and each row `x[r * row ..]` has as many inputs.
        #[inline(always)]
        unsafe fn $name<const R: usize, const GROUPS: usize, const SIGNED: bool>(
            groups: *const u8,
            stride: usize,
            x: *const i8,
            row: usize,
            start: [Ints; R],
        ) -> [Ints; R] {
            let mut dots = start;
            for four in 0..GROUPS / 4 {
                // SAFETY: as the caller guarantees.
                let inputs: [int8x16_t; R] = from_fn(|r| unsafe { vld1q_s8(x.add(r * row + four * 16)) });
                macro_rules! group {
                    ($lane:literal) => {
                        // SAFETY: as the caller guarantees.
                        let w = unsafe { v::load_ints(groups.add((four * 4 + $lane) * stride)) };
                        for (dots, x) in dots.iter_mut().zip(inputs) {
                            // SAFETY: as the caller guarantees.
                            unsafe {
                                dots.0 = $dot::<$lane>(dots.0, v::bytes(w.0), x);
                                dots.1 = $dot::<$lane>(dots.1, v::bytes(w.1), x);
                            }
                        }
                    };
                }
                group!(0);
                group!(1);
                group!(2);
                group!(3);
            }
            dots
        }
    };
}

dots!(dots_dot_prod, sdot);
dots!(dots_neon, widening);

/// Rows in pairs: two outputs times two rows in one instruction. The last of an odd number is multiplied alone.
///
/// SAFETY: the instructions and the groups exist, and each row `x[r * row ..]` has as many inputs.
#[inline(always)]
unsafe fn dots_i8mm<const R: usize, const GROUPS: usize, const SIGNED: bool>(
    groups: *const u8,
    stride: usize,
    x: *const i8,
    row: usize,
    start: [Ints; R],
) -> [Ints; R] {
    let (paired, mut dots) = (R / 2 * 2, start);
    // Of each pair of rows: outputs 0 to 3, then 4 to 7, both of two rows.
    let mut tiles = [v::zero(); R];
    // SAFETY: as the caller guarantees.
    unsafe {
        for two in 0..if R > 1 { GROUPS / 2 } else { 0 } {
            let a = v::load_ints(groups.add(two * 2 * stride));
            let b = v::load_ints(groups.add((two * 2 + 1) * stride));
            // Eight inputs of two outputs.
            let (low, high) = (v::zip_low(a, b), v::zip_high(a, b));
            for r in (0..paired).step_by(2) {
                let x = x.add(r * row + two * 8);
                let inputs = vreinterpretq_s32_s8(vcombine_s8(vld1_s8(x), vld1_s8(x.add(row))));
                tiles[r].0 = smmla(tiles[r].0, low.0, inputs);
                tiles[r].1 = smmla(tiles[r].1, high.0, inputs);
                tiles[r + 1].0 = smmla(tiles[r + 1].0, low.1, inputs);
                tiles[r + 1].1 = smmla(tiles[r + 1].1, high.1, inputs);
            }
        }
        for r in (0..paired).step_by(2) {
            let (low, high) = (tiles[r], tiles[r + 1]);
            let even = Ints(vuzp1q_s32(low.0, low.1), vuzp1q_s32(high.0, high.1));
            let odd = Ints(vuzp2q_s32(low.0, low.1), vuzp2q_s32(high.0, high.1));
            (dots[r], dots[r + 1]) = (v::add(start[r], even), v::add(start[r + 1], odd));
        }
        if paired < R {
            let start = [start[paired]];
            [dots[paired]] =
                dots_dot_prod::<1, GROUPS, SIGNED>(groups, stride, x.add(paired * row), row, start);
        }
    }
    dots
}
