//! Blocks of 32 values: q8_0, q4_0.

use std::arch::x86_64::*;

use super::{
    super::BlockRows, Kernel, Outputs, Panel, dots, for_rows, halfs_at, halves, join, nibbles, quads, tiles,
    upper_nibbles, words,
};

use crate::quant::{BlockType, Q4_0, Q8_0};

/// Values of a block.
const BLOCK: usize = 32;
/// Blocks that are arranged together.
const TOGETHER: usize = 8;

/// A type with blocks of 32 values.
pub trait Narrow: BlockType {
    /// What is added to the integers so that they are not negative, as a part of 128.
    const OFFSET: i32;
    /// Blocks that are multiplied at a time where they are.
    const STEP: usize;

    /// Dot products of up to [`Narrow::STEP`] consecutive blocks of sixteen outputs with a row, without the offset: for each
    /// block the sums of all outputs.
    ///
    /// SAFETY: each output has `count` blocks from byte `at` on, and so has the row.
    unsafe fn step(outputs: &Outputs, at: usize, x: *const i8, count: usize) -> [__m512i; 4];

    /// Arrange a block of sixteen outputs.
    ///
    /// SAFETY: each output has a block from byte `at` on.
    unsafe fn arrange(outputs: &Outputs, at: usize, groups: &mut [__m512i]);
}

/// The sum of a block's inputs times minus the offset.
///
/// SAFETY: the block exists.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn offset<K: Narrow>(x: BlockRows<'_>, index: usize) -> __m512i {
    // SAFETY: as the caller guarantees.
    _mm512_set1_epi32(unsafe { *x.q8.offsets.as_ptr().add(index) } / K::OFFSET)
}

/// Add a block's dot products.
///
/// SAFETY: the block exists.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_block(dot: __m512i, d: __m512, x: BlockRows<'_>, index: usize, acc: __m512) -> __m512 {
    // SAFETY: as the caller guarantees.
    let scale = _mm512_set1_ps(unsafe { *x.q8.scales.as_ptr().add(index) });
    _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(d, scale), acc)
}

/// The arithmetic of a type.
pub struct Blocks<K>(std::marker::PhantomData<K>);

impl<K: Narrow> Kernel for Blocks<K> {
    type Block = K;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    unsafe fn few<const R: usize>(inputs: usize, outputs: &Outputs, x: BlockRows<'_>) -> [__m512; R] {
        let (blocks, size) = (inputs / BLOCK, K::BYTES);
        let mut sums = [_mm512_setzero_ps(); R];
        // SAFETY: every access is within rows that the caller guarantees.
        unsafe {
            for b in (0..blocks).step_by(K::STEP) {
                let count = (blocks - b).min(K::STEP);
                outputs.prefetch(b * size, count * size, 0, 1);
                let row = |r: usize| {
                    let x = x.q8.quants.as_ptr().add((r * blocks + b) * BLOCK);
                    K::step(outputs, b * size, x, count)
                };
                let dots: [[__m512i; 4]; R] = std::array::from_fn(row);
                for i in 0..count {
                    let d = halfs_at(outputs, (b + i) * size);
                    for r in 0..R {
                        let index = r * blocks + b + i;
                        let dot = _mm512_add_epi32(dots[r][i], offset::<K>(x, index));
                        sums[r] = add_block(dot, d, x, index, sums[r]);
                    }
                }
            }
        }
        sums
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    unsafe fn many<const P: usize>(
        inputs: usize,
        outputs: &[Outputs; P],
        x: BlockRows<'_>,
        first: usize,
        sums: &mut [[__m512; P]],
    ) {
        let (blocks, size) = (inputs / BLOCK, K::BYTES);
        let mut panels: [Panel; P] = std::array::from_fn(|_| Panel::zeros());
        for b in (0..blocks).step_by(TOGETHER) {
            let together = (blocks - b).min(TOGETHER);
            let mut scales = [[_mm512_setzero_ps(); P]; TOGETHER];
            // SAFETY: these blocks and rows exist, as the caller guarantees.
            unsafe {
                for (p, (outputs, panel)) in outputs.iter().zip(&mut panels).enumerate() {
                    for (i, groups) in panel.0.chunks_exact_mut(8).enumerate().take(together) {
                        let at = (b + i) * size;
                        scales[i][p] = halfs_at(outputs, at);
                        K::arrange(outputs, at, groups);
                    }
                }
                let scales = &scales[..together];
                for rows in tiles(sums.len()) {
                    // Prefetched once for all tiles, a little at a time.
                    let ahead = (rows.start == 0).then_some((outputs, b * size));
                    let (count, index) = (rows.len(), (first + rows.start) * blocks + b);
                    let sums = &mut sums[rows];
                    for_rows!(count, tile::<K, P>(&panels, scales, x, index, blocks, ahead, sums));
                }
            }
        }
    }
}

/// Some blocks of `P` times sixteen outputs times `R` rows; `index` is the first row's first block of the inputs.
///
/// SAFETY: those blocks of the inputs exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile<K: Narrow, const P: usize, const R: usize>(
    panels: &[Panel; P],
    scales: &[[__m512; P]],
    x: BlockRows<'_>,
    index: usize,
    blocks: usize,
    ahead: Option<(&[Outputs; P], usize)>,
    sums: &mut [[__m512; P]],
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut acc: [[__m512; P]; R] = std::array::from_fn(|r| sums[r]);
        for (i, d) in scales.iter().enumerate() {
            if let Some((outputs, at)) = ahead {
                let size = K::BYTES;
                outputs.iter().for_each(|outputs| outputs.prefetch(at + i * size, size, 0, 1));
            }
            let start = std::array::from_fn(|r| offset::<K>(x, index + r * blocks + i));
            let quants = x.q8.quants.as_ptr().add((index + i) * BLOCK);
            let dots = dots::<P, R, 8>(panels, i * 8, quants, blocks * BLOCK, start);
            for r in 0..R {
                for p in 0..P {
                    acc[r][p] = add_block(dots[p][r], d[p], x, index + r * blocks + i, acc[r][p]);
                }
            }
        }
        sums.copy_from_slice(&acc);
    }
}

