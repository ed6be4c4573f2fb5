//! The types with blocks of 256 values.

use std::arch::x86_64::*;

use super::{
    InPanel, InRows, Panel, Source, halfs, looked_up, nibbles, upper_nibbles,
    wide::{Heads, Numbers, Wide, nibbles_at},
};

use crate::quant::{
    BlockType, IQ4, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K,
};

/// The order of the values of q4_k and q5_k: parts 0 and 2, 1 and 3, 4 and 6, 5 and 7.
const PAIRS: [[usize; 4]; 4] = [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]];
/// The order of the values of q2_k and q3_k: each 32 of the first half with 32 of the second.
const HALVES: [[usize; 4]; 4] = [[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 12, 13], [6, 7, 14, 15]];

/// Scales and minima of sixteen blocks of q4_k and q5_k.
///
/// SAFETY: each output has a block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,f16c")]
unsafe fn heads_with_minima<S: Source>(block: S) -> Heads {
    // SAFETY: the first 16 bytes of each block.
    let [d, low, middle, high] = unsafe { block.words(0) };
    let six = _mm512_set1_epi8(63);
    let upper = |word| _mm512_and_si512(_mm512_srli_epi32::<2>(word), _mm512_set1_epi8(0x30));
    let scales = [_mm512_and_si512(low, six), _mm512_or_si512(nibbles(high), upper(low))];
    let minima = [
        _mm512_and_si512(middle, six),
        _mm512_or_si512(nibbles(_mm512_srli_epi32::<4>(high)), upper(middle)),
    ];
    let even = |word| _mm512_and_si512(word, _mm512_set1_epi16(255));
    let odd = |word| _mm512_srli_epi16::<8>(word);
    let zero = _mm512_setzero_si512();
    Heads {
        d: halfs(d),
        minimum: halfs(_mm512_srli_epi32::<16>(d)),
        minima: [even(minima[0]), odd(minima[0]), even(minima[1]), odd(minima[1]), zero, zero, zero, zero],
        scales: [scales[0], scales[1], zero, zero],
    }
}

/// The scales of a block of q4_k or q5_k.
///
/// SAFETY: `block` is a block.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn scales_of(block: *const u8) -> __m128i {
    // SAFETY: as the caller guarantees.
    let [low, _, high]: [u32; 3] = unsafe { block.add(4).cast::<[u32; 3]>().read_unaligned() };
    let upper = high & 0x0f0f_0f0f | low >> 2 & 0x3030_3030;
    _mm_cvtsi64_si128((u64::from(low & 0x3f3f_3f3f) | u64::from(upper) << 32).cast_signed())
}

