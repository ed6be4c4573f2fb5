//! Matrices and rows of 8-bit blocks (q8_0: 32 whole numbers and one scale), and their product.

use super::{BLOCK, DisjointSliceMut, Product, has_avx512, portable};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512, has_avx2};

/// Outputs that lie together where weights are in panels.
pub(super) const PANEL: usize = 16;

/// Rows of 8-bit blocks: `quants` in blocks of [`BLOCK`], one scale per block.
#[derive(Clone, Copy)]
pub(super) struct Q8<'a> {
    /// Signed values, -127 to 127.
    pub quants: &'a [i8],
    /// One scale per block.
    pub scales: &'a [f32],
}

/// Weights for the AVX-512 path, see [`avx512`].
pub(super) struct Panels {
    /// Panel, block, group of four inputs, output, input: values offset by 128.
    pub quants: Vec<u8>,
    /// Panel, block, output.
    pub scales: Vec<f32>,
    /// Blocks per output.
    pub blocks: usize,
}

impl Panels {
    /// Panels of zeros.
    fn empty(outputs: usize, inputs: usize) -> Self {
        let (panels, blocks) = (outputs.div_ceil(PANEL), inputs / BLOCK);
        let (quants, scales) =
            (vec![128u8; panels * blocks * PANEL * BLOCK], vec![0f32; panels * blocks * PANEL]);
        Self { quants, scales, blocks }
    }

    /// Put the rows of the outputs from `first` on in their places.
    fn put(&mut self, first: usize, rows: Q8<'_>) {
        let blocks = self.blocks;
        for row in 0..rows.scales.len() / blocks.max(1) {
            let (panel, lane) = ((first + row) / PANEL, (first + row) % PANEL);
            for b in 0..blocks {
                self.scales[(panel * blocks + b) * PANEL + lane] = rows.scales[row * blocks + b];
                for i in 0..BLOCK {
                    let at = ((panel * blocks + b) * (BLOCK / 4) + i / 4) * 4 * PANEL + lane * 4 + i % 4;
                    self.quants[at] = (i16::from(rows.quants[(row * blocks + b) * BLOCK + i]) + 128) as u8;
                }
            }
        }
    }

    /// Re-arrange rows; outputs that fill up the last panel are zero.
    #[cfg(test)]
    fn new(rows: Q8<'_>, outputs: usize, inputs: usize) -> Self {
        let mut panels = Self::empty(outputs, inputs);
        panels.put(0, rows);
        panels
    }
}

/// A matrix of 8-bit blocks in the order in which this processor reads it best.
pub struct Weights8(Layout);

enum Layout {
    Rows { quants: Vec<i8>, scales: Vec<f32> },
    Panels(Panels),
}

impl Weights8 {
    /// Room for a matrix of `outputs × inputs`; `inputs` is a multiple of [`BLOCK`].
    pub fn empty(outputs: usize, inputs: usize) -> Self {
        assert!(inputs.is_multiple_of(BLOCK));
        if has_avx512() {
            return Self(Layout::Panels(Panels::empty(outputs, inputs)));
        }
        let (quants, scales) = (vec![0i8; outputs * inputs], vec![0f32; outputs * inputs / BLOCK]);
        Self(Layout::Rows { quants, scales })
    }

    /// Quantise the rows of the outputs from `first` on, row-major, `inputs` values each.
    pub fn put(&mut self, first: usize, weight: &[f32], inputs: usize) {
        let (at, block) = (first * inputs, first * inputs / BLOCK);
        let blocks = weight.len() / BLOCK;
        match &mut self.0 {
            Layout::Rows { quants, scales } => {
                quantize_q8(weight, &mut quants[at..at + weight.len()], &mut scales[block..block + blocks]);
            }
            Layout::Panels(panels) => {
                let (mut quants, mut scales) = (vec![0i8; weight.len()], vec![0f32; blocks]);
                quantize_q8(weight, &mut quants, &mut scales);
                panels.put(first, Q8 { quants: &quants, scales: &scales });
            }
        }
    }

