//! Input rows in blocks of 256: 8-bit integers, one scale, and the sums of 16.

use super::super::{DisjointSliceMut, vectorized};

/// Values of a block.
pub const WIDE: usize = 256;
/// Values of a partial sum.
const PART: usize = 16;

/// Input rows of 8-bit blocks of 256 values; the buffers are kept between calls.
#[derive(Default)]
pub struct RowsK {
    /// -127 to 127.
    pub(in crate::cpu::kernels) quants: Vec<i8>,
    /// One scale per block: the largest magnitude over 127.
    pub(in crate::cpu::kernels) scales: Vec<f32>,
    /// Sums of 16 quants.
    pub(in crate::cpu::kernels) sums: Vec<i16>,
    /// Sums of 32 quants: the parts 0, 2, 1, 3, 4, 6, 5, 7 of a block.
    pub(in crate::cpu::kernels) pairs: Vec<i16>,
}

impl RowsK {
    pub fn values(&self) -> usize {
        self.quants.len()
    }

    /// Quantize rows of finite values. Panics if they are not whole blocks.
    #[cfg(test)]
    pub fn quantize(&mut self, x: &[f32]) {
        let blocks = self.resize(x.len());
        // SAFETY: one call at a time.
        unsafe { blocks.quantize(0, x) };
    }

    /// Resize to `values` values, to be quantized part by part. Panics if they are not whole blocks.
    pub fn resize(&mut self, values: usize) -> DisjointRowsK<'_> {
        assert!(values.is_multiple_of(WIDE), "rows are not whole blocks");
        self.quants.resize(values, 0);
        self.scales.resize(values / WIDE, 0.0);
        self.sums.resize(values / PART, 0);
        self.pairs.resize(values / PART / 2, 0);
        DisjointRowsK {
            quants: DisjointSliceMut::new(&mut self.quants),
            scales: DisjointSliceMut::new(&mut self.scales),
            sums: DisjointSliceMut::new(&mut self.sums),
            pairs: DisjointSliceMut::new(&mut self.pairs),
        }
    }
}

/// Rows that the units of one job quantize at disjoint places.
#[derive(Clone, Copy)]
pub struct DisjointRowsK<'a> {
    quants: DisjointSliceMut<'a, i8>,
    scales: DisjointSliceMut<'a, f32>,
    sums: DisjointSliceMut<'a, i16>,
    pairs: DisjointSliceMut<'a, i16>,
}

impl DisjointRowsK<'_> {
    /// Quantize `x` to the values from `at` on. Panics if `at` and `x` are not whole blocks within the rows.
    ///
    /// # Safety
    /// No two units may use overlapping places at the same time.
    pub unsafe fn quantize(&self, at: usize, x: &[f32]) {
        assert!(at.is_multiple_of(WIDE) && x.len().is_multiple_of(WIDE), "not whole blocks of the rows");
        // SAFETY: the caller's places are disjoint.
        let (quants, scales, sums, pairs) = unsafe {
            (
                self.quants.slice(at, x.len()),
                self.scales.slice(at / WIDE, x.len() / WIDE),
                self.sums.slice(at / PART, x.len() / PART),
                self.pairs.slice(at / PART / 2, x.len() / PART / 2),
            )
        };
        quantize(x, quants, scales, sums);
        for (pairs, sums) in pairs.chunks_exact_mut(8).zip(sums.chunks_exact(16)) {
            for (pair, part) in pairs.iter_mut().zip([0, 2, 1, 3, 4, 6, 5, 7]) {
                *pair = sums[2 * part] + sums[2 * part + 1];
            }
        }
    }
}

/// Scale = max |x| / 127, values rounded to nearest (ties to even).
fn quantize(x: &[f32], quants: &mut [i8], scales: &mut [f32], sums: &mut [i16]) {
    vectorized!(rounded::blocks(x: &[f32], quants: &mut [i8], scales: &mut [f32], sums: &mut [i16]))
}

mod rounded {
    use super::{PART, WIDE};

    #[inline(always)]
    pub fn blocks(x: &[f32], quants: &mut [i8], scales: &mut [f32], sums: &mut [i16]) {
        let blocks = x.chunks_exact(WIDE).zip(quants.chunks_exact_mut(WIDE));
        for (((x, quants), scale), sums) in blocks.zip(scales).zip(sums.chunks_exact_mut(WIDE / PART)) {
            let mut peaks = [0f32; PART];
            for part in x.chunks_exact(PART) {
                for (peak, v) in peaks.iter_mut().zip(part) {
                    *peak = peak.max(v.abs());
                }
            }
            let peak = peaks.into_iter().fold(0f32, f32::max);
            *scale = peak / 127.0;
            let inverse = if peak > 0.0 { 127.0 / peak } else { 0.0 };
            for ((x, quants), sum) in x.chunks_exact(PART).zip(quants.chunks_exact_mut(PART)).zip(sums) {
                *sum = 0;
                for (q, v) in quants.iter_mut().zip(x) {
                    // 1.5 · 2²³: adding it rounds to nearest, ties to even, and leaves the integer in the lowest bits.
                    let rounded = (v * inverse + 12_582_912.0).to_bits() as i32;
                    *q = rounded as i8;
                    *sum += i16::from(*q);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_scale_of_their_largest_value_and_the_sums_of_their_parts() {
        let mut x: Vec<f32> = (0..WIDE).map(|i| (i as f32 * 0.37).sin() * 3.0).collect();
        x.extend([0.0; WIDE]);
        x[7] = -6.35;
        let mut rows = RowsK::default();
        rows.quantize(&x);
        assert_eq!((rows.scales[0], rows.quants[7], rows.values()), (6.35 / 127.0, -127, 512));
        for (v, q) in x.iter().zip(&rows.quants) {
            assert_eq!(*q, (v * (127.0 / 6.35)).round_ties_even() as i8);
        }
        for (sum, part) in rows.sums.iter().zip(rows.quants.chunks(PART)) {
            assert_eq!(*sum, part.iter().map(|q| i16::from(*q)).sum::<i16>());
        }
        assert_eq!(rows.pairs[1], rows.quants[64..96].iter().map(|q| i16::from(*q)).sum::<i16>());
        assert!(rows.scales[1] == 0.0 && rows.quants[WIDE..].iter().all(|q| *q == 0));
    }

    #[test]
    fn rows_quantised_in_parts_equal_rows_quantised_at_once() {
        let x: Vec<f32> = (0..3 * WIDE).map(|i| (i as f32 * 0.7).cos()).collect();
        let (mut whole, mut parts) = (RowsK::default(), RowsK::default());
        whole.quantize(&x);
        let blocks = parts.resize(x.len());
        for at in [WIDE, 0, 2 * WIDE] {
            // SAFETY: one call at a time.
            unsafe { blocks.quantize(at, &x[at..at + WIDE]) };
        }
        assert_eq!((whole.quants, whole.scales, whole.sums), (parts.quants, parts.scales, parts.sums));
    }
}
