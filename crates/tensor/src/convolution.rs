//! Convolutions over the rows of a block, of which each row corrects its own taps (DFlash 2).
//!
//! A sublayer has two: one of what enters it, and one of what it gives. With the taps `b` that all rows share and the corrections
//! `d` of a row,
//!
//! ```text
//! out[i][c] = Σ_t (b[t][c] + d[i][t][c / group]) · x[i − t][c]
//! ```
//!
//! where rows before the block's first are zero. A row's corrections are a linear function of the row that enters the sublayer.

use serde::{Deserialize, Serialize};

/// The sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConvolutionShape {
    /// Rows that are mixed: a row and those before it.
    pub taps: usize,
    /// Neighboring values of a row that share a correction.
    pub group: usize,
}

impl ConvolutionShape {
    /// A row's corrections of both convolutions of a sublayer, for rows of `width` values.
    pub fn corrections(self, width: usize) -> usize {
        2 * self.taps * (width / self.group.max(1))
    }
}

/// Which of a sublayer's convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of what enters it.
    Before,
    /// Of what it gives.
    After,
}

/// The convolutions of a sublayer.
#[derive(Debug)]
pub struct Convolution<V> {
    pub shape: ConvolutionShape,
    /// Values of a row, a multiple of the group.
    pub width: usize,
    /// The taps that all rows share, `2 × taps × width`.
    pub shared: V,
}

impl<V> Convolution<V> {
    /// The place of a side's first shared tap, and of its first correction in a row of them.
    pub(crate) fn first(&self, side: Side) -> [usize; 2] {
        let (taps, after) = (self.shape.taps, usize::from(side == Side::After));
        [after * taps * self.width, after * taps * (self.width / self.shape.group)]
    }
}

/// Row `row` of the convolved rows `x` (`rows × width`), written to `out`.
pub(crate) fn convolve_row(
    convolution: &Convolution<Vec<f32>>,
    side: Side,
    x: &[f32],
    corrections: &[f32],
    row: usize,
    out: &mut [f32],
) {
    let Convolution { shape: ConvolutionShape { taps, group }, width, ref shared } = *convolution;
    let ([first, own], groups) = (convolution.first(side), width / group);
    let corrections = &corrections[row * 2 * taps * groups..][own..];
    out.fill(0.0);
    for tap in 0..taps.min(row + 1) {
        let shared = shared[first + tap * width..][..width].chunks_exact(group);
        let x = x[(row - tap) * width..][..width].chunks_exact(group);
        let out = out.chunks_exact_mut(group);
        for (((out, x), shared), correction) in out.zip(x).zip(shared).zip(&corrections[tap * groups..]) {
            for ((out, x), shared) in out.iter_mut().zip(x).zip(shared) {
                *out += (shared + correction) * x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_mixed_with_those_before_it_by_its_own_taps() {
        let shape = ConvolutionShape { taps: 2, group: 2 };
        // Before: taps 1 and 0; after: 0.5 and 0.25, of the third value 8.
        let after = [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 8.0, 0.25];
        let shared = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0].into_iter().chain(after).collect();
        let convolution = Convolution { shape, width: 4, shared };
        let x = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
        let mut corrections = vec![0f32; 2 * shape.corrections(4)];
        assert_eq!(corrections.len(), 16);
        // Of the second row: before, tap 1 of the second group; after, tap 0 of the first one.
        (corrections[8 + 3], corrections[8 + 4]) = (100.0, 1.0);
        let rows = |side| {
            let mut out = vec![f32::NAN; 8];
            for (row, out) in out.chunks_exact_mut(4).enumerate() {
                convolve_row(&convolution, side, &x, &corrections, row, out);
            }
            out
        };
        assert_eq!(rows(Side::Before), [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 330.0, 440.0]);
        assert_eq!(rows(Side::After), [0.5, 1.0, 1.5, 2.0, 15.25, 30.5, 39.0, 21.0]);
    }
}
