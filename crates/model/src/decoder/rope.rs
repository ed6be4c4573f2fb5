//! Rotary position embedding with one or three position axes (M-RoPE). Angles are computed in f32 for any weight type.

use crate::config::TextConfig;

/// Positions of rows on three axes (time, row, column); models without M-RoPE use the first.
///
/// Positions are not cache slots: a visual token's slot counts tokens, its positions count seconds and cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    pub axes: [Vec<u32>; 3],
}

impl Positions {
    /// Text rows: all axes equal, counting up from `start`.
    pub fn text(start: u32, rows: usize) -> Self {
        let axis: Vec<u32> = (start..).take(rows).collect();
        Self { axes: [axis.clone(), axis.clone(), axis] }
    }

    pub fn len(&self) -> usize {
        self.axes[0].len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.axes[0].is_empty()
    }

    /// The positions of some rows, in the given order. Rows that do not exist are skipped.
    pub fn select(&self, rows: &[usize]) -> Self {
        let pick = |axis: &Vec<u32>| rows.iter().filter_map(|&r| axis.get(r).copied()).collect();
        Self { axes: [pick(&self.axes[0]), pick(&self.axes[1]), pick(&self.axes[2])] }
    }

    pub fn slice(&self, range: std::ops::Range<usize>) -> Self {
        let pick = |axis: &Vec<u32>| axis[range.clone()].to_vec();
        Self { axes: [pick(&self.axes[0]), pick(&self.axes[1]), pick(&self.axes[2])] }
    }

    /// The largest position of all axes and rows.
    pub fn max(&self) -> Option<u32> {
        self.axes.iter().flatten().copied().max()
    }
}

/// The rotation frequencies of one model.
#[derive(Clone, Debug)]
pub struct Rope {
    inverse_frequencies: Vec<f32>,
    /// For each frequency, the axis it follows.
    axis: Vec<usize>,
}

impl Rope {
    /// `rotary_dim / 2` frequencies `theta^(-2 i / rotary_dim)` and zeros up to `head_dim / 2`; each follows one axis: without sections all follow the
    /// first. With sections (M-RoPE) the first s0 follow time, the next s1 rows, the next s2 columns. Interleaved sections
    /// alternate instead: of every three frequencies the second follows rows while i < 3 s1, the third columns while i < 3 s2,
    /// and all others time.
    pub fn new(config: &TextConfig) -> Self {
        let (width, half) = (config.rotary_dim, config.head_dim / 2);
        let rotated = config.gemma.as_ref().map_or(width / 2, |gemma| gemma.rotated_pairs);
        let inverse_frequencies = frequencies(config.rope_theta, width, rotated, half);
        let axis = |i: usize| match config.mrope_section {
            None => 0,
            Some(sections) if config.interleaved => {
                let axis = i % 3;
                if i < 3 * sections[axis] { axis } else { 0 }
            }
            Some([t, ..]) if i < t => 0,
            Some([t, h, _]) => 1 + usize::from(i >= t + h),
        };
        Self { inverse_frequencies, axis: (0..half).map(axis).collect() }
    }

    /// Of layers that attend within a window, if the model has some.
    pub fn sliding(config: &TextConfig) -> Option<Self> {
        let gemma = config.gemma.as_ref()?;
        let half = gemma.head_dim / 2;
        let inverse_frequencies = frequencies(gemma.rope_theta, gemma.head_dim, half, half);
        Some(Self { inverse_frequencies, axis: vec![0; half] })
    }

    /// Cosines and sines, each `rows × head_dim / 2`.
    pub fn tables(&self, positions: &Positions) -> (Vec<f32>, Vec<f32>) {
        let (rows, half) = (positions.len(), self.inverse_frequencies.len());
        let (mut cos, mut sin) = (Vec::with_capacity(rows * half), Vec::with_capacity(rows * half));
        for row in 0..rows {
            for (f, &axis) in self.inverse_frequencies.iter().zip(&self.axis) {
                let (s, c) = (positions.axes[axis][row] as f32 * f).sin_cos();
                cos.push(c);
                sin.push(s);
            }
        }
        (cos, sin)
    }
}

