//! Matrices and rows of 8-bit blocks (q8_0: 32 integers and one scale), and their product.

use std::sync::Arc;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::int8::{self, Int8};
use super::{
    BLOCK, DisjointSliceMut, Product, has_avx512,
    outliers::{DisjointOutliers, Outliers},
    portable,
};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512, has_avx2};
use crate::store::{FileMap, SharedValues};

/// Outputs of a panel.
pub(super) const PANEL: usize = 16;

/// Rows of 8-bit blocks: `quants` in blocks of [`BLOCK`], one scale per block.
#[derive(Clone, Copy)]
pub(super) struct Q8<'a> {
    /// Signed values, -127 to 127.
    pub quants: &'a [i8],
    pub scales: &'a [f32],
}

/// True if matrices are arranged in panels on this processor.
fn in_panels() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    return has_avx512() || Int8::detect().is_some();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// What is added to the integers in panels: the dot products of x86-64 take unsigned ones. 128 turns the sign bit.
const OFFSET: u8 = if cfg!(target_arch = "x86_64") { 128 } else { 0 };

/// Weights in the layout of the vector implementations, see [`int8`].
#[derive(Clone)]
pub(super) struct Panels {
    /// Panel, block, group of four inputs, output, input: values plus [`OFFSET`].
    pub quants: SharedValues<u8>,
    /// Panel, block, output.
    pub scales: SharedValues<f32>,
    pub blocks: usize,
}

impl Panels {
    /// Panels with scales of zero.
    fn empty(outputs: usize, inputs: usize) -> Self {
        let (panels, blocks) = (outputs.div_ceil(PANEL), inputs / BLOCK);
        let quants = SharedValues::zeros(panels * blocks * PANEL * BLOCK);
        Self { quants, scales: SharedValues::zeros(panels * blocks * PANEL), blocks }
    }

    /// Rearrange rows; padding outputs of the last panel have scales of zero.
    #[cfg(test)]
    fn new(rows: Q8<'_>, outputs: usize, inputs: usize) -> Self {
        let mut panels = Self::empty(outputs, inputs);
        let (quants, scales) =
            (DisjointSliceMut::new(panels.quants.owned()), DisjointSliceMut::new(panels.scales.owned()));
        // SAFETY: one call at a time.
        unsafe { store_panels(&quants, &scales, inputs / BLOCK, 0, rows) };
        panels
    }
}

/// Store the rows of the outputs from `first` on.
///
/// # Safety
/// No other call may store the same outputs at the same time.
unsafe fn store_panels(
    quants: &DisjointSliceMut<'_, u8>,
    scales: &DisjointSliceMut<'_, f32>,
    blocks: usize,
    first: usize,
    rows: Q8<'_>,
) {
    let row = blocks * BLOCK;
    let count = rows.scales.len() / blocks.max(1);
    let mut from = 0;
    while from < count {
        let (panel, lane) = ((first + from) / PANEL, (first + from) % PANEL);
        let lanes = (PANEL - lane).min(count - from);
        for b in 0..blocks {
            let at = panel * blocks + b;
            for i in 0..lanes {
                let source = (from + i) * row + b * BLOCK;
                let source = rows.quants[source..source + BLOCK].as_chunks::<4>().0;
                for (group, four) in source.iter().enumerate() {
                    let to = (at * (BLOCK / 4) + group) * 4 * PANEL + (lane + i) * 4;
                    // SAFETY: these outputs are the caller's.
                    let to = unsafe { quants.slice(to, 4) };
                    to.copy_from_slice(&four.map(|q| q.cast_unsigned() ^ OFFSET));
                }
            }
            // SAFETY: as above.
            let scales = unsafe { scales.slice(at * PANEL + lane, lanes) };
            for (i, scale) in scales.iter_mut().enumerate() {
                *scale = rows.scales[(from + i) * blocks + b];
            }
        }
        from += lanes;
    }
}

/// A matrix of 8-bit blocks in the layout of the implementation in use. Clones share the weights.
#[derive(Clone)]
pub struct Weights8(Layout);

#[derive(Clone)]
enum Layout {
    Rows { quants: SharedValues<i8>, scales: SharedValues<f32> },
    Panels(Panels),
}

/// Rows of a matrix that several threads fill at disjoint places.
pub struct Weights8Mut<'a>(Places<'a>);

