//! Products with blocks of 32 values.

use std::arch::x86_64::*;

use super::{
    super::BlockRows, Ahead, Arranged, Blocks, Groups, InPanel, InRows, Kernel, Outputs, Panel, Source,
    UNPACKED, dots, for_rows, halfs, halves, join, looked_up, nibbles, quads, tiles, upper_nibbles,
};

use crate::quant::{BlockType, Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};

/// Values of a block.
const BLOCK: usize = 32;
/// Blocks that are arranged together.
const TOGETHER: usize = 8;

/// A type with blocks of 32 values, by default of four or five bits as in [`unpack_nibbles`](crate::quant).
pub trait Narrow: BlockType {
    /// Blocks that are multiplied at a time where they are.
    const STEP: usize = 4;

    /// Dot products of up to [`Narrow::STEP`] consecutive blocks of sixteen outputs with a row, of integers that are not
    /// negative: for each block the sums of all outputs.
    ///
    /// SAFETY: each output has `count` blocks from byte `at` on, and so has the row.
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
                    let nibbles_at = outputs.rows[quarter * 4 + i].add(at + Self::BYTES - 16);
                    let w = four(nibbles_at, Self::BYTES);
                    let [mut a, mut b] = integers::<Self>(w);
                    if Self::FIFTHS {
                        let (mut first, mut second) = (0, 0);
                        for i in 0..4 {
                            let fifths = nibbles_at.add(block(i) * Self::BYTES).sub(4);
                            first |= u64::from(fifths.cast::<u16>().read_unaligned()) << (16 * i);
                            second |= u64::from(fifths.add(2).cast::<u16>().read_unaligned()) << (16 * i);
                        }
                        let fifth = _mm512_set1_epi8(16);
                        a = _mm512_mask_add_epi8(a, first, a, fifth);
                        b = _mm512_mask_add_epi8(b, second, b, fifth);
                    }
                    _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_setzero_si512(), a, low), b, high)
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

    /// Arrange a block of sixteen outputs.
    ///
    /// SAFETY: each output has a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, groups: &mut [__m512i]) {
        let nibbles_at = Self::BYTES - 16;
        // SAFETY: the last 16 bytes of each block.
        let words = unsafe { block.words(nibbles_at) };
        for (i, word) in words.into_iter().enumerate() {
            [groups[i], groups[i + 4]] = integers::<Self>(word);
        }
        if Self::FIFTHS {
            // SAFETY: 16 bytes of each block.
            let [fifths, ..] = unsafe { block.words(nibbles_at - 4) };
            for (g, group) in groups.iter_mut().enumerate() {
                *group = with_fifths(*group, fifths, g);
            }
        }
    }

    /// Group `g` of four integers of a block of sixteen outputs in a panel.
    ///
    /// SAFETY: the block exists.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(block: InPanel<Self>, g: usize) -> __m512i {
        let nibbles_at = Self::BYTES - 16;
        // SAFETY: as the caller guarantees.
        let [low, high] = integers::<Self>(unsafe { block.word(nibbles_at + g % 4 * 4) });
        let group = if g < 4 { low } else { high };
        // SAFETY: as above.
        if Self::FIFTHS { with_fifths(group, unsafe { block.word(nibbles_at - 4) }, g) } else { group }
    }

    /// The scales of sixteen blocks.
    ///
    /// SAFETY: each output has a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn scales<S: Source>(block: S) -> __m512 {
        // SAFETY: as the caller guarantees.
        unsafe { block.halfs(Self::HALVES[0]) }
    }
}

/// The fifth bits of group `g`, of words with the fifth bits of 32 values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn with_fifths(group: __m512i, fifths: __m512i, g: usize) -> __m512i {
    // In each word the byte with the bits of the group's four values, four times.
    let own = _mm512_set1_epi32(0x0101_0101 * (g as i32 / 2));
    let word = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x0404_0404, 0x0808_0808, 0x0c0c_0c0c));
    let bytes = _mm512_shuffle_epi8(fifths, _mm512_add_epi32(word, own));
    let bits = _mm512_set1_epi32(if g.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32 as i32 });
    let set = _mm512_test_epi8_mask(bytes, bits);
    _mm512_mask_add_epi8(group, set, group, _mm512_set1_epi8(16))
}

/// The integers that bytes of two times four bits stand for, with [`BlockType::OFFSET`] if they are signed: of the lower bits, and of
/// the upper.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn integers<K: Narrow>(bytes: __m512i) -> [__m512i; 2] {
    let (low, high) = (nibbles(bytes), upper_nibbles(bytes));
    match K::TABLE {
        Some(table) => [looked_up(table, low), looked_up(table, high)],
        None => [low, high],
    }
}

