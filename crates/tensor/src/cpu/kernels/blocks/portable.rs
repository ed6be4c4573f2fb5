//! The portable implementation, and the definition of the blocks' layouts.

use super::{BlockKind, BlockRows};

/// Sub-blocks of 32 values with their scales and minima.
const SUB: usize = 32;

/// The half-precision float at a byte.
pub(super) fn half_at(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The 6-bit scale and minimum of sub-block `j` of q4_k and q5_k; `packed` are twelve bytes.
pub(super) fn scale_and_minimum(j: usize, packed: &[u8]) -> (u8, u8) {
    if j < 4 {
        (packed[j] & 63, packed[j + 4] & 63)
    } else {
        let low = packed[j + 4];
        (low & 15 | packed[j - 4] >> 6 << 4, low >> 4 | packed[j] >> 6 << 4)
    }
}

/// The integers of a block as they are stored, without an offset: q8_0 in -127..=127, q4_0 and q4_k in 0..16, q5_k in 0..32,
/// q6_k in 0..64. `out` holds a block.
pub(super) fn integers(kind: BlockKind, block: &[u8], out: &mut [i16]) {
    match kind {
        BlockKind::Q8_0 => {
            for (out, q) in out.iter_mut().zip(&block[2..]) {
                *out = i16::from(*q as i8);
            }
        }
        BlockKind::Q4_0 => {
            for (i, q) in block[2..].iter().enumerate() {
                (out[i], out[i + 16]) = (i16::from(q & 15), i16::from(q >> 4));
            }
        }
        BlockKind::Q4K | BlockKind::Q5K => {
            let (high, low) = match kind {
                BlockKind::Q5K => (Some(&block[16..48]), &block[48..]),
                _ => (None, &block[16..]),
            };
            for (pair, quants) in low.chunks_exact(SUB).enumerate() {
                for (i, q) in quants.iter().enumerate() {
                    let bit = |sub: usize| high.map_or(0, |high| (high[i] >> sub & 1) << 4);
                    out[pair * 64 + i] = i16::from(q & 15 | bit(2 * pair));
                    out[pair * 64 + SUB + i] = i16::from(q >> 4 | bit(2 * pair + 1));
                }
            }
        }
        BlockKind::Q6K => {
            for half in 0..2 {
                let (low, high) = (&block[half * 64..], &block[128 + half * 32..]);
                for i in 0..SUB {
                    let q = |low: u8, shift: u8| i16::from(low & 15 | (high[i] >> shift & 3) << 4);
                    let out = &mut out[half * 128..];
                    out[i] = q(low[i], 0);
                    out[i + 32] = q(low[i + 32], 2);
                    out[i + 64] = q(low[i] >> 4, 4);
                    out[i + 96] = q(low[i + 32] >> 4, 6);
                }
            }
        }
    }
}

/// Append the values of a block.
pub(super) fn widen(kind: BlockKind, block: &[u8], out: &mut Vec<f32>) {
    let mut q = [0i16; 256];
    integers(kind, block, &mut q);
    let q = &q[..kind.values()];
    match kind {
        BlockKind::Q8_0 | BlockKind::Q4_0 => {
            let (d, offset) = (half_at(block, 0), if kind == BlockKind::Q4_0 { 8 } else { 0 });
            out.extend(q.iter().map(|q| f32::from(q - offset) * d));
        }
        BlockKind::Q4K | BlockKind::Q5K => {
            let (d, minimum) = (half_at(block, 0), half_at(block, 2));
            for (j, q) in q.chunks_exact(SUB).enumerate() {
                let (sc, m) = scale_and_minimum(j, &block[4..16]);
                let (d, m) = (d * f32::from(sc), minimum * f32::from(m));
                out.extend(q.iter().map(|q| d * f32::from(*q) - m));
            }
        }
        BlockKind::Q6K => {
            let d = half_at(block, 208);
            for (q, sc) in q.chunks_exact(16).zip(&block[192..208]) {
                let d = d * f32::from(*sc as i8);
                out.extend(q.iter().map(|q| d * f32::from(q - 32)));
            }
        }
    }
}

/// `Σ w_i x_i`.
fn integer_dot(w: &[i16], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum()
}

/// A row of blocks times row `r` of `x`, `inputs` values each: the sums of [`super`].
pub(super) fn dot(kind: BlockKind, row: &[u8], x: BlockRows<'_>, r: usize, inputs: usize) -> f32 {
    let (values, mut sum) = (kind.values(), 0f32);
    let mut q = [0i16; 256];
    let q = &mut q[..values];
    for (b, block) in row.chunks_exact(kind.bytes()).enumerate() {
        integers(kind, block, q);
        let (at, index) = (r * inputs + b * values, r * (inputs / values) + b);
        match kind {
            BlockKind::Q8_0 | BlockKind::Q4_0 => {
                if kind == BlockKind::Q4_0 {
                    q.iter_mut().for_each(|q| *q -= 8);
                }
                let dot = integer_dot(q, &x.q8.quants[at..]);
                sum = (dot as f32).mul_add(half_at(block, 0) * x.q8.scales[index], sum);
            }
            BlockKind::Q4K | BlockKind::Q5K => {
                let (mut dot, mut minima) = (0, 0);
                for (j, q) in q.chunks_exact(SUB).enumerate() {
                    let (sc, m) = scale_and_minimum(j, &block[4..16]);
                    dot += i32::from(sc) * integer_dot(q, &x.k.quants[at + j * SUB..]);
                    let sums = &x.k.sums[index * 16 + 2 * j..][..2];
                    minima += i32::from(m) * (i32::from(sums[0]) + i32::from(sums[1]));
                }
                let scale = x.k.scales[index];
                sum = (dot as f32).mul_add(half_at(block, 0) * scale, sum);
                sum = (-minima as f32).mul_add(half_at(block, 2) * scale, sum);
            }
            BlockKind::Q6K => {
                let mut dot = 0;
                for (j, (q, sc)) in q.chunks_exact(16).zip(&block[192..208]).enumerate() {
                    let offset = 32 * i32::from(x.k.sums[index * 16 + j]);
                    let part = integer_dot(q, &x.k.quants[at + j * 16..]) - offset;
                    dot += i32::from(*sc as i8) * part;
                }
                sum = (dot as f32).mul_add(half_at(block, 208) * x.k.scales[index], sum);
            }
        }
    }
    sum
}