enum Places<'a> {
    Rows { quants: DisjointSliceMut<'a, i8>, scales: DisjointSliceMut<'a, f32> },
    Panels { quants: DisjointSliceMut<'a, u8>, scales: DisjointSliceMut<'a, f32>, blocks: usize },
}

impl Weights8Mut<'_> {
    /// Quantize and store the rows of the outputs from `first` on, row-major, `inputs` values each. Panics if they are not whole
    /// rows of the matrix.
    ///
    /// # Safety
    /// No other call may store the same outputs at the same time.
    pub unsafe fn store(&self, first: usize, weight: &[f32], inputs: usize) {
        assert!(weight.len().is_multiple_of(inputs.max(1)), "the values are not whole rows");
        let blocks = weight.len() / BLOCK;
        match &self.0 {
            Places::Rows { quants, scales } => {
                let (at, block) = (first * inputs, first * inputs / BLOCK);
                // SAFETY: these outputs are the caller's.
                let (quants, scales) =
                    unsafe { (quants.slice(at, weight.len()), scales.slice(block, blocks)) };
                quantize_q8(weight, quants, scales);
            }
            Places::Panels { quants, scales, blocks: width } => {
                assert!(inputs == width * BLOCK, "the rows have another width than the matrix");
                let (mut q, mut d) = (vec![0i8; weight.len()], vec![0f32; blocks]);
                quantize_q8(weight, &mut q, &mut d);
                // SAFETY: as above.
                unsafe { store_panels(quants, scales, *width, first, Q8 { quants: &q, scales: &d }) };
            }
        }
    }
}

impl Weights8 {
    /// Name of the layout on this processor. A change of the layout changes its name: weights are kept in files.
    pub fn layout() -> &'static str {
        match (in_panels(), OFFSET) {
            (true, 0) => "signed panels of 16",
            (true, _) => "panels of 16",
            (false, _) => "rows",
        }
    }

    /// A zero matrix of `outputs × inputs`. Panics if `inputs` is not a multiple of [`BLOCK`].
    pub fn empty(outputs: usize, inputs: usize) -> Self {
        assert!(inputs.is_multiple_of(BLOCK), "rows are not whole blocks");
        if in_panels() {
            return Self(Layout::Panels(Panels::empty(outputs, inputs)));
        }
        let (quants, scales) =
            (SharedValues::zeros(outputs * inputs), SharedValues::zeros(outputs * inputs / BLOCK));
        Self(Layout::Rows { quants, scales })
    }

    /// The matrix of `outputs × inputs` whose [`Weights8::arrays`] are at these places of a file; `None` if they are not in it, or
    /// have another size.
    pub fn mapped(
        map: &Arc<FileMap>,
        places: [(usize, usize); 2],
        outputs: usize,
        inputs: usize,
    ) -> Option<Self> {
        let [(quants, count), (scales, scale_bytes)] = places;
        let scale_count = scale_bytes / size_of::<f32>();
        if count != scale_count.checked_mul(BLOCK)? || !scale_bytes.is_multiple_of(size_of::<f32>()) {
            return None;
        }
        let scales = SharedValues::mapped(map, scales, scale_count)?;
        let layout = if in_panels() {
            let quants = SharedValues::mapped(map, quants, count)?;
            Layout::Panels(Panels { quants, scales, blocks: inputs / BLOCK })
        } else {
            Layout::Rows { quants: SharedValues::mapped(map, quants, count)?, scales }
        };
        Some(Self(layout)).filter(|weights| weights.is(outputs, inputs))
    }

    /// Quants and scales as bytes, in the layout of this processor.
    pub fn arrays(&self) -> [&[u8]; 2] {
        match &self.0 {
            Layout::Rows { quants, scales } => [quants.as_bytes(), scales.as_bytes()],
            Layout::Panels(panels) => [panels.quants.as_bytes(), panels.scales.as_bytes()],
        }
    }

    /// True if the weights are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        match &self.0 {
            Layout::Rows { quants, .. } => quants.is_mapped(),
            Layout::Panels(panels) => panels.quants.is_mapped(),
        }
    }

    /// The places of all rows, to be filled by several threads. Panics if the weights are mapped, or shared.
    pub fn places(&mut self) -> Weights8Mut<'_> {
        Weights8Mut(match &mut self.0 {
            Layout::Rows { quants, scales } => Places::Rows {
                quants: DisjointSliceMut::new(quants.owned()),
                scales: DisjointSliceMut::new(scales.owned()),
            },
            Layout::Panels(Panels { quants, scales, blocks }) => Places::Panels {
                quants: DisjointSliceMut::new(quants.owned()),
                scales: DisjointSliceMut::new(scales.owned()),
                blocks: *blocks,
            },
        })
    }

    /// Quantize and store the rows of the outputs from `first` on, row-major, `inputs` values each. Panics if they are not whole
    /// rows of the matrix.
    pub fn store(&mut self, first: usize, weight: &[f32], inputs: usize) {
        // SAFETY: one call at a time.
        unsafe { self.places().store(first, weight, inputs) };
    }

    /// Bytes of a matrix of `outputs × inputs`.
    pub(crate) fn bytes_of(outputs: usize, inputs: usize) -> usize {
        let outputs = if in_panels() { outputs.next_multiple_of(PANEL) } else { outputs };
        outputs * inputs / BLOCK * (BLOCK + size_of::<f32>())
    }

    pub fn bytes(&self) -> usize {
        match &self.0 {
            Layout::Rows { quants, scales } => quants.len() + scales.len() * 4,
            Layout::Panels(panels) => panels.quants.len() + panels.scales.len() * 4,
        }
    }

    fn values(&self) -> usize {
        match &self.0 {
            Layout::Rows { quants, .. } => quants.len(),
            Layout::Panels(panels) => panels.quants.len(),
        }
    }

    /// True if this is a matrix of `outputs × inputs`.
    pub fn is(&self, outputs: usize, inputs: usize) -> bool {
        match &self.0 {
            Layout::Rows { quants, .. } => Some(quants.len()) == outputs.checked_mul(inputs),
            Layout::Panels(panels) => {
                panels.blocks * BLOCK == inputs
                    && Some(panels.quants.len()) == outputs.next_multiple_of(PANEL).checked_mul(inputs)
            }
        }
    }
}

