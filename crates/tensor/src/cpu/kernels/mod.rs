//! The arithmetic of the CPU decoder: matrix products, attention, and element-wise functions.
//!
//! Every function computes each row of its output by the same sequence of floating-point operations for any number of rows in
//! the call. So a verify pass of K + 1 rows is bit-identical to K + 1 single steps, and exact acceptance is lossless.
//!
//! There are four implementations, AVX-512 with VNNI, AVX2 with FMA (and, where it exists, AVX-VNNI), NEON, and portable; a process
//! uses one of them throughout. All have the same bits: long sums have the same parts in the same order, a multiplication and an
//! addition round once where any of them does, and products of quantized values are exact sums of integers.

pub mod activations;
#[cfg(target_arch = "x86_64")]
mod ahead;
mod attention;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod delta;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod floats;
mod half;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod int8;
mod largest;
mod outliers;
mod panels;
mod portable;
mod quantized;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectors;

pub use attention::{
    Held, OnlineSoftmax, Panel, Queries, SEGMENT, Weights, add_weighted_f32, fix_key, fix_values,
    holds_fixed, narrow, quantize_chunks, scales_of, scores_f32,
};
#[cfg(target_arch = "x86_64")]
pub(crate) use blocks::{Avx512Kernel, avx512 as block_kernels};
pub use blocks::{
    BlockPanels, BlockRows, Blocks, DisjointRowsK, RowsK, WIDE, product_block_panels, product_blocks,
    quantize_blocks,
};
pub use delta::{
    COLUMNS, Columns, DeltaRow, convolve, delta_replay, delta_step, gate, multiply, unit_length,
};
pub use half::{HalfKind, product_half};
pub use largest::{largest_sums, largest3, position};
pub use panels::{FloatPanels, FloatPanelsMut, product_panels};
pub use quantized::{DisjointBlocksMut, Rows8, Weights8, Weights8Mut, product_q8, quantize_q8};

use std::ops::Range;

use super::thread_pool::DisjointSliceMut;
use crate::{Gate, tower::Activation};

/// Values per quantized block.
pub const BLOCK: usize = 32;
/// Cache slots per interleaved key block.
pub const SLOTS: usize = 16;
/// Lanes of portable loops, so that the compiler vectorises them.
const LANES: usize = 8;
/// Lanes of the widest vectors: long sums have as many parts, which are added to each other in halves, on every processor.
const WIDEST: usize = 16;
/// The bit of 8-bit keys and values that is flipped where they are stored: x86-64's dot products take unsigned bytes, which are
/// offset by 128, and ARM's signed ones.
pub const SIGN: u8 = if cfg!(target_arch = "aarch64") { 0 } else { 0x80 };
/// Fractional bits of the integers with which blocks of 8-bit values are multiplied.
const FRACTION: i32 = 7;
/// 1.5 · 2²³: adding it rounds a smaller value to an integer, ties to even, which is then in the lowest bits.
const INTEGER: f32 = 12_582_912.0;

/// Call a function, compiled for AVX-512 or for AVX2 and FMA if the processor has them. The compiler changes no order of
/// operations in f32, so all have the same result.
macro_rules! vectorized {
    ($module:ident::$name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)?) => {{
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::kernels::has_avx512() {
            #[target_feature(enable = "avx512f,avx512bw")]
            fn vectorized($($arg: $type),*) $(-> $out)? {
                $module::$name($($arg),*)
            }
            // SAFETY: the features were detected.
            return unsafe { vectorized($($arg),*) };
        }
        #[cfg(target_arch = "x86_64")]
        if $crate::cpu::kernels::has_avx2() {
            #[target_feature(enable = "avx2,fma")]
            fn vectorized($($arg: $type),*) $(-> $out)? {
                $module::$name($($arg),*)
            }
            // SAFETY: the features were detected.
            return unsafe { vectorized($($arg),*) };
        }
        $module::$name($($arg),*)
    }};
}
use vectorized;

