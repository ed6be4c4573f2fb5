//! The types with blocks of 256 values: q4_k, q5_k, q6_k.

use std::arch::x86_64::*;

use super::{
    Outputs, Panel, halfs_at, nibbles, upper_nibbles,
    wide::{Heads, Wide},
    words,
};

use crate::quant::{Q4K, Q5K, Q6K};

impl Wide for Q4K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn integers(block: *const u8) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        let (a, b) =
            unsafe { (_mm512_loadu_si512(block.add(16).cast()), _mm512_loadu_si512(block.add(80).cast())) };
        [nibbles(a), upper_nibbles(a), nibbles(b), upper_nibbles(b)]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, panel: &mut Panel) {
        for pair in 0..4 {
            for part in 0..2 {
                // SAFETY: 16 bytes of each block.
                let words = unsafe { words(outputs, at + 16 + pair * 32 + part * 16) };
                for (i, word) in words.into_iter().enumerate() {
                    let group = pair * 16 + part * 4 + i;
                    panel.0[group] = nibbles(word);
                    panel.0[group + 8] = upper_nibbles(word);
                }
            }
        }
    }
}

impl Wide for Q5K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn integers(block: *const u8) -> [__m512i; 4] {
        let bit = _mm512_set1_epi8(16);
        // SAFETY: as the caller guarantees.
        let (a, b, high) = unsafe {
            (
                _mm512_loadu_si512(block.add(48).cast()),
                _mm512_loadu_si512(block.add(112).cast()),
                _mm512_broadcast_i64x4(_mm256_loadu_si256(block.add(16).cast())),
            )
        };
        // Bit j of a byte belongs to sub-block j: it moves to bit 4.
        let moved = |low: i64, high_half: i64| {
            let counts = _mm512_setr_epi64(low, low, low, low, high_half, high_half, high_half, high_half);
            _mm512_and_si512(_mm512_rolv_epi64(high, counts), bit)
        };
        [
            _mm512_or_si512(nibbles(a), moved(4, 2)),
            _mm512_or_si512(upper_nibbles(a), moved(3, 1)),
            _mm512_or_si512(nibbles(b), moved(0, 62)),
            _mm512_or_si512(upper_nibbles(b), moved(63, 61)),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, panel: &mut Panel) {
        let bit = |v| _mm512_and_si512(v, _mm512_set1_epi8(16));
        for part in 0..2 {
            // SAFETY: 16 bytes of each block.
            let high = unsafe { words(outputs, at + 16 + part * 16) };
            for pair in 0..4 {
                // SAFETY: as above.
                let words = unsafe { words(outputs, at + 48 + pair * 32 + part * 16) };
                for (i, (word, high)) in words.into_iter().zip(high).enumerate() {
                    let group = pair * 16 + part * 4 + i;
                    // Bits 2 pair and 2 pair + 1 move to bit 4.
                    let even = _mm512_rolv_epi32(high, _mm512_set1_epi32((4 - 2 * pair as i32) & 31));
                    let odd = _mm512_rolv_epi32(high, _mm512_set1_epi32((3 - 2 * pair as i32) & 31));
                    panel.0[group] = _mm512_or_si512(nibbles(word), bit(even));
                    let upper = upper_nibbles(word);
                    panel.0[group + 8] = _mm512_or_si512(upper, bit(odd));
                }
            }
        }
    }
}

impl Wide for Q6K {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn integers(block: *const u8) -> [__m512i; 4] {
        let half = |half: usize| {
            // SAFETY: as the caller guarantees.
            let (low, high) = unsafe {
                (
                    _mm512_loadu_si512(block.add(half * 64).cast()),
                    _mm512_broadcast_i64x4(_mm256_loadu_si256(block.add(128 + half * 32).cast())),
                )
            };
            // Two bits of each byte move to bits 4 and 5.
            let moved = |low: i64, upper: i64| {
                let counts = _mm512_setr_epi64(low, low, low, low, upper, upper, upper, upper);
                _mm512_and_si512(_mm512_rolv_epi64(high, counts), _mm512_set1_epi8(0x30))
            };
            [_mm512_or_si512(nibbles(low), moved(4, 2)), _mm512_or_si512(upper_nibbles(low), moved(0, 62))]
        };
        let ([a, b], [c, d]) = (half(0), half(1));
        [a, b, c, d]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn inputs(x: *const i8) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(x.add(i * 64).cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads(outputs: &Outputs, at: usize) -> Heads {
        // SAFETY: as the caller guarantees.
        let (d, scales) = unsafe { (halfs_at(outputs, at + 208), words(outputs, at + 192)) };
        let zero = _mm512_setzero_si512();
        Heads { d, minimum: _mm512_setzero_ps(), minima: [zero; 4], scales }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pair_scales(block: *const u8, _: i64) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        let own = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(block.add(192).cast())) };
        std::array::from_fn(|k| {
            // A zero and byte 4 k + lane, eight times: the scale in the upper half of 16 bits.
            let lane = |lane: i64| ((4 * k as i64 + lane) * 0x0100_0100_0100_0100) | 0x0080_0080_0080_0080;
            let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
            let pattern = _mm512_setr_epi64(a, a, b, b, c, c, d, d);
            _mm512_srai_epi16::<8>(_mm512_shuffle_epi8(own, pattern))
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, panel: &mut Panel) {
        let two = |v| _mm512_and_si512(v, _mm512_set1_epi8(0x30));
        for half in 0..2 {
            for part in 0..2 {
                // SAFETY: 16 bytes of each block.
                let (high, a, b) = unsafe {
                    (
                        words(outputs, at + 128 + half * 32 + part * 16),
                        words(outputs, at + half * 64 + part * 16),
                        words(outputs, at + half * 64 + 32 + part * 16),
                    )
                };
                for i in 0..4 {
                    let group = half * 32 + part * 4 + i;
                    let high = high[i];
                    panel.0[group] = _mm512_or_si512(nibbles(a[i]), two(_mm512_slli_epi32::<4>(high)));
                    panel.0[group + 8] = _mm512_or_si512(nibbles(b[i]), two(_mm512_slli_epi32::<2>(high)));
                    let (a, b) = (_mm512_srli_epi16::<4>(a[i]), _mm512_srli_epi16::<4>(b[i]));
                    panel.0[group + 16] = _mm512_or_si512(nibbles(a), two(high));
                    panel.0[group + 24] = _mm512_or_si512(nibbles(b), two(_mm512_srli_epi32::<2>(high)));
                }
            }
        }
    }
}