/// Input rows of 8-bit blocks; the buffers are kept between calls.
#[derive(Default)]
pub struct Rows8 {
    pub(super) quants: Vec<i8>,
    pub(super) scales: Vec<f32>,
    /// -128 times the sum of each block, which cancels the offset of the panels' weights.
    pub(super) offsets: Vec<i32>,
    /// Values that are apart from the blocks.
    pub(super) outliers: Outliers,
}

impl Rows8 {
    /// Quantize finite values. Panics if they are not whole blocks.
    #[cfg(test)]
    pub fn quantize(&mut self, x: &[f32]) {
        // SAFETY: one call at a time.
        unsafe { self.resize(1, x.len(), false).quantize(0, x) };
    }

    /// Quantize rows of `width` finite values, and split off their outliers. Panics if they are not whole blocks.
    #[cfg(test)]
    pub fn quantize_split(&mut self, x: &[f32], width: usize) {
        let blocks = self.resize(x.len() / width, width, true);
        // SAFETY: one call at a time.
        unsafe {
            blocks.quantize(0, x);
            x.chunks_exact(width).enumerate().for_each(|(r, x)| blocks.split_outliers(r, x));
        }
    }

    /// Resize to `rows × width` values, to be quantized part by part; then, if `split`, the outliers of every row must be split
    /// off. Panics if rows are not whole blocks.
    pub fn resize(&mut self, rows: usize, width: usize, split: bool) -> DisjointBlocksMut<'_> {
        assert!(width.is_multiple_of(BLOCK), "rows are not whole blocks");
        let values = rows * width;
        self.quants.resize(values, 0);
        self.scales.resize(values / BLOCK, 0.0);
        self.offsets.resize(values / BLOCK, 0);
        DisjointBlocksMut {
            quants: DisjointSliceMut::new(&mut self.quants),
            scales: DisjointSliceMut::new(&mut self.scales),
            offsets: DisjointSliceMut::new(&mut self.offsets),
            outliers: self.outliers.resize(rows, width, split),
        }
    }
}

/// Rows that the units of one job quantize at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointBlocksMut<'a> {
    quants: DisjointSliceMut<'a, i8>,
    scales: DisjointSliceMut<'a, f32>,
    offsets: DisjointSliceMut<'a, i32>,
    outliers: DisjointOutliers<'a>,
}