/// True if the AVX-512 implementation (with VNNI's 8-bit dot products) is used on this processor.
#[cfg(target_arch = "x86_64")]
pub fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let allowed = std::env::var_os("SPECREEL_NO_AVX512").is_none();
        allowed && has!("avx512f") && has!("avx512bw") && has!("avx512vnni") && has_avx2()
    })
}

/// True if the AVX-512 implementation (with VNNI's 8-bit dot products) is used on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx512() -> bool {
    false
}

/// True if the AVX2 and FMA implementation can be used on this processor.
#[cfg(target_arch = "x86_64")]
pub fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| std::env::var_os("SPECREEL_NO_AVX2").is_none() && has!("avx2") && has!("fma"))
}

/// True if the AVX2 and FMA implementation can be used on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx2() -> bool {
    false
}

/// Name of the implementation that this processor runs.
pub fn implementation() -> &'static str {
    #[cfg(target_arch = "aarch64")]
    return match int8::Int8::detect() {
        Some(int8::Int8::I8mm) => "NEON with i8mm",
        Some(int8::Int8::DotProd) => "NEON with dotprod",
        _ => "NEON",
    };
    #[cfg(not(target_arch = "aarch64"))]
    match (has_avx512(), has_avx2()) {
        (true, _) => "AVX-512 with VNNI",
        (false, true) => "AVX2 with FMA",
        (false, false) => PORTABLE,
    }
}

/// The name of code that is written for no particular processor.
pub const PORTABLE: &str = "portable";

/// True if [`vectors`] are used on this processor.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn has_vectors() -> bool {
    cfg!(target_arch = "aarch64") || has_avx2()
}

/// `y[r] = w · x[r]` for `R` rows `x[r] = x0[r * stride ..]` of `w.len()` values.
///
/// `x0` holds at least `(R - 1) * stride + w.len()` values.
#[inline]
pub fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
    assert!(x0.len() >= (R - 1) * stride + w.len(), "the rows are shorter than the weights");
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if has_vectors() {
        // SAFETY: the features were detected, and the assertion above bounds every read.
        return unsafe { floats::dot_f32::<R>(w, x0, stride) };
    }
    portable::dot_f32::<R>(w, x0, stride)
}

/// The shape of a product `y = x Wᵀ`, and which of its columns to compute.
#[derive(Clone, Debug)]
pub struct Product {
    /// Values per row of `x` and of `W`.
    pub inputs: usize,
    /// Rows of `W`, columns of the product.
    pub outputs: usize,
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// The columns of the product to compute.
    pub columns: Range<usize>,
    /// Where the product's first column is in a row of `y`.
    pub first: usize,
    /// Values per row of `y`.
    pub stride: usize,
}

impl Product {
    /// A product whose columns are all of `y`.
    pub fn whole(inputs: usize, outputs: usize, rows: usize) -> Self {
        Self { inputs, outputs, rows, columns: 0..outputs, first: 0, stride: outputs }
    }

    /// Where column `o` of row `r` is in `y`.
    #[inline]
    fn at(&self, r: usize, o: usize) -> usize {
        r * self.stride + self.first + o
    }

    /// Check that operands of `w` and `x` values are large enough. Panics if they are not.
    fn check(&self, w: usize, x: usize) {
        assert!(self.columns.end <= self.outputs, "the product has fewer columns");
        assert!(
            self.first + self.outputs <= self.stride,
            "the rows of the result are shorter than the product"
        );
        let inside = w >= self.outputs * self.inputs && x >= self.rows * self.inputs;
        assert!(inside, "the operands are shorter than the product");
    }

    /// Compute the columns one by one: `y[r][o] = dot(o, r)`.
    ///
    /// # Safety
    /// No other call may write the same columns of `y` at the same time.
    unsafe fn each(&self, y: &DisjointSliceMut<'_>, dot: impl Fn(usize, usize) -> f32) {
        for r in 0..self.rows {
            for o in self.columns.clone() {
                // SAFETY: the columns are the caller's.
                unsafe { y.set(self.at(r, o), dot(o, r)) };
            }
        }
    }
}

