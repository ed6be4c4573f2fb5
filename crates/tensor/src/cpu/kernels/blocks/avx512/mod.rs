//! The AVX-512 implementation, with VNNI's 8-bit dot products.
//!
//! Sixteen outputs are computed together, and the last step of every block, in f32, has one output in each lane. A few rows are
//! multiplied with the blocks as they are; for more rows the integers of sixteen or 32 outputs are first arranged in groups of four
//! inputs (once for all rows), so that one vector times four broadcast inputs gives sixteen outputs.

mod k_quants;
mod narrow;
mod wide;

use std::arch::x86_64::*;

pub use narrow::Narrow;
pub use wide::Wide;

use super::{BlockRows, DisjointSliceMut, Product};
use crate::quant::BlockType;

/// Outputs of a vector.
const PANEL: usize = 16;
/// Maximum rows of a tile. With two panels its sums fill the registers, and each input is loaded once for both.
const TILE: usize = 6;
/// Rows whose sums are kept at a time.
const GROUP: usize = 16 * TILE;

/// Integers of 256 inputs of sixteen outputs in groups of four inputs (group, output, input).
#[repr(C, align(64))]
pub struct Panel([__m512i; 64]);

impl Panel {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zeros() -> Self {
        Self([_mm512_setzero_si512(); 64])
    }
}

/// The blocks of sixteen outputs, row after row.
#[derive(Clone, Copy)]
pub struct Outputs {
    /// The first byte of each; outputs beyond the matrix repeat the last one.
    rows: [*const u8; PANEL],
    /// The rows of sixteen later outputs, to be prefetched; null if there are none.
    next: *const u8,
}

impl Outputs {
    /// `taken` rows of `bytes` bytes; `next` is the distance in outputs to the ones to prefetch, if any.
    ///
    /// SAFETY: there are `taken` rows from `first` on.
    unsafe fn new(first: *const u8, bytes: usize, taken: usize, next: Option<usize>) -> Self {
        // SAFETY: as the caller guarantees.
        let rows = std::array::from_fn(|i| unsafe { first.add(i.min(taken - 1) * bytes) });
        Self { rows, next: next.map_or(std::ptr::null(), |outputs| first.wrapping_add(outputs * bytes)) }
    }

    /// Prefetch a part of the next outputs' rows: they are one after the other, so the bytes as far from the beginning as `len`
    /// bytes of these rows from `at` on, and as large; of that the `part`-th of `parts`. The processor cannot foresee the
    /// order of sixteen rows, and too many prefetches at once would delay the loads.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn prefetch(&self, at: usize, len: usize, part: usize, parts: usize) {
        if !self.next.is_null() {
            let (start, lines) = (at * PANEL, len * PANEL / 64);
            for line in lines * part / parts..lines * (part + 1) / parts {
                _mm_prefetch::<_MM_HINT_T1>(self.next.wrapping_add(start + line * 64).cast());
            }
        }
    }
}

trait Kernel {
    type Block: BlockType;

    /// Sixteen outputs of `R` rows.
    ///
    /// SAFETY: the rows of both operands exist.
    unsafe fn few<const R: usize>(inputs: usize, outputs: &Outputs, x: BlockRows<'_>) -> [__m512; R];

    /// `P` times sixteen outputs of as many rows, from row `first` on, as `sums`, which are zeros before.
    ///
    /// SAFETY: as for [`Kernel::few`].
    unsafe fn many<const P: usize>(
        inputs: usize,
        outputs: &[Outputs; P],
        x: BlockRows<'_>,
        first: usize,
        sums: &mut [[__m512; P]],
    );
}

/// The product with blocks of 32 values.
///
/// SAFETY: the operands passed [`Product::check`], and rows of the matrix are whole blocks; the columns are the caller's.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
pub unsafe fn narrow<T: Narrow>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    // SAFETY: as the caller guarantees.
    unsafe { sweep::<narrow::NarrowBlocks<T>>(product, w, x, y) }
}

/// The product with blocks of 256 values.
///
/// SAFETY: as for [`narrow`].
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
pub unsafe fn wide<T: Wide>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    // SAFETY: as the caller guarantees.
    unsafe { sweep::<wide::WideBlocks<T>>(product, w, x, y) }
}

