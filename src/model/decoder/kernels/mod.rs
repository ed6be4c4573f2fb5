//! The arithmetic of the CPU decoder: dot products, attention over one cache, and the few element-wise functions.
//!
//! Every function computes each row of its output by the same sequence of floating-point operations whatever the number of
//! rows in the call. That is what makes a verify pass of K+1 rows bit-identical to K+1 single steps, and exact acceptance
//! exactly lossless. Three paths exist, AVX-512 with VNNI, AVX2 with FMA, and portable; a process uses one of them throughout.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod half;
mod largest;
mod portable;
mod quantized;
#[cfg(target_arch = "x86_64")]
mod tiles;

pub use blocks::{BlockRows, Blocks, product_blocks};
pub use half::{HalfKind, product_half};
pub use largest::{largest_sums, largest3, position};
pub use quantized::{DisjointBlocksMut, Rows8, Weights8, product_q8, quantize_q8};

use super::thread_pool::DisjointSliceMut;

/// Values per quantised block.
pub const BLOCK: usize = 32;
/// Cache slots per interleaved key block.
pub const SLOTS: usize = 16;
/// Lanes in which plain loops are written, so that compilers find the vectors.
const LANES: usize = 8;

/// True if the path of AVX-512 and its 8-bit dot products is used on this processor.
#[cfg(target_arch = "x86_64")]
pub fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let asked = std::env::var_os("SPECREEL_NO_AVX512").is_none();
        asked && has!("avx512f") && has!("avx512bw") && has!("avx512vnni") && has_avx2()
    })
}

/// True if the path of AVX-512 and its 8-bit dot products is used on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx512() -> bool {
    false
}

/// True if the AVX2+FMA path is used on this processor.
#[cfg(target_arch = "x86_64")]
pub fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// True if the AVX2+FMA path is used on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx2() -> bool {
    false
}

/// `y[r] = w · x[r]` for `R` rows `x[r] = x0[r * stride ..]` of `w.len()` values.
///
/// `x0` holds at least `(R - 1) * stride + w.len()` values.
#[inline]
pub fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
    assert!(x0.len() >= (R - 1) * stride + w.len(), "rows too short for the weights");
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, and the assertion above bounds every read.
        return unsafe { avx2::dot_f32::<R>(w, x0, stride) };
    }
    portable::dot_f32::<R>(w, x0, stride)
}

/// The shape of a product `y = x Wᵀ`, and which of its columns to compute.
#[derive(Clone, Debug)]
pub struct Product {
    /// Values per row of `x` and of `W`.
    pub inputs: usize,
    /// Rows of `W`, values per row of `y`.
    pub outputs: usize,
    /// Rows of `x` and `y`.
    pub rows: usize,
    /// The columns of `y` to compute.
    pub columns: std::ops::Range<usize>,
}

impl Product {
    fn check(&self, w: usize, x: usize, values_per: usize) {
        let width = self.inputs / values_per;
        assert!(self.columns.end <= self.outputs && self.inputs.is_multiple_of(values_per));
        assert!(w >= self.outputs * width && x >= self.rows * width, "operands too short for the product");
    }
}

/// Some columns of `y = x Wᵀ`, all in f32.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &DisjointSliceMut<'_>) {
    product.check(w.len(), x.len(), 1);
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, the operands are as long as the product says, the columns are the caller's.
        unsafe { avx2::product_f32(product, w, x, y) };
        return;
    }
    let n = product.inputs;
    for r in 0..product.rows {
        for o in product.columns.clone() {
            let [dot] = portable::dot_f32::<1>(&w[o * n..(o + 1) * n], &x[r * n..], n);
            // SAFETY: the columns are the caller's.
            unsafe { y.slice(r * product.outputs + o, 1)[0] = dot };
        }
    }
}

/// Scores of several queries against the first `slots` keys: `out[n * stride + j] = queries[n] · k[j]`.
///
/// `queries` are rows of `d` values. `keys` is one head's interleaved storage: block `j / SLOTS`, then dimension, then lane
/// `j % SLOTS`. `stride` is at least `slots` rounded up to [`SLOTS`]; what a row holds beyond `slots` is unspecified.
#[inline]
pub fn scores(queries: &[f32], d: usize, keys: &[f32], slots: usize, out: &mut [f32], stride: usize) {
    let (blocks, count) = (slots.div_ceil(SLOTS), queries.len() / d);
    assert!(keys.len() >= blocks * d * SLOTS && stride >= blocks * SLOTS && out.len() >= count * stride);
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected, and the assertion above bounds every access.
        return unsafe { avx512::scores(queries, d, keys, blocks, out, stride) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as above.
        return unsafe { avx2::scores(queries, d, keys, blocks, out, stride) };
    }
    portable::scores(queries, d, keys, blocks, out, stride);
}

