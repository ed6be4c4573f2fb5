//! The block types, arranged: eight outputs of 256 inputs in groups of four inputs.

use std::arch::x86_64::*;

use super::{LANES, load::Outputs};
use crate::quant::{
    BlockType, IQ4, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1,
    Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Unpacked,
};

/// Inputs that are arranged together.
pub const WIDE: usize = 256;

/// 256 inputs of eight outputs, and their scales.
pub struct Group {
    /// Group of four inputs, output, input.
    pub quants: [__m256i; WIDE / 4],
    /// Scale of the scales; for blocks of 32 values the scale of each block.
    pub scales: [__m256; 8],
    /// Scale of the minima; for blocks of 32 values the offset of each block.
    pub minimums: [__m256; 8],
    pub sub_scales: [__m256i; 16],
    /// Minima of two parts each, as pairs of 16 bits: of parts of 16 in their order, of parts of 32 of 0 and 2, 1 and 3, 4 and 6,
    /// 5 and 7.
    pub minima: [__m256i; 8],
}

impl Group {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn zeros() -> Self {
        let zero = _mm256_setzero_si256();
        Self {
            quants: [zero; WIDE / 4],
            scales: [_mm256_setzero_ps(); 8],
            minimums: [_mm256_setzero_ps(); 8],
            sub_scales: [zero; 16],
            minima: [zero; 8],
        }
    }
}

/// A block type that is arranged for products.
pub trait Arranged: BlockType {
    /// Arrange `count` blocks (at most 256 values) of each output, from byte `at` of its row on, in `group`, with
    /// [`BlockType::OFFSET`] if they are signed. By default a block of 256 values is unpacked by [`BlockType::unpack`].
    ///
    /// # Safety
    /// The blocks exist, and the processor has AVX2 and F16C.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _count: usize, group: &mut Group) {
        let (mut rows, mut d) = ([(); LANES].map(|()| Unpacked::default()), [0f32; LANES]);
        for (i, to) in rows.iter_mut().enumerate() {
            // SAFETY: as the caller guarantees.
            Self::unpack(unsafe { outputs.block(i, at, Self::BYTES) }, to);
            d[i] = to.scale;
        }
        let sign = _mm256_set1_epi8(if Self::SIGNED { -128 } else { 0 });
        // SAFETY: eight floats; 256 integers and 16 scales of each row.
        unsafe {
            group.scales[0] = _mm256_loadu_ps(d.as_ptr());
            let quants = Outputs::of(rows.each_ref().map(|row| row.quants.as_ptr().cast()));
            for (part, groups) in group.quants.chunks_exact_mut(4).enumerate() {
                groups.copy_from_slice(&quants.words(part * 16).map(|word| _mm256_xor_si256(word, sign)));
            }
            let scales = Outputs::of(rows.each_ref().map(|row| row.scales.as_ptr().cast()));
            for (i, word) in scales.words(0).into_iter().enumerate() {
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(word));
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(v: __m256i) -> __m256i {
    _mm256_and_si256(v, _mm256_set1_epi8(15))
}

#[inline]
#[target_feature(enable = "avx2")]
fn upper_nibbles(v: __m256i) -> __m256i {
    nibbles(_mm256_srli_epi16::<4>(v))
}

/// The bytes of words, as signed integers.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(word: __m256i) -> [__m256i; 4] {
    [
        _mm256_srai_epi32::<24>(_mm256_slli_epi32::<24>(word)),
        _mm256_srai_epi32::<24>(_mm256_slli_epi32::<16>(word)),
        _mm256_srai_epi32::<24>(_mm256_slli_epi32::<8>(word)),
        _mm256_srai_epi32::<24>(word),
    ]
}

/// The scales and minima of q4_k and q5_k.
///
/// SAFETY: every output has a block from byte `at` on.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn with_minima(outputs: &Outputs, at: usize, group: &mut Group) {
    // SAFETY: the first 16 bytes of each block.
    let [_, low, middle, high] = unsafe { outputs.words(at) };
    let six = _mm256_set1_epi8(63);
    let upper = |word| _mm256_and_si256(_mm256_srli_epi32::<2>(word), _mm256_set1_epi8(0x30));
    let scales = [_mm256_and_si256(low, six), _mm256_or_si256(nibbles(high), upper(low))];
    let minima = [_mm256_and_si256(middle, six), _mm256_or_si256(upper_nibbles(high), upper(middle))];
    for (i, word) in scales.into_iter().enumerate() {
        group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(word));
    }
    for (i, word) in minima.into_iter().enumerate() {
        group.minima[2 * i] = _mm256_and_si256(word, _mm256_set1_epi16(255));
        group.minima[2 * i + 1] = _mm256_srli_epi16::<8>(word);
    }
    // SAFETY: as above.
    unsafe { (group.scales[0], group.minimums[0]) = (outputs.halfs(at), outputs.halfs(at + 2)) };
}

