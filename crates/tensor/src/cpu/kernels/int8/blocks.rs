//! The block types, arranged: eight outputs of 256 inputs in groups of four inputs.

use std::arch::x86_64::*;

use super::{LANES, load::Outputs};
use crate::quant::{BlockType, Q4_0, Q4K, Q5K, Q6K, Q8_0};

/// Inputs that are arranged together.
pub const WIDE: usize = 256;

/// 256 inputs of eight outputs, and their scales.
pub struct Group {
    /// Group of four inputs, output, input.
    pub quants: [__m256i; WIDE / 4],
    /// Scale of the scales and of the minima; for blocks of 32 values the scale of each block.
    pub scales: [__m256; 8],
    pub sub_scales: [__m256i; 16],
    /// Minima of the sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7, as pairs of 16 bits.
    pub minima: [__m256i; 4],
}

impl Group {
    /// A group of zeros.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub fn zeros() -> Self {
        let zero = _mm256_setzero_si256();
        Self {
            quants: [zero; WIDE / 4],
            scales: [_mm256_setzero_ps(); 8],
            sub_scales: [zero; 16],
            minima: [zero; 4],
        }
    }
}

/// A block type that is arranged for products. Parts of 32 of 256 values have minima, those of 16 an offset of 32.
pub trait Arranged: BlockType {
    /// True if the integers are signed; they are offset by 128.
    const SIGNED: bool = false;

    /// Arrange `count` blocks (at most 256 values) of each output, from byte `at` of its row on, in `group`.
    ///
    /// # Safety
    /// The blocks exist, and the processor has AVX2 and F16C.
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut Group);
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
    unsafe { (group.scales[0], group.scales[1]) = (outputs.halfs(at), outputs.halfs(at + 2)) };
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
    const SIGNED: bool = true;

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

impl Arranged for Q4_0 {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn arrange(outputs: &Outputs, at: usize, count: usize, group: &mut Group) {
        for (b, quants) in group.quants.chunks_exact_mut(LANES).enumerate().take(count) {
            let at = at + b * Self::BYTES;
            // SAFETY: parts of each block.
            let (words, d) = unsafe { (outputs.words(at + 2), outputs.halfs(at)) };
            group.scales[b] = d;
            for (i, word) in words.into_iter().enumerate() {
                quants[i] = nibbles(word);
                quants[i + 4] = upper_nibbles(word);
            }
        }
    }
}
