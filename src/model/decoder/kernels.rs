//! The arithmetic of the CPU decoder: dot products, attention over one cache, and the few element-wise functions.
//!
//! Every function computes each row of its output by the same sequence of floating-point operations whatever the number of
//! rows in the call. That is what makes a verify pass of K+1 rows bit-identical to K+1 single steps, and exact acceptance
//! exactly lossless. Two paths exist, AVX2+FMA and portable; a process uses one of them throughout.

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

mod portable {
    use super::{BLOCK, LANES, Q8, Visible, exp};

    pub fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
        std::array::from_fn(|r| {
            let x = &x0[r * stride..r * stride + w.len()];
            let mut lanes = [0f32; 2 * LANES];
            let (wc, xc) = (w.chunks_exact(2 * LANES), x.chunks_exact(2 * LANES));
            let tail: f32 = wc.remainder().iter().zip(xc.remainder()).map(|(a, b)| a * b).sum();
            for (a, b) in wc.zip(xc) {
                for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
                    *lane += a * b;
                }
            }
            lanes.iter().sum::<f32>() + tail
        })
    }

    pub fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
        for ((block, q), scale) in x.chunks_exact(BLOCK).zip(quants.chunks_exact_mut(BLOCK)).zip(scales) {
            let peak = block.iter().fold(0f32, |peak, v| peak.max(v.abs()));
            *scale = peak / 127.0;
            let inverse = if peak > 0.0 { 127.0 / peak } else { 0.0 };
            for (q, &v) in q.iter_mut().zip(block) {
                *q = (v * inverse).round_ties_even() as i8;
            }
        }
    }

    /// Row `o` of `w` times row `r` of `x`, `blocks` blocks each.
    pub fn dot_q8(w: Q8<'_>, o: usize, x: Q8<'_>, r: usize, blocks: usize) -> f32 {
        let row = |q: Q8<'_>, row: usize| {
            let range = row * blocks..(row + 1) * blocks;
            (range.start * BLOCK..range.end * BLOCK, range, q.scales.len())
        };
        let ((wq, ws, _), (xq, xs, _)) = (row(w, o), row(x, r));
        let quants = w.quants[wq].chunks_exact(BLOCK).zip(x.quants[xq].chunks_exact(BLOCK));
        let scales = w.scales[ws].iter().zip(&x.scales[xs]);
        quants
            .zip(scales)
            .map(|((a, b), (da, db))| {
                let dot: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
                dot as f32 * (da * db)
            })
            .sum()
    }

    #[inline(always)]
    pub fn scores(q: &[f32], keys: &[f32], blocks: usize, scale: f32, scores: &mut [f32]) {
        let step = q.len() * LANES;
        for (block, out) in keys.chunks_exact(step).zip(scores.chunks_exact_mut(LANES)).take(blocks) {
            let mut lanes = [0f32; LANES];
            for (&q, k) in q.iter().zip(block.chunks_exact(LANES)) {
                for (lane, k) in lanes.iter_mut().zip(k) {
                    *lane += q * k;
                }
            }
            for (o, lane) in out.iter_mut().zip(lanes) {
                *o = lane * scale;
            }
        }
    }

    #[inline(always)]
    pub fn softmax_unnormalized(scores: &mut [f32]) -> f32 {
        let mut peaks = [f32::NEG_INFINITY; LANES];
        for chunk in scores.chunks(LANES) {
            for (peak, &v) in peaks.iter_mut().zip(chunk) {
                *peak = peak.max(v);
            }
        }
        let peak = peaks.into_iter().fold(f32::NEG_INFINITY, f32::max);
        if peak == f32::NEG_INFINITY {
            scores.fill(0.0);
            return 0.0;
        }
        let mut sums = [0f32; LANES];
        for chunk in scores.chunks_mut(LANES) {
            for (sum, v) in sums.iter_mut().zip(chunk) {
                // A masked score is -inf: its weight is 0, not the polynomial's smallest value.
                *v = if *v == f32::NEG_INFINITY { 0.0 } else { exp(*v - peak) };
                *sum += *v;
            }
        }
        sums.into_iter().sum()
    }

    pub fn weighted_sum(weights: &[f32], values: &[f32], visible: Visible<'_>, factor: f32, out: &mut [f32]) {
        let width = out.len();
        out.fill(0.0);
        for (&p, row) in weights.iter().zip(visible.rows()) {
            for (o, v) in out.iter_mut().zip(&values[row * width..(row + 1) * width]) {
                *o += p * v;
            }
        }
        out.iter_mut().for_each(|o| *o *= factor);
    }

    #[inline(always)]
    pub fn sum_exp(x: &[f32], max: f32) -> f64 {
        // Runs of a bounded length in f32, their sums in f64: a vocabulary of 150,000 loses no digits.
        x.chunks(64 * LANES)
            .map(|run| {
                let mut sums = [0f32; LANES];
                for chunk in run.chunks(LANES) {
                    for (sum, v) in sums.iter_mut().zip(chunk) {
                        *sum += exp(v - max);
                    }
                }
                f64::from(sums.into_iter().sum::<f32>())
            })
            .sum()
    }

    #[inline(always)]
    pub fn swiglu(gate: &mut [f32], up: &[f32]) {
        for (g, u) in gate.iter_mut().zip(up) {
            *g = *g / (1.0 + exp(-*g)) * u;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{BLOCK, LANES, Product, Q8, Shards, Visible, portable};

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn sum8(v: __m256) -> f32 {
        let s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)))
    }

    /// SAFETY: `x0` holds at least `(R - 1) * stride + w.len()` values.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
        let n = w.len();
        let whole = n / LANES * LANES;
        let mut acc = [_mm256_setzero_ps(); R];
        let mut i = 0;
        while i < whole {
            // SAFETY: i + 8 <= n, and the caller vouches for the rows.
            let wv = unsafe { _mm256_loadu_ps(w.as_ptr().add(i)) };
            for (r, acc) in acc.iter_mut().enumerate() {
                let xv = unsafe { _mm256_loadu_ps(x0.as_ptr().add(r * stride + i)) };
                *acc = _mm256_fmadd_ps(wv, xv, *acc);
            }
            i += LANES;
        }
        let mut out = [0f32; R];
        for r in 0..R {
            let mut s = sum8(acc[r]);
            for k in whole..n {
                s += w[k] * x0[r * stride + k];
            }
            out[r] = s;
        }
        out
    }

    /// SAFETY: the three slices hold the same number of blocks.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
        let magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fff_ffff));
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        for (b, scale) in scales.iter_mut().enumerate() {
            // SAFETY: block b lies within the values.
            let v: [__m256; 4] =
                std::array::from_fn(|i| unsafe { _mm256_loadu_ps(x.as_ptr().add(b * BLOCK + i * LANES)) });
            let m = v.map(|v| _mm256_and_ps(v, magnitude));
            let m = _mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3]));
            let m = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
            let m = _mm_max_ps(m, _mm_movehl_ps(m, m));
            let peak = _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
            *scale = peak / 127.0;
            let inverse = _mm256_set1_ps(if peak > 0.0 { 127.0 / peak } else { 0.0 });
            let i = v.map(|v| _mm256_cvtps_epi32(_mm256_mul_ps(v, inverse)));
            let bytes = _mm256_packs_epi16(_mm256_packs_epi32(i[0], i[1]), _mm256_packs_epi32(i[2], i[3]));
            // The packs work within halves; this puts their quarters in order.
            let bytes = _mm256_permutevar8x32_epi32(bytes, order);
            // SAFETY: block b lies within the quants.
            unsafe { _mm256_storeu_si256(quants.as_mut_ptr().add(b * BLOCK).cast(), bytes) };
        }
    }

    /// Sums of four vectors, each over its eight lanes in one fixed order.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn sums(v: [__m256; 4]) -> [f32; 4] {
        let s = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
        let s = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
        let mut out = [0f32; 4];
        // SAFETY: room for four.
        unsafe { _mm_storeu_ps(out.as_mut_ptr(), s) };
        out
    }

    /// Walk the tiles of a product: `O` columns by `R` rows. Every dot product is summed in the same order in any tile.
    macro_rules! tiles {
        ($product:expr, $y:expr, $tile:ident, $($operand:expr),+) => {{
            let (p, outputs) = ($product, $product.outputs);
            let mut r = 0;
            while r < p.rows {
                let mut o = p.columns.start;
                if p.rows - r >= 4 {
                    while o < p.columns.end {
                        // SAFETY: rows r to r + 4 and column o lie within the product.
                        let v = unsafe { $tile::<1, 4>($($operand),+, o, r) };
                        for (i, sum) in sums(v[0]).into_iter().enumerate() {
                            // SAFETY: the column is this call's.
                            unsafe { $y.set((r + i) * outputs + o, sum) };
                        }
                        o += 1;
                    }
                    r += 4;
                } else {
                    while o < p.columns.end {
                        let zero = _mm256_setzero_ps();
                        let n = (p.columns.end - o).min(4);
                        // SAFETY: row r and columns o to o + n lie within the product.
                        let v = unsafe {
                            if n == 4 {
                                let v = $tile::<4, 1>($($operand),+, o, r);
                                [v[0][0], v[1][0], v[2][0], v[3][0]]
                            } else {
                                [$tile::<1, 1>($($operand),+, o, r)[0][0], zero, zero, zero]
                            }
                        };
                        let n = if n == 4 { 4 } else { 1 };
                        for (i, sum) in sums(v).into_iter().take(n).enumerate() {
                            // SAFETY: the columns are this call's.
                            unsafe { $y.set(r * outputs + o + i, sum) };
                        }
                        o += n;
                    }
                    r += 1;
                }
            }
        }};
    }

    /// SAFETY: the operands are as long as the product says; the columns are the caller's.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn product_q8(product: &Product, w: Q8<'_>, x: Q8<'_>, y: &Shards<'_>) {
        let blocks = product.inputs / BLOCK;
        tiles!(product, y, tile_q8, w, x, blocks);
    }

    /// SAFETY: as of [`product_q8`].
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn product_f32(product: &Product, w: &[f32], x: &[f32], y: &Shards<'_>) {
        tiles!(product, y, tile_f32, w, x, product.inputs);
    }

    /// Unsummed dot products of `O` rows of `w` from `o` on with `R` rows of `x` from `r` on.
    ///
    /// SAFETY: those rows exist in both operands.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile_q8<const O: usize, const R: usize>(
        w: Q8<'_>,
        x: Q8<'_>,
        blocks: usize,
        o: usize,
        r: usize,
    ) -> [[__m256; R]; O] {
        let ones = _mm256_set1_epi16(1);
        let mut acc = [[_mm256_setzero_ps(); R]; O];
        // SAFETY: every block below lies within rows that the caller vouches for.
        unsafe {
            let (wq, ws) = (w.quants.as_ptr().add(o * blocks * BLOCK), w.scales.as_ptr().add(o * blocks));
            let (xq, xs) = (x.quants.as_ptr().add(r * blocks * BLOCK), x.scales.as_ptr().add(r * blocks));
            for b in 0..blocks {
                for (i, acc) in acc.iter_mut().enumerate() {
                    let at = i * blocks + b;
                    let wv = _mm256_loadu_si256(wq.add(at * BLOCK).cast());
                    let wabs = _mm256_sign_epi8(wv, wv);
                    let wd = _mm256_broadcast_ss(&*ws.add(at));
                    for (j, acc) in acc.iter_mut().enumerate() {
                        let at = j * blocks + b;
                        let xv = _mm256_loadu_si256(xq.add(at * BLOCK).cast());
                        let xd = _mm256_broadcast_ss(&*xs.add(at));
                        // |w| * sign(w) x stays within i16 for pairs: 2 * 127 * 127 < 32768.
                        let pairs = _mm256_maddubs_epi16(wabs, _mm256_sign_epi8(xv, wv));
                        let quads = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
                        *acc = _mm256_fmadd_ps(quads, _mm256_mul_ps(wd, xd), *acc);
                    }
                }
            }
        }
        acc
    }

    /// As [`tile_q8`], in f32; what is left over of a width not divisible by 8 is added to the first lane.
    ///
    /// SAFETY: those rows exist in both operands.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn tile_f32<const O: usize, const R: usize>(
        w: &[f32],
        x: &[f32],
        n: usize,
        o: usize,
        r: usize,
    ) -> [[__m256; R]; O] {
        let mut acc = [[_mm256_setzero_ps(); R]; O];
        let whole = n / LANES * LANES;
        // SAFETY: every value below lies within rows that the caller vouches for.
        unsafe {
            let (w, x) = (w.as_ptr().add(o * n), x.as_ptr().add(r * n));
            for at in (0..whole).step_by(LANES) {
                for (i, acc) in acc.iter_mut().enumerate() {
                    let wv = _mm256_loadu_ps(w.add(i * n + at));
                    for (j, acc) in acc.iter_mut().enumerate() {
                        *acc = _mm256_fmadd_ps(wv, _mm256_loadu_ps(x.add(j * n + at)), *acc);
                    }
                }
            }
            if whole < n {
                for (i, acc) in acc.iter_mut().enumerate() {
                    for (j, acc) in acc.iter_mut().enumerate() {
                        let rest: f32 = (whole..n).map(|k| *w.add(i * n + k) * *x.add(j * n + k)).sum();
                        *acc = _mm256_add_ps(*acc, _mm256_zextps128_ps256(_mm_set_ss(rest)));
                    }
                }
            }
        }
        acc
    }

    /// SAFETY: `keys` and `scores` hold `blocks` blocks.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn scores(q: &[f32], keys: &[f32], blocks: usize, scale: f32, scores: &mut [f32]) {
        let d = q.len();
        let step = d * LANES;
        let scale = _mm256_set1_ps(scale);
        let mut b = 0;
        // Four blocks at a time hide the latency of the additions; a block's own order of additions never changes.
        while b + 4 <= blocks {
            let mut acc = [_mm256_setzero_ps(); 4];
            for (i, q) in q.iter().enumerate() {
                let qv = _mm256_broadcast_ss(q);
                for (k, acc) in acc.iter_mut().enumerate() {
                    // SAFETY: block b + k lies within the keys.
                    let kv = unsafe { _mm256_loadu_ps(keys.as_ptr().add((b + k) * step + i * LANES)) };
                    *acc = _mm256_fmadd_ps(qv, kv, *acc);
                }
            }
            for (k, acc) in acc.into_iter().enumerate() {
                // SAFETY: block b + k lies within the scores.
                unsafe {
                    _mm256_storeu_ps(scores.as_mut_ptr().add((b + k) * LANES), _mm256_mul_ps(acc, scale));
                }
            }
            b += 4;
        }
        while b < blocks {
            let mut acc = _mm256_setzero_ps();
            for (i, q) in q.iter().enumerate() {
                // SAFETY: block b lies within the keys.
                let kv = unsafe { _mm256_loadu_ps(keys.as_ptr().add(b * step + i * LANES)) };
                acc = _mm256_fmadd_ps(_mm256_broadcast_ss(q), kv, acc);
            }
            // SAFETY: block b lies within the scores.
            unsafe { _mm256_storeu_ps(scores.as_mut_ptr().add(b * LANES), _mm256_mul_ps(acc, scale)) };
            b += 1;
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn softmax_unnormalized(scores: &mut [f32]) -> f32 {
        portable::softmax_unnormalized(scores)
    }

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn sum_exp(x: &[f32], max: f32) -> f64 {
        portable::sum_exp(x, max)
    }

    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn swiglu(gate: &mut [f32], up: &[f32]) {
        portable::swiglu(gate, up);
    }

    /// SAFETY: `values` holds the visible rows of `out.len()` values, a multiple of 8.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn weighted_sum(
        weights: &[f32],
        values: &[f32],
        visible: Visible<'_>,
        factor: f32,
        out: &mut [f32],
    ) {
        let mut at = 0;
        while at < out.len() {
            // As many vectors of the output as stay in registers while the rows stream by.
            // SAFETY: at + 8 n <= out.len() in each arm, and the caller vouches for the rows.
            at += unsafe {
                match (out.len() - at) / LANES {
                    0 | 1 => columns::<1>(weights, values, visible, factor, out, at),
                    2 => columns::<2>(weights, values, visible, factor, out, at),
                    3 => columns::<3>(weights, values, visible, factor, out, at),
                    4 | 5 => columns::<4>(weights, values, visible, factor, out, at),
                    6 | 7 => columns::<6>(weights, values, visible, factor, out, at),
                    _ => columns::<8>(weights, values, visible, factor, out, at),
                }
            };
        }
    }

    /// Columns `at .. at + 8 N` of the weighted sum; returns their number.
    ///
    /// SAFETY: as of [`weighted_sum`], and `at + 8 N <= out.len()`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn columns<const N: usize>(
        weights: &[f32],
        values: &[f32],
        visible: Visible<'_>,
        factor: f32,
        out: &mut [f32],
        at: usize,
    ) -> usize {
        let width = out.len();
        let mut acc = [_mm256_setzero_ps(); N];
        let mut add = |p: &f32, row: usize| {
            let p = _mm256_broadcast_ss(p);
            for (k, acc) in acc.iter_mut().enumerate() {
                // SAFETY: the row lies within the values.
                let v = unsafe { _mm256_loadu_ps(values.as_ptr().add(row * width + at + k * LANES)) };
                *acc = _mm256_fmadd_ps(p, v, *acc);
            }
        };
        let (prefix, path) = weights.split_at(visible.prefix);
        prefix.iter().enumerate().for_each(|(row, p)| add(p, row));
        path.iter().zip(visible.path).for_each(|(p, row)| add(p, visible.prefix + row));
        let factor = _mm256_set1_ps(factor);
        for (k, acc) in acc.into_iter().enumerate() {
            // SAFETY: at + 8 N <= width.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr().add(at + k * LANES), _mm256_mul_ps(acc, factor)) };
        }
        N * LANES
    }
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
