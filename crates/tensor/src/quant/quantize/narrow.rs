//! Blocks of 32 values, whose scales and offsets are 16-bit floats. Eight are searched at a time.

use super::{
    lanes::{LaneParts, Lanes, parts},
    offset,
    scale::{self, Levels},
};
use crate::quant::iq4_nl::IQ4;

/// Blocks that are searched at a time.
const BLOCKS: usize = 8;
/// Values of a block.
const VALUES: usize = 32;

/// The integers from -8 to 7.
struct Bits4;

impl Levels for Bits4 {
    const EXTREMES: &'static [f32] = &[-8.0, -8.3, -8.6, -7.7, -7.4, -7.0, -6.0];

    #[inline(always)]
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L> {
        x.nearest(-8.0, 7.0)
    }
}

/// The integers from -16 to 15.
struct Bits5;

impl Levels for Bits5 {
    const EXTREMES: &'static [f32] = &[-16.0, -16.3, -16.6, -15.7, -15.4, -15.0];

    #[inline(always)]
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L> {
        x.nearest(-16.0, 15.0)
    }
}

/// The levels of `iq4_nl`, closer to each other near zero.
struct Uneven;

const UNEVEN: [f32; 16] = {
    let (mut levels, mut i) = ([0.0; 16], 0);
    while i < levels.len() {
        levels[i] = IQ4[i] as f32;
        i += 1;
    }
    levels
};

impl Levels for Uneven {
    const EXTREMES: &'static [f32] =
        &[-127.0, -131.0, -135.0, -123.0, -119.0, -115.0, 113.0, 117.0, 109.0, 106.0];

    #[inline(always)]
    fn nearest<const L: usize>(x: Lanes<L>) -> Lanes<L> {
        let mut level = Lanes::of(UNEVEN[0]);
        for pair in UNEVEN.windows(2) {
            level = Lanes::of((pair[0] + pair[1]) / 2.0).if_less(x, Lanes::of(pair[1]), level);
        }
        level
    }
}

/// Call `write` for every block, with a block's bytes, its numbers and its integers.
#[inline(always)]
fn each<const BYTES: usize, T: Copy>(
    values: &[f32],
    bytes: &mut [u8],
    search: impl Fn(&LaneParts<BLOCKS, VALUES>) -> (T, LaneParts<BLOCKS, VALUES>),
    write: impl Fn(&mut [u8; BYTES], T, usize, &[u8; VALUES]),
) {
    let units = values.chunks(BLOCKS * VALUES).zip(bytes.chunks_mut(BLOCKS * BYTES));
    for (values, bytes) in units {
        let (found, integers) = search(&parts(values));
        for (lane, block) in bytes.as_chunks_mut().0.iter_mut().enumerate() {
            write(block, found, lane, &integers.map(|q| q.0[lane] as u8));
        }
    }
}

#[inline(always)]
fn half(value: f32) -> [u8; 2] {
    half::f16::from_f32(value).to_le_bytes()
}

/// Write the lower four bits of a block's integers.
#[inline(always)]
fn write_nibbles(integers: &[u8; VALUES], bytes: &mut [u8]) {
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = integers[i] & 15 | integers[i + 16] << 4;
    }
}

/// The fifth bits of a block's integers.
#[inline(always)]
fn fifth_bits(integers: &[u8; VALUES]) -> [u8; 4] {
    let bits = integers.iter().enumerate().map(|(i, q)| u32::from(q >> 4) << i);
    bits.fold(0, |all, bit| all | bit).to_le_bytes()
}

/// Scales with the least error, and the levels over them, counted from `zero`.
#[inline(always)]
fn scaled<T: Levels>(x: &LaneParts<BLOCKS, VALUES>, zero: f32) -> (Lanes<BLOCKS>, LaneParts<BLOCKS, VALUES>) {
    let scale = scale::search_halves::<T, BLOCKS, VALUES>(x);
    let inverse = scale.inverse();
    (scale, x.map(|x| T::nearest(x * inverse) + Lanes::of(zero)))
}

pub(in crate::quant) fn q4_0(values: &[f32], bytes: &mut [u8]) {
    each::<18, _>(
        values,
        bytes,
        |x| scaled::<Bits4>(x, 8.0),
        |block, scale, lane, integers| {
            block[..2].copy_from_slice(&half(scale.0[lane]));
            write_nibbles(integers, &mut block[2..]);
        },
    );
}

pub(in crate::quant) fn q5_0(values: &[f32], bytes: &mut [u8]) {
    each::<22, _>(
        values,
        bytes,
        |x| scaled::<Bits5>(x, 16.0),
        |block, scale, lane, integers| {
            block[..2].copy_from_slice(&half(scale.0[lane]));
            block[2..6].copy_from_slice(&fifth_bits(integers));
            write_nibbles(integers, &mut block[6..]);
        },
    );
}

pub(in crate::quant) fn iq4_nl(values: &[f32], bytes: &mut [u8]) {
    let search = |x: &_| {
        let (scale, mut levels) = scaled::<Uneven>(x, 0.0);
        for level in &mut levels {
            // The number of a level is the count of levels below it.
            *level = level.map(|level| UNEVEN.iter().map(|below| f32::from(*below < level)).sum());
        }
        (scale, levels)
    };
    each::<18, _>(values, bytes, search, |block, scale, lane, integers| {
        block[..2].copy_from_slice(&half(scale.0[lane]));
        write_nibbles(integers, &mut block[2..]);
    });
}

/// Lines with the least error, and the integers on them.
#[inline(always)]
fn on_lines<const HIGH: usize>(
    x: &LaneParts<BLOCKS, VALUES>,
) -> (offset::ScaleAndOffset<BLOCKS>, LaneParts<BLOCKS, VALUES>) {
    let line = offset::search_halves::<HIGH, BLOCKS, VALUES>(x);
    (line, line.integers::<HIGH, VALUES>(x))
}

pub(in crate::quant) fn q4_1(values: &[f32], bytes: &mut [u8]) {
    each::<20, _>(values, bytes, on_lines::<15>, |block, line, lane, integers| {
        block[..2].copy_from_slice(&half(line.scale.0[lane]));
        block[2..4].copy_from_slice(&half(line.offset.0[lane]));
        write_nibbles(integers, &mut block[4..]);
    });
}

pub(in crate::quant) fn q5_1(values: &[f32], bytes: &mut [u8]) {
    each::<24, _>(values, bytes, on_lines::<31>, |block, line, lane, integers| {
        block[..2].copy_from_slice(&half(line.scale.0[lane]));
        block[2..4].copy_from_slice(&half(line.offset.0[lane]));
        block[4..8].copy_from_slice(&fifth_bits(integers));
        write_nibbles(integers, &mut block[8..]);
    });
}

/// Not searched: the scale lets the largest magnitude be 127, as in [`crate::cpu::kernels::quantize_q8`].
pub(in crate::quant) fn q8_0(values: &[f32], bytes: &mut [u8]) {
    for (values, block) in values.chunks_exact(VALUES).zip(bytes.chunks_exact_mut(2 + VALUES)) {
        let peak = values.iter().fold(0f32, |peak, value| peak.max(value.abs()));
        block[..2].copy_from_slice(&half(peak / 127.0));
        let inverse = if peak > 0.0 { 127.0 / peak } else { 0.0 };
        for (byte, value) in block[2..].iter_mut().zip(values) {
            *byte = ((value * inverse).round_ties_even() as i8).cast_unsigned();
        }
    }
}
