//! Matrices in ggml's block types (q8_0, q4_0, q4_k, q5_k, q6_k), as a file has them: row after row, often mapped.
//!
//! A dot product is exact in integers for each block of the inputs, and the blocks' sums are added in f32 in the order of the
//! inputs:
//!
//! * q8_0, q4_0: `y = Σ_b fma(Σ_i (w_i - o) x_i, d_b s_b)` over blocks of 32; `s` is the scale of the input's block of 32.
//! * q4_k, q5_k: `y = Σ_b fma(Σ_j sc_j Σ_i w_i x_i, d_b s_b) - fma(Σ_j m_j Σ_i x_i, dmin_b s_b)` over blocks of 256 with sub-blocks of 32.
//! * q6_k: `y = Σ_b fma(Σ_j sc_j Σ_i (w_i - 32) x_i, d_b s_b)` over blocks of 256 with sub-blocks of 16.
//!
//! So a value depends neither on the number of rows nor on the order in which an implementation visits the inputs of a block,
//! and all implementations give the same bits.

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::needless_range_loop,
    clippy::too_many_arguments,
    reason = "registers are numbered; a tile needs both operands, their places and their sums"
)]
mod avx512;
mod portable;
mod rows;

use candle_core::quantized::{
    GgmlType,
    k_quants::{BlockQ4_0, BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8_0},
};
pub use rows::{DisjointRowsK, RowsK, WIDE};

#[cfg(target_arch = "x86_64")]
use super::int8::{self, Int8};
use super::{DisjointSliceMut, Product, quantized::Rows8};
use crate::{WeightType, store::Store};

/// A block type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// 8 bits, 32 values with one scale.
    Q8_0,
    /// 4 bits, 32 values with one scale.
    Q4_0,
    /// 4 bits, 256 values with eight scales and minima.
    Q4K,
    /// 5 bits, 256 values with eight scales and minima.
    Q5K,
    /// 6 bits, 256 values with sixteen scales.
    Q6K,
}

impl BlockKind {
    /// The blocks of a weight type; none if it has none.
    pub fn of(dtype: WeightType) -> Option<Self> {
        match dtype {
            WeightType::Q8_0 => Some(Self::Q8_0),
            WeightType::Q4_0 => Some(Self::Q4_0),
            WeightType::Q4K => Some(Self::Q4K),
            WeightType::Q5K => Some(Self::Q5K),
            WeightType::Q6K => Some(Self::Q6K),
            WeightType::F32 | WeightType::F16 | WeightType::Bf16 | WeightType::Auto => None,
        }
    }

