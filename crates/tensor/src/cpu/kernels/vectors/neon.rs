//! NEON, which every 64-bit ARM processor has: a vector is a pair.

use std::arch::{aarch64::*, asm};

use super::super::FRACTION;

#[derive(Clone, Copy)]
pub struct Floats(pub float32x4_t, pub float32x4_t);

#[derive(Clone, Copy)]
pub struct Ints(pub int32x4_t, pub int32x4_t);

/// Sums of products of pairs of 16-bit integers, before they are [totals](total_pairs): each pair's products apart.
#[derive(Clone, Copy)]
pub struct PairSums([int32x4_t; 4]);

/// What is added to signed bytes that are multiplied: nothing, as dot products take signed ones.
pub const OFFSET: i32 = 0;

/// Defines functions that do the same with both vectors of pairs.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ident),* $(; $($extra:ident: $extra_type:ty),+)?) -> $out:ident { $body:expr })+) => {
        $(
            $(#[$doc])*
            #[inline(always)]
            pub fn $name($($arg: $type,)* $($($extra: $extra_type),+)?) -> $out {
                // SAFETY: NEON is part of the target.
                unsafe { $out({ $(let $arg = $arg.0;)* $body }, { $(let $arg = $arg.1;)* $body }) }
            }
        )+
    };
}

operations! {
    zeros() -> Floats { vdupq_n_f32(0.0) }
    splat(; value: f32) -> Floats { vdupq_n_f32(value) }
    mul(a: Floats, b: Floats) -> Floats { vmulq_f32(a, b) }
    /// `a b + c`, rounded once.
    fma(a: Floats, b: Floats, c: Floats) -> Floats { vfmaq_f32(c, a, b) }
    /// `c - a b`, rounded once.
    fnma(a: Floats, b: Floats, c: Floats) -> Floats { vfmsq_f32(c, a, b) }
    to_floats(v: Ints) -> Floats { vcvtq_f32_s32(v) }
    zero() -> Ints { vdupq_n_s32(0) }
    splat_int(; value: i32) -> Ints { vdupq_n_s32(value) }
    /// The same four integers in both halves.
    splat_four(; four: [i32; 4]) -> Ints { vld1q_s32(four.as_ptr()) }
    and(a: Ints, b: Ints) -> Ints { vandq_s32(a, b) }
    or(a: Ints, b: Ints) -> Ints { vorrq_s32(a, b) }
    xor(a: Ints, b: Ints) -> Ints { veorq_s32(a, b) }
    add(a: Ints, b: Ints) -> Ints { vaddq_s32(a, b) }
    sub(a: Ints, b: Ints) -> Ints { vsubq_s32(a, b) }
    sub_bytes(a: Ints, b: Ints) -> Ints { from_bytes(vsubq_s8(bytes(a), bytes(b))) }
    mul_int(a: Ints, b: Ints) -> Ints { vmulq_s32(a, b) }
    /// In each lane, the sum of the products of two pairs of 16-bit integers.
    mul_pairs(a: Ints, b: Ints) -> Ints {
        {
            let (a, b) = (vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
            vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b))
        }
    }
    shl(v: Ints; bits: usize) -> Ints { vshlq_s32(v, vdupq_n_s32(bits as i32)) }
    shr(v: Ints; bits: usize) -> Ints {
        vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(v), vdupq_n_s32(-(bits as i32))))
    }
    /// As [`shr`], with the sign.
    sar(v: Ints; bits: usize) -> Ints { vshlq_s32(v, vdupq_n_s32(-(bits as i32))) }
    /// 255 in bytes that are equal, 0 in others.
    equal_bytes(a: Ints, b: Ints) -> Ints { vreinterpretq_s32_u8(vceqq_s8(bytes(a), bytes(b))) }
    /// In each half, the bytes of `table` at indices below 16.
    look_up(table: Ints, indices: Ints) -> Ints {
        from_bytes(vqtbl1q_s8(bytes(table), vreinterpretq_u8_s32(indices)))
    }
    /// Of both halves, the first two lanes of each in turn.
    zip_low(a: Ints, b: Ints) -> Ints { vzip1q_s32(a, b) }
    /// Of both halves, the last two lanes of each in turn.
    zip_high(a: Ints, b: Ints) -> Ints { vzip2q_s32(a, b) }
    /// Of both halves, the first two lanes of each.
    pairs_low(a: Ints, b: Ints) -> Ints { vreinterpretq_s32_s64(vzip1q_s64(longs(a), longs(b))) }
    /// Of both halves, the last two lanes of each.
    pairs_high(a: Ints, b: Ints) -> Ints { vreinterpretq_s32_s64(vzip2q_s64(longs(a), longs(b))) }
}

