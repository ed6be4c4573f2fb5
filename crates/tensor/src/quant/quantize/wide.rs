//! Blocks of 256 values in parts, whose scales and offsets are integers times a 16-bit float.

use super::{
    lanes::{LaneParts, Lanes, halved, inverse, parts},
    offset::{self, ScaleAndOffset},
    scale::{self, Levels},
};

/// Values of a block.
const VALUES: usize = 256;
/// How often what all parts share is adapted to the integers that were found with it.
const ROUNDS: usize = 2;
/// The integers around the nearest one that are tried for a part's scale.
const NEAR: [f32; 3] = [0.0, -1.0, 1.0];

/// The integers from -32 to 31.
struct Bits6;

impl Levels for Bits6 {
    const EXTREMES: &'static [f32] = &[-32.0, -32.4, -32.8, -31.6, -31.2, -30.8];

    #[inline(always)]
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L> {
        x.nearest(-32.0, 31.0)
    }
}

/// The integers from -4 to 3.
struct Bits3;

impl Levels for Bits3 {
    const EXTREMES: &'static [f32] =
        &[-4.0, -4.25, -4.5, -4.75, -3.75, -3.5, -3.25, -3.0, -5.0, 3.0, 2.75, 3.25, 3.5];

    #[inline(always)]
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L> {
        x.nearest(-4.0, 3.0)
    }
}

/// Sixteen parts of `scale · scales[part]`.
struct Scaled {
    scale: f32,
    /// From `-S` to `S - 1`.
    scales: Lanes<16>,
}

impl Scaled {
    #[inline(always)]
    fn search<T: Levels, const S: usize>(x: &LaneParts<16, 16>) -> Self {
        let (low, high) = (-(S as f32), S as f32 - 1.0);
        let wanted = scale::search::<T, 16, 16>(x);
        let largest = wanted.0.into_iter().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a });
        let (mut least, mut best) = (f32::INFINITY, Self { scale: 0.0, scales: Lanes::ZERO });
        for extreme in [low, high] {
            let (mut scale, mut wanted) = (halved(largest / extreme), wanted);
            for _ in 0..ROUNDS {
                let nearest = (wanted * Lanes::of(inverse(scale))).nearest(low, high);
                let (mut error, mut scales) = (Lanes::INFINITY, Lanes::ZERO);
                let [mut products, mut squares] = [Lanes::ZERO; 2];
                for beside in NEAR {
                    let tried = (nearest + Lanes::of(beside)).clamp(low, high);
                    let fit = scale::Fit::of::<T, 16>(x, tried * Lanes::of(scale));
                    let keep = |new, old| fit.error.if_less(error, new, old);
                    scales = keep(tried, scales);
                    wanted = keep(fit.better(), wanted);
                    products = keep(fit.product(), products);
                    squares = keep(fit.squares, squares);
                    error = fit.error.min(error);
                }
                if error.sum() < least {
                    (least, best) = (error.sum(), Self { scale, scales });
                }
                // The regression of all values.
                scale = halved((scales * products).sum() * inverse((scales * scales * squares).sum()));
            }
        }
        best
    }

    #[inline(always)]
    fn integers<T: Levels>(&self, x: &LaneParts<16, 16>, zero: f32) -> [u8; VALUES] {
        let inverse = (self.scales * Lanes::of(self.scale)).inverse();
        let levels = x.map(|x| T::nearest(x * inverse) + Lanes::of(zero));
        in_order(&levels)
    }
}

/// Eight parts of `scale · scales[part]` and the offset `-minimum · minima[part]`; those integers have 6 bits.
struct WithMinima {
    scale: f32,
    minimum: f32,
    scales: Lanes<8>,
    minima: Lanes<8>,
}

impl WithMinima {
    /// The largest scale and minimum of a part.
    const HIGHEST: f32 = 63.0;