/// Some columns of `y = x Wᵀ`, all in f32.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub(crate) unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &DisjointSliceMut<'_>) {
    product.check(w.len(), x.len());
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if has_vectors() {
        // SAFETY: the features were detected, the operands were checked, the columns are the caller's.
        unsafe { floats::product_f32(product, w, x, y) };
        return;
    }
    let n = product.inputs;
    // SAFETY: the columns are the caller's.
    unsafe { product.each(y, |o, r| portable::product_f32(&w[o * n..][..n], &x[r * n..][..n])) };
}

/// In place: `exp(scores - max)`, where `max` is the largest score, but at least `least`; returns `max` and the sum. If all scores
/// and `least` are minus infinity, all become 0, and so does the sum.
#[inline]
pub(crate) fn softmax_unnormalized(scores: &mut [f32], least: f32) -> (f32, f32) {
    vectorized!(portable::softmax_unnormalized(scores: &mut [f32], least: f32) -> (f32, f32))
}

/// `sum_j exp(x[j] - max)`, for `max` no less than any value.
#[inline]
pub(crate) fn sum_exp(x: &[f32], max: f32) -> f64 {
    vectorized!(portable::sum_exp(x: &[f32], max: f32) -> f64)
}

/// Root-mean-square norm of one row: `out = x / sqrt(mean(x²) + eps) * weight`.
#[inline]
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    assert!(x.len() == weight.len() && x.len() == out.len(), "rows and weights differ in width");
    vectorized!(portable::rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]))
}

/// As [`rms_norm`], in place.
#[inline]
pub(crate) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    assert!(x.len() == weight.len(), "rows and weights differ in width");
    vectorized!(portable::rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32))
}

/// `x / sqrt(mean(x²) + eps)`, in place.
#[inline]
pub(crate) fn unit_rms_in_place(x: &mut [f32], eps: f32) {
    vectorized!(portable::unit_rms_in_place(x: &mut [f32], eps: f32))
}

/// `x[i] += y[i]`.
#[inline]
pub fn add(x: &mut [f32], y: &[f32]) {
    assert!(x.len() == y.len(), "the summands differ in length");
    vectorized!(portable::add(x: &mut [f32], y: &[f32]))
}

/// Rotate one head in place by the angles of its position: pairs are `(i, i + head_dim / 2)`.
#[inline]
pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    assert!(head.len() == 2 * cos.len() && cos.len() == sin.len(), "head and angles differ in width");
    vectorized!(portable::rotate(head: &mut [f32], cos: &[f32], sin: &[f32]))
}

/// `out[i] = gate(gates[i]) * values[i]`.
#[inline]
pub(crate) fn gated(gate: Gate, gates: &[f32], values: &[f32], out: &mut [f32]) {
    assert!(gates.len() == values.len() && values.len() == out.len(), "gates and values differ in length");
    match gate {
        Gate::Silu => swiglu(gates, values, out),
        Gate::GeluTanh => {
            out.copy_from_slice(gates);
            activations::activate(Activation::GeluTanh, out);
            out.iter_mut().zip(values).for_each(|(out, value)| *out *= value);
        }
        Gate::Sigmoid => {
            out.copy_from_slice(values);
            self::gate(gates, out);
        }
    }
}

#[inline]
fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    vectorized!(portable::swiglu(gate: &[f32], up: &[f32], out: &mut [f32]))
}

/// e^x for finite x ≤ 88, relative error below 2e-7; underflows to 0 (Cephes' polynomial).
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    // The last bits of the sum are the integer n.
    let shifted = x * std::f32::consts::LOG2_E + INTEGER;
    let n = shifted - INTEGER;
    let r = n.mul_add(2.121_944_4e-4, (-n).mul_add(0.693_359_4, x));
    let mut p = 1.987_569_1e-4f32.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 5e-1);
    let y = (p * r).mul_add(r, r) + 1.0;
    f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[cfg(test)]
mod tests;
