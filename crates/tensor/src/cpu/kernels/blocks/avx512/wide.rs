//! Products with blocks of 256 values.

use std::arch::x86_64::*;

use super::{
    super::BlockRows, Ahead, Arranged, Blocks, Groups, InPanel, InRows, Kernel, Outputs, PANEL, Panel,
    Source, UNPACKED, dots, for_rows, quads, sums4, tiles,
};

use crate::quant::{BlockType, Unpacked};

/// Scales of sixteen outputs' blocks.
pub(crate) struct Heads {
    /// Scale of the scales.
    pub d: __m512,
    /// Scale of the minima.
    pub minimum: __m512,
    /// Minima of two parts each, as pairs of 16 bits: of parts of 16 in their order, of parts of 32 of 0 and 2, 1 and 3, 4 and 6,
    /// 5 and 7.
    pub minima: [__m512i; 8],
    /// Scales, as bytes: four parts in a word.
    pub scales: [__m512i; 4],
}

/// The numbers of one output's block.
pub(crate) struct Numbers {
    /// Integers, 64 in each vector, in the order of [`Wide::LANES`].
    pub quants: [__m512i; 4],
    /// The scale of each part.
    pub scales: __m128i,
}

/// A type with blocks of 256 values. Without kernels of its own its blocks are unpacked by [`BlockType::unpack`].
pub trait Wide: BlockType {
    /// Which 16 values of a block are in each 128-bit lane of [`Numbers::quants`].
    const LANES: [[usize; 4]; 4] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];

    /// The numbers of a block.
    ///
    /// SAFETY: `block` is a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn numbers(block: *const u8) -> Numbers {
        let mut unpacked = Unpacked::default();
        // SAFETY: as the caller guarantees.
        Self::unpack(unsafe { std::slice::from_raw_parts(block, Self::BYTES) }, &mut unpacked);
        let quants: *const __m512i = unpacked.quants.as_ptr().cast();
        // SAFETY: 256 integers and 16 scales.
        unsafe {
            Numbers {
                quants: std::array::from_fn(|i| _mm512_loadu_si512(quants.add(i))),
                scales: _mm_loadu_si128(unpacked.scales.as_ptr().cast()),
            }
        }
    }

    /// Scales and minima of sixteen blocks; by default [`Heads::scales`] are zeros.
    ///
    /// SAFETY: each output has a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads<S: Source>(block: S) -> Heads {
        let zero = _mm512_setzero_si512();
        // SAFETY: as the caller guarantees.
        let d = unsafe { block.halfs(Self::HALVES[0]) };
        let d = _mm512_mul_ps(d, _mm512_set1_ps(Self::UNIT));
        Heads { d, minimum: _mm512_setzero_ps(), minima: [zero; 8], scales: [zero; 4] }
    }

    /// Group `g` of four integers of a part of sixteen blocks, for types that are put into panels.
    ///
    /// SAFETY: the block exists.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(_: InPanel<Self>, _part: usize, _g: usize) -> __m512i {
        unreachable!("{} is not put into panels", Self::NAME)
    }

    /// Arrange the integers of sixteen blocks, with [`BlockType::OFFSET`] if they are signed, and store the scales, if
    /// [`Wide::heads`] has not.
    ///
    /// SAFETY: each output has a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(block: InRows<'_>, panel: &mut Panel, heads: &mut Heads) {
        let mut rows = [[0u8; 256 + 16]; PANEL];
        // SAFETY: each block is unpacked to a row of its own, lane by lane; the scales follow.
        unsafe {
            for (i, row) in rows.iter_mut().enumerate() {
                let numbers = Self::numbers(block.of(i));
                let to = row.as_mut_ptr();
                for (quants, lanes) in numbers.quants.into_iter().zip(Self::LANES) {
                    let sign = _mm512_set1_epi8(if Self::SIGNED { -128 } else { 0 });
                    let quants = _mm512_xor_si512(quants, sign);
                    let store = |lane: usize, v| _mm_storeu_si128(to.add(lane * 16).cast(), v);
                    store(lanes[0], _mm512_castsi512_si128(quants));
                    store(lanes[1], _mm512_extracti32x4_epi32::<1>(quants));
                    store(lanes[2], _mm512_extracti32x4_epi32::<2>(quants));
                    store(lanes[3], _mm512_extracti32x4_epi32::<3>(quants));
                }
                _mm_storeu_si128(to.add(256).cast(), numbers.scales);
            }
            let rows = Outputs { rows: rows.each_ref().map(|row| row.as_ptr()), next: std::ptr::null() };
            for (part, groups) in panel.0.chunks_exact_mut(4).enumerate() {
                groups.copy_from_slice(&rows.at(0).words(part * 16));
            }
            heads.scales = rows.at(0).words(256);
        }
    }
}