    #[inline(always)]
    fn search<const HIGH: usize>(x: &LaneParts<8, 32>) -> Self {
        let mut wanted = offset::search::<HIGH, 8, 32>(x, 0.0);
        let largest = |lanes: Lanes<8>| lanes.0.into_iter().fold(0f32, f32::max);
        let mut scale = halved(largest(wanted.scale) / Self::HIGHEST);
        let mut minimum = halved(largest(-wanted.offset) / Self::HIGHEST);
        let (mut least, mut best) =
            (f32::INFINITY, Self { scale: 0.0, minimum: 0.0, scales: Lanes::ZERO, minima: Lanes::ZERO });
        for _ in 0..ROUNDS {
            let to_minima =
                |offset: Lanes<8>| (-offset * Lanes::of(inverse(minimum))).nearest(0.0, Self::HIGHEST);
            let nearest = (wanted.scale * Lanes::of(inverse(scale))).nearest(0.0, Self::HIGHEST);
            let from = to_minima(wanted.offset);
            let mut error = Lanes::INFINITY;
            let [mut scales, mut minima, mut products, mut integers, mut squares] = [Lanes::ZERO; 5];
            for beside in NEAR {
                let tried = (nearest + Lanes::of(beside)).clamp(0.0, Self::HIGHEST);
                let mut below = from;
                // With the minimum that was wanted, and with the one that suits this scale.
                for _ in 0..2 {
                    let line = ScaleAndOffset {
                        scale: tried * Lanes::of(scale),
                        offset: -below * Lanes::of(minimum),
                    };
                    let fit = offset::Fit::of::<HIGH, 32>(x, line);
                    let keep = |new, old| fit.error.if_less(error, new, old);
                    scales = keep(tried, scales);
                    minima = keep(below, minima);
                    products = keep(fit.product(), products);
                    integers = keep(fit.integers, integers);
                    squares = keep(fit.squares, squares);
                    wanted = ScaleAndOffset::if_less(fit.error, error, fit.better(0.0).0, wanted);
                    error = fit.error.min(error);
                    below = to_minima(fit.better_offset());
                }
            }
            if error.sum() < least {
                (least, best) = (error.sum(), Self { scale, minimum, scales, minima });
            }
            // The regression of all values on their parts' scales times integers, and on minus their parts' minima.
            let sums = x.iter().fold(Lanes::ZERO, |sum, &x| sum + x);
            let (a, b) = ((scales * products).sum(), -(minima * sums).sum());
            let aa = (scales * scales * squares).sum();
            let ab = -(scales * minima * integers).sum();
            let bb = 32.0 * (minima * minima).sum();
            let divisor = inverse(aa * bb - ab * ab);
            if divisor > 0.0 {
                scale = halved(((a * bb - b * ab) * divisor).max(0.0));
                minimum = halved(((b * aa - a * ab) * divisor).max(0.0));
            } else {
                // There are no minima, or nothing but minima.
                scale = halved((a * inverse(aa)).max(0.0));
            }
        }
        best
    }

    #[inline(always)]
    fn integers<const HIGH: usize>(&self, x: &LaneParts<8, 32>) -> [u8; VALUES] {
        let scale = self.scales * Lanes::of(self.scale);
        let offset = -self.minima * Lanes::of(self.minimum);
        in_order(&ScaleAndOffset { scale, offset }.integers::<HIGH, 32>(x))
    }

    /// Write both floats, and the scales and minima in twelve bytes.
    #[inline(always)]
    fn write(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&half::f16::from_f32(self.scale).to_le_bytes());
        bytes[2..4].copy_from_slice(&half::f16::from_f32(self.minimum).to_le_bytes());
        let [scales, minima] = [self.scales, self.minima].map(|lanes| lanes.0.map(|v| v as u8));
        for j in 0..4 {
            bytes[4 + j] = scales[j] | scales[j + 4] >> 4 << 6;
            bytes[8 + j] = minima[j] | minima[j + 4] >> 4 << 6;
            bytes[12 + j] = scales[j + 4] & 15 | minima[j + 4] << 4;
        }
    }
}

