//! Resize with antialiasing, bytes in and bytes out.
//!
//! The kernel is stretched by the scale when shrinking. Rows first, then columns, each pass rounded and clamped to bytes, as in the
//! image libraries that transformers uses.

use super::FrameSize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    Bilinear,
    /// Keys' cubic with a = -0.5.
    Bicubic,
    /// A sinc windowed by a sinc, three samples to each side.
    Lanczos,
}

impl Filter {
    /// Samples to each side at which the kernel ends.
    fn support(self) -> f64 {
        match self {
            Self::Bilinear => 1.0,
            Self::Bicubic => 2.0,
            Self::Lanczos => 3.0,
        }
    }

    /// The kernel at a distance of `x` samples.
    fn at(self, x: f64) -> f64 {
        let x = x.abs();
        if x >= self.support() {
            return 0.0;
        }
        match self {
            Self::Bilinear => 1.0 - x,
            Self::Bicubic => cubic(x),
            Self::Lanczos => sinc(x) * sinc(x / 3.0),
        }
    }
}

fn sinc(x: f64) -> f64 {
    let x = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

/// Weights of one output sample: the first input sample and one weight for each from there on.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

/// Keys' cubic with a = -0.5.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

/// The taps that turn `from` samples into `to`; both at least 1.
fn taps(from: usize, to: usize, filter: Filter) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    (0..to)
        .map(|i| {
            let centre = scale * (i as f64 + 0.5);
            // `as` saturates at zero: the clamp at the left border.
            let first = ((centre - support + 0.5) as usize).min(from - 1);
            let end = ((centre + support + 0.5) as usize).clamp(first + 1, from);
            let mut weights: Vec<f64> =
                (first..end).map(|j| filter.at((j as f64 - centre + 0.5) / stretch)).collect();
            let sum: f64 = weights.iter().sum();
            if sum != 0.0 {
                weights.iter_mut().for_each(|w| *w /= sum);
            }
            Taps { first, weights: weights.into_iter().map(|w| w as f32).collect() }
        })
        .collect()
}

fn to_byte(value: f32) -> u8 {
    // `as` rounds down, and saturates: the clamp.
    (value + 0.5) as u8
}

/// Resizes frames of one size to another; the weights are computed once.
pub(crate) struct Resizer {
    from: FrameSize,
    to: FrameSize,
    rows: Vec<Taps>,
    columns: Vec<Taps>,
    /// Frame of the first pass, `from` height × `to` width × 3.
    between: Vec<u8>,
}

impl Resizer {
    /// A resizer between two sizes; no side may be zero.
    pub(super) fn new(from: FrameSize, to: FrameSize, filter: Filter) -> Self {
        let axis = |from, to| if from == to { Vec::new() } else { taps(from, to, filter) };
        let (rows, columns) = (axis(from.height, to.height), axis(from.width, to.width));
        Self { from, to, rows, columns, between: Vec::new() }
    }

    /// The size that it reads.
    pub(super) fn from(&self) -> FrameSize {
        self.from
    }

