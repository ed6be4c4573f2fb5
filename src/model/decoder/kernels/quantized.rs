//! Matrices and rows of 8-bit blocks (q8_0: 32 integers and one scale), and their product.

use super::{BLOCK, DisjointSliceMut, Product, has_avx512, portable};
#[cfg(target_arch = "x86_64")]
use super::{
    avx2, avx512, has_avx2,
    int8::{self, Int8},
};
use crate::model::store::Store;

/// Outputs of a panel.
pub(super) const PANEL: usize = 16;

/// Rows of 8-bit blocks: `quants` in blocks of [`BLOCK`], one scale per block.
#[derive(Clone, Copy)]
pub(super) struct Q8<'a> {
    /// Signed values, -127 to 127.
    pub quants: &'a [i8],
    /// One scale per block.
    pub scales: &'a [f32],
}

/// True if matrices are arranged in panels on this processor.
fn in_panels() -> bool {
    #[cfg(target_arch = "x86_64")]
    return has_avx512() || Int8::detect().is_some();
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Weights in the layout of the implementations for x86-64, see [`avx512`].
pub(super) struct Panels {
    /// Panel, block, group of four inputs, output, input: values offset by 128.
    pub quants: Store<u8>,
    /// Panel, block, output.
    pub scales: Store<f32>,
    /// Blocks per output.
    pub blocks: usize,
}

impl Panels {
    /// Panels of zeros.
    fn empty(outputs: usize, inputs: usize) -> Self {
        let (panels, blocks) = (outputs.div_ceil(PANEL), inputs / BLOCK);
        let (quants, scales) =
            (vec![128u8; panels * blocks * PANEL * BLOCK], vec![0f32; panels * blocks * PANEL]);
        Self { quants: quants.into(), scales: scales.into(), blocks }
    }

    /// Store the rows of the outputs from `first` on.
    fn store(&mut self, first: usize, rows: Q8<'_>) {
        let blocks = self.blocks;
        let (quants, scales) = (self.quants.owned(), self.scales.owned());
        for row in 0..rows.scales.len() / blocks.max(1) {
            let (panel, lane) = ((first + row) / PANEL, (first + row) % PANEL);
            for b in 0..blocks {
                scales[(panel * blocks + b) * PANEL + lane] = rows.scales[row * blocks + b];
                for i in 0..BLOCK {
                    let at = ((panel * blocks + b) * (BLOCK / 4) + i / 4) * 4 * PANEL + lane * 4 + i % 4;
                    quants[at] = (i16::from(rows.quants[(row * blocks + b) * BLOCK + i]) + 128) as u8;
                }
            }
        }
    }

    /// Rearrange rows; padding outputs of the last panel are zero.
    #[cfg(test)]
    fn new(rows: Q8<'_>, outputs: usize, inputs: usize) -> Self {
        let mut panels = Self::empty(outputs, inputs);
        panels.store(0, rows);
        panels
    }
}

/// A matrix of 8-bit blocks in the layout of the implementation in use.
pub struct Weights8(Layout);

enum Layout {
    Rows { quants: Store<i8>, scales: Store<f32> },
    Panels(Panels),
}

impl Weights8 {
    /// A zero matrix of `outputs × inputs`.
    ///
    /// # Panics
    /// If `inputs` is not a multiple of [`BLOCK`].
    pub fn empty(outputs: usize, inputs: usize) -> Self {
        assert!(inputs.is_multiple_of(BLOCK), "rows are not whole blocks");
        if in_panels() {
            return Self(Layout::Panels(Panels::empty(outputs, inputs)));
        }
        let (quants, scales) = (vec![0i8; outputs * inputs], vec![0f32; outputs * inputs / BLOCK]);
        Self(Layout::Rows { quants: quants.into(), scales: scales.into() })
    }

    /// Quantise and store the rows of the outputs from `first` on, row-major, `inputs` values each.
    ///
    /// # Panics
    /// If they are not whole rows of the matrix.
    pub fn store(&mut self, first: usize, weight: &[f32], inputs: usize) {
        assert!(weight.len().is_multiple_of(inputs.max(1)), "the values are not whole rows");
        let (at, block) = (first * inputs, first * inputs / BLOCK);
        let blocks = weight.len() / BLOCK;
        match &mut self.0 {
            Layout::Rows { quants, scales } => {
                let (quants, scales) = (quants.owned(), scales.owned());
                quantize_q8(weight, &mut quants[at..at + weight.len()], &mut scales[block..block + blocks]);
            }
            Layout::Panels(panels) => {
                assert!(inputs == panels.blocks * BLOCK, "the rows have another width than the matrix");
                let (mut quants, mut scales) = (vec![0i8; weight.len()], vec![0f32; blocks]);
                quantize_q8(weight, &mut quants, &mut scales);
                panels.store(first, Q8 { quants: &quants, scales: &scales });
            }
        }
    }

    /// Bytes of a matrix of `outputs × inputs`.
    pub fn bytes_of(outputs: usize, inputs: usize) -> usize {
        let outputs = if in_panels() { outputs.next_multiple_of(PANEL) } else { outputs };
        outputs * inputs / BLOCK * (BLOCK + size_of::<f32>())
    }

    /// Size in bytes.
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
}

impl Rows8 {
    /// Quantise rows of finite values.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn quantize(&mut self, x: &[f32]) {
        let blocks = self.resize(x.len());
        // SAFETY: one call at a time.
        unsafe { blocks.quantize(0, x) };
    }

    /// Resize to `values` values, to be quantised part by part.
    ///
    /// # Panics
    /// If they are not whole blocks.
    pub fn resize(&mut self, values: usize) -> DisjointBlocksMut<'_> {
        assert!(values.is_multiple_of(BLOCK), "rows are not whole blocks");
        self.quants.resize(values, 0);
        self.scales.resize(values / BLOCK, 0.0);
        self.offsets.resize(values / BLOCK, 0);
        DisjointBlocksMut {
            quants: DisjointSliceMut::new(&mut self.quants),
            scales: DisjointSliceMut::new(&mut self.scales),
            offsets: DisjointSliceMut::new(&mut self.offsets),
        }
    }
}

