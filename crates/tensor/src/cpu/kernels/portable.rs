//! The portable implementation: for processors without AVX2 and NEON, and for functions that the compiler vectorises well.

use super::{BLOCK, LANES, WIDEST, exp, quantized::Q8};

pub fn dot_f32<const R: usize>(w: &[f32], x0: &[f32], stride: usize) -> [f32; R] {
    std::array::from_fn(|r| {
        let x = &x0[r * stride..][..w.len()];
        rest(w, x, |w| w).fold(sum(lanes(w, x, |w| w)), |sum, product| sum + product)
    })
}

/// A value of [`super::product_f32`], by the sums of the vector implementations.
pub(crate) fn product_f32(w: &[f32], x: &[f32]) -> f32 {
    let mut v = lanes(w, x, |w| w);
    if !w.len().is_multiple_of(LANES) {
        v[0] += rest(w, x, |w| w).sum::<f32>();
    }
    ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))
}

/// Sums of every eighth product, without the last ones of a width that 8 does not divide.
#[inline(always)]
pub(super) fn lanes<T: Copy>(w: &[T], x: &[f32], widen: impl Fn(T) -> f32) -> [f32; LANES] {
    let mut lanes = [0f32; LANES];
    for (w, x) in w.as_chunks::<LANES>().0.iter().zip(x.as_chunks::<LANES>().0) {
        for (lane, (w, x)) in lanes.iter_mut().zip(w.iter().zip(x)) {
            *lane = widen(*w).mul_add(*x, *lane);
        }
    }
    lanes
}

/// The products that [`lanes`] leaves.
#[inline(always)]
pub(super) fn rest<T: Copy>(w: &[T], x: &[f32], widen: impl Fn(T) -> f32) -> impl Iterator<Item = f32> {
    let last = w.as_chunks::<LANES>().1.iter().zip(x.as_chunks::<LANES>().1);
    last.map(move |(w, x)| widen(*w) * x)
}

/// The sum of eight lanes: halves, quarters, then two.
pub(super) fn sum(v: [f32; LANES]) -> f32 {
    ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
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
pub(crate) fn dot_q8(w: Q8<'_>, o: usize, x: Q8<'_>, r: usize, blocks: usize) -> f32 {
    let row = |q: Q8<'_>, row: usize| {
        let range = row * blocks..(row + 1) * blocks;
        (range.start * BLOCK..range.end * BLOCK, range, q.scales.len())
    };
    let ((wq, ws, _), (xq, xs, _)) = (row(w, o), row(x, r));
    let quants = w.quants[wq].chunks_exact(BLOCK).zip(x.quants[xq].chunks_exact(BLOCK));
    let scales = w.scales[ws].iter().zip(&x.scales[xs]);
    quants.zip(scales).fold(0.0, |sum, ((a, b), (da, db))| {
        let dot: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
        (dot as f32).mul_add(da * db, sum)
    })
}

/// The sum of the parts of a long sum: halves, quarters, eighths, then two.
#[inline(always)]
pub(super) fn halves(mut parts: [f32; WIDEST]) -> f32 {
    let mut width = WIDEST / 2;
    while width > 0 {
        for i in 0..width {
            parts[i] += parts[i + width];
        }
        width /= 2;
    }
    parts[0]
}

#[inline(always)]
pub(crate) fn softmax_unnormalized(scores: &mut [f32], least: f32) -> (f32, f32) {
    let mut peaks = [least; WIDEST];
    let (whole, rest) = scores.as_chunks::<WIDEST>();
    for chunk in whole {
        for (peak, &v) in peaks.iter_mut().zip(chunk) {
            *peak = if v > *peak { v } else { *peak };
        }
    }
    let peak = peaks.iter().chain(rest).copied().fold(least, f32::max);
    if peak == f32::NEG_INFINITY {
        scores.fill(0.0);
        return (peak, 0.0);
    }
    let mut sums = [0f32; WIDEST];
    let (whole, rest) = scores.as_chunks_mut::<WIDEST>();
    for chunk in whole {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *v = weight(*v, peak);
            *sum += *v;
        }
    }
    for (sum, v) in sums.iter_mut().zip(rest) {
        *v = weight(*v, peak);
        *sum += *v;
    }
    (peak, halves(sums))
}

/// A masked score is -inf: its weight is 0, not the smallest value of the polynomial.
#[inline(always)]
fn weight(score: f32, peak: f32) -> f32 {
    let weight = exp(score - peak);
    if score == f32::NEG_INFINITY { 0.0 } else { weight }
}

#[inline(always)]
pub(crate) fn sum_exp(x: &[f32], max: f32) -> f64 {
    // Short runs in f32, their sums in f64: no precision is lost over a vocabulary of 150,000. Loops and no closures, which
    // would not be compiled for the caller's instruction set.
    let mut total = 0f64;
    for run in x.chunks(64 * WIDEST) {
        let mut sums = [0f32; WIDEST];
        let (whole, rest) = run.as_chunks::<WIDEST>();
        for chunk in whole {
            for (sum, v) in sums.iter_mut().zip(chunk) {
                *sum += exp(v - max);
            }
        }
        for (sum, v) in sums.iter_mut().zip(rest) {
            *sum += exp(v - max);
        }
        total += f64::from(halves(sums));
    }
    total
}

#[inline(always)]
pub(crate) fn swiglu(gate: &[f32], up: &[f32], out: &mut [f32]) {
    for ((o, g), u) in out.iter_mut().zip(gate).zip(up) {
        *o = *g / (1.0 + exp(-*g)) * u;
    }
}

#[inline(always)]
pub(crate) fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = rms_scale(x, eps);
    for ((o, v), w) in out.iter_mut().zip(x).zip(weight) {
        *o = v * scale * w;
    }
}

#[inline(always)]
pub(crate) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = rms_scale(x, eps);
    for (v, w) in x.iter_mut().zip(weight) {
        *v = *v * scale * w;
    }
}

#[inline(always)]
pub(crate) fn unit_rms_in_place(x: &mut [f32], eps: f32) {
    let scale = rms_scale(x, eps);
    x.iter_mut().for_each(|v| *v *= scale);
}

/// 1 / sqrt(mean(x²) + eps).
#[inline(always)]
fn rms_scale(x: &[f32], eps: f32) -> f32 {
    let mut lanes = [0f32; 2 * LANES];
    let chunks = x.chunks_exact(2 * LANES);
    let tail: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane += v * v;
        }
    }
    let mean = (lanes.iter().sum::<f32>() + tail) / x.len() as f32;
    1.0 / (mean + eps).sqrt()
}

#[inline(always)]
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[inline(always)]
pub fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (a, b) = head.split_at_mut(cos.len());
    for (((a, b), c), s) in a.iter_mut().zip(b).zip(cos).zip(sin) {
        (*a, *b) = (*a * c - *b * s, *b * c + *a * s);
    }
}