impl Wide for Q4K {
    const LANES: [[usize; 4]; 4] = PAIRS;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
        // SAFETY: as the caller guarantees.
        let (a, b, scales) = unsafe {
            (
                _mm512_loadu_si512(block.add(16).cast()),
                _mm512_loadu_si512(block.add(80).cast()),
                scales_of(block),
            )
        };
        Numbers { quants: [nibbles(a), upper_nibbles(a), nibbles(b), upper_nibbles(b)], scales }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        // SAFETY: as the caller guarantees.
        unsafe { heads_with_minima(block) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        nibbles_at(unsafe { block.word(16 + part / 2 * 32 + g * 4) }, part % 2)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        for pair in 0..4 {
            for part in 0..2 {
                // SAFETY: 16 bytes of each block.
                let words = unsafe { block.words(16 + pair * 32 + part * 16) };
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
    const LANES: [[usize; 4]; 4] = PAIRS;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
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
        let quants = [
            _mm512_or_si512(nibbles(a), moved(4, 2)),
            _mm512_or_si512(upper_nibbles(a), moved(3, 1)),
            _mm512_or_si512(nibbles(b), moved(0, 62)),
            _mm512_or_si512(upper_nibbles(b), moved(63, 61)),
        ];
        // SAFETY: as the caller guarantees.
        Numbers { quants, scales: unsafe { scales_of(block) } }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        // SAFETY: as the caller guarantees.
        unsafe { heads_with_minima(block) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        let (word, high) = unsafe { (block.word(48 + part / 2 * 32 + g * 4), block.word(16 + g * 4)) };
        // The bit with the number of the part moves to bit 4.
        let high = _mm512_rolv_epi32(high, _mm512_set1_epi32((4 - part as i32) & 31));
        _mm512_or_si512(nibbles_at(word, part % 2), _mm512_and_si512(high, _mm512_set1_epi8(16)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        let bit = |v| _mm512_and_si512(v, _mm512_set1_epi8(16));
        for part in 0..2 {
            // SAFETY: 16 bytes of each block.
            let high = unsafe { block.words(16 + part * 16) };
            for pair in 0..4 {
                // SAFETY: as above.
                let words = unsafe { block.words(48 + pair * 32 + part * 16) };
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
    unsafe fn numbers(block: *const u8) -> Numbers {
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
        // SAFETY: as the caller guarantees.
        Numbers { quants: [a, b, c, d], scales: unsafe { _mm_loadu_si128(block.add(192).cast()) } }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        // SAFETY: as the caller guarantees.
        let (d, scales) = unsafe { (block.halfs(208), block.words(192)) };
        let zero = _mm512_setzero_si512();
        Heads { d, minimum: _mm512_setzero_ps(), minima: [zero; 8], scales }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        // Of each half the lower bits of 64 values, then the upper ones; two parts have the upper bits in one place.
        let (half, quarter, sixteen) = (part / 8, part / 2 % 4, part % 2 * 16);
        // SAFETY: as the caller guarantees.
        let (word, high) = unsafe {
            (
                block.word(half * 64 + quarter % 2 * 32 + sixteen + g * 4),
                block.word(128 + half * 32 + sixteen + g * 4),
            )
        };
        let high = _mm512_rolv_epi32(high, _mm512_set1_epi32((4 - 2 * quarter as i32) & 31));
        _mm512_or_si512(nibbles_at(word, quarter / 2), _mm512_and_si512(high, _mm512_set1_epi8(0x30)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        let two = |v| _mm512_and_si512(v, _mm512_set1_epi8(0x30));
        for half in 0..2 {
            for part in 0..2 {
                // SAFETY: 16 bytes of each block.
                let (high, a, b) = unsafe {
                    (
                        block.words(128 + half * 32 + part * 16),
                        block.words(half * 64 + part * 16),
                        block.words(half * 64 + 32 + part * 16),
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

/// Two bits of every byte, moved to the lowest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn two_bits(v: __m512i, from: u32) -> __m512i {
    _mm512_and_si512(_mm512_srl_epi16(v, _mm_cvtsi32_si128(from.cast_signed())), _mm512_set1_epi8(3))
}

impl Wide for Q3K {
    const LANES: [[usize; 4]; 4] = HALVES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
        // SAFETY: as the caller guarantees.
        let (low, high, scales) = unsafe {
            (
                _mm512_loadu_si512(block.add(32).cast()),
                _mm512_broadcast_i64x4(_mm256_loadu_si256(block.cast())),
                block.add(96).cast::<[u32; 3]>().read_unaligned(),
            )
        };
        let quants = std::array::from_fn(|i| {
            // Bits i and 4 + i of a byte belong to the two halves: they move to bit 2.
            let (first, second) = ((66 - i as i64) % 64, 62 - i as i64);
            let counts = _mm512_setr_epi64(first, first, first, first, second, second, second, second);
            let third = _mm512_and_si512(_mm512_rolv_epi64(high, counts), _mm512_set1_epi8(4));
            _mm512_or_si512(two_bits(low, 2 * i as u32), third)
        });
        let [a, b, c] = scales;
        let [a, b, c, d] = [[a, c], [b, c >> 2], [a >> 4, c >> 4], [b >> 4, c >> 6]]
            .map(|[four, two]| (four & 0x0f0f_0f0f | (two & 0x0303_0303) << 4).cast_signed());
        Numbers { quants, scales: _mm_sub_epi8(_mm_setr_epi32(a, b, c, d), _mm_set1_epi8(32)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        let zero = _mm512_setzero_si512();
        // SAFETY: the last 14 bytes of each block, and two before them.
        let (d, [_, a, b, c]) = unsafe { (block.halfs(108), block.words(92)) };
        let scales = |four, two| {
            let two = _mm512_and_si512(two, _mm512_set1_epi8(3));
            let six = _mm512_or_si512(nibbles(four), _mm512_slli_epi32::<4>(two));
            _mm512_sub_epi8(six, _mm512_set1_epi8(32))
        };
        let (upper_a, upper_b) = (_mm512_srli_epi32::<4>(a), _mm512_srli_epi32::<4>(b));
        Heads {
            d,
            minimum: _mm512_setzero_ps(),
            minima: [zero; 8],
            scales: [
                scales(a, c),
                scales(b, _mm512_srli_epi32::<2>(c)),
                scales(upper_a, _mm512_srli_epi32::<4>(c)),
                scales(upper_b, _mm512_srli_epi32::<6>(c)),
            ],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        let (half, shift, sixteen) = (part / 8, part / 2 % 4, part % 2 * 16);
        // SAFETY: as the caller guarantees.
        let (word, high) =
            unsafe { (block.word(32 + half * 32 + sixteen + g * 4), block.word(sixteen + g * 4)) };
        let third = _mm512_set1_epi32((2 - (4 * half + shift) as i32) & 31);
        let third = _mm512_and_si512(_mm512_rolv_epi32(high, third), _mm512_set1_epi8(4));
        _mm512_or_si512(two_bits(word, 2 * shift as u32), third)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        for sixteen in 0..2 {
            // SAFETY: 16 bytes of each block.
            let high = unsafe { block.words(sixteen * 16) };
            for half in 0..2 {
                // SAFETY: as above.
                let low = unsafe { block.words(32 + half * 32 + sixteen * 16) };
                for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                    for shift in 0..4 {
                        let third = _mm512_set1_epi32((2 - (4 * half + shift) as i32) & 31);
                        let third = _mm512_and_si512(_mm512_rolv_epi32(high, third), _mm512_set1_epi8(4));
                        let group = half * 32 + shift * 8 + sixteen * 4 + i;
                        panel.0[group] = _mm512_or_si512(two_bits(low, 2 * shift as u32), third);
                    }
                }
            }
        }
    }
}

impl Wide for Q2K {
    const LANES: [[usize; 4]; 4] = HALVES;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
        // SAFETY: as the caller guarantees.
        let (scales, bits) =
            unsafe { (_mm_loadu_si128(block.cast()), _mm512_loadu_si512(block.add(16).cast())) };
        Numbers {
            quants: std::array::from_fn(|i| two_bits(bits, 2 * i as u32)),
            scales: _mm_and_si128(scales, _mm_set1_epi8(15)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        // SAFETY: parts of each block.
        let (both, d, minimum) = unsafe { (block.words(0), block.halfs(80), block.halfs(82)) };
        // Two bytes of each word, widened to 16 bits.
        let pair = |v: __m512i, upper: i32| {
            let of_lane = _mm_setr_epi32(0, 0x0004_0004, 0x0008_0008, 0x000c_000c);
            let bytes =
                _mm_set1_epi32(if upper == 0 { 0x8001_8000_u32 as i32 } else { 0x8003_8002_u32 as i32 });
            let pattern = _mm512_broadcast_i32x4(_mm_add_epi32(of_lane, bytes));
            _mm512_shuffle_epi8(upper_nibbles(v), pattern)
        };
        let minima = std::array::from_fn(|i| pair(both[i / 2], i as i32 % 2));
        Heads { d, minimum, minima, scales: both.map(|word| nibbles(word)) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        let (half, shift, sixteen) = (part / 8, part / 2 % 4, part % 2 * 16);
        // SAFETY: as the caller guarantees.
        two_bits(unsafe { block.word(16 + half * 32 + sixteen + g * 4) }, 2 * shift as u32)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        for part in 0..4 {
            let (half, sixteen) = (part / 2, part % 2);
            // SAFETY: 16 bytes of each block.
            let words = unsafe { block.words(16 + part * 16) };
            for (i, word) in words.into_iter().enumerate() {
                for shift in 0..4 {
                    panel.0[half * 32 + shift * 8 + sixteen * 4 + i] = two_bits(word, 2 * shift as u32);
                }
            }
        }
    }
}

impl Wide for Iq4Xs {
    const LANES: [[usize; 4]; 4] = [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]];

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
        // SAFETY: as the caller guarantees.
        let (head, a, b) = unsafe {
            (
                block.cast::<[u32; 2]>().read_unaligned(),
                _mm512_loadu_si512(block.add(8).cast()),
                _mm512_loadu_si512(block.add(72).cast()),
            )
        };
        // SAFETY: 16 bytes.
        let table = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(IQ4.as_ptr().cast())) };
        let quants = [nibbles(a), upper_nibbles(a), nibbles(b), upper_nibbles(b)];
        // Two bytes with four bits each, and a byte with two bits each, as four bytes.
        let four = |low: u32, high: u32| {
            let bytes = low & 255 | (low & 0xff00) << 8;
            let two = (high | high << 6 | high << 12 | high << 18) & 0x0303_0303;
            bytes & 0x000f_000f | (bytes >> 4 & 0x000f_000f) << 8 | two << 4
        };
        let [high, low] = [head[0] >> 16, head[1]];
        let both = u64::from(four(low, high & 255)) | u64::from(four(low >> 16, high >> 8)) << 32;
        Numbers {
            quants: quants.map(|nibbles| _mm512_shuffle_epi8(table, nibbles)),
            scales: _mm_sub_epi8(_mm_cvtsi64_si128(both.cast_signed()), _mm_set1_epi8(32)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        let zero = _mm512_setzero_si512();
        // SAFETY: the first 16 bytes of each block.
        let [head, low, ..] = unsafe { block.words(0) };
        // As for one block.
        let scales = |low: __m512i, high: __m512i| {
            let byte = _mm512_set1_epi32(255);
            let upper = _mm512_slli_epi32::<8>(_mm512_and_si512(low, _mm512_set1_epi32(0xff00)));
            let bytes = _mm512_or_si512(_mm512_and_si512(low, byte), upper);
            let four = _mm512_set1_epi32(0x000f_000f);
            let even = _mm512_and_si512(bytes, four);
            let odd = _mm512_slli_epi32::<8>(_mm512_and_si512(_mm512_srli_epi32::<4>(bytes), four));
            let high = _mm512_and_si512(high, byte);
            let two = _mm512_or_si512(
                _mm512_or_si512(high, _mm512_slli_epi32::<6>(high)),
                _mm512_or_si512(_mm512_slli_epi32::<12>(high), _mm512_slli_epi32::<18>(high)),
            );
            let two = _mm512_slli_epi32::<4>(_mm512_and_si512(two, _mm512_set1_epi8(3)));
            _mm512_sub_epi8(_mm512_or_si512(_mm512_or_si512(even, odd), two), _mm512_set1_epi8(32))
        };
        let first = scales(low, _mm512_srli_epi32::<16>(head));
        let second = scales(_mm512_srli_epi32::<16>(low), _mm512_srli_epi32::<24>(head));
        Heads {
            d: halfs(head),
            minimum: _mm512_setzero_ps(),
            minima: [zero; 8],
            scales: [first, second, zero, zero],
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, part: usize, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        let word = unsafe { block.word(8 + part * 16 + g % 4 * 4) };
        looked_up(IQ4, nibbles_at(word, g / 4))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, _: &mut Heads) {
        for part in 0..8 {
            // SAFETY: 16 bytes of each block.
            let words = unsafe { block.words(8 + part * 16) };
            for (i, word) in words.into_iter().enumerate() {
                panel.0[part * 8 + i] = looked_up(IQ4, nibbles(word));
                panel.0[part * 8 + 4 + i] = looked_up(IQ4, upper_nibbles(word));
            }
        }
    }
}

impl Wide for Iq3S {}
impl Wide for Iq3Xxs {}
impl Wide for Iq2S {}
impl Wide for Iq2Xs {}
impl Wide for Iq2Xxs {}
impl Wide for Iq1S {}

impl Wide for Iq1M {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        let zero = _mm512_setzero_si512();
        // SAFETY: as the caller guarantees.
        let bytes = |i: usize| unsafe { std::slice::from_raw_parts(block.of(i), Self::BYTES) };
        let d: [f32; 16] = std::array::from_fn(|i| Self::scale(bytes(i)));
        // SAFETY: sixteen floats.
        let d = unsafe { _mm512_loadu_ps(d.as_ptr()) };
        Heads { d, minimum: _mm512_setzero_ps(), minima: [zero; 8], scales: [zero; 4] }
    }
}