/// Four bits of every byte: the upper ones if `upper` is 1, the lower ones if it is 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub fn nibbles_at(v: __m512i, upper: usize) -> __m512i {
    super::nibbles(_mm512_srlv_epi32(v, _mm512_set1_epi32(4 * upper as i32)))
}

/// 256 inputs in the order of [`Wide::LANES`].
///
/// SAFETY: there are 256.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn inputs<K: Wide>(x: *const i8) -> [__m512i; 4] {
    std::array::from_fn(|k| {
        // SAFETY: as the caller guarantees.
        let lane = |i: usize| unsafe { _mm_loadu_si128(x.add(K::LANES[k][i] * 16).cast()) };
        let z = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(lane(0)), lane(1));
        _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(z, lane(2)), lane(3))
    })
}

/// For each pair of [`Numbers::quants`] the scale of its part, in 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pair_scales<K: Wide>(own: __m128i) -> [__m512i; 4] {
    let own = _mm512_broadcast_i32x4(own);
    std::array::from_fn(|k| {
        let lane = |i: usize| {
            let part = (K::LANES[k][i] * 16 / K::PART) as u64;
            // The byte of the scale and a zero, eight times; a signed scale in the upper half of 16 bits.
            let pair = if K::MINIMA { part | 0x8000 } else { part << 8 | 0x80 };
            (pair * 0x0001_0001_0001_0001).cast_signed()
        };
        let (a, b, c, d) = (lane(0), lane(1), lane(2), lane(3));
        let scales = _mm512_shuffle_epi8(own, _mm512_setr_epi64(a, a, b, b, c, c, d, d));
        if K::MINIMA { scales } else { _mm512_srai_epi16::<8>(scales) }
    })
}

/// Add a block: the sums of products times scales, and of the minima.
///
/// SAFETY: block `index` of the inputs exists.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn add_block<K: Wide>(
    total: __m512i,
    heads: &Heads,
    x: BlockRows<'_>,
    index: usize,
    acc: __m512,
) -> __m512 {
    // SAFETY: as the caller guarantees.
    unsafe {
        let scale = _mm512_set1_ps(*x.k.scales.as_ptr().add(index));
        let acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(total), _mm512_mul_ps(heads.d, scale), acc);
        if !K::MINIMA {
            return acc;
        }
        let pairs = K::VALUES / K::PART / 2;
        let sums = if K::PART == 32 { x.k.pairs.as_ptr() } else { x.k.sums.as_ptr() };
        let sums: *const i32 = sums.add(index * pairs * 2).cast();
        let mut minima = _mm512_setzero_si512();
        for (i, m) in heads.minima.into_iter().take(pairs).enumerate() {
            minima = _mm512_dpwssd_epi32(minima, m, _mm512_set1_epi32(sums.add(i).read_unaligned()));
        }
        _mm512_fnmadd_ps(_mm512_cvtepi32_ps(minima), _mm512_mul_ps(heads.minimum, scale), acc)
    }
}

/// The arithmetic of a type.
pub struct WideBlocks<K>(std::marker::PhantomData<K>);

