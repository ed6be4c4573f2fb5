//! Bicubic resize with antialiasing, bytes in and bytes out.
//!
//! The cubic kernel has a = -0.5 and is stretched by the scale when shrinking. Rows first, then columns, each pass rounded
//! and clamped to bytes, as in the image libraries that transformers uses.

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
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = 2.0 * stretch;
    (0..to)
        .map(|i| {
            let centre = scale * (i as f64 + 0.5);
            // `as` saturates at zero: the clamp at the left border.
            let first = ((centre - support + 0.5) as usize).min(from - 1);
            let end = ((centre + support + 0.5) as usize).clamp(first + 1, from);
            let mut weights: Vec<f64> =
                (first..end).map(|j| cubic((j as f64 - centre + 0.5) / stretch)).collect();
            let sum: f64 = weights.iter().sum();
            if sum != 0.0 {
                weights.iter_mut().for_each(|w| *w /= sum);
            }
            Taps { first, weights: weights.into_iter().map(|w| w as f32).collect() }
        })
        .collect()
}

fn to_byte(value: f32) -> u8 {
    // `as` saturates: the clamp.
    (value + 0.5).floor() as u8
}

/// Resizes frames of one size to another; the weights are computed once.
pub struct Resizer {
    from: (usize, usize),
    to: (usize, usize),
    rows: Vec<Taps>,
    columns: Vec<Taps>,
    /// Frame of the first pass, `from` height × `to` width × 3.
    between: Vec<u8>,
}

impl Resizer {
    /// A resizer between two sizes (height, width); no side may be zero.
    pub(super) fn new(from: (usize, usize), to: (usize, usize)) -> Self {
        let axis = |from, to| if from == to { Vec::new() } else { taps(from, to) };
        Self { from, to, rows: axis(from.0, to.0), columns: axis(from.1, to.1), between: Vec::new() }
    }

    /// The size (height, width) that it reads.
    pub(super) fn from(&self) -> (usize, usize) {
        self.from
    }

    /// Resize `rgb`, `[height, width, 3]` bytes of the input size, into `out`, `[height, width, 3]` of the output size.
    /// The caller checks the lengths.
    pub(super) fn resize(&mut self, rgb: &[u8], out: &mut Vec<u8>) {
        let (height, width) = self.from;
        let (to_height, to_width) = self.to;
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
        Resizer::new(from, to).resize(rgb, &mut out);
        out
    }

    #[test]
    fn the_kernel_interpolates() {
        assert_eq!((cubic(0.0), cubic(1.0), cubic(2.0)), (1.0, 0.0, 0.0));
        assert_eq!(cubic(0.5), 0.5625);
        assert_eq!(cubic(-1.5), -0.0625);
    }

    #[test]
    fn weights_sum_to_one_and_stay_inside() {
        for (from, to) in [(1, 1), (1, 7), (7, 1), (90, 28), (28, 90), (1000, 3)] {
            for taps in taps(from, to) {
                assert!(taps.first + taps.weights.len() <= from);
                assert!((taps.weights.iter().sum::<f32>() - 1.0).abs() < 1e-4);
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
