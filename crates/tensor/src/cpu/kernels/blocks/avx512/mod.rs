//! The AVX-512 implementation, with VNNI's 8-bit dot products.
//!
//! Sixteen outputs are computed together, and the last step of every block, in f32, has one output in each lane. A few rows are
//! multiplied with the blocks as they are; for more rows the integers of sixteen or 32 outputs are first arranged in groups of four
//! inputs (once for all rows), so that one vector times four broadcast inputs gives sixteen outputs. Blocks in [`panels`](super::panels)
//! have that order already, and are only unpacked.

mod k_quants;
mod narrow;
mod wide;

use std::{arch::x86_64::*, marker::PhantomData};

pub use narrow::Narrow;
pub use wide::Wide;

use super::{
    super::avx512::store,
    BlockRows, DisjointSliceMut, Product,
    panels::{PANEL, PanelLayout},
};
use crate::quant::BlockType;

/// Maximum rows of a tile. With two panels its sums fill the registers, and each input is loaded once for both.
const TILE: usize = 6;
/// Up to this many rows, every tile unpacks the integers in panels itself; with more rows they are unpacked once and stored.
const UNPACKED: usize = 2 * TILE;
/// Rows whose sums are kept at a time.
const GROUP: usize = 16 * TILE;

/// Integers of 256 inputs of sixteen outputs in groups of four inputs (group, output, input).
#[repr(C, align(64))]
pub struct Panel([__m512i; 64]);

/// Buffers for products with `P` panels.
struct Buffers<const P: usize> {
    /// The sums of some rows.
    sums: [[__m512; P]; GROUP],
    /// Arranged integers.
    panels: [Panel; P],
}

impl<const P: usize> Buffers<P> {
    #[inline(always)]
    fn new() -> Self {
        // SAFETY: zeros are numbers.
        unsafe { std::mem::zeroed() }
    }

    /// Call `multiply` with the first of some rows and the places of their sums, which are zeros, then `store` with each sum (row,
    /// panel), for all rows. Returns `P`.
    #[inline(always)]
    fn by_groups(
        &mut self,
        rows: usize,
        multiply: impl Fn(usize, &mut [Panel; P], &mut [[__m512; P]]),
        store: impl Fn(usize, usize, __m512),
    ) -> usize {
        for first in (0..rows).step_by(GROUP) {
            let sums = &mut self.sums[..(rows - first).min(GROUP)];
            // SAFETY: zeros are numbers.
            sums.fill(unsafe { std::mem::zeroed() });
            multiply(first, &mut self.panels, sums);
            for (r, sums) in sums.iter().enumerate() {
                for (p, sums) in sums.iter().enumerate() {
                    store(first + r, p, *sums);
                }
            }
        }
        P
    }
}

/// The blocks of sixteen outputs, one of which is current.
pub trait Source: Copy {
    /// Four columns of 32-bit words of the current block: the word at byte `at + 4 i` of all outputs in vector `i`.
    ///
    /// SAFETY: the block has 16 bytes from `at` on.
    unsafe fn words(self, at: usize) -> [__m512i; 4];

    /// The word at a byte of all outputs' blocks.
    ///
    /// SAFETY: the block has four bytes from `at` on.
    unsafe fn word(self, at: usize) -> __m512i;

    /// The half-precision floats at a byte of all outputs' blocks.
    ///
    /// SAFETY: the block has two bytes from `at` on.
    unsafe fn halfs(self, at: usize) -> __m512;

    /// The current block of an output, for types that are not put into panels.
    ///
    /// SAFETY: the block exists.
    unsafe fn of(self, output: usize) -> *const u8;
}

/// Some blocks of a row.
#[derive(Clone, Copy)]
pub struct Blocks {
    /// The first.
    first: usize,
    count: usize,
    of: usize,
    /// Bytes of each.
    bytes: usize,
}

/// The rows of sixteen outputs.
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

    /// The blocks from byte `at` on.
    fn at(&self, at: usize) -> InRows<'_> {
        InRows { outputs: self, at }
    }
}

