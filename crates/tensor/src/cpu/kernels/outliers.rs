//! Outliers of rows of 8-bit blocks.
//!
//! A block's largest value sets its scale, so one outlier costs the 31 others their precision, and in a
//! language model a few columns stand out in most rows. The largest value of each segment of a long row is therefore taken out
//! of its block, and its product is computed in f32:
//!
//! `y = Σ_b fma(Σ_i w_i x_i, d_b s_b) + Σ_k fma(w_k d_k, x_k)`, where block sums come first, then the outliers `k` from left to right.

use super::{BLOCK, DisjointBlocksMut, DisjointSliceMut};

/// Most values of a segment, which has one outlier. A row is cut into segments of about the same size; shorter rows have none.
const SEGMENT: usize = 512;

#[derive(Default)]
pub(super) struct Outliers {
    /// Values per row; 0 if rows have no outliers.
    width: usize,
    per_row: usize,
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Outliers {
    /// Make room for the outliers of `rows` rows of `width` values, or for none.
    pub fn resize(&mut self, rows: usize, width: usize, split: bool) -> DisjointOutliers<'_> {
        let per_row = if split && width >= SEGMENT { width.div_ceil(SEGMENT) } else { 0 };
        (self.width, self.per_row) = (if per_row > 0 { width } else { 0 }, per_row);
        self.columns.resize(rows * per_row, 0);
        self.values.resize(rows * per_row, 0.0);
        DisjointOutliers {
            width,
            per_row,
            columns: DisjointSliceMut::new(&mut self.columns),
            values: DisjointSliceMut::new(&mut self.values),
        }
    }

    /// True if rows have none.
    pub fn is_empty(&self) -> bool {
        self.per_row == 0
    }

    /// Panics unless these are the outliers of `rows` rows of `width` values.
    pub fn check(&self, rows: usize, width: usize) {
        assert!(
            self.is_empty() || self.width == width && self.columns.len() >= rows * self.per_row,
            "the outliers belong to other rows"
        );
    }

    /// Column and value of a row's outliers.
    #[inline]
    pub fn of(&self, row: usize) -> impl Iterator<Item = (usize, f32)> {
        let all = row * self.per_row..(row + 1) * self.per_row;
        let columns = self.columns[all.clone()].iter().map(|column| *column as usize);
        columns.zip(self.values[all].iter().copied())
    }
}

/// Outliers that the units of one job find, each in its rows.
#[derive(Clone, Copy)]
pub(super) struct DisjointOutliers<'a> {
    width: usize,
    per_row: usize,
    columns: DisjointSliceMut<'a, u32>,
    values: DisjointSliceMut<'a, f32>,
}

impl DisjointOutliers<'_> {
    /// True if rows have none.
    pub fn is_empty(&self) -> bool {
        self.per_row == 0
    }

    /// Take the outliers of row `r`, `x`, out of its blocks, which are quantized already.
    ///
    /// # Safety
    /// The row's blocks and outliers are the caller's.
    pub unsafe fn split(&self, blocks: &DisjointBlocksMut<'_>, r: usize, x: &[f32]) {
        assert!(x.len() == self.width, "the row has another width");
        let (first, count) = (r * self.width, self.width / BLOCK);
        for k in 0..self.per_row {
            let [start, end] = [k, k + 1].map(|k| k * count / self.per_row);
            // SAFETY: the row is the caller's.
            let scales = unsafe { blocks.scales_at(first / BLOCK + start, end - start) };
            let block = start + first_largest(scales.iter().copied());
            let mut rest = [0f32; BLOCK];
            rest.copy_from_slice(&x[block * BLOCK..][..BLOCK]);
            let at = first_largest(rest.iter().map(|v| v.abs()));
            let value = std::mem::take(&mut rest[at]);
            // SAFETY: as above.
            unsafe {
                blocks.quantize(first + block * BLOCK, &rest);
                self.columns.set(r * self.per_row + k, (block * BLOCK + at) as u32);
                self.values.set(r * self.per_row + k, value);
            }
        }
    }
}

/// The place of the largest value, the first of equal ones.
fn first_largest(values: impl Iterator<Item = f32>) -> usize {
    let best = values.enumerate().reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::{super::Rows8, *};

    #[test]
    fn the_largest_value_of_each_segment_is_taken_out_of_its_block() {
        for (width, expected) in [(480, 0), (512, 1), (576, 2), (992, 2), (1024, 2), (1536, 3), (11008, 22)] {
            let x: Vec<f32> = (0..2 * width).map(|i| ((i * i) as f32 * 0.37).sin() * 3.0).collect();
            let (mut plain, mut apart) = (Rows8::default(), Rows8::default());
            plain.quantize(&x);
            apart.quantize_split(&x, width);
            assert!(plain.outliers.of(0).next().is_none());
            for (r, row) in x.chunks(width).enumerate() {
                let outliers: Vec<_> = apart.outliers.of(r).collect();
                assert_eq!(outliers.len(), expected, "{width}");
                let mut rest = row.to_vec();
                for (k, &(column, value)) in outliers.iter().enumerate() {
                    let [start, end] = [k, k + 1].map(|k| k * (width / BLOCK) / expected * BLOCK);
                    let segment = &row[start..end];
                    let largest = segment.iter().fold(0f32, |peak, v| peak.max(v.abs()));
                    assert!((start..end).contains(&column) && row[column] == value);
                    assert_eq!(value.abs(), largest, "{width} {k}");
                    rest[column] = 0.0;
                }
                plain.quantize(&rest);
                let row = r * width..(r + 1) * width;
                assert_eq!(apart.quants[row], plain.quants);
                assert_eq!(apart.scales[r * width / BLOCK..][..width / BLOCK], plain.scales);
                assert_eq!(apart.offsets[r * width / BLOCK..][..width / BLOCK], plain.offsets);
            }
        }
    }

    #[test]
    fn rows_of_zeros_and_of_equal_values_are_split() {
        for value in [0.0, -2.5] {
            let mut rows = Rows8::default();
            rows.quantize_split(&[value; 1024], 1024);
            assert_eq!(rows.outliers.of(0).collect::<Vec<_>>(), [(0, value), (512, value)]);
        }
    }
}