/// Rows that the units of one job quantise at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointBlocksMut<'a> {
    quants: DisjointSliceMut<'a, i8>,
    scales: DisjointSliceMut<'a, f32>,
    offsets: DisjointSliceMut<'a, i32>,
}

impl DisjointBlocksMut<'_> {
    /// Quantise `x` to the values from `at` on.
    ///
    /// # Panics
    /// If `at` and `x` are not whole blocks within the rows.
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
    let (quants, scales) = match &w.0 {
        #[cfg(target_arch = "x86_64")]
        Layout::Panels(panels) => {
            assert!(panels.blocks == product.inputs / BLOCK, "the matrix has another width than the product");
            // SAFETY: the features were detected; the operands were checked.
            unsafe {
                match Int8::detect() {
                    _ if has_avx512() => avx512::product_q8(product, panels, x, y),
                    Some(int8) => int8::product_q8(int8, product, panels, x, y),
                    None => unreachable!("panels are made for AVX-512 and AVX2 only"),
                }
            }
            return;
        }
        #[cfg(not(target_arch = "x86_64"))]
        Layout::Panels(_) => unreachable!("panels are made for AVX-512 and AVX2 only"),
        Layout::Rows { quants, scales } => (quants, scales),
    };
    let (w, x) = (Q8 { quants, scales }, Q8 { quants: &x.quants, scales: &x.scales });
    // SAFETY: the columns are the caller's.
    unsafe { product.each(y, |o, r| portable::dot_q8(w, o, x, r, product.inputs / BLOCK)) };
}

/// Quantise to blocks of [`BLOCK`]: scale = max |x| / 127, values rounded to nearest (ties to even).
///
/// `x` holds whole blocks of finite values, `quants` as many values, `scales` one value per block.
///
/// # Panics
/// If the lengths do not agree.
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
mod tests {
    use super::*;

    fn wave(n: usize, k: f32) -> Vec<f32> {
        (0..n).map(|i| (i as f32 * k).sin()).collect()
    }

    #[test]
    fn all_implementations_quantise_alike() {
        let x = [wave(64, 0.7), vec![0.0; 32], vec![-3.5; 32]].concat();
        let mut got = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
        let mut want = got.clone();
        quantize_q8(&x, &mut got.0, &mut got.1);
        portable::quantize_q8(&x, &mut want.0, &mut want.1);
        assert_eq!(got, want);
        assert_eq!((got.0[96], got.1[2]), (-127, 0.0));
    }

    #[test]
    fn rows_quantised_in_parts_equal_rows_quantised_at_once() {
        let x = [wave(96, 0.3), vec![0.0; 32], vec![2.5; 32]].concat();
        let (mut whole, mut parts) = (Rows8::default(), Rows8::default());
        whole.quantize(&x);
        let blocks = parts.resize(x.len());
        for at in [64, 0, 128] {
            // SAFETY: one call at a time.
            unsafe { blocks.quantize(at, &x[at..(at + 64).min(x.len())]) };
        }
        let mut plain = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
        portable::quantize_q8(&x, &mut plain.0, &mut plain.1);
        assert_eq!((&whole.quants, &whole.scales), (&plain.0, &plain.1));
        assert_eq!(
            (&whole.quants, &whole.scales, &whole.offsets),
            (&parts.quants, &parts.scales, &parts.offsets)
        );
        let sums = whole.quants.chunks(BLOCK).map(|b| -128 * b.iter().map(|&q| i32::from(q)).sum::<i32>());
        assert_eq!(whole.offsets, sums.collect::<Vec<_>>());
    }