impl Blocks {
    /// As far from the beginning of the outputs that follow: rows are one after the other. The processor cannot foresee the order of
    /// sixteen rows.
    fn of_next_rows<const P: usize>(self, outputs: &[Outputs; P], steps: usize) -> Ahead {
        let (next, len) = (outputs[0].next, self.count * self.bytes * PANEL);
        let first = next.wrapping_add(self.first * self.bytes * PANEL * P);
        Ahead::new::<P>(first, len, if next.is_null() { 0 } else { len }, steps)
    }

    /// Those that follow in the panels, or the first ones of the next panels.
    fn next_in_panels<T: BlockType, const P: usize>(self, panels: &[InPanel<T>; P], steps: usize) -> Ahead {
        let end = self.first + self.count;
        let bytes = |blocks| InPanel::<T>::LAYOUT.words_of(blocks);
        let first = panels[0].at.wrapping_add(bytes(if end < self.of { end } else { P * self.of }));
        let len = if first < panels[0].end { bytes(self.count) } else { 0 };
        Ahead::new::<P>(first, bytes(self.of), len, steps)
    }
}

/// Blocks row after row, as a file has them.
#[derive(Clone, Copy)]
pub struct InRows<'a> {
    outputs: &'a Outputs,
    /// Where the current block begins.
    at: usize,
}