    /// Bytes that such a matrix takes.
    pub fn bytes_of(outputs: usize, inputs: usize) -> usize {
        let outputs = if has_avx512() { outputs.next_multiple_of(PANEL) } else { outputs };
        outputs * inputs / BLOCK * (BLOCK + size_of::<f32>())
    }

    /// Bytes that it takes.
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
}

/// Input rows of 8-bit blocks; the buffers are kept between calls.
#[derive(Default)]
pub struct Rows8 {
    pub(super) quants: Vec<i8>,
    pub(super) scales: Vec<f32>,
    /// -128 times the sum of each block: what the offset of the panels' weights adds, taken back.
    pub(super) offsets: Vec<i32>,
}

impl Rows8 {
    /// Take these values, whole blocks of finite numbers.
    pub fn quantize(&mut self, x: &[f32]) {
        let shards = self.room(x.len());
        // SAFETY: one call at a time.
        unsafe { shards.quantize(0, x) };
    }

    /// Make room for `values` values, whole blocks, that will be put there in pieces.
    pub fn room(&mut self, values: usize) -> DisjointBlocksMut<'_> {
        assert!(values.is_multiple_of(BLOCK));
        self.quants.resize(values, 0);
        self.scales.resize(values / BLOCK, 0.0);
        self.offsets.resize(values / BLOCK, 0);
        DisjointBlocksMut {
            quants: self.quants.as_mut_ptr(),
            scales: self.scales.as_mut_ptr(),
            offsets: self.offsets.as_mut_ptr(),
            values,
            borrow: std::marker::PhantomData,
        }
    }
}

/// Rows that several units of one job fill at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointBlocksMut<'a> {
    quants: *mut i8,
    scales: *mut f32,
    offsets: *mut i32,
    values: usize,
    borrow: std::marker::PhantomData<&'a mut Rows8>,
}

// SAFETY: all access goes through `quantize`, whose contract makes it disjoint.
unsafe impl Sync for DisjointBlocksMut<'_> {}
// SAFETY: as above.
unsafe impl Send for DisjointBlocksMut<'_> {}

impl DisjointBlocksMut<'_> {
    /// Quantise `x` to the place of value `at`; both are whole blocks.
    ///
    /// # Safety
    /// No two units may use overlapping places at the same time.
    pub unsafe fn quantize(&self, at: usize, x: &[f32]) {
        assert!(at.is_multiple_of(BLOCK) && x.len().is_multiple_of(BLOCK) && at + x.len() <= self.values);
        let (block, blocks) = (at / BLOCK, x.len() / BLOCK);
        // SAFETY: within the borrow by the assertion, disjoint by contract.
        let (quants, scales, offsets) = unsafe {
            (
                std::slice::from_raw_parts_mut(self.quants.add(at), x.len()),
                std::slice::from_raw_parts_mut(self.scales.add(block), blocks),
                std::slice::from_raw_parts_mut(self.offsets.add(block), blocks),
            )
        };
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the features were detected, and the slices hold the same number of blocks.
            return unsafe { avx512::quantize_q8(x, quants, scales, offsets) };
        }
        let _ = offsets;
        quantize_q8(x, quants, scales);
    }
}

/// Some columns of `y = x Wᵀ` of 8-bit blocks.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_q8(product: &Product, w: &Weights8, x: &Rows8, y: &DisjointSliceMut<'_>) {
    product.check(w.values(), x.quants.len(), 1);
    let (quants, scales) = match &w.0 {
        #[cfg(target_arch = "x86_64")]
        Layout::Panels(panels) => {
            assert!(x.offsets.len() == x.scales.len() && panels.blocks == product.inputs / BLOCK);
            // SAFETY: panels are only made where the features are there; the operands are as long as the product says.
            unsafe { avx512::product_q8(product, panels, x, y) };
            return;
        }
        #[cfg(not(target_arch = "x86_64"))]
        Layout::Panels(_) => return,
        Layout::Rows { quants, scales } => (quants, scales),
    };
    let (w, x) = (Q8 { quants, scales }, Q8 { quants: &x.quants, scales: &x.scales });
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the features were detected, the operands are as long as the product says, the columns are the caller's.
        unsafe { avx2::product_q8(product, w, x, y) };
        return;
    }
    for r in 0..product.rows {
        for o in product.columns.clone() {
            let dot = portable::dot_q8(w, o, x, r, product.inputs / BLOCK);
            // SAFETY: the columns are the caller's.
            unsafe { y.slice(r * product.outputs + o, 1)[0] = dot };
        }
    }
}

