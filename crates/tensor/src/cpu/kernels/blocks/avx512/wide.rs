//! Products with blocks of 256 values.

use std::arch::x86_64::*;

use super::{
    super::BlockRows, Kernel, Outputs, PANEL, Panel, dots, for_rows, halfs, join, nibbles, quads, sums4,
    tiles, words,
};

use crate::quant::BlockType;

/// Scales of sixteen outputs' blocks.
pub(crate) struct Heads {
    /// Scale of the scales.
    pub d: __m512,
    /// Scale of the minima.
    pub minimum: __m512,
    /// Minima of the sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7, as pairs of 16 bits.
    pub minima: [__m512i; 4],
    /// Scales, as bytes: four sub-blocks in a word.
    pub scales: [__m512i; 4],
}

/// A type with blocks of 256 values.
///
/// Parts of 32 values have a minimum; the integers of parts of 16 values are offset by 32.
pub trait Wide: BlockType {
    /// The integers of a block, 64 in each of four vectors.
    ///
    /// SAFETY: `block` is a block.
    unsafe fn integers(block: *const u8) -> [__m512i; 4];

    /// 256 inputs in the order of [`Wide::integers`]: by default of sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7.
    ///
    /// SAFETY: there are 256.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn inputs(x: *const i8) -> [__m512i; 4] {
        let x: *const u8 = x.cast();
        // SAFETY: as the caller guarantees.
        unsafe {
            [
                join(x, x.add(64)),
                join(x.add(32), x.add(96)),
                join(x.add(128), x.add(192)),
                join(x.add(160), x.add(224)),
            ]
        }
    }

    /// Scales of sixteen blocks, by default with the minima of q4_k and q5_k.
    ///
    /// SAFETY: each output has a block from byte `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,f16c")]
    unsafe fn heads(outputs: &Outputs, at: usize) -> Heads {
        // SAFETY: the first 16 bytes of each block.
        let [d, low, middle, high] = unsafe { words(outputs, at) };
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
            minima: [even(minima[0]), odd(minima[0]), even(minima[1]), odd(minima[1])],
            scales: [scales[0], scales[1], zero, zero],
        }
    }

    /// For each pair of [`Wide::integers`] the scale of its sub-block, in 16 bits. `own` holds the output's scales if the type
    /// has minima, as q4_k and q5_k have, in eight bytes: sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7.
    ///
    /// SAFETY: `block` is a block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn pair_scales(_block: *const u8, own: i64) -> [__m512i; 4] {
        let own = _mm512_set1_epi64(own);
        // Byte j of each 128-bit lane and a zero, eight times.
        let pattern = |low: i16, high: i16| {
            let (low, high) = (_mm256_set1_epi16(low | -0x8000), _mm256_set1_epi16(high | -0x8000));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        };
        [
            _mm512_shuffle_epi8(own, pattern(0, 2)),
            _mm512_shuffle_epi8(own, pattern(1, 3)),
            _mm512_shuffle_epi8(own, pattern(4, 6)),
            _mm512_shuffle_epi8(own, pattern(5, 7)),
        ]
    }

    /// Arrange the integers of sixteen blocks.
    ///
    /// SAFETY: each output has a block from byte `at` on.
    unsafe fn arrange(outputs: &Outputs, at: usize, panel: &mut Panel);
}

/// Add a block: the sums of products times scales, and those of the minima.
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
        let sums: *const i32 = x.k.pairs.as_ptr().add(index * 8).cast();
        let mut minima = _mm512_setzero_si512();
        for (i, m) in heads.minima.into_iter().enumerate() {
            minima = _mm512_dpwssd_epi32(minima, m, _mm512_set1_epi32(sums.add(i).read_unaligned()));
        }
        _mm512_fnmadd_ps(_mm512_cvtepi32_ps(minima), _mm512_mul_ps(heads.minimum, scale), acc)
    }
}

/// The arithmetic of a type.
pub struct Blocks<K>(std::marker::PhantomData<K>);

impl<K: Wide> Kernel for Blocks<K> {
    type Block = K;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    unsafe fn few<const R: usize>(inputs: usize, outputs: &Outputs, x: BlockRows<'_>) -> [__m512; R] {
        let blocks = inputs / 256;
        let mut sums = [_mm512_setzero_ps(); R];
        // SAFETY: every access is within rows that the caller guarantees.
        unsafe {
            for b in 0..blocks {
                let at = b * K::BYTES;
                let heads = K::heads(outputs, at);
                let mut scales = [0i64; PANEL];
                if K::MINIMA {
                    let [low, high, ..] = heads.scales;
                    // Outputs 0, 1, 4, 5, 8, 9, 12, 13, then the others.
                    let to: *mut i64 = scales.as_mut_ptr();
                    _mm512_storeu_si512(to.cast(), _mm512_unpacklo_epi32(low, high));
                    _mm512_storeu_si512(to.add(8).cast(), _mm512_unpackhi_epi32(low, high));
                }
                let row = |r: usize| K::inputs(x.k.quants.as_ptr().add(r * inputs + b * 256));
                let inputs: [[__m512i; 4]; R] = std::array::from_fn(row);
                let mut quarters = [[_mm512_setzero_si512(); 4]; R];
                for quarter in 0..4 {
                    outputs.prefetch(at, K::BYTES, quarter, 4);
                    let mut totals = [[_mm512_setzero_si512(); 4]; R];
                    for i in 0..4 {
                        let o = quarter * 4 + i;
                        let block = outputs.rows[o].add(at);
                        let q = K::integers(block);
                        let sc = K::pair_scales(block, scales[(o & 2) * 4 + (o & 1) + (o >> 2) * 2]);
                        for r in 0..R {
                            let mut total = _mm512_setzero_si512();
                            for k in 0..4 {
                                let pairs = _mm512_maddubs_epi16(q[k], inputs[r][k]);
                                total = _mm512_dpwssd_epi32(total, pairs, sc[k]);
                            }
                            if !K::MINIMA {
                                let sums = x.k.sums.as_ptr().add((r * blocks + b) * 16);
                                total = _mm512_sub_epi32(total, offset(block, sums));
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
                let heads: [Heads; P] = std::array::from_fn(|p| K::heads(&outputs[p], at));
                let scales: [_; P] = std::array::from_fn(|p| sub_scales::<K>(&heads[p]));
                for (outputs, panel) in outputs.iter().zip(&mut panels) {
                    K::arrange(outputs, at, panel);
                }
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

/// 32 times the sum of a q6_k block's scales times the sums of 16 inputs, spread over the lanes.
///
/// SAFETY: `block` is a block, and there are 16 sums.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx2")]
unsafe fn offset(block: *const u8, sums: *const i16) -> __m512i {
    // SAFETY: as the caller guarantees.
    unsafe {
        let scales = _mm256_cvtepi8_epi16(_mm_loadu_si128(block.add(192).cast()));
        let sums = _mm256_madd_epi16(scales, _mm256_loadu_si256(sums.cast()));
        _mm512_zextsi256_si512(_mm256_slli_epi32::<5>(sums))
    }
}

/// The scales of each sub-block of sixteen outputs.
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
            let dots = if K::MINIMA {
                let zero = [_mm512_setzero_si512(); R];
                dots::<P, R, 8>(panels, sub * 8, quants.add(sub * 32), stride, zero)
            } else {
                let parts = x.k.sums.as_ptr().add(index * 16 + sub);
                let start = |r: usize| _mm512_set1_epi32(-32 * i32::from(*parts.add(r * blocks * 16)));
                let start = std::array::from_fn(start);
                dots::<P, R, 4>(panels, sub * 4, quants.add(sub * 16), stride, start)
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
