//! The block types, arranged: eight outputs of 256 inputs in groups of four inputs.

use super::{
    LANES,
    load::Outputs,
    v::{self, Floats, Ints},
};
#[cfg(target_arch = "aarch64")]
use super::{
    neon::{Sdot, Widening},
    one_row::{self, OneRow, wide},
};
use crate::quant::{
    BlockType, IQ4, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1,
    Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Unpacked,
};

/// Inputs that are arranged together.
pub const WIDE: usize = 256;

/// 256 inputs of eight outputs, and their scales.
pub struct PanelGroup {
    /// Group of four inputs, output, input.
    pub quants: [Ints; WIDE / 4],
    /// Scale of the scales; for blocks of 32 values the scale of each block.
    pub scales: [Floats; 8],
    /// Scale of the minima; for blocks of 32 values the offset of each block.
    pub minimums: [Floats; 8],
    pub sub_scales: [Ints; 16],
    /// Minima of two parts each, as pairs of 16 bits: of parts of 16 in their order, of parts of 32 of 0 and 2, 1 and 3, 4 and 6,
    /// 5 and 7.
    pub minima: [Ints; 8],
}

impl PanelGroup {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    pub fn zeros() -> Self {
        let zero = v::zero();
        Self {
            quants: [zero; WIDE / 4],
            scales: [v::zeros(); 8],
            minimums: [v::zeros(); 8],
            sub_scales: [zero; 16],
            minima: [zero; 8],
        }
    }
}

/// A block type that is arranged for products.
pub trait Arranged: BlockType {
    /// Kernels for one row that arrange nothing: with dot products, and with widening products.
    #[cfg(target_arch = "aarch64")]
    const ONE_ROW: Option<[OneRow; 2]> = None;

    /// Arrange `count` blocks (at most 256 values) of each output, from byte `at` of its row on, in `group`, with
    /// [`v::OFFSET`] if they are signed. By default a block of 256 values is unpacked by [`BlockType::unpack`].
    ///
    /// # Safety
    /// The blocks exist, and the processor has the instructions.
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _count: usize, group: &mut PanelGroup) {
        let (mut rows, mut d) = ([(); LANES].map(|()| Unpacked::default()), [0f32; LANES]);
        for (i, to) in rows.iter_mut().enumerate() {
            // SAFETY: as the caller guarantees.
            Self::unpack(unsafe { outputs.block(i, at, Self::BYTES) }, to);
            d[i] = to.scale;
        }
        let sign = v::splat_int(if Self::SIGNED { v::OFFSET } else { 0 });
        group.scales[0] = v::from_array(d);
        // SAFETY: 256 integers and 16 scales of each row.
        unsafe {
            let quants = Outputs::of(rows.each_ref().map(|row| row.quants.as_ptr().cast()));
            for (part, groups) in group.quants.chunks_exact_mut(4).enumerate() {
                for (to, word) in groups.iter_mut().zip(quants.words(part * 16)) {
                    *to = v::xor(word, sign);
                }
            }
            let scales = Outputs::of(rows.each_ref().map(|row| row.scales.as_ptr().cast()));
            for (i, word) in scales.words(0).into_iter().enumerate() {
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(word));
            }
        }
    }
}

#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn nibbles(v: Ints) -> Ints {
    v::and(v, v::splat_int(0x0f0f_0f0f))
}

#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn upper_nibbles(v: Ints) -> Ints {
    nibbles(v::shr(v, 4))
}

/// The bytes of words, as signed integers.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn bytes_of(word: Ints) -> [Ints; 4] {
    [
        v::sar(v::shl(word, 24), 24),
        v::sar(v::shl(word, 16), 24),
        v::sar(v::shl(word, 8), 24),
        v::sar(word, 24),
    ]
}