impl<K: Wide> Kernel for WideBlocks<K> {
    type Block = K;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    unsafe fn few<const R: usize>(inputs_of_row: usize, outputs: &Outputs, x: BlockRows<'_>) -> [__m512; R] {
        let blocks = inputs_of_row / 256;
        let mut sums = [_mm512_setzero_ps(); R];
        // SAFETY: every access is within rows that the caller guarantees.
        unsafe {
            for b in 0..blocks {
                let at = b * K::BYTES;
                let heads = K::heads(outputs.at(at));
                let now = Blocks { first: b, count: 1, of: blocks, bytes: K::BYTES };
                let ahead = now.of_next_rows(&[*outputs], 4);
                let row = |r: usize| inputs::<K>(x.k.quants.as_ptr().add(r * inputs_of_row + b * 256));
                let inputs: [[__m512i; 4]; R] = std::array::from_fn(row);
                let mut quarters = [[_mm512_setzero_si512(); 4]; R];
                for quarter in 0..4 {
                    ahead.prefetch::<1>(quarter);
                    let mut totals = [[_mm512_setzero_si512(); 4]; R];
                    for i in 0..4 {
                        let numbers = K::numbers(outputs.rows[quarter * 4 + i].add(at));
                        let scales = pair_scales::<K>(numbers.scales);
                        for r in 0..R {
                            let mut total = _mm512_setzero_si512();
                            for k in 0..4 {
                                let pairs = pair_products::<K>(numbers.quants[k], inputs[r][k]);
                                total = _mm512_dpwssd_epi32(total, pairs, scales[k]);
                            }
                            if K::ZERO != 0 {
                                let sums = x.k.sums.as_ptr().add((r * blocks + b) * 16);
                                total = _mm512_sub_epi32(total, offset::<K>(numbers.scales, sums));
                            }
                            totals[r][i] = total;
                        }
                    }
                    for (quarters, totals) in quarters.iter_mut().zip(totals) {
                        quarters[quarter] = quads(totals);
                    }
                }
                for r in 0..R {
                    sums[r] = add_block::<K>(sums4(quarters[r]), &heads, x, r * blocks + b, sums[r]);
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
        let blocks = inputs / 256;
        for b in 0..blocks {
            let now = Blocks { first: b, count: 1, of: blocks, bytes: K::BYTES };
            // SAFETY: these blocks and rows exist, as the caller guarantees.
            unsafe {
                let at = outputs.each_ref().map(|outputs| outputs.at(b * K::BYTES));
                let mut heads: [Heads; P] = std::array::from_fn(|p| K::heads(at[p]));
                for ((block, panel), heads) in at.into_iter().zip(panels.iter_mut()).zip(&mut heads) {
                    K::arrange(block, panel, heads);
                }
                let scales: [_; P] = std::array::from_fn(|p| sub_scales::<K>(&heads[p]));
                let ahead = |steps| now.of_next_rows(outputs, steps);
                match K::PART {
                    16 => all_tiles::<K, _, P>(
                        Arranged::<P, 4>(panels),
                        (&heads, &scales),
                        x,
                        now,
                        first,
                        ahead,
                        sums,
                    ),
                    _ => all_tiles::<K, _, P>(
                        Arranged::<P, 8>(panels),
                        (&heads, &scales),
                        x,
                        now,
                        first,
                        ahead,
                        sums,
                    ),
                }
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
        let blocks = inputs / 256;
        for b in 0..blocks {
            let now = Blocks { first: b, count: 1, of: blocks, bytes: K::BYTES };
            // SAFETY: these blocks and rows exist, as the caller guarantees.
            unsafe {
                let at = panels.map(|panel| panel.later(b));
                let heads: [Heads; P] = std::array::from_fn(|p| K::heads(at[p]));
                let scales: [_; P] = std::array::from_fn(|p| sub_scales::<K>(&heads[p]));
                let ahead = |steps| now.next_in_panels(panels, steps);
                let blocks = InPanels(at);
                if sums.len() <= UNPACKED {
                    all_tiles::<K, _, P>(blocks, (&heads, &scales), x, now, first, ahead, sums);
                    continue;
                }
                for (p, panel) in arranged.iter_mut().enumerate() {
                    for part in 0..K::VALUES / K::PART {
                        for g in 0..K::PART / 4 {
                            panel.0[part * K::PART / 4 + g] = blocks.group(p, part, g);
                        }
                    }
                }
                let heads = (&heads, &scales);
                match K::PART {
                    16 => all_tiles::<K, _, P>(Arranged::<P, 4>(arranged), heads, x, now, first, ahead, sums),
                    _ => all_tiles::<K, _, P>(Arranged::<P, 8>(arranged), heads, x, now, first, ahead, sums),
                }
            }
        }
    }
}

/// The current blocks of `P` panels.
struct InPanels<K, const P: usize>([InPanel<K>; P]);

impl<K, const P: usize> Clone for InPanels<K, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, const P: usize> Copy for InPanels<K, P> {}

impl<K: Wide, const P: usize> Groups for InPanels<K, P> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn group(self, p: usize, part: usize, g: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        unsafe { K::group(self.0[p], part, g) }
    }
}

/// A block of `P` times sixteen outputs times all rows from `first` on, in tiles.
///
/// SAFETY: those blocks of the inputs exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn all_tiles<K: Wide, G: Groups, const P: usize>(
    groups: G,
    (heads, scales): (&[Heads; P], &[[__m512i; 16]; P]),
    x: BlockRows<'_>,
    now: Blocks,
    first: usize,
    ahead: impl Fn(usize) -> Ahead,
    sums: &mut [[__m512; P]],
) {
    let (tiles, parts) = (tiles(sums.len()), K::VALUES / K::PART);
    let ahead = ahead(tiles.len() * parts);
    for (i, rows) in tiles.enumerate() {
        let (count, index) = (rows.len(), (first + rows.start) * now.of + now.first);
        let (ahead, sums) = ((ahead, i * parts), &mut sums[rows]);
        // SAFETY: as the caller guarantees.
        unsafe { for_rows!(count, tile::<K, P>(groups, heads, scales, x, index, now.of, ahead, sums)) };
    }
}

/// The sums of two products each, in 16 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pair_products<K: Wide>(w: __m512i, x: __m512i) -> __m512i {
    if !K::SIGNED {
        return _mm512_maddubs_epi16(w, x);
    }
    // The sign moves to the input: both are at most 127 in magnitude, and two products fit.
    let x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
    _mm512_maddubs_epi16(_mm512_abs_epi8(w), x)
}

/// The integer that stands for zero times the sum of a block's scales times the sums of 16 inputs, spread over the lanes.
///
/// SAFETY: there are 16 sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
unsafe fn offset<K: Wide>(scales: __m128i, sums: *const i16) -> __m512i {
    const { assert!(K::ZERO == 0 || K::PART == 16, "a scale for each sum") };
    // SAFETY: as the caller guarantees.
    let sums = unsafe { _mm256_loadu_si256(sums.cast()) };
    let sums = _mm256_madd_epi16(_mm256_cvtepi8_epi16(scales), sums);
    _mm512_zextsi256_si512(_mm256_mullo_epi32(sums, _mm256_set1_epi32(K::OFFSET)))
}

/// The scales of each part of sixteen outputs.
#[inline]
#[target_feature(enable = "avx512f")]
fn sub_scales<K: Wide>(heads: &Heads) -> [__m512i; 16] {
    let mut scales = [_mm512_setzero_si512(); 16];
    for (word, four) in heads.scales.into_iter().zip(scales.chunks_exact_mut(4)).take(K::VALUES / K::PART / 4)
    {
        // Shifted up, then down with the sign.
        four[0] = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(word));
        four[1] = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<16>(word));
        four[2] = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<8>(word));
        four[3] = _mm512_srai_epi32::<24>(word);
    }
    scales
}

