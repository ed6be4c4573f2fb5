//! Input rows of matrices in quantised forms.

use std::ops::BitOr;

use super::{
    kernels::{self, BlockRows, DisjointBlocksMut, DisjointRowsK, Rows8, RowsK, WIDE},
    thread_pool::ThreadPool,
};

/// The quantised forms of its input rows that a matrix needs, beside f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    /// 8-bit blocks of 32.
    pub q8: bool,
    /// 8-bit blocks of 256.
    pub k: bool,
}

impl Forms {
    /// True if some form is needed.
    pub fn any(self) -> bool {
        self.q8 || self.k
    }

    /// Values of which every part of a row that is quantised on its own must be a multiple.
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
        Self { q8: self.q8 || other.q8, k: self.k || other.k }
    }
}

/// Input rows in quantised forms; the buffers are kept between calls.
#[derive(Default)]
pub struct QuantizedRows {
    q8: Rows8,
    k: RowsK,
}

impl QuantizedRows {
    /// Quantise rows of finite values. Panics if they are not whole blocks.
    pub fn quantize(&mut self, forms: Forms, x: &[f32]) {
        let rows = self.resize(forms, x.len());
        let chunk = 4096 * forms.block();
        let unit = |i: usize| {
            let at = i * chunk;
            // SAFETY: each unit has values of its own.
            unsafe { rows.quantize(at, &x[at..(at + chunk).min(x.len())]) };
        };
        match x.len().div_ceil(chunk) {
            0 | 1 => unit(0),
            units => ThreadPool::global().run(units, &unit),
        }
    }

    pub(super) fn blocks(&self) -> BlockRows<'_> {
        BlockRows { q8: &self.q8, k: &self.k }
    }

    /// Resize to `values` values, to be quantised part by part. Panics if they are not whole blocks.
    pub fn resize(&mut self, forms: Forms, values: usize) -> DisjointRowsMut<'_> {
        DisjointRowsMut {
            q8: forms.q8.then(|| self.q8.resize(values)),
            k: forms.k.then(|| self.k.resize(values)),
        }
    }
}

/// Rows that the units of one job quantise at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointRowsMut<'a> {
    q8: Option<DisjointBlocksMut<'a>>,
    k: Option<DisjointRowsK<'a>>,
}

impl DisjointRowsMut<'_> {
    /// Quantise `x` to the values from `at` on. Panics if `at` and `x` are not multiples of [`Forms::block`] within the rows.
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
}