impl Arranged for Q4K {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
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
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
        // SAFETY: as the caller guarantees.
        unsafe { with_minima(outputs, at, group) };
        let bit = |v: __m256i, from: usize| {
            let v = _mm256_srl_epi32(v, _mm_cvtsi32_si128(from as i32));
            _mm256_slli_epi16::<4>(_mm256_and_si256(v, _mm256_set1_epi8(1)))
        };
        for part in 0..8 {
            // SAFETY: 16 bytes of each block.
            let (words, high) =
                unsafe { (outputs.words(at + 48 + part * 16), outputs.words(at + 16 + part % 2 * 16)) };
            for (i, (word, high)) in words.into_iter().zip(high).enumerate() {
                let (pair, to) = (part / 2, part / 2 * 16 + part % 2 * 4 + i);
                group.quants[to] = _mm256_or_si256(nibbles(word), bit(high, 2 * pair));
                group.quants[to + 8] = _mm256_or_si256(upper_nibbles(word), bit(high, 2 * pair + 1));
            }
        }
    }
}

impl Arranged for Q6K {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
        let two = |v| _mm256_and_si256(v, _mm256_set1_epi8(0x30));
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
                    let (high, or) = (high[i], |low, high| _mm256_or_si256(low, two(high)));
                    group.quants[to] = or(nibbles(a[i]), _mm256_slli_epi32::<4>(high));
                    group.quants[to + 8] = or(nibbles(b[i]), _mm256_slli_epi32::<2>(high));
                    group.quants[to + 16] = or(upper_nibbles(a[i]), high);
                    group.quants[to + 24] = or(upper_nibbles(b[i]), _mm256_srli_epi32::<2>(high));
                }
            }
        }
    }
}

impl Arranged for Q8_0 {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut Group) {
        for (b, quants) in group.quants.chunks_exact_mut(LANES).enumerate().take(count) {
            let at = at + b * Self::BYTES;
            // SAFETY: parts of each block.
            let (words, d) = unsafe { ([outputs.words(at + 2), outputs.words(at + 18)], outputs.halfs(at)) };
            group.scales[b] = d;
            for (to, word) in quants.iter_mut().zip(words.into_iter().flatten()) {
                *to = _mm256_xor_si256(word, _mm256_set1_epi8(-128));
            }
        }
    }
}

/// Arrange blocks of 32 values of four or five bits, and their minima; see [`unpack_nibbles`](crate::quant). The scales are
/// 16-bit floats, unless there are none.
///
/// SAFETY: as for [`Arranged::arrange`].
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn narrow<K: Arranged>(outputs: &Outputs, at: usize, count: usize, group: &mut Group) {
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
                let own = _mm256_set1_epi32(0x0101_0101 * (i as i32 / 2));
                let word = _mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c);
                let from = _mm256_add_epi32(_mm256_broadcastsi128_si256(word), own);
                let bits = _mm256_set1_epi32(if i % 2 == 0 { 0x0804_0201 } else { 0x8040_2010_u32 as i32 });
                let set = _mm256_and_si256(_mm256_shuffle_epi8(fifths, from), bits);
                let fifth = _mm256_and_si256(_mm256_cmpeq_epi8(set, bits), _mm256_set1_epi8(16));
                *quants = _mm256_or_si256(*quants, fifth);
            }
        }
    }
}

/// The integers of a table that four bits of every byte stand for, offset by 128.
#[inline]
#[target_feature(enable = "avx2")]
fn looked_up(table: [i8; 16], nibbles: __m256i) -> __m256i {
    // SAFETY: sixteen bytes.
    let table = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) };
    _mm256_shuffle_epi8(_mm256_xor_si256(table, _mm256_set1_epi8(-128)), nibbles)
}