/// A block of `P` times sixteen outputs times `R` rows; `index` is the first row's block of the inputs.
///
/// SAFETY: those blocks of the inputs exist.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn tile<K: Wide, G: Groups, const P: usize, const R: usize>(
    groups: G,
    heads: &[Heads; P],
    scales: &[[__m512i; 16]; P],
    x: BlockRows<'_>,
    index: usize,
    blocks: usize,
    (ahead, step): (Ahead, usize),
    sums: &mut [[__m512; P]],
) {
    let mut totals = [[_mm512_setzero_si512(); R]; P];
    // SAFETY: as the caller guarantees.
    unsafe {
        let (quants, stride) = (x.k.quants.as_ptr().add(index * 256), blocks * 256);
        for sub in 0..K::VALUES / K::PART {
            ahead.prefetch::<P>(step + sub);
            let start = std::array::from_fn(|r| {
                if K::OFFSET == 0 {
                    return _mm512_setzero_si512();
                }
                let sums = x.k.sums.as_ptr().add((index + r * blocks) * 16 + sub * K::PART / 16);
                let sum: i32 = (0..K::PART / 16).map(|i| i32::from(*sums.add(i))).sum();
                _mm512_set1_epi32(-K::OFFSET * sum)
            });
            let quants = quants.add(sub * K::PART);
            let dots = match K::PART {
                16 => dots::<G, P, R, 4>(groups, sub, quants, stride, start),
                _ => dots::<G, P, R, 8>(groups, sub, quants, stride, start),
            };
            for p in 0..P {
                for r in 0..R {
                    let scaled = _mm512_mullo_epi32(dots[p][r], scales[p][sub]);
                    totals[p][r] = _mm512_add_epi32(totals[p][r], scaled);
                }
            }
        }
        for (r, sums) in sums.iter_mut().enumerate().take(R) {
            for p in 0..P {
                sums[p] = add_block::<K>(totals[p][r], &heads[p], x, index + r * blocks, sums[p]);
            }
        }
    }
}