    /// Resize `rgb`, `[height, width, 3]` bytes of the input size, into `out`, `[height, width, 3]` of the output size.
    /// The caller checks the lengths.
    pub(super) fn resize(&mut self, rgb: &[u8], out: &mut Vec<u8>) {
        let FrameSize { height, width } = self.from;
        let FrameSize { height: to_height, width: to_width } = self.to;
        let narrow: &[u8] = if self.columns.is_empty() {
            rgb
        } else {
            self.between.clear();
            self.between.reserve(height * to_width * 3);
            for line in rgb.chunks_exact(width * 3) {
                for taps in &self.columns {
                    let mut sum = [0f32; 3];
                    for (weight, pixel) in taps.weights.iter().zip(line[taps.first * 3..].chunks_exact(3)) {
                        for c in 0..3 {
                            sum[c] += weight * f32::from(pixel[c]);
                        }
                    }
                    self.between.extend(sum.map(to_byte));
                }
            }
            &self.between
        };
        out.clear();
        if self.rows.is_empty() {
            out.extend_from_slice(narrow);
            return;
        }
        out.reserve(to_height * to_width * 3);
        let line = to_width * 3;
        let mut sums = vec![0f32; line];
        for taps in &self.rows {
            sums.fill(0.0);
            for (weight, source) in taps.weights.iter().zip(narrow[taps.first * line..].chunks_exact(line)) {
                for (sum, value) in sums.iter_mut().zip(source) {
                    *sum += weight * f32::from(*value);
                }
            }
            out.extend(sums.iter().map(|v| to_byte(*v)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resized(from: (usize, usize), to: (usize, usize), rgb: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let [from, to] = [from, to].map(|(height, width)| FrameSize::new(height, width));
        Resizer::new(from, to, Filter::Bicubic).resize(rgb, &mut out);
        out
    }

    #[test]
    fn the_kernel_interpolates() {
        assert_eq!((cubic(0.0), cubic(1.0), cubic(2.0)), (1.0, 0.0, 0.0));
        assert_eq!(cubic(0.5), 0.5625);
        assert_eq!(cubic(-1.5), -0.0625);
    }

    /// What Pillow makes of a line of pixels.
    #[test]
    fn lines_are_resized_as_by_the_reference() {
        let line: [u8; 12] = [0, 255, 10, 200, 30, 90, 250, 3, 128, 64, 77, 190];
        let table: [(Filter, &[u8]); 6] = [
            (Filter::Bilinear, &[113, 108, 121, 90, 114][..]),
            (
                Filter::Bilinear,
                &[0, 143, 190, 17, 139, 135, 35, 78, 170, 199, 25, 80, 107, 64, 74, 127, 190][..],
            ),
            (Filter::Bicubic, &[113, 103, 128, 82, 118][..]),
            (
                Filter::Bicubic,
                &[0, 155, 215, 11, 150, 151, 27, 67, 189, 219, 13, 77, 119, 63, 64, 129, 197][..],
            ),
            (Filter::Lanczos, &[115, 103, 128, 81, 118][..]),
            (
                Filter::Lanczos,
                &[0, 163, 220, 12, 144, 166, 19, 49, 211, 216, 14, 66, 132, 62, 53, 134, 199][..],
            ),
        ];
        for (filter, want) in table {
            let pixels: Vec<u8> = line.iter().flat_map(|v| [*v; 3]).collect();
            let mut out = Vec::new();
            Resizer::new(FrameSize::new(1, 12), FrameSize::new(1, want.len()), filter)
                .resize(&pixels, &mut out);
            let got: Vec<u8> = out.chunks_exact(3).map(|pixel| pixel[0]).collect();
            assert!(got.iter().zip(want).all(|(a, b)| a.abs_diff(*b) <= 1), "{filter:?}: {got:?} {want:?}");
            // The same along the columns.
            Resizer::new(FrameSize::new(12, 1), FrameSize::new(want.len(), 1), filter)
                .resize(&pixels, &mut out);
            assert_eq!(out.chunks_exact(3).map(|pixel| pixel[0]).collect::<Vec<_>>(), got);
        }
    }

    #[test]
    fn weights_sum_to_one_and_stay_inside() {
        for (from, to) in [(1, 1), (1, 7), (7, 1), (90, 28), (28, 90), (1000, 3)] {
            for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
                for taps in taps(from, to, filter) {
                    assert!(taps.first + taps.weights.len() <= from);
                    assert!((taps.weights.iter().sum::<f32>() - 1.0).abs() < 1e-4);
                }
            }
        }
    }

    #[test]
    fn a_flat_frame_stays_flat_and_a_copy_stays_a_copy() {
        assert!(resized((9, 5), (4, 12), &[77; 9 * 5 * 3]).iter().all(|v| *v == 77));
        let frame: Vec<u8> = (0..4 * 3 * 3).collect();
        assert_eq!(resized((4, 3), (4, 3), &frame), frame);
        assert_eq!(resized((1, 1), (3, 3), &[1, 2, 3]), [1, 2, 3].repeat(9));
    }
}
