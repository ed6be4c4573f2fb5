//! LVSpec's visual relevance: how much a drafted token resembles what the target saw.

use crate::model::decoder::kernels::dot_f32;

use super::Row;

/// The target's final states at its visual tokens, each scaled to length one. Made once per context.
#[derive(Clone, Debug, Default)]
pub struct VisualStates {
    unit: Vec<f32>,
    width: usize,
}

impl VisualStates {
    /// From states `tokens × width`. Zero states stay zero: they resemble nothing.
    pub fn new(mut states: Vec<f32>, width: usize) -> Self {
        for state in states.chunks_exact_mut(width.max(1)) {
            normalize(state);
        }
        Self { unit: states, width }
    }

    /// Number of visual tokens.
    pub fn len(&self) -> usize {
        self.unit.len().checked_div(self.width).unwrap_or(0)
    }

    /// True if there are no visual tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A_i of each state (`rows × width`): the mean of its `top_n` largest cosine similarities with the visual tokens
    /// (LVSpec eq. 8). `top_n` is clamped to the tokens there are; without any, relevance is 0.
    pub fn relevance(&self, states: &[f32], top_n: usize) -> Vec<f32> {
        let width = self.width;
        if self.is_empty() || states.is_empty() {
            return vec![0.0; states.len().checked_div(width).unwrap_or(0)];
        }
        let n = top_n.clamp(1, self.len());
        let mut similarities = vec![0f32; self.len()];
        let mut unit = vec![0f32; width];
        states
            .chunks_exact(width)
            .map(|state| {
                self.similarities(state, &mut unit, &mut similarities);
                if n < similarities.len() {
                    similarities.select_nth_unstable_by(n - 1, |a, b| b.total_cmp(a));
                }
                let sum: f32 = similarities[..n].iter().sum();
                sum / n as f32
            })
            .collect()
    }

    /// For each state (`rows × width`) the `count` visual tokens that resemble it most, with the cosine similarities, best
    /// first.
    pub fn nearest(&self, states: &[f32], count: usize) -> Vec<Vec<(u32, f32)>> {
        let mut similarities = vec![0f32; self.len()];
        let mut unit = vec![0f32; self.width];
        let nearest = |state: &[f32]| {
            self.similarities(state, &mut unit, &mut similarities);
            let mut order: Vec<(u32, f32)> = (0..).zip(similarities.iter().copied()).collect();
            let by = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            if (1..order.len()).contains(&count) {
                order.select_nth_unstable_by(count - 1, by);
            }
            order.truncate(count);
            order.sort_unstable_by(by);
            order
        };
        states.chunks_exact(self.width.max(1)).map(nearest).collect()
    }

    /// The cosine of one state with every visual token; `unit` is room for a state.
    fn similarities(&self, state: &[f32], unit: &mut [f32], out: &mut [f32]) {
        let width = self.width;
        unit.copy_from_slice(state);
        normalize(unit);
        let mut token = 0;
        while token + 4 <= out.len() {
            let four = dot_f32::<4>(unit, &self.unit[token * width..], width);
            out[token..token + 4].copy_from_slice(&four);
            token += 4;
        }
        for (token, similarity) in out.iter_mut().enumerate().skip(token) {
            [*similarity] = dot_f32::<1>(unit, &self.unit[token * width..], width);
        }
    }
}

fn normalize(state: &mut [f32]) {
    let length = state.iter().map(|v| v * v).sum::<f32>().sqrt();
    if length > 0.0 {
        state.iter_mut().for_each(|v| *v /= length);
    }
}

/// LVSpec eq. 9: which of the rows are loosened, the floor(lambda · K + 1e-9) lowest by `signal` (the earlier first where
/// tied), K being the number really drafted.
pub fn lowest(rows: &[Row], lambda: f64, signal: impl Fn(&Row) -> Option<f32>) -> Vec<bool> {
    let count = ((lambda * rows.len() as f64 + 1e-9).floor() as usize).min(rows.len());
    let mut loosened = vec![false; rows.len()];
    for (rank, &row) in ascending(rows, signal).iter().enumerate() {
        loosened[row] = rank < count;
    }
    loosened
}

/// Row indices by ascending signal, stable.
pub fn ascending(rows: &[Row], signal: impl Fn(&Row) -> Option<f32>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    let signal = |i: usize| signal(&rows[i]).unwrap_or(0.0);
    order.sort_by(|&a, &b| signal(a).total_cmp(&signal(b)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relevance_is_the_mean_of_the_largest_cosines() {
        let states = VisualStates::new(vec![2.0, 0.0, 0.0, 3.0, -1.0, 0.0], 2);
        let got = states.relevance(&[5.0, 0.0], 2);
        assert!((got[0] - 0.5).abs() < 1e-6, "{got:?}"); // cosines 1, 0, -1
        let all = states.relevance(&[5.0, 0.0], 99);
        assert!(all[0].abs() < 1e-6);
    }

    #[test]
    fn relevance_does_not_depend_on_scale() {
        let seen: Vec<f32> = (0..70).map(|i| (i as f32).sin()).collect();
        let scaled: Vec<f32> = seen.iter().map(|v| v * 7.5).collect();
        let (a, b) = (VisualStates::new(seen, 10), VisualStates::new(scaled, 10));
        let state: Vec<f32> = (0..20).map(|i| (i as f32 * 0.7).cos()).collect();
        for (x, y) in a.relevance(&state, 3).iter().zip(b.relevance(&state, 3)) {
            assert!((x - y).abs() < 1e-5);
        }
    }

    #[test]
    fn the_nearest_come_best_first() {
        let states = VisualStates::new(vec![2.0, 0.0, 0.0, 3.0, -1.0, 0.0, 1.0, 1.0, 4.0, 0.0], 2);
        let got = states.nearest(&[5.0, 0.0, 0.0, 2.0], 3);
        assert_eq!(got[0].iter().map(|n| n.0).collect::<Vec<_>>(), [0, 4, 3]);
        assert!((got[0][2].1 - 0.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(got[1][0], (1, 1.0));
        assert_eq!(states.nearest(&[1.0, 0.0], 99)[0].len(), 5);
        assert_eq!(VisualStates::new(vec![], 2).nearest(&[1.0, 0.0], 3), [vec![]]);
    }

    #[test]
    fn nothing_seen_means_nothing_relevant() {
        assert_eq!(VisualStates::new(vec![], 4).relevance(&[1.0; 8], 10), [0.0, 0.0]);
    }

    #[test]
    fn the_number_loosened_is_floored_without_gaps() {
        let rows = vec![Row { relevance: Some(1.0), ..Row::default() }; 100];
        let count = |lambda| lowest(&rows, lambda, |row| row.relevance).iter().filter(|l| **l).count();
        assert_eq!((count(0.29), count(0.7), count(0.0), count(1.0)), (29, 70, 0, 100));
        // Ties are resolved in draft order.
        assert!(lowest(&rows, 0.5, |row| row.relevance)[..50].iter().all(|l| *l));
    }
}