impl Source for InRows<'_> {
    #[inline(always)]
    unsafe fn of(self, output: usize) -> *const u8 {
        // SAFETY: as the caller guarantees.
        unsafe { self.outputs.rows[output].add(self.at) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn words(self, at: usize) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        let z: [__m512i; 4] = std::array::from_fn(|i| unsafe {
            let part = |o: usize| _mm_loadu_si128(self.outputs.rows[o].add(self.at + at).cast());
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

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn word(self, at: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        let word = |row: *const u8| unsafe { row.add(self.at + at).cast::<u32>().read_unaligned() };
        let words = self.outputs.rows.map(word);
        // SAFETY: sixteen words.
        unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn halfs(self, at: usize) -> __m512 {
        let mut bits = [0u16; PANEL];
        for (bits, row) in bits.iter_mut().zip(self.outputs.rows) {
            // SAFETY: as the caller guarantees.
            *bits = unsafe { row.add(self.at + at).cast::<u16>().read_unaligned() };
        }
        // SAFETY: sixteen values of 16 bits.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())) }
    }
}

/// Blocks in a panel, see [`super::panels`].
pub struct InPanel<T> {
    /// The words of the current block.
    at: *const u8,
    /// Its floats that are left.
    left: *const u8,
    /// The end of the words of all blocks.
    end: *const u8,
    kind: PhantomData<T>,
}

impl<T> Clone for InPanel<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for InPanel<T> {}

impl<T: BlockType> InPanel<T> {
    const LAYOUT: PanelLayout = PanelLayout::of::<T>();

    /// The first block of a matrix with so many blocks of sixteen outputs.
    fn first(w: &[u8], blocks: usize) -> Self {
        let at = w.as_ptr();
        let end = at.wrapping_add(Self::LAYOUT.words_of(blocks));
        Self { at, left: end, end, kind: PhantomData }
    }

    /// The block that is `b` blocks later.
    #[inline(always)]
    fn later(self, b: usize) -> Self {
        let (at, left) = (Self::LAYOUT.words_of(b), b * 2 * PANEL);
        Self { at: self.at.wrapping_add(at), left: self.left.wrapping_add(left), ..self }
    }

    /// The column of the word at a byte.
    #[inline(always)]
    fn column(self, at: usize) -> *const u8 {
        self.at.wrapping_add((at - Self::LAYOUT.first) / 4 * 4 * PANEL)
    }
}

impl<T: BlockType> Source for InPanel<T> {
    unsafe fn of(self, _: usize) -> *const u8 {
        unreachable!("{} is not put into panels", T::NAME)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn words(self, at: usize) -> [__m512i; 4] {
        // SAFETY: as the caller guarantees.
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(self.column(at + 4 * i).cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn word(self, at: usize) -> __m512i {
        // SAFETY: as the caller guarantees.
        unsafe { _mm512_loadu_si512(self.column(at).cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn halfs(self, at: usize) -> __m512 {
        let layout = Self::LAYOUT;
        if layout.left == Some(at) {
            // SAFETY: sixteen values of 16 bits.
            return unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(self.left.cast())) };
        }
        // SAFETY: as the caller guarantees.
        let word = unsafe { self.word(at) };
        if (at - layout.first).is_multiple_of(4) { halfs(word) } else { halfs(_mm512_srli_epi32::<16>(word)) }
    }
}

/// Lines of some panels to be prefetched, a few in each step: too many at once would delay the loads.
#[derive(Clone, Copy)]
pub struct Ahead {
    first: *const u8,
    /// Bytes from a panel's lines to the next one's.
    stride: usize,
    /// Lines of a panel.
    lines: usize,
    /// Lines of each step.
    each: usize,
}

impl Ahead {
    /// `len` bytes of each of `P` panels, the first at `first`.
    #[inline(always)]
    fn new<const P: usize>(first: *const u8, stride: usize, len: usize, steps: usize) -> Self {
        let lines = len.div_ceil(64);
        Self { first, stride, lines, each: lines.div_ceil((steps / P).max(1)) }
    }

    /// Prefetch the lines of a step, of one panel after the other.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn prefetch<const P: usize>(&self, step: usize) {
        let from = step / P * self.each;
        let panel = self.first.wrapping_add(step % P * self.stride);
        for line in from..(from + self.each).min(self.lines) {
            _mm_prefetch::<_MM_HINT_T0>(panel.wrapping_add(line * 64).cast());
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
        arranged: &mut [Panel; P],
        sums: &mut [[__m512; P]],
    );

    /// As [`Kernel::many`], for blocks in panels.
    ///
    /// SAFETY: as for [`Kernel::few`].
    unsafe fn panels<const P: usize>(
        inputs: usize,
        panels: &[InPanel<Self::Block>; P],
        x: BlockRows<'_>,
        first: usize,
        arranged: &mut [Panel; P],
        sums: &mut [[__m512; P]],
    );
}

/// Products with blocks row after row.
pub mod in_rows {
    use super::*;

    /// Blocks of 32 values.
    ///
    /// SAFETY: the operands passed [`Product::check`], and rows of the matrix are whole blocks; the columns are the caller's.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    pub unsafe fn narrow<T: Narrow>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
        // SAFETY: as the caller guarantees.
        unsafe { rows::<narrow::NarrowBlocks<T>>(product, w, x, y) }
    }

    /// Blocks of 256 values.
    ///
    /// SAFETY: as for [`narrow`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    pub unsafe fn wide<T: Wide>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
        // SAFETY: as the caller guarantees.
        unsafe { rows::<wide::WideBlocks<T>>(product, w, x, y) }
    }
}

/// Products with blocks in panels.
pub mod in_panels {
    use super::*;

    /// Blocks of 32 values.
    ///
    /// SAFETY: as for [`in_rows::narrow`]; the matrix is in panels.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    pub unsafe fn narrow<T: Narrow>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
        // SAFETY: as the caller guarantees.
        unsafe { all_panels::<narrow::NarrowBlocks<T>>(product, w, x, y) }
    }

    /// Blocks of 256 values.
    ///
    /// SAFETY: as for [`narrow`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
    pub unsafe fn wide<T: Wide>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
        // SAFETY: as the caller guarantees.
        unsafe { all_panels::<wide::WideBlocks<T>>(product, w, x, y) }
    }
}

/// SAFETY: as for [`in_rows::narrow`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
unsafe fn rows<K: Kernel>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
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
        let (mut o, mut buffers) = (product.columns.start, Buffers::<2>::new());
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
                _ if o + PANEL < end => {
                    let outputs = [outputs(o, 2), outputs(o + PANEL, 2)];
                    let store = |r, p, sums| store(r, o + p * PANEL, sums);
                    let many = |first, panels: &mut _, sums: &mut _| {
                        K::many(inputs, &outputs, x, first, panels, sums);
                    };
                    o += PANEL * buffers.by_groups(product.rows, many, store);
                }
                _ => {
                    let outputs = [outputs(o, 1)];
                    let many = |first, panels: &mut _, sums: &mut _| {
                        K::many(inputs, &outputs, x, first, panels, sums);
                    };
                    o += PANEL
                        * Buffers::<1>::new().by_groups(product.rows, many, |r, _, sums| store(r, o, sums));
                }
            }
        }
    }
}

