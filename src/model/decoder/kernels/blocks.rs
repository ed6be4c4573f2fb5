//! Matrices in ggml's smaller block types (q4_0, q4_k, q5_k, q6_k), multiplied with candle's dot products of blocks.
//!
//! candle's matrix product is faster for many rows, but it keeps a second, rearranged copy of the weights (q4_k then takes more
//! memory than q8_0), and chooses its arithmetic by the number of rows. Here is one copy, and each dot product is independent of
//! the others.

use candle_core::quantized::{
    GgmlType,
    k_quants::{BlockQ4_0, BlockQ4K, BlockQ5K, BlockQ6K},
};
use rayon::prelude::*;

use super::{DisjointSliceMut, Product};
use crate::model::WeightType;

/// Values that one thread quantises at a time.
const CHUNK: usize = 1 << 14;

/// A matrix of blocks, row after row.
pub enum Blocks {
    /// 4 bits, 32 values with one scale.
    Q4_0(Vec<BlockQ4_0>),
    /// 4 bits, 256 values with eight scales and minima.
    Q4K(Vec<BlockQ4K>),
    /// 5 bits, 256 values with eight scales and minima.
    Q5K(Vec<BlockQ5K>),
    /// 6 bits, 256 values with sixteen scales.
    Q6K(Vec<BlockQ6K>),
}

/// Evaluate `$body` with `$blocks` bound to the vector of any block type.
macro_rules! each {
    ($self:expr, $blocks:ident => $body:expr) => {
        match $self {
            Blocks::Q4_0($blocks) => $body,
            Blocks::Q4K($blocks) => $body,
            Blocks::Q5K($blocks) => $body,
            Blocks::Q6K($blocks) => $body,
        }
    };
}

impl Blocks {
    /// An empty matrix; none if the type has other blocks or none.
    pub fn empty(dtype: WeightType) -> Option<Self> {
        match dtype {
            WeightType::Q4_0 => Some(Self::Q4_0(Vec::new())),
            WeightType::Q4K => Some(Self::Q4K(Vec::new())),
            WeightType::Q5K => Some(Self::Q5K(Vec::new())),
            WeightType::Q6K => Some(Self::Q6K(Vec::new())),
            WeightType::F32 | WeightType::F16 | WeightType::Bf16 | WeightType::Q8_0 | WeightType::Auto => {
                None
            }
        }
    }

    /// Reserve memory for `values` values.
    pub fn reserve(&mut self, values: usize) {
        each!(self, blocks => blocks.reserve_exact(values / width(blocks)));
    }

    /// Quantise and append values.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn push(&mut self, values: &[f32]) {
        each!(self, blocks => push(blocks, values));
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        each!(self, blocks => size_of_val(blocks.as_slice()))
    }

    /// Bytes and values of one block.
    pub fn shape(&self) -> (usize, usize) {
        each!(self, blocks => (size(blocks), width(blocks)))
    }
}

fn width<T: GgmlType>(_: &[T]) -> usize {
    T::BLCK_SIZE
}

fn size<T>(_: &[T]) -> usize {
    size_of::<T>()
}

fn push<T: GgmlType>(blocks: &mut Vec<T>, values: &[f32]) {
    assert!(values.len().is_multiple_of(T::BLCK_SIZE), "the values are not whole blocks");
    let at = blocks.len();
    blocks.resize(at + values.len() / T::BLCK_SIZE, T::zeros());
    let chunk = CHUNK.next_multiple_of(T::BLCK_SIZE);
    blocks[at..]
        .par_chunks_mut(chunk / T::BLCK_SIZE)
        .zip(values.par_chunks(chunk))
        .for_each(|(blocks, values)| T::from_float(values, blocks));
}

/// Input rows, quantised for the dot products of one block type.
pub enum BlockRows {
    /// For [`Blocks::Q4_0`].
    Q4_0(Vec<<BlockQ4_0 as GgmlType>::VecDotType>),
    /// For the K-quants.
    K(Vec<<BlockQ4K as GgmlType>::VecDotType>),
}

impl BlockRows {
    /// Quantise rows (`rows × inputs`) for a matrix.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn of(matrix: &Blocks, x: &[f32]) -> Self {
        match matrix {
            Blocks::Q4_0(_) => Self::Q4_0(quantized(x)),
            Blocks::Q4K(_) | Blocks::Q5K(_) | Blocks::Q6K(_) => Self::K(quantized(x)),
        }
    }
}

