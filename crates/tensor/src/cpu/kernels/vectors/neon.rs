//! NEON, which every 64-bit ARM processor has: a vector is a pair.

use std::arch::{aarch64::*, asm};

#[derive(Clone, Copy)]
pub struct Floats(pub float32x4_t, pub float32x4_t);

#[derive(Clone, Copy)]
pub struct Ints(pub int32x4_t, pub int32x4_t);

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
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: as the caller guarantees; the conversion is part of NEON.
    unsafe {
        let bits = vld1q_u16(at);
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