#[inline(always)]
pub fn bytes(v: int32x4_t) -> int8x16_t {
    // SAFETY: NEON is part of the target.
    unsafe { vreinterpretq_s8_s32(v) }
}

#[inline(always)]
fn from_bytes(v: int8x16_t) -> int32x4_t {
    // SAFETY: NEON is part of the target.
    unsafe { vreinterpretq_s32_s8(v) }
}

#[inline(always)]
fn longs(v: int32x4_t) -> int64x2_t {
    // SAFETY: NEON is part of the target.
    unsafe { vreinterpretq_s64_s32(v) }
}

/// The sum of the lanes: halves, quarters, then two.
#[inline(always)]
pub fn sum(v: Floats) -> f32 {
    // SAFETY: NEON is part of the target.
    unsafe {
        let s = vaddq_f32(v.0, v.1);
        vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)))
    }
}

/// The sum of each vector's lanes: two neighbors, four, then halves.
#[inline(always)]
pub fn sums(v: [Floats; 4]) -> [f32; 4] {
    let mut sums = [0f32; 4];
    // SAFETY: NEON is part of the target; four floats.
    unsafe {
        let half = |v: [float32x4_t; 4]| vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3]));
        vst1q_f32(sums.as_mut_ptr(), vaddq_f32(half(v.map(|v| v.0)), half(v.map(|v| v.1))));
    }
    sums
}

#[inline(always)]
pub fn add_to_first(v: Floats, value: f32) -> Floats {
    // SAFETY: NEON is part of the target.
    unsafe {
        Floats(vaddq_f32(v.0, vsetq_lane_f32::<0>(value, vdupq_n_f32(0.0))), vaddq_f32(v.1, vdupq_n_f32(0.0)))
    }
}

#[inline(always)]
pub fn to_array(v: Floats) -> [f32; 8] {
    let mut values = [0f32; 8];
    // SAFETY: eight floats.
    unsafe { store(values.as_mut_ptr(), v) };
    values
}

#[inline(always)]
pub fn from_array(values: [f32; 8]) -> Floats {
    // SAFETY: eight floats.
    unsafe { load(values.as_ptr()) }
}

/// Ask for the line at any place.
#[inline(always)]
pub fn read_soon(at: *const u8) {
    // SAFETY: a prefetch may be of any place.
    unsafe { asm!("prfm pldl2keep, [{at}]", at = in(reg) at, options(readonly, nostack, preserves_flags)) };
}

/// SAFETY: eight floats can be read.
#[inline(always)]
pub unsafe fn load(at: *const f32) -> Floats {
    // SAFETY: as the caller guarantees.
    unsafe { Floats(vld1q_f32(at), vld1q_f32(at.add(4))) }
}

/// SAFETY: eight floats can be written.
#[inline(always)]
pub unsafe fn store(at: *mut f32, v: Floats) {
    // SAFETY: as the caller guarantees.
    unsafe {
        vst1q_f32(at, v.0);
        vst1q_f32(at.add(4), v.1);
    }
}

/// SAFETY: 32 bytes can be read.
#[inline(always)]
pub unsafe fn load_ints(at: *const u8) -> Ints {
    // SAFETY: as the caller guarantees.
    unsafe { load_halves(at, at.add(16)) }
}

/// SAFETY: 16 bytes can be read at both.
#[inline(always)]
pub unsafe fn load_halves(low: *const u8, high: *const u8) -> Ints {
    // SAFETY: as the caller guarantees.
    unsafe { Ints(vreinterpretq_s32_u8(vld1q_u8(low)), vreinterpretq_s32_u8(vld1q_u8(high))) }
}

/// SAFETY: eight half-precision floats can be read.
#[inline(always)]
pub unsafe fn load_f16(at: *const u16) -> Floats {
    // SAFETY: as the caller guarantees.
    widen_f16(unsafe { vld1q_u16(at) })
}