impl DisjointBlocksMut<'_> {
    /// True if rows have outliers to be split off.
    pub fn has_outliers(&self) -> bool {
        !self.outliers.is_empty()
    }

    /// Split off the outliers of row `r`, `x`, whose blocks are quantized.
    ///
    /// # Safety
    /// No other unit may use the row at the same time.
    pub unsafe fn split_outliers(&self, r: usize, x: &[f32]) {
        // SAFETY: the row is the caller's.
        unsafe { self.outliers.split(self, r, x) };
    }

    /// The scales of some blocks.
    ///
    /// # Safety
    /// No other unit may use the blocks at the same time.
    pub(super) unsafe fn scales_at(&self, block: usize, count: usize) -> &[f32] {
        // SAFETY: the blocks are the caller's.
        unsafe { self.scales.slice(block, count) }
    }

    /// Quantize `x` to the values from `at` on. Panics if `at` and `x` are not whole blocks within the rows.
    ///
    /// # Safety
    /// No two units may use overlapping places at the same time.
    pub unsafe fn quantize(&self, at: usize, x: &[f32]) {
        assert!(at.is_multiple_of(BLOCK) && x.len().is_multiple_of(BLOCK), "not whole blocks of the rows");
        let (block, blocks) = (at / BLOCK, x.len() / BLOCK);
        // SAFETY: the caller's places are disjoint.
        let (quants, scales, offsets) = unsafe {
            (
                self.quants.slice(at, x.len()),
                self.scales.slice(block, blocks),
                self.offsets.slice(block, blocks),
            )
        };
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features were detected, and the slices hold the same number of blocks.
            return unsafe { avx512::quantize_q8(x, quants, scales, offsets) };
        }
        quantize_q8(x, quants, scales);
        for (offset, quants) in offsets.iter_mut().zip(quants.chunks_exact(BLOCK)) {
            *offset = -128 * quants.iter().map(|&q| i32::from(q)).sum::<i32>();
        }
    }
}

/// Some columns of `y = x Wᵀ` of 8-bit blocks.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_q8(product: &Product, w: &Weights8, x: &Rows8, y: &DisjointSliceMut<'_>) {
    product.check(w.values(), x.quants.len());
    x.outliers.check(product.rows, product.inputs);
    let (quants, scales) = match &w.0 {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        Layout::Panels(panels) => {
            assert!(panels.blocks == product.inputs / BLOCK, "the matrix has another width than the product");
            // SAFETY: the features were detected; the operands were checked.
            unsafe {
                match Int8::detect() {
                    #[cfg(target_arch = "x86_64")]
                    _ if has_avx512() => avx512::product_q8(product, panels, x, y),
                    Some(int8) => int8::product_q8(int8, product, panels, x, y),
                    None => unreachable!("panels are made for vectors only"),
                }
            }
            return;
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        Layout::Panels(_) => unreachable!("panels are made for vectors only"),
        Layout::Rows { quants, scales } => (quants, scales),
    };
    let (w, blocks) = (Q8 { quants, scales }, Q8 { quants: &x.quants, scales: &x.scales });
    let inputs = product.inputs;
    let dot = |o: usize, r: usize| {
        let sum = portable::dot_q8(w, o, blocks, r, inputs / BLOCK);
        x.outliers.of(r).fold(sum, |sum, (column, value)| {
            let at = o * inputs + column;
            (f32::from(quants[at]) * scales[at / BLOCK]).mul_add(value, sum)
        })
    };
    // SAFETY: the columns are the caller's.
    unsafe { product.each(y, dot) };
}

/// Quantize to blocks of [`BLOCK`]: scale = max |x| / 127, values rounded to nearest (ties to even).
///
/// `x` holds whole blocks of finite values, `quants` as many values, `scales` one value per block. Panics if the lengths do not
/// agree.
#[inline]
pub fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
    assert!(x.len() == quants.len() && x.len() == scales.len() * BLOCK, "values and blocks differ in length");
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, and the assertion above bounds every access.
        return unsafe { avx2::quantize_q8(x, quants, scales) };
    }
    portable::quantize_q8(x, quants, scales);
}

#[cfg(test)]
mod tests;