/// SAFETY: as for [`narrow`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
unsafe fn sweep<K: Kernel>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    let (inputs, end) = (product.inputs, product.columns.end);
    let bytes = inputs / K::Block::VALUES * K::Block::BYTES;
    // SAFETY: the rows of both operands exist, and the columns are the caller's.
    unsafe {
        let outputs = |o: usize, together: usize| {
            let next = (o + (together + 1) * PANEL <= end).then_some(together * PANEL);
            Outputs::new(w.as_ptr().add(o * bytes), bytes, (end - o).min(PANEL), next)
        };
        let store = |r: usize, o: usize, sums: __m512| {
            let taken = (end - o).min(PANEL);
            let mask = ((1u32 << taken) - 1) as __mmask16;
            _mm512_mask_storeu_ps(y.slice(product.at(r, o), taken).as_mut_ptr(), mask, sums);
        };
        let mut o = product.columns.start;
        while o < end {
            match product.rows {
                1 => {
                    let [sums] = K::few(inputs, &outputs(o, 1), x);
                    store(0, o, sums);
                    o += PANEL;
                }
                2 => {
                    let [first, second] = K::few(inputs, &outputs(o, 1), x);
                    store(0, o, first);
                    store(1, o, second);
                    o += PANEL;
                }
                rows if o + PANEL < end => {
                    let outputs = [outputs(o, 2), outputs(o + PANEL, 2)];
                    for first in (0..rows).step_by(GROUP) {
                        let mut all = [[_mm512_setzero_ps(); 2]; GROUP];
                        let sums = &mut all[..(rows - first).min(GROUP)];
                        K::many(inputs, &outputs, x, first, sums);
                        for (r, [a, b]) in sums.iter().enumerate() {
                            store(first + r, o, *a);
                            store(first + r, o + PANEL, *b);
                        }
                    }
                    o += 2 * PANEL;
                }
                rows => {
                    let outputs = [outputs(o, 1)];
                    for first in (0..rows).step_by(GROUP) {
                        let mut all = [[_mm512_setzero_ps(); 1]; GROUP];
                        let sums = &mut all[..(rows - first).min(GROUP)];
                        K::many(inputs, &outputs, x, first, sums);
                        sums.iter().enumerate().for_each(|(r, [sums])| store(first + r, o, *sums));
                    }
                    o += PANEL;
                }
            }
        }
    }
}

/// In each 128-bit lane the sums of the lane of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn quads(v: [__m512i; 4]) -> __m512i {
    let pair = |a, b| _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (a, b) = (pair(v[0], v[1]), pair(v[2], v[3]));
    _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
}

/// The sums of the 128-bit lanes of four vectors, side by side.
#[inline]
#[target_feature(enable = "avx512f")]
fn sums4(v: [__m512i; 4]) -> __m512i {
    let [a, b] = halves(v);
    _mm512_add_epi32(a, b)
}

/// The sums of the lower two 128-bit lanes of four vectors, side by side, and of the upper two.
#[inline]
#[target_feature(enable = "avx512f")]
fn halves(v: [__m512i; 4]) -> [__m512i; 2] {
    let pair =
        |a, b| _mm512_add_epi32(_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
    let (a, b) = (pair(v[0], v[1]), pair(v[2], v[3]));
    [_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b)]
}

/// Four columns of 32-bit words of sixteen outputs: word `at / 4 + i` of all outputs in vector `i`.
///
/// SAFETY: every row has 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn words(outputs: &Outputs, at: usize) -> [__m512i; 4] {
    // SAFETY: as the caller guarantees.
    let z: [__m512i; 4] = std::array::from_fn(|i| unsafe {
        let part = |o: usize| _mm_loadu_si128(outputs.rows[o].add(at).cast());
        let z = _mm512_castsi128_si512(part(i));
        let z = _mm512_inserti32x4::<1>(z, part(i + 4));
        let z = _mm512_inserti32x4::<2>(z, part(i + 8));
        _mm512_inserti32x4::<3>(z, part(i + 12))
    });
    let (a, b) = (_mm512_unpacklo_epi32(z[0], z[1]), _mm512_unpacklo_epi32(z[2], z[3]));
    let (c, d) = (_mm512_unpackhi_epi32(z[0], z[1]), _mm512_unpackhi_epi32(z[2], z[3]));
    [
        _mm512_unpacklo_epi64(a, b),
        _mm512_unpackhi_epi64(a, b),
        _mm512_unpacklo_epi64(c, d),
        _mm512_unpackhi_epi64(c, d),
    ]
}