/// The scales and minima of q4_k and q5_k.
///
/// SAFETY: every output has a block from byte `at` on.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn with_minima(outputs: &Outputs, at: usize, group: &mut PanelGroup) {
    // SAFETY: the first 16 bytes of each block.
    let [_, low, middle, high] = unsafe { outputs.words(at) };
    let six = v::splat_int(0x3f3f_3f3f);
    let upper = |word| v::and(v::shr(word, 2), v::splat_int(0x3030_3030));
    let scales = [v::and(low, six), v::or(nibbles(high), upper(low))];
    let minima = [v::and(middle, six), v::or(upper_nibbles(high), upper(middle))];
    for (i, word) in scales.into_iter().enumerate() {
        group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(word));
    }
    for (i, word) in minima.into_iter().enumerate() {
        group.minima[2 * i] = v::and(word, v::splat_int(0x00ff_00ff));
        group.minima[2 * i + 1] = v::and(v::shr(word, 8), v::splat_int(0x00ff_00ff));
    }
    // SAFETY: as above.
    unsafe { (group.scales[0], group.minimums[0]) = (outputs.halfs(at), outputs.halfs(at + 2)) };
}

impl Arranged for Q4K {
    #[cfg(target_arch = "aarch64")]
    const ONE_ROW: Option<[OneRow; 2]> = Some([wide::<Self, Sdot>, wide::<Self, Widening>]);

    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        // SAFETY: as the caller guarantees.
        unsafe { with_minima(outputs, at, group) };
        for part in 0..8 {
            // SAFETY: 16 bytes of each block.
            let words = unsafe { outputs.words(at + 16 + part * 16) };
            for (i, word) in words.into_iter().enumerate() {
                let to = part / 2 * 16 + part % 2 * 4 + i;
                group.quants[to] = nibbles(word);
                group.quants[to + 8] = upper_nibbles(word);
            }
        }
    }
}

impl Arranged for Q5K {
    #[cfg(target_arch = "aarch64")]
    const ONE_ROW: Option<[OneRow; 2]> = Some([wide::<Self, Sdot>, wide::<Self, Widening>]);

    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        // SAFETY: as the caller guarantees.
        unsafe { with_minima(outputs, at, group) };
        let bit = |v: Ints, from: usize| v::shl(v::and(v::shr(v, from), v::splat_int(0x0101_0101)), 4);
        for part in 0..8 {
            // SAFETY: 16 bytes of each block.
            let (words, high) =
                unsafe { (outputs.words(at + 48 + part * 16), outputs.words(at + 16 + part % 2 * 16)) };
            for (i, (word, high)) in words.into_iter().zip(high).enumerate() {
                let (pair, to) = (part / 2, part / 2 * 16 + part % 2 * 4 + i);
                group.quants[to] = v::or(nibbles(word), bit(high, 2 * pair));
                group.quants[to + 8] = v::or(upper_nibbles(word), bit(high, 2 * pair + 1));
            }
        }
    }
}

impl Arranged for Q6K {
    #[cfg(target_arch = "aarch64")]
    const ONE_ROW: Option<[OneRow; 2]> = Some([wide::<Self, Sdot>, wide::<Self, Widening>]);

    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        let two = |v| v::and(v, v::splat_int(0x3030_3030));
        // SAFETY: parts of each block.
        unsafe {
            group.scales[0] = outputs.halfs(at + 208);
            for (i, word) in outputs.words(at + 192).into_iter().enumerate() {
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(word));
            }
            for part in 0..4 {
                let (half, part) = (part / 2, part % 2);
                let high = outputs.words(at + 128 + half * 32 + part * 16);
                let a = outputs.words(at + half * 64 + part * 16);
                let b = outputs.words(at + half * 64 + 32 + part * 16);
                for i in 0..4 {
                    let to = half * 32 + part * 4 + i;
                    let (high, or) = (high[i], |low, high| v::or(low, two(high)));
                    group.quants[to] = or(nibbles(a[i]), v::shl(high, 4));
                    group.quants[to + 8] = or(nibbles(b[i]), v::shl(high, 2));
                    group.quants[to + 16] = or(upper_nibbles(a[i]), high);
                    group.quants[to + 24] = or(upper_nibbles(b[i]), v::shr(high, 2));
                }
            }
        }
    }
}