/// The sum of a block's inputs times minus the offset.
///
/// SAFETY: the block exists.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn offset<K: Narrow>(x: BlockRows<'_>, index: usize) -> __m512i {
    if K::OFFSET == 0 {
        return _mm512_setzero_si512();
    }
    // SAFETY: as the caller guarantees.
    _mm512_set1_epi32(unsafe { *x.q8.offsets.as_ptr().add(index) } / (128 / K::OFFSET))
}

/// Scales and minima of sixteen blocks.
#[derive(Clone, Copy)]
struct Heads {
    d: __m512,
    minimum: __m512,
}

impl Heads {
    // SAFETY: zeros are floats.
    const ZERO: Self = unsafe { std::mem::zeroed() };
}

/// SAFETY: each output has a block.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn heads<K: Narrow, S: Source>(block: S) -> Heads {
    if !K::MINIMA {
        // SAFETY: as the caller guarantees.
        return Heads { d: unsafe { K::scales(block) }, minimum: _mm512_setzero_ps() };
    }
    // The minimum follows the scale.
    // SAFETY: as above.
    let both = unsafe { block.word(K::HALVES[0]) };
    Heads { d: halfs(both), minimum: halfs(_mm512_srli_epi32::<16>(both)) }
}

/// Add a block's dot products.
///
/// SAFETY: the block exists.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn add_block<K: Narrow>(
    dot: __m512i,
    heads: Heads,
    x: BlockRows<'_>,
    index: usize,
    acc: __m512,
) -> __m512 {
    // SAFETY: as the caller guarantees.
    unsafe {
        let scale = _mm512_set1_ps(*x.q8.scales.as_ptr().add(index));
        let acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(heads.d, scale), acc);
        if !K::MINIMA {
            return acc;
        }
        let sum = _mm512_set1_ps((*x.q8.offsets.as_ptr().add(index) / -128) as f32);
        _mm512_fmadd_ps(sum, _mm512_mul_ps(heads.minimum, scale), acc)
    }
}

/// The arithmetic of a type.
pub struct NarrowBlocks<K>(std::marker::PhantomData<K>);