    #[test]
    fn products_agree_with_the_dot_products_of_blocks_in_any_layout_and_range_of_columns() {
        for (inputs, outputs) in [(96, 7), (32, 16), (64, 50), (320, 130)] {
            let (w, largest) = (wave(outputs * inputs, 0.37), 27);
            let x = wave(largest * inputs, 0.91);
            let (mut q, mut d) = (vec![0i8; w.len()], vec![0f32; w.len() / BLOCK]);
            quantize_q8(&w, &mut q, &mut d);
            let plain = Q8 { quants: &q, scales: &d };
            let mut layouts =
                vec![Weights8(Layout::Rows { quants: q.clone().into(), scales: d.clone().into() })];
            if in_panels() {
                layouts.push(Weights8(Layout::Panels(Panels::new(plain, outputs, inputs))));
            }
            for weights in &layouts {
                for rows in 1..=largest {
                    let mut x8 = Rows8::default();
                    x8.quantize(&x[..rows * inputs]);
                    let mut y = vec![0f32; rows * outputs];
                    for columns in [0..3, 3..outputs - 1, outputs - 1..outputs] {
                        let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                        // SAFETY: one call at a time.
                        unsafe { product_q8(&product, weights, &x8, &DisjointSliceMut::new(&mut y)) };
                    }
                    let x8 = Q8 { quants: &x8.quants, scales: &x8.scales };
                    for (at, y) in y.iter().enumerate() {
                        let want = portable::dot_q8(plain, at % outputs, x8, at / outputs, inputs / BLOCK);
                        assert!((y - want).abs() < 1e-4, "{inputs} x {outputs}, {rows} rows: {y} {want}");
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn all_implementations_give_the_same_bits() {
        let (inputs, outputs) = (320, 50);
        let (w, x) = (wave(outputs * inputs, 0.37), wave(27 * inputs, 0.91));
        let (mut q, mut d) = (vec![0i8; w.len()], vec![0f32; w.len() / BLOCK]);
        quantize_q8(&w, &mut q, &mut d);
        q[..BLOCK].fill(-127);
        let panels = Panels::new(Q8 { quants: &q, scales: &d }, outputs, inputs);
        for rows in 1..=27 {
            let mut x8 = Rows8::default();
            x8.quantize(&x[..rows * inputs]);
            x8.quants[..BLOCK].fill(-127);
            x8.offsets[0] = 128 * 127 * BLOCK as i32;
            let run = |int8: Option<Int8>| {
                let mut y = vec![0f32; rows * outputs];
                for columns in [0..3, 3..outputs - 1, outputs - 1..outputs] {
                    let product = Product { columns, ..Product::whole(inputs, outputs, rows) };
                    let y = DisjointSliceMut::new(&mut y);
                    // SAFETY: one call at a time; the features were detected.
                    match int8 {
                        Some(int8) => unsafe { int8::product_q8(int8, &product, &panels, &x8, &y) },
                        None => unsafe { avx512::product_q8(&product, &panels, &x8, &y) },
                    }
                }
                y.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let all: Vec<_> = Int8::all().map(Some).chain(has_avx512().then_some(None)).map(run).collect();
            assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "{rows} rows");
        }
    }

    #[test]
    fn rows_of_another_width_panic() {
        let panics = |f: &mut dyn FnMut()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
        let (mut weights, mut x8) = (Weights8::empty(4, 64), Rows8::default());
        assert!(panics(&mut || weights.store(0, &[1.0; 96], 64)), "one row and a half");
        assert!(panics(&mut || weights.store(4, &[1.0; 20 * 64], 64)), "rows after the last output");
        x8.quantize(&[1.0; 64]);
        let mut y = [0.0; 8];
        let mut product = |inputs, rows| {
            let product = Product::whole(inputs, 4, rows);
            // SAFETY: one call at a time.
            panics(&mut || unsafe { product_q8(&product, &weights, &x8, &DisjointSliceMut::new(&mut y)) })
        };
        assert!(product(64, 2), "fewer rows than the product");
        assert!(product(96, 1), "a narrower matrix");
        assert!(!product(64, 1));
        // SAFETY: one call at a time.
        assert!(panics(&mut || unsafe { x8.resize(64).quantize(32, &[1.0; 64]) }), "beyond the last row");
    }
}
