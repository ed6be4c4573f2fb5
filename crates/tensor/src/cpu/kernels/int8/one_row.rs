//! One row of inputs times blocks as a file has them, on 64-bit ARM.
//!
//! Several rows share the cost of rearranging the weights; a single row would pay for it alone. Here the
//! integers of each output are multiplied where they are, and the sums of eight outputs are put together for
//! the steps in f32, which are the same as in the tiles: the integers are exact, so a row has the same bits
//! in both.

use std::arch::{aarch64::*, asm};

use super::{
    BlockRows, DisjointSliceMut, LANES, Product,
    blocks::WIDE,
    v::{self, Ints},
};
use crate::quant::{BlockType, Q4_0, Q4_1, Q4K, Q5K, Q6K};

/// Some columns of `y = x Wᵀ` for one row.
pub type OneRow = unsafe fn(&Product, &[u8], BlockRows<'_>, &DisjointSliceMut<'_>);

/// The products of 16 pairs of bytes, added to four integers.
pub trait Dot {
    /// SAFETY: the processor has the instruction.
    unsafe fn dot(sum: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t;
}

/// A block type whose integers are multiplied in their order in the file.
pub trait InOrder: BlockType {
    /// The integers of values `32 part` to `32 part + 31` of a block, as they are stored.
    ///
    /// SAFETY: the block has [`BlockType::BYTES`] bytes.
    unsafe fn integers(block: *const u8, part: usize) -> [int8x16_t; 2];
}

/// The scales and minima of the parts of a block.
pub struct BlockScales {
    /// How much larger each part's scale is than the next one's; of parts of 32 values there are eight. With `s` the scales, `d` the
    /// products of the parts and `D` their sums so far, `Σ s[p] d[p] = Σ (s[p] - s[p + 1]) D[p]`: so the products of a part need no
    /// register that is zero at first.
    steps: [int32x4_t; 4],
    /// The products of the minima, or of the scales if an integer other than 0 stands for zero, and the sums of the parts' inputs, in
    /// four sums.
    products: int32x4_t,
}

/// A type with blocks of 256 values and scales of their parts.
pub trait Scaled: InOrder {
    /// With the sums of a block's inputs, in parts of 16.
    ///
    /// SAFETY: as for [`InOrder::integers`].
    unsafe fn parts(block: *const u8, sums: [int16x8_t; 2]) -> BlockScales;
}

/// The eight outputs' sums of four integers.
#[inline(always)]
fn sums(of: [int32x4_t; LANES]) -> Ints {
    // SAFETY: NEON is part of the target.
    unsafe {
        let four = |at: usize| vpaddq_s32(vpaddq_s32(of[at], of[at + 1]), vpaddq_s32(of[at + 2], of[at + 3]));
        Ints(four(0), four(4))
    }
}

/// The products of eight pairs, in four sums.
#[inline(always)]
fn products(a: int16x8_t, b: int16x8_t) -> int32x4_t {
    // SAFETY: NEON is part of the target.
    unsafe { vmlal_high_s16(vmull_s16(vget_low_s16(a), vget_low_s16(b)), a, b) }
}

/// The scale of eight blocks, and the scale of their minima, which follows it if they have one. Words are put together in general
/// registers: vectors are what these kernels wait for.
///
/// SAFETY: the blocks exist.
#[inline(always)]
unsafe fn scales<K: BlockType>(blocks: &[*const u8; LANES]) -> [v::Floats; 2] {
    let at = K::HALVES[0];
    let join = |low: u64, high: u64, bits: u32| low | high << bits;
    // SAFETY: as the caller guarantees.
    unsafe {
        let four = |low, high| vreinterpretq_u16_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
        if K::MINIMA {
            let word = |i: usize| u64::from(blocks[i].add(at).cast::<u32>().read_unaligned());
            let two = |i: usize| join(word(i), word(i + 1), 32);
            let (a, b) = (four(two(0), two(2)), four(two(4), two(6)));
            [v::widen_f16(vuzp1q_u16(a, b)), v::widen_f16(vuzp2q_u16(a, b))]
        } else {
            let half = |i: usize| u64::from(blocks[i].add(at).cast::<u16>().read_unaligned());
            let two = |i: usize| join(half(i), half(i + 1), 16);
            let all = four(join(two(0), two(2), 32), join(two(4), two(6), 32));
            [v::widen_f16(all), v::zeros()]
        }
    }
}

/// Calls `eight` with the first blocks of eight outputs' rows, of `bytes` bytes each, and writes what it returns.
///
/// SAFETY: the rows exist, and the columns are the caller's.
#[inline(always)]
unsafe fn each_eight(
    product: &Product,
    w: &[u8],
    bytes: usize,
    y: &DisjointSliceMut<'_>,
    eight: impl Fn([*const u8; LANES]) -> v::Floats,
) {
    let end = product.columns.end;
    for o in product.columns.clone().step_by(LANES) {
        let taken = LANES.min(end - o);
        // Outputs beyond the last repeat it.
        // SAFETY: as the caller guarantees.
        let (rows, out) = unsafe {
            let row = |i: usize| w.as_ptr().add((o + i.min(taken - 1)) * bytes);
            (std::array::from_fn(row), y.slice(product.at(0, o), taken))
        };
        out.copy_from_slice(&v::to_array(eight(rows))[..taken]);
    }
}

/// Blocks of 32 values.
///
/// SAFETY: as for [`super::product_blocks`].
#[inline(always)]
pub unsafe fn narrow<K: InOrder, D: Dot>(
    product: &Product,
    w: &[u8],
    x: BlockRows<'_>,
    y: &DisjointSliceMut<'_>,
) {
    let count = product.inputs / K::VALUES;
    let eight = |rows: [*const u8; LANES]| {
        let mut acc = v::zeros();
        for b in 0..count {
            // SAFETY: as the caller guarantees.
            unsafe {
                let blocks = rows.map(|row| row.add(b * K::BYTES));
                let inputs = x.q8.quants.as_ptr().add(b * K::VALUES);
                let (first, second) = (vld1q_s8(inputs), vld1q_s8(inputs.add(16)));
                let dots = blocks.map(|block| {
                    let [low, high] = K::integers(block, 0);
                    D::dot(D::dot(vdupq_n_s32(0), low, first), high, second)
                });
                let sum = *x.q8.offsets.as_ptr().add(b) / -128;
                let dots = v::add(sums(dots), v::splat_int(-i32::from(K::ZERO) * sum));
                let scale = v::splat(*x.q8.scales.as_ptr().add(b));
                let [d, minimum] = scales::<K>(&blocks).map(|d| v::mul(d, scale));
                acc = v::fma(v::to_floats(dots), d, acc);
                if K::MINIMA {
                    acc = v::fma(v::splat(sum as f32), minimum, acc);
                }
            }
        }
        acc
    };
    // SAFETY: as the caller guarantees.
    unsafe { each_eight(product, w, count * K::BYTES, y, eight) };
}

/// Blocks of 256 values.
///
/// SAFETY: as for [`super::product_blocks`].
#[inline(always)]
pub unsafe fn wide<K: Scaled, D: Dot>(
    product: &Product,
    w: &[u8],
    x: BlockRows<'_>,
    y: &DisjointSliceMut<'_>,
) {
    let count = product.inputs / WIDE;
    let eight = |rows: [*const u8; LANES]| {
        let mut acc = v::zeros();
        for b in 0..count {
            // SAFETY: as the caller guarantees.
            unsafe {
                let blocks = rows.map(|row| row.add(b * K::BYTES));
                let inputs = x.k.quants.as_ptr().add(b * WIDE);
                let scale = v::splat(*x.k.scales.as_ptr().add(b));
                let parts = x.k.sums.as_ptr().add(b * WIDE / 16);
                let parts = [vld1q_s16(parts), vld1q_s16(parts.add(8))];
                // Sums of 32, where parts are that large.
                let parts = if K::PART == 32 { [vpaddq_s16(parts[0], parts[1]); 2] } else { parts };
                // The sums of two outputs, in pairs.
                let mut pairs = [[vdupq_n_s32(0); 2]; LANES / 2];
                for (pairs, two) in pairs.iter_mut().zip(blocks.as_chunks::<2>().0) {
                    let two = two.map(|block| (block, K::parts(block, parts)));
                    let [a, b] = totals::<K, D>(&two, inputs);
                    *pairs = [vpaddq_s32(a, b), vpaddq_s32(two[0].1.products, two[1].1.products)];
                }
                let [mut total, own] = [0, 1].map(|at| {
                    let [a, b, c, d] = pairs.map(|pair| pair[at]);
                    Ints(vpaddq_s32(a, b), vpaddq_s32(c, d))
                });
                if K::ZERO != 0 {
                    total = v::sub(total, v::mul_int(own, v::splat_int(i32::from(K::ZERO))));
                }
                let [d, minimum] = scales::<K>(&blocks).map(|d| v::mul(d, scale));
                acc = v::fma(v::to_floats(total), d, acc);
                if K::MINIMA {
                    acc = v::fnma(v::to_floats(own), minimum, acc);
                }
            }
        }
        acc
    };
    // SAFETY: as the caller guarantees.
    unsafe { each_eight(product, w, count * K::BYTES, y, eight) };
}

/// The products of a block of 256 values of two outputs, times the scales of their parts, in four sums each.
///
/// SAFETY: the blocks and the inputs exist.
#[inline(always)]
unsafe fn totals<K: Scaled, D: Dot>(
    blocks: &[(*const u8, BlockScales); 2],
    inputs: *const i8,
) -> [int32x4_t; 2] {
    // SAFETY: as the caller guarantees.
    unsafe {
        let zero = [vdupq_n_s32(0); 2];
        // The products of all parts so far.
        let (mut totals, mut so_far) = (zero, zero);
        macro_rules! part {
            ($part:literal, $vector:literal, $lane:literal, $next:literal) => {
                let x = inputs.add($part * 32);
                let (first, second) = (vld1q_s8(x), vld1q_s8(x.add(16)));
                let sums = totals.iter_mut().zip(&mut so_far);
                for ((total, so_far), (block, BlockScales { steps, .. })) in sums.zip(blocks) {
                    let [low, high] = K::integers(*block, $part);
                    *so_far = D::dot(*so_far, low, first);
                    if K::PART == 16 {
                        *total = add_scaled::<$lane, { $part == 0 }>(*total, *so_far, steps[$vector]);
                    }
                    *so_far = D::dot(*so_far, high, second);
                    *total = match K::PART {
                        16 => add_scaled::<$next, false>(*total, *so_far, steps[$vector]),
                        _ => add_scaled::<{ $part % 4 }, { $part == 0 }>(*total, *so_far, steps[$part / 4]),
                    };
                }
            };
        }
        part!(0, 0, 0, 1);
        part!(1, 0, 2, 3);
        part!(2, 1, 0, 1);
        part!(3, 1, 2, 3);
        part!(4, 2, 0, 1);
        part!(5, 2, 2, 3);
        part!(6, 3, 0, 1);
        part!(7, 3, 2, 3);
        totals
    }
}

/// `total + sum · steps[LANE]`, without the total for the first. As an intrinsic it is compiled to two more instructions, which widen
/// the lane each time.
#[inline(always)]
fn add_scaled<const LANE: i32, const FIRST: bool>(
    mut total: int32x4_t,
    sum: int32x4_t,
    steps: int32x4_t,
) -> int32x4_t {
    // SAFETY: NEON is part of the target; the instructions only compute.
    unsafe {
        if FIRST {
            asm!(
                "mul {total:v}.4s, {sum:v}.4s, {steps:v}.s[{lane}]",
                total = lateout(vreg) total, sum = in(vreg) sum, steps = in(vreg) steps, lane = const LANE,
                options(pure, nomem, nostack, preserves_flags)
            );
        } else {
            asm!(
                "mla {total:v}.4s, {sum:v}.4s, {steps:v}.s[{lane}]",
                total = inout(vreg) total, sum = in(vreg) sum, steps = in(vreg) steps, lane = const LANE,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
    }
    total
}

/// The lower and the upper four bits of 16 bytes.
///
/// SAFETY: they can be read.
#[inline(always)]
unsafe fn nibbles(at: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: as the caller guarantees.
    unsafe {
        let both = vld1q_u8(at);
        [vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8::<4>(both)]
    }
}

/// Four bits of 32 bytes, the lower ones of an even part.
///
/// SAFETY: they can be read.
#[inline(always)]
unsafe fn half_bytes(at: *const u8, part: usize) -> [uint8x16_t; 2] {
    // SAFETY: as the caller guarantees.
    unsafe {
        let bytes = [vld1q_u8(at), vld1q_u8(at.add(16))];
        match part % 2 {
            0 => bytes.map(|bytes| vandq_u8(bytes, vdupq_n_u8(15))),
            _ => bytes.map(|bytes| vshrq_n_u8::<4>(bytes)),
        }
    }
}

impl InOrder for Q4_0 {
    #[inline(always)]
    unsafe fn integers(block: *const u8, _: usize) -> [int8x16_t; 2] {
        // SAFETY: as the caller guarantees.
        unsafe { nibbles(block.add(2)).map(|q| vreinterpretq_s8_u8(q)) }
    }
}

impl InOrder for Q4_1 {
    #[inline(always)]
    unsafe fn integers(block: *const u8, _: usize) -> [int8x16_t; 2] {
        // SAFETY: as the caller guarantees.
        unsafe { nibbles(block.add(4)).map(|q| vreinterpretq_s8_u8(q)) }
    }
}

impl InOrder for Q4K {
    #[inline(always)]
    unsafe fn integers(block: *const u8, part: usize) -> [int8x16_t; 2] {
        // SAFETY: as the caller guarantees.
        unsafe { half_bytes(block.add(16 + part / 2 * 32), part).map(|q| vreinterpretq_s8_u8(q)) }
    }
}

impl InOrder for Q5K {
    #[inline(always)]
    unsafe fn integers(block: *const u8, part: usize) -> [int8x16_t; 2] {
        // SAFETY: as the caller guarantees.
        unsafe {
            let low = half_bytes(block.add(48 + part / 2 * 32), part);
            let fifth = |at: usize| {
                let bits = vtstq_u8(vld1q_u8(block.add(16 + at)), vdupq_n_u8(1 << part));
                vandq_u8(bits, vdupq_n_u8(16))
            };
            [vorrq_u8(low[0], fifth(0)), vorrq_u8(low[1], fifth(16))].map(|q| vreinterpretq_s8_u8(q))
        }
    }
}

impl InOrder for Q6K {
    #[inline(always)]
    unsafe fn integers(block: *const u8, part: usize) -> [int8x16_t; 2] {
        // Each half of 128 values: lower bits of parts 0 and 2 in the first 32 bytes, of 1 and 3 in the second.
        let (half, part) = (part / 4, part % 4);
        // SAFETY: as the caller guarantees.
        unsafe {
            let (low, high) = (block.add(half * 64 + part % 2 * 32), block.add(128 + half * 32));
            std::array::from_fn(|i| {
                let (low, high) = (vld1q_u8(low.add(16 * i)), vld1q_u8(high.add(16 * i)));
                // The upper bits are put over the other four, then cut to two.
                let (four, six) = (vshrq_n_u8::<4>(low), vdupq_n_u8(0x3f));
                vreinterpretq_s8_u8(match part {
                    0 => vandq_u8(vsliq_n_u8::<4>(low, high), six),
                    1 => vandq_u8(vsliq_n_u8::<4>(low, vshrq_n_u8::<2>(high)), six),
                    2 => vorrq_u8(four, vandq_u8(high, vdupq_n_u8(0x30))),
                    _ => vsliq_n_u8::<4>(four, vshrq_n_u8::<6>(high)),
                })
            })
        }
    }
}

/// Eight integers.
#[inline(always)]
fn widened(eight: int16x8_t) -> [int32x4_t; 2] {
    // SAFETY: NEON is part of the target.
    unsafe { [vmovl_s16(vget_low_s16(eight)), vmovl_high_s16(eight)] }
}

/// Eight bytes without a sign.
#[inline(always)]
fn eight(bytes: u64) -> int16x8_t {
    // SAFETY: NEON is part of the target.
    unsafe { vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(bytes))) }
}

/// Eight bytes without a sign, each less the next one; the last less 0.
#[inline(always)]
fn steps(bytes: u64) -> int16x8_t {
    // SAFETY: NEON is part of the target.
    unsafe { vreinterpretq_s16_u16(vsubl_u8(vcreate_u8(bytes), vcreate_u8(bytes >> 8))) }
}

/// The scales and minima of q4_k and q5_k, of six bits each.
///
/// SAFETY: the block has 16 bytes.
#[inline(always)]
unsafe fn six_bits(block: *const u8, sums: int16x8_t) -> BlockScales {
    // SAFETY: as the caller guarantees.
    let [low, middle, high] =
        std::array::from_fn(|i| unsafe { block.add(4 + 4 * i).cast::<u32>().read_unaligned() });
    let (six, four, two) = (0x3f3f_3f3f, 0x0f0f_0f0f, 0x3030_3030);
    let join = |first: u32, second: u32| u64::from(first) | u64::from(second) << 32;
    let scales = join(low & six, high & four | low >> 2 & two);
    let minima = eight(join(middle & six, high >> 4 & four | middle >> 2 & two));
    let steps = widened(steps(scales));
    BlockScales { steps: [steps[0], steps[1], steps[0], steps[1]], products: products(minima, sums) }
}

impl Scaled for Q4K {
    #[inline(always)]
    unsafe fn parts(block: *const u8, sums: [int16x8_t; 2]) -> BlockScales {
        // SAFETY: as the caller guarantees.
        unsafe { six_bits(block, sums[0]) }
    }
}

impl Scaled for Q5K {
    #[inline(always)]
    unsafe fn parts(block: *const u8, sums: [int16x8_t; 2]) -> BlockScales {
        // SAFETY: as the caller guarantees.
        unsafe { six_bits(block, sums[0]) }
    }
}

impl Scaled for Q6K {
    #[inline(always)]
    unsafe fn parts(block: *const u8, sums: [int16x8_t; 2]) -> BlockScales {
        // SAFETY: as the caller guarantees.
        unsafe {
            let all = vld1q_s8(block.add(192).cast());
            let (low, high) = (vmovl_s8(vget_low_s8(all)), vmovl_high_s8(all));
            let next = vextq_s8::<1>(all, vdupq_n_s8(0));
            let (first, second) = (vsubl_s8(vget_low_s8(all), vget_low_s8(next)), vsubl_high_s8(all, next));
            let ([a, b], [c, d]) = (widened(first), widened(second));
            let products = vaddq_s32(products(low, sums[0]), products(high, sums[1]));
            BlockScales { steps: [a, b, c, d], products }
        }
    }
}