/// The integers of all parts, one part after the other.
#[inline(always)]
fn in_order<const L: usize, const N: usize>(integers: &LaneParts<L, N>) -> [u8; VALUES] {
    let mut out = [0; VALUES];
    for (part, out) in out.chunks_exact_mut(N).enumerate() {
        for (out, lanes) in out.iter_mut().zip(integers) {
            *out = lanes.0[part] as u8;
        }
    }
    out
}

/// Call `write` for every block.
#[inline(always)]
fn each<const BYTES: usize, const L: usize, const N: usize>(
    values: &[f32],
    bytes: &mut [u8],
    write: impl Fn(&LaneParts<L, N>, &mut [u8; BYTES]),
) {
    for (values, block) in values.chunks_exact(VALUES).zip(bytes.as_chunks_mut().0) {
        write(&parts(values), block);
    }
}

/// Write the lower four bits of integers: byte `i` of each 32 has the bits of `i` and of `32 + i` of 64.
#[inline(always)]
fn write_nibbles(integers: &[u8; VALUES], bytes: &mut [u8]) {
    for (integers, bytes) in integers.chunks_exact(64).zip(bytes.chunks_exact_mut(32)) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = integers[i] & 15 | integers[i + 32] << 4;
        }
    }
}

pub(in crate::quant) fn q4_k(values: &[f32], bytes: &mut [u8]) {
    each::<144, 8, 32>(values, bytes, |x, block| {
        let found = WithMinima::search::<15>(x);
        found.write(block);
        write_nibbles(&found.integers::<15>(x), &mut block[16..]);
    });
}

pub(in crate::quant) fn q5_k(values: &[f32], bytes: &mut [u8]) {
    each::<176, 8, 32>(values, bytes, |x, block| {
        let found = WithMinima::search::<31>(x);
        found.write(block);
        let integers = found.integers::<31>(x);
        for (i, byte) in block[16..48].iter_mut().enumerate() {
            *byte = (0..8).fold(0, |bits, part| bits | integers[part * 32 + i] >> 4 << part);
        }
        write_nibbles(&integers, &mut block[48..]);
    });
}

pub(in crate::quant) fn q6_k(values: &[f32], bytes: &mut [u8]) {
    each::<210, 16, 16>(values, bytes, |x, block| {
        let found = Scaled::search::<Bits6, 128>(x);
        let integers = found.integers::<Bits6>(x, 32.0);
        for (half, q) in integers.chunks_exact(128).enumerate() {
            for i in 0..32 {
                block[half * 64 + i] = q[i] & 15 | q[i + 64] << 4;
                block[half * 64 + 32 + i] = q[i + 32] & 15 | q[i + 96] << 4;
                block[128 + half * 32 + i] =
                    q[i] >> 4 | q[i + 32] >> 4 << 2 | q[i + 64] >> 4 << 4 | q[i + 96] >> 4 << 6;
            }
        }
        for (byte, scale) in block[192..208].iter_mut().zip(found.scales.0) {
            *byte = (scale as i8).cast_unsigned();
        }
        block[208..].copy_from_slice(&half::f16::from_f32(found.scale).to_le_bytes());
    });
}

pub(in crate::quant) fn q3_k(values: &[f32], bytes: &mut [u8]) {
    each::<110, 16, 16>(values, bytes, |x, block| {
        let found = Scaled::search::<Bits3, 32>(x);
        let q = found.integers::<Bits3>(x, 4.0);
        for i in 0..32 {
            block[i] = (0..8).fold(0, |bits, part| bits | q[part * 32 + i] >> 2 << part);
            for half in 0..2 {
                let two = |part: usize| (q[half * 128 + part * 32 + i] & 3) << (2 * part);
                block[32 + half * 32 + i] = two(0) | two(1) | two(2) | two(3);
            }
        }
        let scales = found.scales.0.map(|scale| (scale + 32.0) as u8);
        for j in 0..8 {
            block[96 + j] = scales[j] & 15 | scales[j + 8] << 4;
        }
        for j in 0..4 {
            block[104 + j] = (0..4).fold(0, |bits, k| bits | scales[j + 4 * k] >> 4 << (2 * k));
        }
        block[108..].copy_from_slice(&half::f16::from_f32(found.scale).to_le_bytes());
    });
}