impl Narrow for Q8_0 {
    const OFFSET: i32 = 1;
    const STEP: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn step(outputs: &Outputs, at: usize, x: *const i8, count: usize) -> [__m512i; 4] {
        let sign = _mm512_set1_epi8(-128);
        // SAFETY: as the caller guarantees; without a second block the first is taken twice.
        unsafe {
            let next = if count == 2 { 1 } else { 0 };
            let x = join(x.cast(), x.add(next * BLOCK).cast());
            let lanes = std::array::from_fn(|quarter| {
                quads(std::array::from_fn(|i| {
                    let block = outputs.rows[quarter * 4 + i].add(at + 2);
                    let w = _mm512_xor_si512(join(block, block.add(next * 34)), sign);
                    _mm512_dpbusd_epi32(_mm512_setzero_si512(), w, x)
                }))
            });
            let [a, b] = halves(lanes);
            [a, b, _mm512_setzero_si512(), _mm512_setzero_si512()]
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, groups: &mut [__m512i]) {
        for part in 0..2 {
            // SAFETY: 16 bytes of each block.
            let words = unsafe { words(outputs, at + 2 + part * 16) };
            for (group, word) in groups[part * 4..].iter_mut().zip(words) {
                *group = _mm512_xor_si512(word, _mm512_set1_epi8(-128));
            }
        }
    }
}

impl Narrow for Q4_0 {
    const OFFSET: i32 = 16;
    const STEP: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn step(outputs: &Outputs, at: usize, x: *const i8, count: usize) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees; in place of a missing block the first is taken again.
        unsafe {
            let block = |i: usize| if i < count { i } else { 0 };
            let four = |start: *const u8, stride: usize| {
                let part = |i: usize| _mm_loadu_si128(start.add(block(i) * stride).cast());
                let z = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(part(0)), part(1));
                _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(z, part(2)), part(3))
            };
            let (low, high) = (four(x.cast(), BLOCK), four(x.add(16).cast(), BLOCK));
            let lanes: [__m512i; 4] = std::array::from_fn(|quarter| {
                quads(std::array::from_fn(|i| {
                    let w = four(outputs.rows[quarter * 4 + i].add(at + 2), 18);
                    let dot = _mm512_dpbusd_epi32(_mm512_setzero_si512(), nibbles(w), low);
                    _mm512_dpbusd_epi32(dot, upper_nibbles(w), high)
                }))
            });
            // A 128-bit lane is a block: four by four lanes change places.
            let (a, b) = (
                _mm512_shuffle_i32x4::<0x44>(lanes[0], lanes[1]),
                _mm512_shuffle_i32x4::<0x44>(lanes[2], lanes[3]),
            );
            let (c, d) = (
                _mm512_shuffle_i32x4::<0xee>(lanes[0], lanes[1]),
                _mm512_shuffle_i32x4::<0xee>(lanes[2], lanes[3]),
            );
            [
                _mm512_shuffle_i32x4::<0x88>(a, b),
                _mm512_shuffle_i32x4::<0xdd>(a, b),
                _mm512_shuffle_i32x4::<0x88>(c, d),
                _mm512_shuffle_i32x4::<0xdd>(c, d),
            ]
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, groups: &mut [__m512i]) {
        // SAFETY: 16 bytes of each block.
        let words = unsafe { words(outputs, at + 2) };
        for (i, word) in words.into_iter().enumerate() {
            groups[i] = nibbles(word);
            groups[i + 4] = upper_nibbles(word);
        }
    }
}
