//! Attention with AVX-512, and scores of 8-bit keys with VNNI.

use std::{arch::x86_64::*, ops::Range};

use super::{
    super::{BLOCK, SLOTS},
    FEW, SEGMENT, Weights,
    q8::{Keys8, Queries8},
    scales_of,
    tiles::attention_tiles,
};

attention_tiles!(
    "avx512f", __m512, width 16, queries 8, f32, _mm512_loadu_ps,
    _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps,
    scores [1 x 8, 2 x 8, 3 x 4, 4 x 4, 5 x 2, 6 x 2, 7 x 2, 8 x 2], sums [1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 4, 6 x 4]
);

/// As `scores`, for 8-bit keys and some of the quantized queries: the integer dot products of the blocks, scaled and added in order.
///
/// SAFETY: the keys are `blocks` blocks, `out` is
/// `count` rows of `stride >= blocks * SLOTS` values, the last one perhaps shorter; the queries are quantized.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(crate) unsafe fn scores_q8(
    queries: &Queries8,
    range: Range<usize>,
    keys: Keys8<'_>,
    blocks: usize,
    out: &mut [f32],
    stride: usize,
) {
    let mut n = range.start;
    while n < range.end {
        let left = range.end - n;
        let out = &mut out[(n - range.start) * stride..];
        let taken = left.div_ceil(left.div_ceil(6));
        let mut block = 0;
        while block < blocks {
            // SAFETY: the tile's queries and blocks are within the slices, as the caller guarantees.
            block += unsafe {
                match (taken, blocks - block) {
                    (1, 4..) => tile_q8::<1, 4>(queries, n, keys, block, out, stride),
                    (1, _) => tile_q8::<1, 1>(queries, n, keys, block, out, stride),
                    (2, 4..) => tile_q8::<2, 4>(queries, n, keys, block, out, stride),
                    (2, _) => tile_q8::<2, 1>(queries, n, keys, block, out, stride),
                    (3, 2..) => tile_q8::<3, 2>(queries, n, keys, block, out, stride),
                    (3, _) => tile_q8::<3, 1>(queries, n, keys, block, out, stride),
                    (4, 2..) => tile_q8::<4, 2>(queries, n, keys, block, out, stride),
                    (4, _) => tile_q8::<4, 1>(queries, n, keys, block, out, stride),
                    (5, 2..) => tile_q8::<5, 2>(queries, n, keys, block, out, stride),
                    (5, _) => tile_q8::<5, 1>(queries, n, keys, block, out, stride),
                    (_, 2..) => tile_q8::<6, 2>(queries, n, keys, block, out, stride),
                    (_, _) => tile_q8::<6, 1>(queries, n, keys, block, out, stride),
                }
            };
        }
        n += taken;
    }
}

/// Scores of `N` queries from `n` on in `V` blocks from `block` on; returns `V`.
///
/// SAFETY: as for [`scores_q8`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile_q8<const N: usize, const V: usize>(
    queries: &Queries8,
    n: usize,
    Keys8 { quants, scales }: Keys8<'_>,
    block: usize,
    out: &mut [f32],
    stride: usize,
) -> usize {
    let d = queries.d;
    let (words, chunks) = (d / 4, scales_of(d));
    let mut acc = [[_mm512_setzero_ps(); V]; N];
    // SAFETY: every access is within the tile.
    unsafe {
        let (qq, qs) = (queries.quants.as_ptr().add(n * d), queries.scales.as_ptr().add(n * chunks));
        let offsets = queries.offsets.as_ptr().add(n * chunks);
        let (kq, ks) =
            (quants.as_ptr().add(block * words * SLOTS), scales.as_ptr().add(block * chunks * SLOTS));
        for chunk in 0..chunks {
            let mut sums: [[__m512i; V]; N] =
                std::array::from_fn(|n| [_mm512_set1_epi32(*offsets.add(n * chunks + chunk)); V]);
            let first = chunk * BLOCK / 4;
            for word in first..(first + BLOCK / 4).min(words) {
                let key: [__m512i; V] = std::array::from_fn(|v| {
                    let at = kq.add((v * words + word) * SLOTS);
                    if N <= FEW {
                        // The next segment's. A prefetch may be of any place.
                        _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SEGMENT * words).cast());
                    }
                    _mm512_loadu_si512(at.cast())
                });
                for (n, sums) in sums.iter_mut().enumerate() {
                    let query = _mm512_set1_epi32(qq.add(n * d + word * 4).cast::<i32>().read_unaligned());
                    for (sum, key) in sums.iter_mut().zip(key) {
                        *sum = _mm512_dpbusd_epi32(*sum, key, query);
                    }
                }
            }
            let scale: [__m512; V] = std::array::from_fn(|v| {
                let at = ks.add((v * chunks + chunk) * SLOTS);
                if N <= FEW {
                    _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(SEGMENT * chunks).cast());
                }
                _mm512_loadu_ps(at)
            });
            for (n, (acc, sums)) in acc.iter_mut().zip(sums).enumerate() {
                let own = _mm512_set1_ps(*qs.add(n * chunks + chunk));
                for ((acc, sum), scale) in acc.iter_mut().zip(sums).zip(scale) {
                    *acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(own, scale), *acc);
                }
            }
        }
        for (i, acc) in acc.into_iter().enumerate() {
            for (v, acc) in acc.into_iter().enumerate() {
                _mm512_storeu_ps(out.as_mut_ptr().add(i * stride + (block + v) * SLOTS), acc);
            }
        }
    }
    V
}
