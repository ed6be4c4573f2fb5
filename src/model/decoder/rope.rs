//! Rotary position embedding with one or three position axes (M-RoPE). Angles are computed in f32 for any weight type.

/// Positions of rows on three axes (time, row, column); models without M-RoPE use the first.
///
/// Positions are not cache slots: a visual token's slot counts tokens, its positions count seconds and cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// `axes[a][row]`.
    pub axes: [Vec<u32>; 3],
}

impl Positions {
    /// Text rows: all axes equal, counting up from `start`.
    pub fn text(start: u32, rows: usize) -> Self {
        let axis: Vec<u32> = (start..).take(rows).collect();
        Self { axes: [axis.clone(), axis.clone(), axis] }
    }

    /// Number of rows.
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

    /// The positions of a range of rows.
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
    /// `head_dim / 2` frequencies `theta^(-2 i / head_dim)`; `sections` (M-RoPE) assigns the first s0 to time, the next s1 to
    /// rows, the next s2 to columns. Without sections all follow the first axis.
    pub fn new(head_dim: usize, theta: f64, sections: Option<[usize; 3]>) -> Self {
        let half = head_dim / 2;
        let inverse_frequencies =
            (0..half).map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / head_dim as f32)).collect();
        let axis = match sections {
            None => vec![0; half],
            Some([t, h, _]) => {
                (0..half).map(|i| if i < t { 0 } else { 1 + usize::from(i >= t + h) }).collect()
            }
        };
        Self { inverse_frequencies, axis }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_follow_their_axes() {
        let rope = Rope::new(16, 1e4, Some([2, 3, 3]));
        assert_eq!(rope.axis, [0, 0, 1, 1, 1, 2, 2, 2]);
        let at = Positions { axes: [vec![0], vec![5], vec![0]] };
        let (cos, _) = rope.tables(&at);
        assert_eq!(cos[0], 1.0);
        assert_ne!(cos[2], 1.0);
        assert_eq!(cos[7], 1.0);
    }

    #[test]
    fn rotation_preserves_the_norm_and_position_zero_is_the_identity() {
        let rope = Rope::new(8, 1e4, None);
        let (cos, sin) = rope.tables(&Positions::text(0, 2));
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let before = head;
        crate::model::device::cpu::kernels::rotate(&mut head, &cos[..4], &sin[..4]);
        assert_eq!(head, before);
        crate::model::device::cpu::kernels::rotate(&mut head, &cos[4..], &sin[4..]);
        let norm = |h: &[f32; 8]| h.iter().map(|v| v * v).sum::<f32>();
        assert!((norm(&head) - norm(&before)).abs() < 1e-3);
    }
}