impl Arranged for Q8_0 {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut PanelGroup) {
        for (b, quants) in group.quants.chunks_exact_mut(LANES).enumerate().take(count) {
            let at = at + b * Self::BYTES;
            // SAFETY: parts of each block.
            let (words, d) = unsafe { ([outputs.words(at + 2), outputs.words(at + 18)], outputs.halfs(at)) };
            group.scales[b] = d;
            for (to, word) in quants.iter_mut().zip(words.into_iter().flatten()) {
                *to = v::xor(word, v::splat_int(v::OFFSET));
            }
        }
    }
}

/// Arrange blocks of 32 values of four or five bits, and their minima; see [`unpack_nibbles`](crate::quant). The scales are
/// 16-bit floats, unless there are none.
///
/// SAFETY: as for [`Arranged::arrange`].
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
unsafe fn narrow<K: Arranged>(outputs: &Outputs, at: usize, count: usize, group: &mut PanelGroup) {
    for (b, quants) in group.quants.chunks_exact_mut(LANES).enumerate().take(count) {
        let at = at + b * K::BYTES;
        let nibbles_at = at + K::BYTES - 16;
        // SAFETY: parts of each block.
        let words = unsafe {
            if let [scale, ..] = K::HALVES {
                group.scales[b] = outputs.halfs(at + scale);
            }
            if K::MINIMA {
                group.minimums[b] = outputs.halfs(at + K::HALVES[1]);
            }
            outputs.words(nibbles_at)
        };
        for (i, word) in words.into_iter().enumerate() {
            let (low, high) = (nibbles(word), upper_nibbles(word));
            (quants[i], quants[i + 4]) = match K::TABLE {
                Some(table) => (looked_up(table, low), looked_up(table, high)),
                None => (low, high),
            };
        }
        if K::FIFTHS {
            // SAFETY: 16 bytes of each block.
            let [fifths, ..] = unsafe { outputs.words(nibbles_at - 4) };
            for (i, quants) in quants.iter_mut().enumerate() {
                // In each word the byte with the bits of the group's four values, four times.
                let own = v::splat_int(0x0101_0101 * (i as i32 / 2));
                let from = v::add(v::splat_four([0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c]), own);
                let bits = v::splat_int(if i % 2 == 0 { 0x0804_0201 } else { 0x8040_2010_u32 as i32 });
                let set = v::and(v::look_up(fifths, from), bits);
                let fifth = v::and(v::equal_bytes(set, bits), v::splat_int(0x1010_1010));
                *quants = v::or(*quants, fifth);
            }
        }
    }
}

/// The integers of a table that four bits of every byte stand for, offset by 128.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn looked_up(table: [i8; 16], nibbles: Ints) -> Ints {
    let table = v::splat_four(std::array::from_fn(|i| {
        i32::from_le_bytes(std::array::from_fn(|k| table[4 * i + k].cast_unsigned()))
    }));
    v::look_up(v::xor(table, v::splat_int(v::OFFSET)), nibbles)
}

macro_rules! narrow {
    ($($name:ident $(in one row: $one_row:expr)?),+) => {
        $(impl Arranged for $name {
            $(
                #[cfg(target_arch = "aarch64")]
                const ONE_ROW: Option<[OneRow; 2]> = Some($one_row);
            )?

            #[inline]
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
            unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut PanelGroup) {
                // SAFETY: as the caller guarantees.
                unsafe { narrow::<Self>(outputs, at, count, group) };
            }
        })+
    };
}
narrow!(
    Q4_0 in one row: [one_row::narrow::<Self, Sdot>, one_row::narrow::<Self, Widening>],
    Q4_1 in one row: [one_row::narrow::<Self, Sdot>, one_row::narrow::<Self, Widening>],
    Q5_0,
    Q5_1,
    Iq4Nl
);