/// The lower four bits of every byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn nibbles(v: __m512i) -> __m512i {
    _mm512_and_si512(v, _mm512_set1_epi8(15))
}

/// The upper four bits of every byte.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn upper_nibbles(v: __m512i) -> __m512i {
    nibbles(_mm512_srli_epi16::<4>(v))
}

/// The integers of a table that four bits of every byte stand for, offset by 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn looked_up(table: [i8; 16], nibbles: __m512i) -> __m512i {
    // SAFETY: sixteen bytes.
    let table = unsafe { _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast())) };
    _mm512_shuffle_epi8(_mm512_xor_si512(table, _mm512_set1_epi8(-128)), nibbles)
}

/// The half-precision floats in the low halves of sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
fn halfs(words: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words))
}

/// The half-precision floats at a byte of sixteen rows.
///
/// SAFETY: every row has two bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn halfs_at(outputs: &Outputs, at: usize) -> __m512 {
    let mut bits = [0u16; PANEL];
    for (bits, row) in bits.iter_mut().zip(outputs.rows) {
        // SAFETY: as the caller guarantees.
        *bits = unsafe { row.add(at).cast::<u16>().read_unaligned() };
    }
    // SAFETY: sixteen values of 16 bits.
    unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
}

/// Two vectors of 32 bytes.
///
/// SAFETY: both have 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn join(low: *const u8, high: *const u8) -> __m512i {
    // SAFETY: as the caller guarantees.
    unsafe {
        _mm512_inserti64x4::<1>(
            _mm512_castsi256_si512(_mm256_loadu_si256(low.cast())),
            _mm256_loadu_si256(high.cast()),
        )
    }
}

/// Call `$tile::<K, P, R>` for a number of rows from 1 to [`TILE`].
macro_rules! for_rows {
    ($rows:expr, $tile:ident::<$kind:ident, $panels:ident>($($argument:expr),*)) => {
        match $rows {
            1 => $tile::<$kind, $panels, 1>($($argument),*),
            2 => $tile::<$kind, $panels, 2>($($argument),*),
            3 => $tile::<$kind, $panels, 3>($($argument),*),
            4 => $tile::<$kind, $panels, 4>($($argument),*),
            5 => $tile::<$kind, $panels, 5>($($argument),*),
            _ => $tile::<$kind, $panels, 6>($($argument),*),
        }
    };
}
use for_rows;

/// The rows of each tile, in tiles of about the same size: 7 rows are 4 and 3, not 6 and 1.
fn tiles(rows: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let taken = rows.div_ceil(rows.div_ceil(TILE).max(1)).max(1);
    (0..rows).step_by(taken).map(move |r| r..(r + taken).min(rows))
}

/// Integer dot products of `GROUPS` groups of four inputs, from group `at` of the panels on, with `R` rows, added to `start`.
///
/// SAFETY: each row `x[r * stride ..]` has as many inputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots<const P: usize, const R: usize, const GROUPS: usize>(
    panels: &[Panel; P],
    at: usize,
    x: *const i8,
    stride: usize,
    start: [__m512i; R],
) -> [[__m512i; R]; P] {
    let mut dots = [start; P];
    for g in 0..GROUPS {
        let w: [__m512i; P] = std::array::from_fn(|p| panels[p].0[at + g]);
        for r in 0..R {
            // SAFETY: as the caller guarantees.
            let four = unsafe { x.add(r * stride + g * 4).cast::<i32>().read_unaligned() };
            let four = _mm512_set1_epi32(four);
            for p in 0..P {
                dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], w[p], four);
            }
        }
    }
    dots
}
