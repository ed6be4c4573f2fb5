//! Products with blocks of 256 values.

use std::arch::x86_64::*;

use super::{
    super::BlockRows, Kernel, Outputs, PANEL, Panel, dots, for_rows, halfs_at, quads, sums4, tiles, words,
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
    /// SAFETY: each output has a block from byte `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads(outputs: &Outputs, at: usize) -> Heads {
        let zero = _mm512_setzero_si512();
        // SAFETY: as the caller guarantees.
        let d = unsafe { halfs_at(outputs, at + Self::HALVES[0]) };
        let d = _mm512_mul_ps(d, _mm512_set1_ps(Self::UNIT));
        Heads { d, minimum: _mm512_setzero_ps(), minima: [zero; 8], scales: [zero; 4] }
    }

    /// Arrange the integers of sixteen blocks, with [`BlockType::OFFSET`] if they are signed, and store the scales, if
    /// [`Wide::heads`] has not.
    ///
    /// SAFETY: each output has a block from byte `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn arrange(outputs: &Outputs, at: usize, panel: &mut Panel, heads: &mut Heads) {
        let mut rows = [[0u8; 256 + 16]; PANEL];
        // SAFETY: each block is unpacked to a row of its own, lane by lane; the scales follow.
        unsafe {
            for (row, block) in rows.iter_mut().zip(outputs.rows) {
                let numbers = Self::numbers(block.add(at));
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
                groups.copy_from_slice(&words(&rows, part * 16));
            }
            heads.scales = words(&rows, 256);
        }
    }
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
                let heads = K::heads(outputs, at);
                let row = |r: usize| inputs::<K>(x.k.quants.as_ptr().add(r * inputs_of_row + b * 256));
                let inputs: [[__m512i; 4]; R] = std::array::from_fn(row);
                let mut quarters = [[_mm512_setzero_si512(); 4]; R];
                for quarter in 0..4 {
                    outputs.prefetch(at, K::BYTES, quarter, 4);
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
        sums: &mut [[__m512; P]],
    ) {
        let blocks = inputs / 256;
        let mut panels: [Panel; P] = std::array::from_fn(|_| Panel::zeros());
        for b in 0..blocks {
            let at = b * K::BYTES;
            // SAFETY: these blocks and rows exist, as the caller guarantees.
            unsafe {
                let mut heads: [Heads; P] = std::array::from_fn(|p| K::heads(&outputs[p], at));
                for ((outputs, panel), heads) in outputs.iter().zip(&mut panels).zip(&mut heads) {
                    K::arrange(outputs, at, panel, heads);
                }
                let scales: [_; P] = std::array::from_fn(|p| sub_scales::<K>(&heads[p]));
                for rows in tiles(sums.len()) {
                    // Prefetched once for all tiles, a little at a time.
                    let ahead = (rows.start == 0).then_some((outputs, at));
                    let (count, index) = (rows.len(), (first + rows.start) * blocks + b);
                    let sums = &mut sums[rows];
                    for_rows!(count, tile::<K, P>(&panels, &heads, &scales, x, index, blocks, ahead, sums));
                }
            }
        }
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
unsafe fn tile<K: Wide, const P: usize, const R: usize>(
    panels: &[Panel; P],
    heads: &[Heads; P],
    scales: &[[__m512i; 16]; P],
    x: BlockRows<'_>,
    index: usize,
    blocks: usize,
    ahead: Option<(&[Outputs; P], usize)>,
    sums: &mut [[__m512; P]],
) {
    let mut totals = [[_mm512_setzero_si512(); R]; P];
    // SAFETY: as the caller guarantees.
    unsafe {
        let (quants, stride) = (x.k.quants.as_ptr().add(index * 256), blocks * 256);
        for sub in 0..K::VALUES / K::PART {
            if let Some((outputs, at)) = ahead {
                outputs.iter().for_each(|outputs| outputs.prefetch(at, K::BYTES, sub, K::VALUES / K::PART));
            }
            let start = std::array::from_fn(|r| {
                if K::OFFSET == 0 {
                    return _mm512_setzero_si512();
                }
                let sums = x.k.sums.as_ptr().add((index + r * blocks) * 16 + sub * K::PART / 16);
                let sum: i32 = (0..K::PART / 16).map(|i| i32::from(*sums.add(i))).sum();
                _mm512_set1_epi32(-K::OFFSET * sum)
            });
            let (group, quants) = (sub * K::PART / 4, quants.add(sub * K::PART));
            let dots = match K::PART {
                16 => dots::<P, R, 4>(panels, group, quants, stride, start),
                _ => dots::<P, R, 8>(panels, group, quants, stride, start),
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
