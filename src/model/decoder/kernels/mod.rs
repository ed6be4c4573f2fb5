//! The arithmetic of the CPU decoder: dot products, attention over one cache, and the few element-wise functions.
//!
//! Every function computes each row of its output by the same sequence of floating-point operations whatever the number of
//! rows in the call. That is what makes a verify pass of K+1 rows bit-identical to K+1 single steps, and exact acceptance
//! exactly lossless. Two paths exist, AVX2+FMA and portable; a process uses one of them throughout.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;

use super::team::Shards;

/// Values per quantised block.
pub const BLOCK: usize = 32;
/// Cache slots per interleaved key block.
pub const LANES: usize = 8;

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

/// Rows of 8-bit blocks: `quants` in blocks of [`BLOCK`], one scale per block.
#[derive(Clone, Copy)]
pub struct Q8<'a> {
    /// Signed values, -127 to 127.
    pub quants: &'a [i8],
    /// One scale per block.
    pub scales: &'a [f32],
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
pub unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &Shards<'_>) {
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

/// Some columns of `y = x Wᵀ` of 8-bit blocks.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_q8(product: &Product, w: Q8<'_>, x: Q8<'_>, y: &Shards<'_>) {
    product.check(w.quants.len(), x.quants.len(), 1);
    product.check(w.scales.len(), x.scales.len(), BLOCK);
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: as in `product_f32`.
        unsafe { avx2::product_q8(product, w, x, y) };
        return;
    }
    for r in 0..product.rows {
        for o in product.columns.clone() {
            let dot = portable::dot_q8(w, o, x, r, product.inputs / BLOCK);
            // SAFETY: the columns are the caller's.
            unsafe { y.slice(r * product.outputs + o, 1)[0] = dot };
        }
    }
}

/// Quantise to blocks of [`BLOCK`]: scale = max |x| / 127, values rounded to nearest (ties to even).
///
/// `x` holds whole blocks of finite values, `quants` as many values, `scales` as many scales as there are blocks.
#[inline]
pub fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
    assert!(x.len() == quants.len() && x.len() == scales.len() * BLOCK);
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, and the assertion above bounds every access.
        return unsafe { avx2::quantize_q8(x, quants, scales) };
    }
    portable::quantize_q8(x, quants, scales);
}

/// Attention scores of one query against the first `slots` keys: `scores[j] = scale * q · k[j]`.
///
/// `keys` is one head's interleaved storage: block `j / 8`, then dimension, then lane `j % 8`. `scores` has room for `slots`
/// rounded up to [`LANES`]; what lies beyond `slots` is unspecified.
#[inline]
pub fn scores(q: &[f32], keys: &[f32], slots: usize, scale: f32, scores: &mut [f32]) {
    let blocks = slots.div_ceil(LANES);
    assert!(keys.len() >= blocks * q.len() * LANES && scores.len() >= blocks * LANES);
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, and the assertion above bounds every access.
        return unsafe { avx2::scores(q, keys, blocks, scale, scores) };
    }
    portable::scores(q, keys, blocks, scale, scores);
}

/// In place: `exp(scores - max)`, and their sum. All-minus-infinity input gives zeros and the sum 0.
#[inline]
pub fn softmax_unnormalized(scores: &mut [f32]) -> f32 {
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
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::sum_exp(x, max) };
    }
    portable::sum_exp(x, max)
}

/// The rows of one head's values that a sum runs over: the first `prefix`, then `prefix + path[0]`, `prefix + path[1]`, …
#[derive(Clone, Copy)]
pub struct Visible<'a> {
    /// Rows from the start.
    pub prefix: usize,
    /// Rows after them, relative to `prefix`.
    pub path: &'a [usize],
}

impl Visible<'_> {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.prefix + self.path.len()
    }

    /// One past the last row.
    fn end(&self) -> usize {
        self.prefix + self.path.iter().max().map_or(0, |last| last + 1)
    }

    fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.prefix).chain(self.path.iter().map(|row| self.prefix + row))
    }
}

/// `out = factor * sum_j weights[j] * values[row(j)]` over the visible rows of one head, `out.len()` values each.
#[inline]
pub fn weighted_sum(weights: &[f32], values: &[f32], visible: Visible<'_>, factor: f32, out: &mut [f32]) {
    assert!(weights.len() == visible.count() && values.len() >= visible.end() * out.len());
    #[cfg(target_arch = "x86_64")]
    if has_avx2() && out.len().is_multiple_of(LANES) {
        // SAFETY: the features were detected, and the assertion above bounds every read.
        return unsafe { avx2::weighted_sum(weights, values, visible, factor, out) };
    }
    portable::weighted_sum(weights, values, visible, factor, out);
}

