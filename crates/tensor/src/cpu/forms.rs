//! Input rows of matrices in quantized forms.

use std::ops::BitOr;

use super::{
    kernels::{self, BlockRows, DisjointBlocksMut, DisjointRowsK, Rows8, RowsK, WIDE},
    thread_pool::{ThreadPool, each_row},
};

/// The quantized forms of its input rows that a matrix needs besides f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// 8-bit blocks of 32.
    pub q8: bool,
    /// 8-bit blocks of 256.
    pub k: bool,
    /// The outliers of the blocks of 32 are apart; only if all products with them take them so.
    pub outliers: bool,
}

impl Forms {
    /// True if some form is needed.
    pub fn any(self) -> bool {
        self.q8 || self.k
    }

    /// Values of which every part of a row that is quantized on its own must be a multiple.
    pub fn block(self) -> usize {
        match self {
            Forms { k: true, .. } => WIDE,
            Forms { q8: true, .. } => kernels::BLOCK,
            _ => 1,
        }
    }
}

impl BitOr for Forms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        let outliers = match (self.q8, other.q8) {
            (true, true) => self.outliers && other.outliers,
            _ => self.outliers || other.outliers,
        };
        Self { q8: self.q8 || other.q8, k: self.k || other.k, outliers }
    }
}

/// Input rows in quantized forms; the buffers are kept between calls.
#[derive(Default)]
pub struct QuantizedRows {
    q8: Rows8,
    k: RowsK,
}

impl QuantizedRows {
    /// Quantize rows of finite values. Panics if they are not whole blocks.
    pub fn quantize(&mut self, forms: Forms, x: &[f32], rows: usize) {
        let quantized = self.resize(forms, rows, x.len() / rows.max(1));
        let chunk = 4096 * forms.block();
        let unit = |i: usize| {
            let at = i * chunk;
            // SAFETY: each unit has values of its own.
            unsafe { quantized.quantize(at, &x[at..(at + chunk).min(x.len())]) };
        };
        match x.len().div_ceil(chunk) {
            0 | 1 => unit(0),
            units => ThreadPool::global().run(units, &unit),
        }
        quantized.finish(x, rows);
    }

    pub(super) fn blocks(&self) -> BlockRows<'_> {
        BlockRows { q8: &self.q8, k: &self.k }
    }

    /// Resize to `rows × width` values, to be quantized part by part and then finished. Panics if rows are not whole blocks.
    pub fn resize(&mut self, forms: Forms, rows: usize, width: usize) -> DisjointRowsMut<'_> {
        DisjointRowsMut {
            q8: forms.q8.then(|| self.q8.resize(rows, width, forms.outliers)),
            k: forms.k.then(|| self.k.resize(rows * width)),
        }
    }
}

/// Rows that the units of one job quantize at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointRowsMut<'a> {
    q8: Option<DisjointBlocksMut<'a>>,
    k: Option<DisjointRowsK<'a>>,
}

impl DisjointRowsMut<'_> {
    /// Quantize `x` to the values from `at` on. Panics if `at` and `x` are not multiples of [`Forms::block`] within the rows.
    ///
    /// # Safety
    /// No two units may use overlapping places at the same time.
    pub unsafe fn quantize(&self, at: usize, x: &[f32]) {
        // SAFETY: the caller's places are disjoint.
        unsafe {
            if let Some(rows) = &self.q8 {
                rows.quantize(at, x);
            }
            if let Some(rows) = &self.k {
                rows.quantize(at, x);
            }
        }
    }
    /// Split off the outliers of all rows of `x`, if they are to be apart: once all parts are quantized.
    pub fn finish(&self, x: &[f32], rows: usize) {
        let Some(blocks) = self.q8.filter(DisjointBlocksMut::has_outliers) else { return };
        let width = x.len() / rows;
        // SAFETY: each row belongs to one unit.
        each_row(rows, width, &|r| unsafe { blocks.split_outliers(r, &x[r * width..][..width]) });
    }
}
