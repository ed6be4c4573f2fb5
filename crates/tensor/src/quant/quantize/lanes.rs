//! Arithmetic on one number of each of several parts of a block at a time. Its loops become vector instructions, and sums are
//! over the values of one part, in their order: they have the same bits in vectors of any length.

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// One number for each of `L` parts.
#[derive(Clone, Copy)]
pub(super) struct Lanes<const L: usize>(pub [f32; L]);

/// The values of `L` parts of `N` values: value `i` of every part, for all `i`.
pub(super) type LaneParts<const L: usize, const N: usize> = [Lanes<L>; N];

macro_rules! operators {
    ($($operator:ident::$name:ident $sign:tt,)+) => {$(
        impl<const L: usize> $operator for Lanes<L> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.zip(other, |a, b| a $sign b)
            }
        }
    )+};
}

operators! { Add::add +, Sub::sub -, Mul::mul *, Div::div /, }

impl<const L: usize> AddAssign for Lanes<L> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<const L: usize> Neg for Lanes<L> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.map(|a| -a)
    }
}

impl<const L: usize> Lanes<L> {
    pub const ZERO: Self = Self([0.0; L]);
    pub const INFINITY: Self = Self([f32::INFINITY; L]);

    #[inline(always)]
    pub fn of(value: f32) -> Self {
        Self([value; L])
    }

    #[inline(always)]
    pub fn map(mut self, f: impl Fn(f32) -> f32) -> Self {
        for a in &mut self.0 {
            *a = f(*a);
        }
        self
    }

    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        self
    }

    #[inline(always)]
    pub fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    pub fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    pub fn clamp(self, low: f32, high: f32) -> Self {
        self.max(Self::of(low)).min(Self::of(high))
    }

    /// The nearest integers within bounds; ties to even.
    #[inline(always)]
    pub fn nearest(self, low: f32, high: f32) -> Self {
        /// 1.5 · 2²³: a sum with it has no bits for a fraction.
        const SHIFT: f32 = 12_582_912.0;
        self.clamp(low, high).map(|a| (a + SHIFT) - SHIFT)
    }

    /// `then` where this is less than `other`, else `otherwise`.
    #[inline(always)]
    pub fn if_less(self, other: Self, then: Self, otherwise: Self) -> Self {
        let mut out = otherwise;
        for (i, out) in out.0.iter_mut().enumerate() {
            *out = if self.0[i] < other.0[i] { then.0[i] } else { *out };
        }
        out
    }

    /// One over this; 0 for 0.
    #[inline(always)]
    pub fn inverse(self) -> Self {
        self.map(inverse)
    }

    /// As 16-bit floats hold it.
    #[inline(always)]
    pub fn halved(self) -> Self {
        self.map(halved)
    }

    #[inline(always)]
    pub fn sum(self) -> f32 {
        self.0.iter().sum()
    }
}

/// One over a number; 0 for 0, and for one whose inverse is too large.
#[inline(always)]
pub(super) fn inverse(value: f32) -> f32 {
    let inverse = 1.0 / value;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// A number as a 16-bit float holds it; the largest one if it is larger.
#[inline(always)]
pub(super) fn halved(value: f32) -> f32 {
    half::f16::from_f32(value.clamp(-65504.0, 65504.0)).to_f32()
}

/// Parts that follow each other, each of `N` values; those that are missing are zero.
#[inline(always)]
pub(super) fn parts<const L: usize, const N: usize>(values: &[f32]) -> LaneParts<L, N> {
    let mut parts = [Lanes::ZERO; N];
    for (part, values) in values.chunks_exact(N).enumerate() {
        for (lanes, value) in parts.iter_mut().zip(values) {
            lanes.0[part] = *value;
        }
    }
    parts
}