/// Quantise to blocks of [`BLOCK`]: scale = max |x| / 127, values rounded to nearest (ties to even).
///
/// `x` holds whole blocks of finite values, `quants` as many values, `scales` as many scales as there are blocks.
#[inline]
pub fn quantize_q8(x: &[f32], quants: &mut [i8], scales: &mut [f32]) {
    assert!(x.len() == quants.len() && x.len() == scales.len() * BLOCK);
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
    fn quantising_is_the_same_on_all_paths() {
        let x = [wave(64, 0.7), vec![0.0; 32], vec![-3.5; 32]].concat();
        let mut got = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
        let mut want = got.clone();
        quantize_q8(&x, &mut got.0, &mut got.1);
        portable::quantize_q8(&x, &mut want.0, &mut want.1);
        assert_eq!(got, want);
        assert_eq!((got.0[96], got.1[2]), (-127, 0.0));
    }

    #[test]
    fn rows_in_pieces_are_rows_and_know_their_sums() {
        let x = [wave(96, 0.3), vec![0.0; 32], vec![2.5; 32]].concat();
        let (mut whole, mut pieces) = (Rows8::default(), Rows8::default());
        whole.quantize(&x);
        let shards = pieces.room(x.len());
        for at in [64, 0, 128] {
            // SAFETY: one call at a time.
            unsafe { shards.quantize(at, &x[at..(at + 64).min(x.len())]) };
        }
        let mut plain = (vec![0i8; x.len()], vec![0f32; x.len() / BLOCK]);
        portable::quantize_q8(&x, &mut plain.0, &mut plain.1);
        assert_eq!((&whole.quants, &whole.scales), (&plain.0, &plain.1));
        assert_eq!(
            (&whole.quants, &whole.scales, &whole.offsets),
            (&pieces.quants, &pieces.scales, &pieces.offsets)
        );
        if has_avx512() {
            let sums =
                whole.quants.chunks(BLOCK).map(|b| -128 * b.iter().map(|&q| i32::from(q)).sum::<i32>());
            assert_eq!(whole.offsets, sums.collect::<Vec<_>>());
        }
    }

    #[test]
    fn products_are_those_of_the_blocks_in_any_layout_and_range_of_columns() {
        for (inputs, outputs) in [(96, 7), (32, 16), (64, 50), (320, 130)] {
            let (w, largest) = (wave(outputs * inputs, 0.37), 27);
            let x = wave(largest * inputs, 0.91);
            let (mut q, mut d) = (vec![0i8; w.len()], vec![0f32; w.len() / BLOCK]);
            quantize_q8(&w, &mut q, &mut d);
            let plain = Q8 { quants: &q, scales: &d };
            let mut layouts = vec![Weights8(Layout::Rows { quants: q.clone(), scales: d.clone() })];
            if has_avx512() {
                layouts.push(Weights8(Layout::Panels(Panels::new(plain, outputs, inputs))));
            }
            for weights in &layouts {
                for rows in 1..=largest {
                    let mut x8 = Rows8::default();
                    x8.quantize(&x[..rows * inputs]);
                    let mut y = vec![0f32; rows * outputs];
                    for columns in [0..3, 3..outputs - 1, outputs - 1..outputs] {
                        let product = Product { inputs, outputs, rows, columns };
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
}