impl<K: Narrow> Kernel for NarrowBlocks<K> {
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
                let now = Blocks { first: b, count, of: blocks, bytes: size };
                now.of_next_rows(&[*outputs], 1).prefetch::<1>(0);
                let row = |r: usize| {
                    let x = x.q8.quants.as_ptr().add((r * blocks + b) * BLOCK);
                    K::step(outputs, b * size, x, count)
                };
                let dots: [[__m512i; 4]; R] = std::array::from_fn(row);
                for i in 0..count {
                    let heads = heads::<K, _>(outputs.at((b + i) * size));
                    for r in 0..R {
                        let index = r * blocks + b + i;
                        let dot = _mm512_add_epi32(dots[r][i], offset::<K>(x, index));
                        sums[r] = add_block::<K>(dot, heads, x, index, sums[r]);
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
        panels: &mut [Panel; P],
        sums: &mut [[__m512; P]],
    ) {
        let blocks = inputs / BLOCK;
        for b in (0..blocks).step_by(TOGETHER) {
            let count = (blocks - b).min(TOGETHER);
            let now = Blocks { first: b, count, of: blocks, bytes: K::BYTES };
            let mut heads = [[Heads::ZERO; P]; TOGETHER];
            // SAFETY: these blocks and rows exist, as the caller guarantees.
            unsafe {
                for (p, (outputs, panel)) in outputs.iter().zip(panels.iter_mut()).enumerate() {
                    for (i, groups) in panel.0.chunks_exact_mut(8).enumerate().take(count) {
                        let block = outputs.at((b + i) * K::BYTES);
                        heads[i][p] = self::heads::<K, _>(block);
                        K::arrange(block, groups);
                    }
                }
                let ahead = |steps| now.of_next_rows(outputs, steps);
                all_tiles::<K, _, P>(Arranged::<P, 8>(panels), &heads, x, now, first, ahead, sums);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    unsafe fn panels<const P: usize>(
        inputs: usize,
        panels: &[InPanel<K>; P],
        x: BlockRows<'_>,
        first: usize,
        arranged: &mut [Panel; P],
        sums: &mut [[__m512; P]],
    ) {
        let blocks = inputs / BLOCK;
        for b in (0..blocks).step_by(TOGETHER) {
            let count = (blocks - b).min(TOGETHER);
            let now = Blocks { first: b, count, of: blocks, bytes: K::BYTES };
            let mut heads = [[Heads::ZERO; P]; TOGETHER];
            let at = panels.map(|panel| panel.later(b));
            // SAFETY: as above.
            unsafe {
                for (i, heads) in heads.iter_mut().enumerate().take(count) {
                    *heads = std::array::from_fn(|p| self::heads::<K, _>(at[p].later(i)));
                }
                let ahead = |steps| now.next_in_panels(panels, steps);
                let blocks = InPanels(at);
                if sums.len() <= UNPACKED {
                    all_tiles::<K, _, P>(blocks, &heads, x, now, first, ahead, sums);
                    continue;
                }
                for (p, panel) in arranged.iter_mut().enumerate() {
                    for (i, groups) in panel.0.chunks_exact_mut(8).enumerate().take(count) {
                        for (g, group) in groups.iter_mut().enumerate() {
                            *group = blocks.group(p, i, g);
                        }
                    }
                }
                all_tiles::<K, _, P>(Arranged::<P, 8>(arranged), &heads, x, now, first, ahead, sums);
            }
        }
    }
}

/// The current blocks of `P` panels; a part is a block.
struct InPanels<K, const P: usize>([InPanel<K>; P]);

impl<K, const P: usize> Clone for InPanels<K, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, const P: usize> Copy for InPanels<K, P> {}

impl<K: Narrow, const P: usize> Groups for InPanels<K, P> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(self, p: usize, part: usize, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        unsafe { K::group(self.0[p].later(part), g) }
    }
}

/// Some blocks of `P` times sixteen outputs times all rows from `first` on, in tiles.
///
/// SAFETY: those blocks of the inputs exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn all_tiles<K: Narrow, G: Groups, const P: usize>(
    groups: G,
    heads: &[[Heads; P]; TOGETHER],
    x: BlockRows<'_>,
    now: Blocks,
    first: usize,
    ahead: impl Fn(usize) -> Ahead,
    sums: &mut [[__m512; P]],
) {
    let tiles = tiles(sums.len());
    let ahead = ahead(tiles.len() * now.count);
    for (i, rows) in tiles.enumerate() {
        let (rows_of_tile, index) = (rows.len(), (first + rows.start) * now.of + now.first);
        let (ahead, sums) = ((ahead, i * now.count), &mut sums[rows]);
        let heads = &heads[..now.count];
        // SAFETY: as the caller guarantees.
        unsafe { for_rows!(rows_of_tile, tile::<K, P>(groups, heads, x, index, now.of, ahead, sums)) };
    }
}

/// Some blocks of `P` times sixteen outputs times `R` rows; `index` is the first row's first block of the inputs.
///
/// SAFETY: those blocks of the inputs exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile<K: Narrow, G: Groups, const P: usize, const R: usize>(
    groups: G,
    heads: &[[Heads; P]],
    x: BlockRows<'_>,
    index: usize,
    blocks: usize,
    (ahead, step): (Ahead, usize),
    sums: &mut [[__m512; P]],
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        let mut acc: [[__m512; P]; R] = std::array::from_fn(|r| sums[r]);
        for (i, heads) in heads.iter().enumerate() {
            ahead.prefetch::<P>(step + i);
            let start = std::array::from_fn(|r| offset::<K>(x, index + r * blocks + i));
            let quants = x.q8.quants.as_ptr().add((index + i) * BLOCK);
            let dots = dots::<G, P, R, 8>(groups, i, quants, blocks * BLOCK, start);
            for r in 0..R {
                for p in 0..P {
                    acc[r][p] = add_block::<K>(dots[p][r], heads[p], x, index + r * blocks + i, acc[r][p]);
                }
            }
        }
        sums.copy_from_slice(&acc);
    }
}

impl Narrow for Q8_0 {
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
    unsafe fn group(block: InPanel<Self>, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        _mm512_xor_si512(unsafe { block.word(2 + g * 4) }, _mm512_set1_epi8(-128))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, groups: &mut [__m512i]) {
        for part in 0..2 {
            // SAFETY: 16 bytes of each block.
            let words = unsafe { block.words(2 + part * 16) };
            for (group, word) in groups[part * 4..].iter_mut().zip(words) {
                *group = _mm512_xor_si512(word, _mm512_set1_epi8(-128));
            }
        }
    }
}

impl Narrow for Q4_0 {}
impl Narrow for Q4_1 {}
impl Narrow for Q5_0 {}
impl Narrow for Q5_1 {}
impl Narrow for Iq4Nl {}

impl Narrow for Mxfp4 {
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn scales<S: Source>(block: S) -> __m512 {
        // SAFETY: as the caller guarantees.
        let exponents: [u8; 16] = std::array::from_fn(|i| unsafe { *block.of(i) });
        // SAFETY: sixteen bytes.
        let e = _mm512_cvtepu8_epi32(unsafe { _mm_loadu_si128(exponents.as_ptr().cast()) });
        let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
        let subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
        let is_small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
        _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, is_small, subnormal))
    }
}
