//! Matrices of floats in panels, for products of many rows: vision towers.
//!
//! A panel holds 16 outputs, input after input, so that one vector of weights times one broadcast input is added to 16 sums. A
//! 16-bit weight is widened as it is read, once for all rows of a tile. Each sum has one accumulator that takes the inputs in
//! order, for any number of rows in the call.

use std::sync::Arc;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::half::has_vectors;
use super::{DisjointSliceMut, HalfKind, Product};
use crate::store::{FileMap, SharedValues};

/// Outputs of a panel.
const PANEL: usize = 16;

/// A matrix in panels: panel, input, output. Outputs beyond the matrix are zero.
#[derive(Clone)]
pub struct FloatPanels {
    values: Values,
    inputs: usize,
    outputs: usize,
}

#[derive(Clone)]
enum Values {
    F32(SharedValues<f32>),
    Half(HalfKind, SharedValues<u16>),
}

impl FloatPanels {
    /// A zero matrix of `outputs × inputs` floats, of 32 bits or of a 16-bit type.
    pub fn empty(outputs: usize, inputs: usize, kind: Option<HalfKind>) -> Self {
        let values = outputs.next_multiple_of(PANEL) * inputs;
        let values = match kind {
            None => Values::F32(SharedValues::zeros(values)),
            Some(kind) => Values::Half(kind, SharedValues::zeros(values)),
        };
        Self { values, inputs, outputs }
    }

    pub fn bytes(&self) -> usize {
        match &self.values {
            Values::F32(values) => values.len() * 4,
            Values::Half(_, values) => values.len() * 2,
        }
    }

    /// True if this is a matrix of `outputs × inputs`.
    pub fn is(&self, outputs: usize, inputs: usize) -> bool {
        (self.outputs, self.inputs) == (outputs, inputs)
    }

    /// The 16-bit type; `None` for f32.
    pub fn half(&self) -> Option<HalfKind> {
        match &self.values {
            Values::F32(_) => None,
            Values::Half(kind, _) => Some(*kind),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        match &self.values {
            Values::F32(values) => values.as_bytes(),
            Values::Half(_, values) => values.as_bytes(),
        }
    }

    /// The matrix whose [`FloatPanels::as_bytes`] are at a place (first byte, bytes) of a file; `None` if they are not in it, or have
    /// another size.
    pub fn mapped(
        map: &Arc<FileMap>,
        (at, bytes): (usize, usize),
        outputs: usize,
        inputs: usize,
        kind: Option<HalfKind>,
    ) -> Option<Self> {
        let size = if kind.is_some() { 2 } else { 4 };
        let values = outputs.checked_next_multiple_of(PANEL)?.checked_mul(inputs)?;
        if values.checked_mul(size)? != bytes {
            return None;
        }
        let values = match kind {
            None => Values::F32(SharedValues::mapped(map, at, values)?),
            Some(kind) => Values::Half(kind, SharedValues::mapped(map, at, values)?),
        };
        Some(Self { values, inputs, outputs })
    }

    /// True if the values are a part of a mapped file.
    pub fn is_mapped(&self) -> bool {
        match &self.values {
            Values::F32(values) => values.is_mapped(),
            Values::Half(_, values) => values.is_mapped(),
        }
    }

    /// The places of all outputs' weights.
    pub fn places(&mut self) -> FloatPanelsMut<'_> {
        let places = match &mut self.values {
            Values::F32(values) => Places::F32(DisjointSliceMut::new(values.owned())),
            Values::Half(kind, values) => Places::Half(*kind, DisjointSliceMut::new(values.owned())),
        };
        FloatPanelsMut { places, inputs: self.inputs, outputs: self.outputs }
    }
}

/// Rows of a matrix in panels that several threads fill at disjoint places.
pub struct FloatPanelsMut<'a> {
    places: Places<'a>,
    inputs: usize,
    outputs: usize,
}