/// Half-precision floats.
#[inline(always)]
pub fn widen_f16(bits: uint16x8_t) -> Floats {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: the conversion is part of NEON.
    unsafe {
        asm!(
            "fcvtl2 {high:v}.4s, {bits:v}.8h", "fcvtl {low:v}.4s, {bits:v}.4h",
            high = out(vreg) high, low = lateout(vreg) low, bits = in(vreg) bits,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    Floats(low, high)
}

/// SAFETY: eight bfloat16 numbers can be read.
#[inline(always)]
pub unsafe fn load_bf16(at: *const u16) -> Floats {
    // SAFETY: as the caller guarantees.
    unsafe {
        let bits = vld1q_u16(at);
        let (low, high) = (vmovl_u16(vget_low_u16(bits)), vmovl_high_u16(bits));
        let wide = |half| vreinterpretq_f32_u32(vshlq_n_u32::<16>(half));
        Floats(wide(low), wide(high))
    }
}

#[inline(always)]
pub fn no_sums() -> PairSums {
    // SAFETY: NEON is part of the target.
    PairSums(unsafe { [vdupq_n_s32(0); 4] })
}

/// `sum` and the products of two pairs of 16-bit integers in each lane.
#[inline(always)]
pub fn add_pairs(PairSums([a, b, c, d]): PairSums, v: Ints, w: Ints) -> PairSums {
    // SAFETY: NEON is part of the target.
    unsafe {
        let (v, w) =
            ([v.0, v.1].map(|v| vreinterpretq_s16_s32(v)), [w.0, w.1].map(|w| vreinterpretq_s16_s32(w)));
        PairSums([
            vmlal_s16(a, vget_low_s16(v[0]), vget_low_s16(w[0])),
            vmlal_high_s16(b, v[0], w[0]),
            vmlal_s16(c, vget_low_s16(v[1]), vget_low_s16(w[1])),
            vmlal_high_s16(d, v[1], w[1]),
        ])
    }
}

#[inline(always)]
pub fn total_pairs(PairSums([a, b, c, d]): PairSums) -> Ints {
    // SAFETY: NEON is part of the target.
    unsafe { Ints(vpaddq_s32(a, b), vpaddq_s32(c, d)) }
}

/// Eight columns of two rows of bytes in fixed point, in pairs: bytes times factors over 128, rounded.
///
/// SAFETY: eight bytes can be read at both.
#[inline(always)]
pub unsafe fn byte_words(rows: [*const u8; 2], factors: [i32; 2]) -> Ints {
    // SAFETY: as the caller guarantees; NEON is part of the target.
    unsafe {
        let row = |i: usize| {
            let (bytes, factor) = (vmovl_s8(vld1_s8(rows[i].cast())), vdupq_n_s16(factors[i] as i16));
            [vmull_s16(vget_low_s16(bytes), vget_low_s16(factor)), vmull_high_s16(bytes, factor)]
                .map(|product| vrshrq_n_s32::<FRACTION>(product))
        };
        let ([a, c], [b, d]) = (row(0), row(1));
        Ints(vsliq_n_s32::<16>(a, b), vsliq_n_s32::<16>(c, d))
    }
}

/// The same of 32 columns, of one block, in the order that [`arrange`] undoes. The bytes `ahead` are read soon.
///
/// SAFETY: 32 bytes and a factor can be read at both.
#[inline(always)]
pub unsafe fn byte_group(rows: [*const u8; 2], factors: [*const i16; 2], ahead: usize) -> [Ints; 4] {
    // SAFETY: as the caller guarantees; NEON is part of the target.
    unsafe {
        for row in rows {
            read_soon(row.wrapping_add(ahead));
        }
        let half = |at: usize| {
            let row = |i: usize| {
                let (bytes, factor) = (vld1q_s8(rows[i].add(at).cast()), vdupq_n_s16(*factors[i]));
                // Bytes times 256 times factors, over 2¹⁵.
                [vzip1q_s8(vdupq_n_s8(0), bytes), vzip2q_s8(vdupq_n_s8(0), bytes)]
                    .map(|bytes| vqrdmulhq_s16(vreinterpretq_s16_s8(bytes), factor))
            };
            let ([a, c], [b, d]) = (row(0), row(1));
            [vzip1q_s16(a, b), vzip2q_s16(a, b), vzip1q_s16(c, d), vzip2q_s16(c, d)]
                .map(|words| vreinterpretq_s32_s16(words))
        };
        let (low, high) = (half(0), half(16));
        [Ints(low[0], high[0]), Ints(low[1], high[1]), Ints(low[2], high[2]), Ints(low[3], high[3])]
    }
}

/// The columns of four vectors in order, where the halves of each have four columns of each sixteen.
#[inline(always)]
pub fn arrange([a, b, c, d]: [Floats; 4]) -> [Floats; 4] {
    [Floats(a.0, b.0), Floats(c.0, d.0), Floats(a.1, b.1), Floats(c.1, d.1)]
}
