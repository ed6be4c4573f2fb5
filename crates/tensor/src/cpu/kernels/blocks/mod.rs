//! Matrices in ggml's block types (see [`BlockKind`]), as a file has them: row after row, often mapped.
//!
//! A dot product is exact in integers for each block of the inputs, and the blocks' sums are added in f32 in the order of the
//! inputs:
//!
//! * 32 values: `y = Σ_b fma(Σ_i (w_i - o) x_i, d_b s_b) + fma(Σ_i x_i, m_b s_b)`; `s` is the scale of the input's block of 32,
//!   `o` the integer that stands for zero. Most types have no minimum `m`.
//! * 256 values: `y = Σ_b fma(Σ_j sc_j Σ_i (w_i - o) x_i, d_b s_b) - fma(Σ_j m_j Σ_i x_i, dmin_b s_b)` over parts `j` of 16 or 32
//!   values; `s` is the scale of the input's block of 256.
//!
//! So a value depends neither on the number of rows nor on the order in which an implementation visits the inputs of a block,
//! and all implementations give the same bits.

#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::needless_range_loop,
    clippy::too_many_arguments,
    reason = "registers are numbered; a tile needs both operands, their places and their sums"
)]
pub(crate) mod avx512;
mod panels;
mod portable;
mod rows;

pub use panels::BlockPanels;
pub use rows::{DisjointRowsK, RowsK, WIDE};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::int8::{self, Int8};
use super::{DisjointSliceMut, Product, quantized::Rows8};
use crate::{
    BlockKind,
    quant::{quantize::LARGEST, with_type},
    store::SharedValues,
};

impl BlockKind {
    /// True if the input rows are quantized in blocks of 256 ([`RowsK`]), not of 32 ([`Rows8`]).
    pub(crate) fn takes_k(self) -> bool {
        self.values() == WIDE
    }
}

/// A product of a type in AVX-512 instructions.
#[cfg(target_arch = "x86_64")]
pub(crate) type Avx512Kernel = unsafe fn(&Product, &[u8], BlockRows<'_>, &DisjointSliceMut<'_>);

/// A matrix of blocks, row after row. Clones share the blocks.
#[derive(Clone)]
pub struct Blocks {
    kind: BlockKind,
    bytes: SharedValues<u8>,
}

impl Blocks {
    /// A matrix of `values` values from the blocks of a file; `None` if there are more or fewer bytes, or parts of a block.
    pub fn new(kind: BlockKind, bytes: SharedValues<u8>, values: usize) -> Option<Self> {
        let whole = values.is_multiple_of(kind.values());
        (whole && values / kind.values() * kind.bytes() == bytes.len()).then_some(Self { kind, bytes })
    }

    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// A matrix of `values` zeros. Panics if they are not whole blocks.
    pub fn zeros(kind: BlockKind, values: usize) -> Self {
        assert!(values.is_multiple_of(kind.values()), "the values are not whole blocks");
        Self { kind, bytes: SharedValues::zeros(values / kind.values() * kind.bytes()) }
    }

    /// Quantized values. Panics if they are not whole blocks, or one is too large.
    #[cfg(test)]
    pub fn quantized(kind: BlockKind, values: &[f32]) -> Self {
        let mut blocks = Self::zeros(kind, values.len());
        if let Err(problem) = quantize_blocks(kind, values, blocks.owned()) {
            panic!("{problem}");
        }
        blocks
    }

    /// The blocks, to be filled with [`quantize_blocks`]. Panics if they belong to a file, or are shared.
    pub(crate) fn owned(&mut self) -> &mut [u8] {
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

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn values(&self) -> usize {
        self.bytes.len() / self.kind.bytes() * self.kind.values()
    }

    /// Append the values `range` (whole blocks) as f32. Panics if they are not whole blocks of the matrix.
    pub fn widen(&self, range: std::ops::Range<usize>, out: &mut Vec<f32>) {
        let (values, size) = (self.kind.values(), self.kind.bytes());
        assert!(range.start.is_multiple_of(values) && range.end.is_multiple_of(values), "not whole blocks");
        let blocks = &self.bytes[range.start / values * size..range.end / values * size];
        with_type!(self.kind, T => portable::widen::<T>(blocks, out));
    }
}

/// Quantize values to blocks, as bytes. Fails if one is too large. Panics if there are not as many blocks of values as of bytes, or
/// the type is read from files only.
pub fn quantize_blocks(kind: BlockKind, values: &[f32], bytes: &mut [u8]) -> Result<(), String> {
    let blocks = values.len() / kind.values();
    assert!(
        blocks * kind.values() == values.len() && blocks * kind.bytes() == bytes.len(),
        "not whole blocks"
    );
    let Some(quantizer) = kind.quantizer() else { panic!("{} is read from files only", kind.name()) };
    if let Some(value) = values.iter().find(|value| value.abs() > LARGEST) {
        return Err(format!("{value} is too large for {}", kind.name()));
    }
    quantizer(values, bytes);
    Ok(())
}

/// Input rows, quantized for block products: in blocks of 32, of 256, or both.
#[derive(Clone, Copy)]
pub struct BlockRows<'a> {
    /// In blocks of 32, for types with such blocks.
    pub q8: &'a Rows8,
    /// In blocks of 256, for types with such blocks.
    pub k: &'a RowsK,
}

/// Some columns of `y = x Wᵀ`. Panics if the operands are shorter than the product.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_blocks(product: &Product, w: &Blocks, x: BlockRows<'_>, y: &DisjointSliceMut<'_>) {
    let rows = if w.kind.takes_k() { x.k.values() } else { x.q8.quants.len() };
    product.check(w.values(), rows);
    assert!(w.kind.takes_k() || x.q8.outliers.is_empty(), "these products have no outliers");
    assert!(product.inputs.is_multiple_of(w.kind.values()), "the rows of the matrix are not whole blocks");
    // SAFETY: the features were detected, the operands were checked, the columns are the caller's.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if super::has_avx512() {
            return w.kind.avx512()[0](product, &w.bytes, x, y);
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(int8) = Int8::detect() {
            with_type!(w.kind, T => int8::product_blocks::<T>(int8, product, &w.bytes, x, y));
            return;
        }
        let row = product.inputs / w.kind.values() * w.kind.bytes();
        with_type!(w.kind, T => product.each(y, |o, r| {
            portable::dot::<T>(&w.bytes[o * row..(o + 1) * row], x, r, product.inputs)
        }));
    }
}

/// Some columns of `y = x Wᵀ` of blocks in panels. Panics if the operands are shorter than the product.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_block_panels(
    product: &Product,
    w: &BlockPanels,
    x: BlockRows<'_>,
    y: &DisjointSliceMut<'_>,
) {
    let kind = w.kind();
    let rows = if kind.takes_k() { x.k.values() } else { x.q8.quants.len() };
    assert!(w.is(product.outputs, product.inputs), "the matrix has another shape than the product");
    product.check(product.outputs * product.inputs, rows);
    assert!(kind.takes_k() || x.q8.outliers.is_empty(), "these products have no outliers");
    // SAFETY: panels are made if the features exist; the operands were checked, the columns are the caller's.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        kind.avx512()[1](product, w.as_bytes(), x, y);
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (w.as_bytes(), y);
        unreachable!("panels are made for AVX-512 only");
    }
}

#[cfg(test)]
mod tests;