    /// The weight type's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => WeightType::Q8_0.name(),
            Self::Q4_0 => WeightType::Q4_0.name(),
            Self::Q4K => WeightType::Q4K.name(),
            Self::Q5K => WeightType::Q5K.name(),
            Self::Q6K => WeightType::Q6K.name(),
        }
    }

    /// The block type of this [`BlockKind::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::of(name.parse().ok()?)
    }

    /// Values of a block.
    pub fn values(self) -> usize {
        match self {
            Self::Q8_0 | Self::Q4_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub fn bytes(self) -> usize {
        match self {
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// True if the input rows are quantised in blocks of 256 ([`RowsK`]), not of 32 ([`Rows8`]).
    pub fn takes_k(self) -> bool {
        self.values() == WIDE
    }
}

/// A matrix of blocks, row after row. Clones share the blocks.
#[derive(Clone)]
pub struct Blocks {
    kind: BlockKind,
    bytes: Store<u8>,
}

impl Blocks {
    /// An empty matrix.
    pub fn empty(kind: BlockKind) -> Self {
        Self { kind, bytes: Vec::new().into() }
    }

    /// A matrix of `values` values from the blocks of a file; none if there are more or fewer bytes, or parts of a block.
    pub fn new(kind: BlockKind, bytes: Store<u8>, values: usize) -> Option<Self> {
        let whole = values.is_multiple_of(kind.values());
        (whole && values / kind.values() * kind.bytes() == bytes.len()).then_some(Self { kind, bytes })
    }

    /// The block type.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// A matrix of `values` zeros.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn zeros(kind: BlockKind, values: usize) -> Self {
        assert!(values.is_multiple_of(kind.values()), "the values are not whole blocks");
        Self { kind, bytes: vec![0; values / kind.values() * kind.bytes()].into() }
    }

    /// Quantise and append values.
    ///
    /// # Panics
    /// If they are not whole blocks, or the blocks are those of a file.
    pub fn push(&mut self, values: &[f32]) {
        let (kind, bytes) = (self.kind, self.bytes.owned());
        let from = bytes.len();
        bytes.resize(from + values.len() / kind.values() * kind.bytes(), 0);
        quantize_blocks(kind, values, &mut bytes[from..]);
    }

    /// The blocks, to be filled with [`quantize_blocks`].
    ///
    /// # Panics
    /// If they are those of a file, or shared.
    pub fn owned(&mut self) -> &mut Vec<u8> {
        self.bytes.owned()
    }

    /// True if the blocks are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        self.bytes.is_mapped()
    }

    /// The blocks as a file has them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Number of values.
    pub fn values(&self) -> usize {
        self.bytes.len() / self.kind.bytes() * self.kind.values()
    }

    /// Append the values `range` (whole blocks) as f32.
    ///
    /// # Panics
    /// If they are not whole blocks of the matrix.
    pub fn widen(&self, range: std::ops::Range<usize>, out: &mut Vec<f32>) {
        let (values, size) = (self.kind.values(), self.kind.bytes());
        assert!(range.start.is_multiple_of(values) && range.end.is_multiple_of(values), "not whole blocks");
        for block in self.bytes[range.start / values * size..range.end / values * size].chunks_exact(size) {
            portable::widen(self.kind, block, out);
        }
    }
}

/// Quantise values to blocks, as bytes.
///
/// # Panics
/// If there are not as many blocks of values as of bytes.
pub fn quantize_blocks(kind: BlockKind, values: &[f32], bytes: &mut [u8]) {
    match kind {
        BlockKind::Q8_0 => quantize::<BlockQ8_0>(values, bytes),
        BlockKind::Q4_0 => quantize::<BlockQ4_0>(values, bytes),
        BlockKind::Q4K => quantize::<BlockQ4K>(values, bytes),
        BlockKind::Q5K => quantize::<BlockQ5K>(values, bytes),
        BlockKind::Q6K => quantize::<BlockQ6K>(values, bytes),
    }
}

fn quantize<T: GgmlType>(values: &[f32], bytes: &mut [u8]) {
    assert!(values.len().is_multiple_of(T::BLCK_SIZE), "the values are not whole blocks");
    let mut blocks = vec![T::zeros(); values.len() / T::BLCK_SIZE];
    T::from_float(values, &mut blocks);
    // SAFETY: the blocks are bytes and half-precision floats without padding (`repr(C)`, sizes as of `BlockKind::bytes`).
    bytes.copy_from_slice(unsafe {
        std::slice::from_raw_parts(blocks.as_ptr().cast(), size_of_val(blocks.as_slice()))
    });
}

/// Input rows, quantised for block products: in blocks of 32, of 256, or both.
#[derive(Clone, Copy)]
pub struct BlockRows<'a> {
    /// In blocks of 32, for q8_0 and q4_0.
    pub q8: &'a Rows8,
    /// In blocks of 256, for q4_k, q5_k and q6_k.
    pub k: &'a RowsK,
}

/// Some columns of `y = x Wᵀ`.
///
/// # Panics
/// If the operands are shorter than the product.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_blocks(product: &Product, w: &Blocks, x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    let rows = if w.kind.takes_k() { x.k.values() } else { x.q8.quants.len() };
    product.check(w.values(), rows);
    assert!(product.inputs.is_multiple_of(w.kind.values()), "the rows of the matrix are not whole blocks");
    #[cfg(target_arch = "x86_64")]
    if super::has_avx512() {
        // SAFETY: the features were detected, the operands were checked, the columns are the caller's.
        unsafe { avx512::product(product, w.kind, &w.bytes, x, y) };
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(int8) = Int8::detect() {
        // SAFETY: as above.
        unsafe { product_int8(int8, product, w, x, y) };
        return;
    }
    let row = product.inputs / w.kind.values() * w.kind.bytes();
    // SAFETY: the columns are the caller's.
    unsafe {
        product.each(y, |o, r| portable::dot(w.kind, &w.bytes[o * row..(o + 1) * row], x, r, product.inputs));
    }
}

/// # Safety
/// The instructions exist, the operands passed [`Product::check`], and the columns are the caller's.
#[cfg(target_arch = "x86_64")]
unsafe fn product_int8(
    int8: Int8,
    product: &Product,
    w: &Blocks,
    x: BlockRows<'_>,
    y: &DisjointSliceMut<'_>,
) {
    // SAFETY: as the caller guarantees.
    unsafe {
        match w.kind {
            BlockKind::Q8_0 => int8::product_blocks::<int8::Q8>(int8, product, &w.bytes, x, y),
            BlockKind::Q4_0 => int8::product_blocks::<int8::Q4>(int8, product, &w.bytes, x, y),
            BlockKind::Q4K => int8::product_blocks::<int8::Q4K>(int8, product, &w.bytes, x, y),
            BlockKind::Q5K => int8::product_blocks::<int8::Q5K>(int8, product, &w.bytes, x, y),
            BlockKind::Q6K => int8::product_blocks::<int8::Q6K>(int8, product, &w.bytes, x, y),
        }
    }
}

#[cfg(test)]
mod tests;