/// In place: `exp(scores - max)`, and their sum. All-minus-infinity input gives zeros and the sum 0.
#[inline]
pub fn softmax_unnormalized(scores: &mut [f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected.
        return unsafe { avx512::softmax_unnormalized(scores) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::softmax_unnormalized(scores) };
    }
    portable::softmax_unnormalized(scores)
}

/// `sum_j exp(x[j] - max)`, for `max` no less than any value.
#[inline]
pub fn sum_exp(x: &[f32], max: f32) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected.
        return unsafe { avx512::sum_exp(x, max) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::sum_exp(x, max) };
    }
    portable::sum_exp(x, max)
}

/// Sums of value rows for several queries: `out[n] = factors[n] * sum_j weights[n * stride + j] * values[j]`, `j < slots`.
///
/// `values` are rows of `d` values, and so is `out`. A weight of 0 leaves a sum as it is, so that slots which a query does not
/// see cost time but change nothing.
#[inline]
pub fn weighted_sum(
    weights: &[f32],
    stride: usize,
    values: &[f32],
    slots: usize,
    factors: &[f32],
    d: usize,
    out: &mut [f32],
) {
    assert!(stride >= slots && weights.len() + stride >= factors.len() * stride + slots);
    assert!(values.len() >= slots * d && out.len() >= factors.len() * d);
    #[cfg(target_arch = "x86_64")]
    if has_avx512() && d.is_multiple_of(16) {
        // SAFETY: the features were detected, and the assertions above bound every access.
        return unsafe { avx512::weighted_sum(weights, stride, values, slots, factors, d, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() && d.is_multiple_of(8) {
        // SAFETY: as above.
        return unsafe { avx2::weighted_sum(weights, stride, values, slots, factors, d, out) };
    }
    portable::weighted_sum(weights, stride, values, slots, factors, d, out);
}

/// Root-mean-square norm of one row: `out = x / sqrt(mean(x²) + eps) * weight`.
#[inline]
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::rms_norm(x, weight, eps, out) };
    }
    portable::rms_norm(x, weight, eps, out);
}

/// `x[i] += y[i]`.
#[inline]
pub fn add(x: &mut [f32], y: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::add(x, y) };
    }
    portable::add(x, y);
}

/// Rotate one head in place by the angles of its position: pairs are `(i, i + head_dim / 2)`.
#[inline]
pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::rotate(head, cos, sin) };
    }
    portable::rotate(head, cos, sin);
}

/// `out[i] = silu(gate[i]) * up[i]`.
#[inline]
pub fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    assert!(gate.len() == up.len() && up.len() == out.len());
    #[cfg(target_arch = "x86_64")]
    if has_avx512() {
        // SAFETY: the features were detected, and the slices are of one length.
        return unsafe { avx512::swiglu(gate, up, out) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as above.
        return unsafe { avx2::swiglu(gate, up, out) };
    }
    portable::swiglu(gate, up, out);
}