impl Arranged for Mxfp4 {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut PanelGroup) {
        // SAFETY: as the caller guarantees.
        unsafe { narrow::<Self>(outputs, at, count, group) };
        for (b, scales) in group.scales.iter_mut().enumerate().take(count) {
            let scale = |i: usize| {
                // SAFETY: as above.
                let block = unsafe { outputs.block(i, at + b * Self::BYTES, 1) };
                Self::scale(block[0])
            };
            *scales = v::from_array(std::array::from_fn(scale));
        }
    }
}

/// Two bits of every byte, moved to the lowest.
#[inline]
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
fn two_bits(v: Ints, from: usize) -> Ints {
    v::and(v::shr(v, from), v::splat_int(0x0303_0303))
}

impl Arranged for Q3K {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        // SAFETY: parts of each block.
        unsafe {
            group.scales[0] = outputs.halfs(at + 108);
            let [_, a, b, c] = outputs.words(at + 92);
            for (i, four) in [a, b, v::shr(a, 4), v::shr(b, 4)].into_iter().enumerate() {
                let six = v::or(nibbles(four), v::shl(two_bits(c, 2 * i), 4));
                let scales = bytes_of(v::sub_bytes(six, v::splat_int(0x2020_2020)));
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&scales);
            }
            for part in 0..4 {
                let (half, sixteen) = (part / 2, part % 2);
                let low = outputs.words(at + 32 + part * 16);
                let high = outputs.words(at + sixteen * 16);
                for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                    for shift in 0..4 {
                        let third = v::and(v::shr(high, 4 * half + shift), v::splat_int(0x0101_0101));
                        let to = half * 32 + shift * 8 + sixteen * 4 + i;
                        group.quants[to] = v::or(two_bits(low, 2 * shift), v::shl(third, 2));
                    }
                }
            }
        }
    }
}

impl Arranged for Q2K {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        // SAFETY: parts of each block.
        unsafe {
            (group.scales[0], group.minimums[0]) = (outputs.halfs(at + 80), outputs.halfs(at + 82));
            for (i, both) in outputs.words(at).into_iter().enumerate() {
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(nibbles(both)));
                let [a, b, c, d] = bytes_of(upper_nibbles(both));
                let pair = |a, b| v::or(a, v::shl(b, 16));
                (group.minima[2 * i], group.minima[2 * i + 1]) = (pair(a, b), pair(c, d));
            }
            for part in 0..4 {
                for (i, word) in outputs.words(at + 16 + part * 16).into_iter().enumerate() {
                    for shift in 0..4 {
                        let to = part / 2 * 32 + shift * 8 + part % 2 * 4 + i;
                        group.quants[to] = two_bits(word, 2 * shift);
                    }
                }
            }
        }
    }
}

impl Arranged for Iq4Xs {
    #[inline]
    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,f16c"))]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut PanelGroup) {
        // SAFETY: parts of each block.
        unsafe {
            group.scales[0] = outputs.halfs(at);
            let [head, low, ..] = outputs.words(at);
            for (j, scales) in group.sub_scales[..8].iter_mut().enumerate() {
                let four = v::and(v::shr(low, 4 * j), v::splat_int(15));
                let two = v::and(v::shr(head, 16 + 2 * j), v::splat_int(3));
                let six = v::or(four, v::shl(two, 4));
                *scales = v::sub(six, v::splat_int(32));
            }
            for part in 0..8 {
                for (i, word) in outputs.words(at + 8 + part * 16).into_iter().enumerate() {
                    group.quants[part * 8 + i] = looked_up(IQ4, nibbles(word));
                    group.quants[part * 8 + 4 + i] = looked_up(IQ4, upper_nibbles(word));
                }
            }
        }
    }
}

impl Arranged for Iq3S {}
impl Arranged for Iq3Xxs {}
impl Arranged for Iq2S {}
impl Arranged for Iq2Xs {}
impl Arranged for Iq2Xxs {}
impl Arranged for Iq1S {}
impl Arranged for Iq1M {}