enum Places<'a> {
    F32(DisjointSliceMut<'a, f32>),
    Half(HalfKind, DisjointSliceMut<'a, u16>),
}

impl FloatPanelsMut<'_> {
    /// Store one output's weights. The error is the first value that is too large for the type. Panics if the matrix lacks the
    /// output or another width.
    ///
    /// # Safety
    /// No other call may store the same output at the same time.
    pub unsafe fn store(&self, output: usize, row: &[f32]) -> Result<(), f32> {
        assert!(output < self.outputs && row.len() == self.inputs, "the matrix lacks this row");
        let start = output / PANEL * self.inputs * PANEL + output % PANEL;
        for (input, &value) in row.iter().enumerate() {
            let at = start + input * PANEL;
            // SAFETY: this output's places are the caller's.
            unsafe {
                match &self.places {
                    Places::F32(values) => values.set(at, value),
                    Places::Half(kind, values) => {
                        let bits = kind.narrow(value);
                        if !kind.widen(bits).is_finite() {
                            return Err(value);
                        }
                        values.set(at, bits);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Some columns of `y = x Wᵀ`, `w` in panels.
///
/// # Safety
/// No other call may write the same columns of `y` at the same time.
pub unsafe fn product_panels(product: &Product, w: &FloatPanels, x: &[f32], y: &DisjointSliceMut<'_>) {
    assert!(w.is(product.outputs, product.inputs), "the matrix has another shape than the product");
    product.check(w.outputs * w.inputs, x.len());
    #[cfg(target_arch = "x86_64")]
    if super::has_avx512() {
        // SAFETY: the features were detected (AVX-512 includes the conversion of f16), the operands were checked, the columns
        // are the caller's.
        unsafe {
            match &w.values {
                Values::F32(w) => avx512::product_f32(product, w, x, y),
                Values::Half(HalfKind::F16, w) => avx512::product_f16(product, w, x, y),
                Values::Half(HalfKind::Bf16, w) => avx512::product_bf16(product, w, x, y),
            }
        }
        return;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if has_vectors(HalfKind::F16) {
        // SAFETY: as above.
        unsafe {
            match &w.values {
                Values::F32(w) => vectorized::product_f32(product, w, x, y),
                Values::Half(HalfKind::F16, w) => vectorized::product_f16(product, w, x, y),
                Values::Half(HalfKind::Bf16, w) => vectorized::product_bf16(product, w, x, y),
            }
        }
        return;
    }
    // SAFETY: the columns are the caller's.
    unsafe { portable(product, &w.values, x, y) };
}

/// SAFETY: as for [`product_panels`], whose checks passed.
unsafe fn portable(product: &Product, w: &Values, x: &[f32], y: &DisjointSliceMut<'_>) {
    let n = product.inputs;
    let mut panel = vec![0f32; n * PANEL];
    for p in product.columns.start / PANEL..product.columns.end.div_ceil(PANEL) {
        let part = p * n * PANEL..(p + 1) * n * PANEL;
        match w {
            Values::F32(w) => panel.copy_from_slice(&w[part]),
            Values::Half(kind, w) => {
                panel.iter_mut().zip(&w[part]).for_each(|(to, &bits)| *to = kind.widen(bits));
            }
        }
        for r in 0..product.rows {
            let mut sums = [0f32; PANEL];
            for (&x, w) in x[r * n..(r + 1) * n].iter().zip(panel.as_chunks::<PANEL>().0) {
                sums.iter_mut().zip(w).for_each(|(sum, w)| *sum = x.mul_add(*w, *sum));
            }
            // SAFETY: the columns are the caller's.
            unsafe { store(product, p, r, &sums, y) };
        }
    }
}

/// Write the columns of panel `p` that belong to the product.
///
/// SAFETY: they are the caller's.
#[inline]
unsafe fn store(product: &Product, p: usize, r: usize, sums: &[f32; PANEL], y: &DisjointSliceMut<'_>) {
    let from = product.columns.start.max(p * PANEL);
    let to = product.columns.end.min((p + 1) * PANEL);
    // SAFETY: the columns are the caller's.
    let y = unsafe { y.slice(product.at(r, from), to - from) };
    y.copy_from_slice(&sums[from - p * PANEL..to - p * PANEL]);
}

/// Defines a product for weights of one type: `$product` walks the tiles, `$tile` sums `P` panels by `R` rows.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! product {
    (
        $product:ident, $tile:ident, $features:literal, $vector:ty, $weight:ty, lanes $lanes:literal, panels $panels:literal,
        rows [$($rows:literal),+], $zero:ident, $splat:ident, $fma:ident, $store:ident, $load:ident
    ) => {
        /// SAFETY: the operands passed [`Product::check`], `w` is in panels; the columns are the caller's.
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        pub unsafe fn $product(product: &Product, w: &[$weight], x: &[f32], y: &DisjointSliceMut<'_>) {
            let (start, end) = (product.columns.start / PANEL, product.columns.end.div_ceil(PANEL));
            let mut p = start;
            while p < end {
                let several = end - p >= $panels;
                let mut r = 0;
                while r < product.rows {
                    let left = product.rows - r;
                    // SAFETY: these panels and rows lie within the product.
                    unsafe {
                        $(if left >= $rows {
                            if several {
                                $tile::<$panels, $rows>(product, w, x, p, r, y);
                            } else {
                                $tile::<1, $rows>(product, w, x, p, r, y);
                            }
                            r += $rows;
                            continue;
                        })+
                    }
                }
                p += if several { $panels } else { 1 };
            }
        }

        /// SAFETY: panels `p..p + P` and rows `r..r + R` lie within the product; the columns are the caller's.
        #[inline]
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
        unsafe fn $tile<const P: usize, const R: usize>(
            product: &Product,
            w: &[$weight],
            x: &[f32],
            p: usize,
            r: usize,
            y: &DisjointSliceMut<'_>,
        ) {
            const VECTORS: usize = PANEL / $lanes;
            let n = product.inputs;
            let mut acc = [[[$zero(); VECTORS]; R]; P];
            // SAFETY: every access is within panels and rows that the caller guarantees.
            unsafe {
                let (w, x) = (w.as_ptr().add(p * n * PANEL), x.as_ptr().add(r * n));
                for k in 0..n {
                    let weights: [[$vector; VECTORS]; P] = std::array::from_fn(|p| {
                        std::array::from_fn(|v| $load(w.add((p * n + k) * PANEL + v * $lanes)))
                    });
                    for i in 0..R {
                        let input = $splat(*x.add(i * n + k));
                        for p in 0..P {
                            for v in 0..VECTORS {
                                acc[p][i][v] = $fma(weights[p][v], input, acc[p][i][v]);
                            }
                        }
                    }
                }
                for (i, acc) in acc.iter().enumerate() {
                    for (row, acc) in acc.iter().enumerate() {
                        let mut sums = [0f32; PANEL];
                        for (v, acc) in acc.iter().enumerate() {
                            $store(sums.as_mut_ptr().add(v * $lanes), *acc);
                        }
                        store(product, p + i, r + row, &sums, y);
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{DisjointSliceMut, PANEL, Product, store};

    /// SAFETY: 16 values can be read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_f16(at: *const u16) -> __m512 {
        // SAFETY: as the caller guarantees.
        _mm512_cvtph_ps(unsafe { _mm256_loadu_si256(at.cast()) })
    }

    /// SAFETY: 16 values can be read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn load_bf16(at: *const u16) -> __m512 {
        // SAFETY: as the caller guarantees.
        let bits = _mm512_cvtepu16_epi32(unsafe { _mm256_loadu_si256(at.cast()) });
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    }

    product!(
        product_f32, tile_f32, "avx512f", __m512, f32, lanes 16, panels 2, rows [12, 8, 4, 2, 1],
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, _mm512_loadu_ps
    );
    product!(
        product_f16, tile_f16, "avx512f", __m512, u16, lanes 16, panels 2, rows [12, 8, 4, 2, 1],
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, load_f16
    );
    product!(
        product_bf16, tile_bf16, "avx512f", __m512, u16, lanes 16, panels 2, rows [12, 8, 4, 2, 1],
        _mm512_setzero_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps, load_bf16
    );
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vectorized {
    use super::{
        super::vectors::{Floats, fma, load, load_bf16, load_f16, splat, store as write, zeros},
        DisjointSliceMut, PANEL, Product, store,
    };

    product!(
        product_f32, tile_f32, "avx2,fma,f16c", Floats, f32, lanes 8, panels 1, rows [6, 4, 2, 1],
        zeros, splat, fma, write, load
    );
    product!(
        product_f16, tile_f16, "avx2,fma,f16c", Floats, u16, lanes 8, panels 1, rows [6, 4, 2, 1],
        zeros, splat, fma, write, load_f16
    );
    product!(
        product_bf16, tile_bf16, "avx2,fma,f16c", Floats, u16, lanes 8, panels 1, rows [6, 4, 2, 1],
        zeros, splat, fma, write, load_bf16
    );
}

#[cfg(test)]
mod tests;