/// e^x for finite x ≤ 0 or moderate x, relative error below 2e-7; underflows to 0 (Cephes' polynomial).
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    // 1.5 · 2²³ + n: the sum's last bits are the integer n.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
    let y = p * r * r + r + 1.0;
    f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(n: usize, seed: u32) -> Vec<f32> {
        let mut s = seed.wrapping_mul(2_654_435_761).max(1);
        (0..n)
            .map(|_| {
                s ^= s << 13;
                s ^= s >> 17;
                s ^= s << 5;
                (s as f32 / u32::MAX as f32) * 2.0 - 1.0
            })
            .collect()
    }

    #[test]
    fn f32_rows_do_not_depend_on_their_number() {
        for n in [8, 24, 96, 100, 257] {
            let (w, x) = (noise(n, 1), noise(4 * n, 2));
            let four = dot_f32::<4>(&w, &x, n);
            for r in 0..4 {
                let [one] = dot_f32::<1>(&w, &x[r * n..], n);
                assert_eq!(one.to_bits(), four[r].to_bits());
                let exact: f64 = (0..n).map(|k| f64::from(w[k]) * f64::from(x[r * n + k])).sum();
                assert!((f64::from(one) - exact).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn f32_products_are_close_to_plain_arithmetic_in_any_range_of_columns() {
        let (inputs, outputs, rows) = (96, 7, 6);
        let (w, x) = (noise(outputs * inputs, 3), noise(rows * inputs, 4));
        let mut y = vec![0f32; rows * outputs];
        for columns in [0..1, 1..6, 6..7] {
            // SAFETY: one call at a time.
            unsafe {
                product_f32(
                    &Product { inputs, outputs, rows, columns },
                    &w,
                    &x,
                    &DisjointSliceMut::new(&mut y),
                )
            };
        }
        for (at, y) in y.iter().enumerate() {
            let (r, o) = (at / outputs, at % outputs);
            let exact: f32 = (0..inputs).map(|k| w[o * inputs + k] * x[r * inputs + k]).sum();
            assert!((y - exact).abs() < 1e-4);
        }
    }

    #[test]
    fn exp_is_accurate() {
        for i in 0..8000 {
            let x = -80.0 + i as f32 * 0.0125;
            let (got, want) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((got - want).abs() <= want * 4e-7, "{x} {got} {want}");
        }
    }

    #[test]
    fn attention_pieces_match_plain_arithmetic_and_do_not_depend_on_the_number_of_queries() {
        for (d, slots, count) in [(24, 41, 1), (64, 200, 5), (16, 16, 8), (32, 33, 13), (20, 70, 4)] {
            let (q, k, v) = (noise(count * d, 5), noise(slots * d, 6), noise(slots * d, 7));
            let blocks = slots.div_ceil(SLOTS);
            let mut keys = vec![0f32; blocks * SLOTS * d];
            for j in 0..slots {
                for i in 0..d {
                    keys[(j / SLOTS) * d * SLOTS + i * SLOTS + j % SLOTS] = k[j * d + i];
                }
            }
            let attend = |q: &[f32]| {
                let (count, stride) = (q.len() / d, blocks * SLOTS);
                let mut s = vec![0f32; count * stride];
                scores(q, d, &keys, slots, &mut s, stride);
                let factors: Vec<f32> =
                    s.chunks_mut(stride).map(|s| 1.0 / softmax_unnormalized(&mut s[..slots])).collect();
                let mut out = vec![0f32; count * d];
                weighted_sum(&s, stride, &v, slots, &factors, d, &mut out);
                out
            };
            let together = attend(&q);
            for n in 0..count {
                let query = &q[n * d..(n + 1) * d];
                assert_eq!(attend(query), together[n * d..(n + 1) * d]);
                let dot = |j: usize| (0..d).map(|i| f64::from(query[i] * k[j * d + i])).sum::<f64>().exp();
                let z: f64 = (0..slots).map(dot).sum();
                for i in 0..d {
                    let want: f64 = (0..slots).map(|j| dot(j) / z * f64::from(v[j * d + i])).sum();
                    assert!((f64::from(together[n * d + i]) - want).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn gates_match_plain_arithmetic() {
        for n in [1, 16, 37] {
            let (gate, up, mut out) = (noise(n, 8), noise(n, 9), vec![0f32; n]);
            swiglu(&gate, &up, &mut out);
            for i in 0..n {
                let want = gate[i] / (1.0 + (-gate[i]).exp()) * up[i];
                assert!((out[i] - want).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn sums_of_exponentials_are_accurate() {
        for n in [1, 7, 800, 5000] {
            let x: Vec<f32> = noise(n, 9).into_iter().map(|v| v * 20.0).collect();
            let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let want: f64 = x.iter().map(|v| f64::from(v - max).exp()).sum();
            assert!((sum_exp(&x, max) / want - 1.0).abs() < 1e-5, "{n}");
        }
    }

    #[test]
    fn masked_scores_have_no_weight() {
        let mut s = vec![f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        assert_eq!(softmax_unnormalized(&mut s), 1.0);
        assert_eq!(s, [0.0, 1.0, 0.0]);
        assert_eq!(softmax_unnormalized(&mut [f32::NEG_INFINITY; 3]), 0.0);
    }
}