fn quantized<T: GgmlType>(x: &[f32]) -> Vec<T> {
    assert!(x.len().is_multiple_of(T::BLCK_SIZE), "the rows are not whole blocks");
    let mut blocks = vec![T::zeros(); x.len() / T::BLCK_SIZE];
    T::from_float(x, &mut blocks);
    blocks
}

/// Some columns of `y = x Wᵀ`.
///
/// # Panics
/// If `x` was quantised for another block type, or the operands are shorter than the product.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_blocks(product: &Product, w: &Blocks, x: &BlockRows, y: &DisjointSliceMut<'_>) {
    // SAFETY: the columns are the caller's.
    unsafe {
        match (w, x) {
            (Blocks::Q4_0(w), BlockRows::Q4_0(x)) => dots(product, w, x, y),
            (Blocks::Q4K(w), BlockRows::K(x)) => dots(product, w, x, y),
            (Blocks::Q5K(w), BlockRows::K(x)) => dots(product, w, x, y),
            (Blocks::Q6K(w), BlockRows::K(x)) => dots(product, w, x, y),
            _ => unreachable!("the rows were quantised for another block type"),
        }
    }
}

/// # Safety
/// As [`product_blocks`].
unsafe fn dots<T: GgmlType>(product: &Product, w: &[T], x: &[T::VecDotType], y: &DisjointSliceMut<'_>) {
    let (n, wide, narrow) =
        (product.inputs, product.inputs / T::BLCK_SIZE, product.inputs / T::VecDotType::BLCK_SIZE);
    for o in product.columns.clone() {
        // The column's weights stay in the cache for all rows.
        let w = &w[o * wide..(o + 1) * wide];
        for r in 0..product.rows {
            let dot = T::vec_dot(n, w, &x[r * narrow..(r + 1) * narrow]);
            // SAFETY: the columns are the caller's.
            unsafe { y.set(r * product.outputs + o, dot) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_close_to_those_of_the_matrix() {
        let (inputs, outputs, rows) = (512, 9, 3);
        let wave = |n: usize, k: f32| -> Vec<f32> { (0..n).map(|i| (i as f32 * k).sin()).collect() };
        let (w, x) = (wave(outputs * inputs, 0.37), wave(rows * inputs, 0.11));
        for (mut blocks, bits) in [
            (Blocks::Q4_0(vec![]), 4.5),
            (Blocks::Q4K(vec![]), 4.5),
            (Blocks::Q5K(vec![]), 5.5),
            (Blocks::Q6K(vec![]), 6.5625),
        ] {
            blocks.reserve(w.len());
            // In two chunks, as a matrix is read.
            blocks.push(&w[..2 * inputs]);
            blocks.push(&w[2 * inputs..]);
            assert_eq!(blocks.bytes() as f64 * 8.0, bits * w.len() as f64);
            let (bytes, values) = blocks.shape();
            assert_eq!(blocks.bytes(), w.len() / values * bytes);
            let mut y = vec![0f32; rows * outputs];
            let product = Product { inputs, outputs, rows, columns: 0..outputs };
            // SAFETY: one call at a time.
            unsafe {
                product_blocks(&product, &blocks, &BlockRows::of(&blocks, &x), &DisjointSliceMut::new(&mut y))
            };
            for (at, y) in y.iter().enumerate() {
                let (r, o) = (at / outputs, at % outputs);
                let exact: f32 = (0..inputs).map(|i| w[o * inputs + i] * x[r * inputs + i]).sum();
                // The rounding errors of 4 bits add up like a random walk.
                assert!((y - exact).abs() < 4.0, "{bits} bits: {y} {exact}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "quantised for another block type")]
    fn rows_of_another_block_type_panic() {
        let mut blocks = Blocks::Q4K(vec![]);
        blocks.push(&[1.0; 256]);
        let product = Product { inputs: 256, outputs: 1, rows: 1, columns: 0..1 };
        let x = BlockRows::of(&Blocks::Q4_0(vec![]), &[1.0; 256]);
        // SAFETY: one call at a time.
        unsafe { product_blocks(&product, &blocks, &x, &DisjointSliceMut::new(&mut [0.0])) };
    }

    #[test]
    #[should_panic(expected = "not whole blocks")]
    fn a_part_of_a_block_panics() {
        Blocks::Q4K(vec![]).push(&[1.0; 100]);
    }
}