/// SAFETY: as for [`in_panels::narrow`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
unsafe fn all_panels<K: Kernel>(product: &Product, w: &[u8], x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    let end = product.columns.end.div_ceil(PANEL);
    let (mut panel, mut buffers) = (product.columns.start / PANEL, Buffers::<2>::new());
    // SAFETY: the panels exist, and the columns are the caller's.
    unsafe {
        while panel < end {
            panel += match end - panel {
                2.. => some_panels::<K, 2>(product, w, x, panel, &mut buffers, y),
                _ => some_panels::<K, 1>(product, w, x, panel, &mut Buffers::new(), y),
            };
        }
    }
}

/// All rows times `P` panels from `panel` on. Returns `P`.
///
/// SAFETY: as for [`in_panels::narrow`]; the panels overlap the product's columns.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni,f16c,avx2,fma")]
unsafe fn some_panels<K: Kernel, const P: usize>(
    product: &Product,
    w: &[u8],
    x: BlockRows<'_>,
    panel: usize,
    buffers: &mut Buffers<P>,
    y: &DisjointSliceMut<'_>,
) -> usize {
    let blocks = product.inputs / K::Block::VALUES;
    let first = InPanel::<K::Block>::first(w, product.outputs.div_ceil(PANEL) * blocks);
    let panels = std::array::from_fn(|p| first.later((panel + p) * blocks));
    // SAFETY: as the caller guarantees.
    unsafe {
        buffers.by_groups(
            product.rows,
            |first, arranged, sums| K::panels(product.inputs, &panels, x, first, arranged, sums),
            |r, p, sums| store(product, panel + p, r, sums, y),
        )
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

/// Call `$tile::<K, G, P, R>` for a number of rows from 1 to [`TILE`].
macro_rules! for_rows {
    ($rows:expr, $tile:ident::<$kind:ident, $panels:ident>($($argument:expr),*)) => {
        match $rows {
            1 => $tile::<$kind, _, $panels, 1>($($argument),*),
            2 => $tile::<$kind, _, $panels, 2>($($argument),*),
            3 => $tile::<$kind, _, $panels, 3>($($argument),*),
            4 => $tile::<$kind, _, $panels, 4>($($argument),*),
            5 => $tile::<$kind, _, $panels, 5>($($argument),*),
            _ => $tile::<$kind, _, $panels, 6>($($argument),*),
        }
    };
}
use for_rows;

/// The rows of each tile, in tiles of about the same size: 7 rows are 4 and 3, not 6 and 1.
fn tiles(rows: usize) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> {
    let taken = rows.div_ceil(rows.div_ceil(TILE).max(1)).max(1);
    (0..rows).step_by(taken).map(move |r| r..(r + taken).min(rows))
}

/// Where a tile finds the integers of its blocks, in groups of four inputs of sixteen outputs.
trait Groups: Copy {
    /// Group `g` of a part of 32 or 16 values of panel `p`.
    ///
    /// SAFETY: the block exists.
    unsafe fn group(self, p: usize, part: usize, g: usize) -> __m512i;
}

/// Arranged panels, with parts of so many groups.
#[derive(Clone, Copy)]
struct Arranged<'a, const P: usize, const GROUPS: usize>(&'a [Panel; P]);

impl<const P: usize, const GROUPS: usize> Groups for Arranged<'_, P, GROUPS> {
    #[inline(always)]
    unsafe fn group(self, p: usize, part: usize, g: usize) -> __m512i {
        self.0[p].0[part * GROUPS + g]
    }
}

/// Integer dot products of the groups of a part with `R` rows, added to `start`.
///
/// SAFETY: each row `x[r * stride ..]` has as many inputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn dots<G: Groups, const P: usize, const R: usize, const GROUPS: usize>(
    groups: G,
    part: usize,
    x: *const i8,
    stride: usize,
    start: [__m512i; R],
) -> [[__m512i; R]; P] {
    let mut dots = [start; P];
    for g in 0..GROUPS {
        // SAFETY: as the caller guarantees.
        let w: [__m512i; P] = std::array::from_fn(|p| unsafe { groups.group(p, part, g) });
        for r in 0..R {
            // SAFETY: as above.
            let four = unsafe { x.add(r * stride + g * 4).cast::<i32>().read_unaligned() };
            let four = _mm512_set1_epi32(four);
            for p in 0..P {
                dots[p][r] = _mm512_dpbusd_epi32(dots[p][r], w[p], four);
            }
        }
    }
    dots
}