macro_rules! narrow {
    ($($name:ident),+) => {
        $(impl Arranged for $name {
            #[inline]
            #[target_feature(enable = "avx2,f16c")]
            unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut Group) {
                // SAFETY: as the caller guarantees.
                unsafe { narrow::<Self>(outputs, at, count, group) };
            }
        })+
    };
}
narrow!(Q4_0, Q4_1, Q5_0, Q5_1, Iq4Nl);

impl Arranged for Mxfp4 {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut Group) {
        // SAFETY: as the caller guarantees.
        unsafe { narrow::<Self>(outputs, at, count, group) };
        for (b, scales) in group.scales.iter_mut().enumerate().take(count) {
            let scale = |i: usize| {
                // SAFETY: as above.
                let block = unsafe { outputs.block(i, at + b * Self::BYTES, 1) };
                Self::scale(block[0])
            };
            let all: [f32; LANES] = std::array::from_fn(scale);
            // SAFETY: eight floats.
            *scales = unsafe { _mm256_loadu_ps(all.as_ptr()) };
        }
    }
}

/// Two bits of every byte, moved to the lowest.
#[inline]
#[target_feature(enable = "avx2")]
fn two_bits(v: __m256i, from: usize) -> __m256i {
    _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(from as i32)), _mm256_set1_epi8(3))
}

impl Arranged for Q3K {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
        // SAFETY: parts of each block.
        unsafe {
            group.scales[0] = outputs.halfs(at + 108);
            let [_, a, b, c] = outputs.words(at + 92);
            for (i, four) in
                [a, b, _mm256_srli_epi32::<4>(a), _mm256_srli_epi32::<4>(b)].into_iter().enumerate()
            {
                let six = _mm256_or_si256(nibbles(four), _mm256_slli_epi32::<4>(two_bits(c, 2 * i)));
                let scales = bytes_of(_mm256_sub_epi8(six, _mm256_set1_epi8(32)));
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&scales);
            }
            for part in 0..4 {
                let (half, sixteen) = (part / 2, part % 2);
                let low = outputs.words(at + 32 + part * 16);
                let high = outputs.words(at + sixteen * 16);
                for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                    for shift in 0..4 {
                        let bit = _mm_cvtsi32_si128((4 * half + shift) as i32);
                        let third = _mm256_and_si256(_mm256_srl_epi16(high, bit), _mm256_set1_epi8(1));
                        let to = half * 32 + shift * 8 + sixteen * 4 + i;
                        group.quants[to] =
                            _mm256_or_si256(two_bits(low, 2 * shift), _mm256_slli_epi16::<2>(third));
                    }
                }
            }
        }
    }
}

impl Arranged for Q2K {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
        // SAFETY: parts of each block.
        unsafe {
            (group.scales[0], group.minimums[0]) = (outputs.halfs(at + 80), outputs.halfs(at + 82));
            for (i, both) in outputs.words(at).into_iter().enumerate() {
                group.sub_scales[i * 4..(i + 1) * 4].copy_from_slice(&bytes_of(nibbles(both)));
                let [a, b, c, d] = bytes_of(upper_nibbles(both));
                let pair = |a, b| _mm256_or_si256(a, _mm256_slli_epi32::<16>(b));
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
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, _: usize, group: &mut Group) {
        // SAFETY: parts of each block.
        unsafe {
            group.scales[0] = outputs.halfs(at);
            let [head, low, ..] = outputs.words(at);
            for (j, scales) in group.sub_scales[..8].iter_mut().enumerate() {
                let (low_at, high_at) =
                    (_mm_cvtsi32_si128(4 * j as i32), _mm_cvtsi32_si128(16 + 2 * j as i32));
                let four = _mm256_and_si256(_mm256_srl_epi32(low, low_at), _mm256_set1_epi32(15));
                let two = _mm256_and_si256(_mm256_srl_epi32(head, high_at), _mm256_set1_epi32(3));
                let six = _mm256_or_si256(four, _mm256_slli_epi32::<4>(two));
                *scales = _mm256_sub_epi32(six, _mm256_set1_epi32(32));
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