/// `rotated` frequencies `theta^(-2 i / width)`, and zeros up to `half`.
fn frequencies(theta: f64, width: usize, rotated: usize, half: usize) -> Vec<f32> {
    let theta = theta as f32;
    let frequency = |i: usize| match i < rotated {
        true => 1.0 / theta.powf((2 * i) as f32 / width as f32),
        false => 0.0,
    };
    (0..half).map(frequency).collect()
}

/// The order of a head's values in which values that are rotated together are half a head apart, as the kernels have them: a model
/// that rotates only the first `rotary` of `head_dim` values pairs each with the one `rotary / 2` further on.
pub fn order(head_dim: usize, rotary: usize) -> Vec<usize> {
    let (half, pairs) = (head_dim / 2, rotary / 2);
    let first = |i: usize| if i < pairs { i } else { rotary + i - pairs };
    let second = |i: usize| if i < pairs { pairs + i } else { half + i };
    (0..half).map(first).chain((0..half).map(second)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(head_dim: usize, mrope_section: Option<[usize; 3]>, interleaved: bool) -> TextConfig {
        let tiny = crate::shapes::find("tiny").unwrap();
        TextConfig { head_dim, rotary_dim: head_dim, rope_theta: 1e4, mrope_section, interleaved, ..tiny }
    }

    #[test]
    fn interleaved_axes_alternate_as_long_as_their_sections_last() {
        let axis = |head_dim, sections| Rope::new(&config(head_dim, Some(sections), true)).axis;
        assert_eq!(axis(16, [2, 3, 3]), [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(axis(24, [8, 2, 2]), [0, 1, 2, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(axis(16, [4, 1, 3]), [0, 1, 2, 0, 0, 2, 0, 0]);
        let axis = axis(128, [24, 20, 20]);
        assert_eq!([0, 1, 2].map(|a| axis.iter().filter(|b| **b == a).count()), [24, 20, 20]);
        assert!(axis[60..] == [0; 4] && axis[57..60] == [0, 1, 2]);
    }

    #[test]
    fn a_part_of_a_head_is_rotated() {
        assert_eq!(order(8, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(order(16, 4), [0, 1, 4, 5, 6, 7, 8, 9, 2, 3, 10, 11, 12, 13, 14, 15]);
        let rope = Rope::new(&TextConfig { rotary_dim: 4, ..config(16, None, false) });
        let (cos, sin) = rope.tables(&Positions::text(3, 1));
        assert_eq!(cos[2..], [1.0; 6]);
        assert_eq!(sin[2..], [0.0; 6]);
        assert_eq!(cos[..2], [3f32.cos(), (3.0f32 / 100.0).cos()]);
    }

    #[test]
    fn sections_follow_their_axes() {
        let rope = Rope::new(&config(16, Some([2, 3, 3]), false));
        assert_eq!(rope.axis, [0, 0, 1, 1, 1, 2, 2, 2]);
        let at = Positions { axes: [vec![0], vec![5], vec![0]] };
        let (cos, _) = rope.tables(&at);
        assert_eq!(cos[0], 1.0);
        assert_ne!(cos[2], 1.0);
        assert_eq!(cos[7], 1.0);
    }

    #[test]
    fn rotation_preserves_the_norm_and_position_zero_is_the_identity() {
        let rope = Rope::new(&config(8, None, false));
        let (cos, sin) = rope.tables(&Positions::text(0, 2));
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let before = head;
        specreel_tensor::cpu::kernels::rotate(&mut head, &cos[..4], &sin[..4]);
        assert_eq!(head, before);
        specreel_tensor::cpu::kernels::rotate(&mut head, &cos[4..], &sin[4..]);
        let norm = |h: &[f32; 8]| h.iter().map(|v| v * v).sum::<f32>();
        assert!((norm(&head) - norm(&before)).abs() < 1e-3);
    }
}