/// Root-mean-square norm of one row: `out = x / sqrt(mean(x²) + eps) * weight`.
#[inline]
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let mut lanes = [0f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let tail: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += v * v;
        }
    }
    let mean = (lanes.iter().sum::<f32>() + tail) / x.len() as f32;
    let scale = 1.0 / (mean + eps).sqrt();
    for ((o, v), w) in out.iter_mut().zip(x).zip(weight) {
        *o = v * scale * w;
    }
}

/// `gate[i] = silu(gate[i]) * up[i]`.
#[inline]
pub fn swiglu(gate: &mut [f32], up: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected.
        return unsafe { avx2::swiglu(gate, up) };
    }
    portable::swiglu(gate, up);
}

/// e^x for finite x ≤ 0 or moderate x, relative error below 2e-7; underflows to 0 (Cephes' polynomial).
#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = x.clamp(-87.3, 88.3);
    let n = (x * std::f32::consts::LOG2_E + 12_582_912.0) - 12_582_912.0;
    let r = x - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 5e-1;
    let y = p * r * r + r + 1.0;
    f32::from_bits((y.to_bits() as i32 + ((n as i32) << 23)) as u32)
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
    fn quantising_is_the_same_on_both_paths() {
        let x = [noise(64, 8), vec![0.0; 32], vec![-3.5; 32]].concat();
        let mut got = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
        let mut want = got.clone();
        quantize_q8(&x, &mut got.0, &mut got.1);
        portable::quantize_q8(&x, &mut want.0, &mut want.1);
        assert_eq!(got, want);
        assert_eq!((got.0[96], got.1[2]), (-127, 0.0));
    }

    #[test]
    fn products_are_close_to_plain_arithmetic_in_any_range_of_columns() {
        let (inputs, outputs, rows) = (96, 7, 6);
        let (w, x) = (noise(outputs * inputs, 3), noise(rows * inputs, 4));
        let quantize = |x: &[f32]| {
            let (mut q, mut d) = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
            quantize_q8(x, &mut q, &mut d);
            (q, d)
        };
        let ((wq, wd), (xq, xd)) = (quantize(&w), quantize(&x));
        let (w8, x8) = (Q8 { quants: &wq, scales: &wd }, Q8 { quants: &xq, scales: &xd });
        let (mut y32, mut y8) = (vec![0f32; rows * outputs], vec![0f32; rows * outputs]);
        for columns in [0..1, 1..6, 6..7] {
            let product = Product { inputs, outputs, rows, columns };
            // SAFETY: one call at a time.
            unsafe {
                product_f32(&product, &w, &x, &Shards::new(&mut y32));
                product_q8(&product, w8, x8, &Shards::new(&mut y8));
            }
        }
        for r in 0..rows {
            for o in 0..outputs {
                let at = r * outputs + o;
                let exact: f32 = (0..inputs).map(|k| w[o * inputs + k] * x[r * inputs + k]).sum();
                assert!((y32[at] - exact).abs() < 1e-4);
                assert!((y8[at] - exact).abs() < 0.1);
                assert!((y8[at] - portable::dot_q8(w8, o, x8, r, inputs / BLOCK)).abs() < 1e-4);
            }
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
    fn attention_pieces_match_plain_arithmetic() {
        let (d, slots) = (24, 41);
        let (q, k, v) = (noise(d, 5), noise(slots * d, 6), noise(slots * d, 7));
        let blocks = slots.div_ceil(LANES);
        let mut keys = vec![0f32; blocks * LANES * d];
        for j in 0..slots {
            for i in 0..d {
                keys[(j / LANES) * d * LANES + i * LANES + j % LANES] = k[j * d + i];
            }
        }
        let mut s = vec![0f32; blocks * LANES];
        scores(&q, &keys, slots, 0.5, &mut s);
        let sum = softmax_unnormalized(&mut s[..slots]);
        let mut out = vec![0f32; d];
        weighted_sum(&s[..slots], &v, Visible { prefix: slots, path: &[] }, 1.0 / sum, &mut out);

        let raw: Vec<f64> =
            (0..slots).map(|j| (0..d).map(|i| f64::from(q[i] * k[j * d + i])).sum::<f64>() * 0.5).collect();
        let z: f64 = raw.iter().map(|s| s.exp()).sum();
        for i in 0..d {
            let want: f64 = (0..slots).map(|j| raw[j].exp() / z * f64::from(v[j * d + i])).sum();
            assert!((f64::from(out[i]) - want).abs() < 1e-5);
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
