//! LVSpec's visual relevance: the similarity of a draft token's state to the target's states at the visual tokens.

use std::sync::{Arc, OnceLock};

use specreel_tensor::Result;

use specreel_model::decoder::{Nearest, Resident, States, with_slice};
use specreel_tensor::cpu::{
    kernels::{SLOTS, dot_f32, largest_sums, scores_f32},
    thread_pool::{DisjointSliceMut, ThreadPool},
};

use super::{RelevanceNeeds, Row};
use crate::{method::StateAt, tree::Tree};

/// The target's final states at its visual tokens, each scaled to length one. Made once per context.
#[derive(Clone, Debug, Default)]
pub struct VisualStates {
    /// Interleaved as keys are: block `token / SLOTS`, then dimension, then lane `token % SLOTS`.
    unit: Vec<f32>,
    tokens: usize,
    width: usize,
    /// The same states on the GPU whose states are compared to them; made by the first comparison.
    resident: Arc<OnceLock<Resident>>,
}

impl VisualStates {
    /// From states `tokens × width`. Zero states stay zero: they resemble nothing.
    pub fn new(states: &[f32], width: usize) -> Self {
        let tokens = states.len().checked_div(width).unwrap_or(0);
        let mut unit = vec![0f32; tokens.div_ceil(SLOTS) * SLOTS * width];
        for (token, state) in states.chunks_exact(width.max(1)).enumerate() {
            let scale = inverse_length(state);
            let lanes = unit[token / SLOTS * SLOTS * width + token % SLOTS..].iter_mut().step_by(SLOTS);
            lanes.zip(state).for_each(|(lane, value)| *lane = value * scale);
        }
        Self { unit, tokens, width, resident: Arc::default() }
    }

    /// Number of visual tokens.
    pub fn len(&self) -> usize {
        self.tokens
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&self.unit[..]) + self.resident.get().map_or(0, Resident::bytes)
    }

    /// True if there are no visual tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens == 0
    }

    /// The states on the GPU of `states`; `None` if those are in host memory, or there is nothing to compare.
    fn resident(&self, states: &States) -> Result<Option<&Resident>> {
        if self.is_empty() || self.resident.get().is_some() {
            return Ok(self.resident.get());
        }
        let row = |token: usize| {
            let lanes = self.unit[token / SLOTS * SLOTS * self.width + token % SLOTS..].iter();
            lanes.step_by(SLOTS).take(self.width).copied()
        };
        let rows = || (0..self.tokens).flat_map(row).collect::<Vec<f32>>();
        if states.is_in_host_memory() {
            return Ok(None);
        }
        if let Some(resident) = Resident::beside(states, &rows(), self.width)? {
            drop(self.resident.set(resident));
        }
        Ok(self.resident.get())
    }

    /// As [`VisualStates::relevance`], of states where they are.
    pub(crate) fn relevance_of(&self, states: &States, top_n: usize) -> Result<Vec<f32>> {
        match self.resident(states)? {
            None => with_slice(states, |states| self.relevance(states, top_n)),
            Some(resident) => {
                let n = top_n.clamp(1, self.tokens);
                let mean = |nearest: &Vec<(u32, f32)>| nearest.iter().map(|n| n.1).sum::<f32>() / n as f32;
                Ok(resident.nearest(states, n)?.iter().map(mean).collect())
            }
        }
    }

    /// The relevance of every draft of a tree, from the states of its verify pass (the root's row first).
    pub(crate) fn relevance_of_drafts(
        &self,
        states: &States,
        tree: &Tree,
        needs: RelevanceNeeds,
    ) -> Result<Vec<f32>> {
        let rows = rows_of_drafts(tree, needs.at);
        // Only the rows that are looked at: a step's first row is no draft's own, its last one predicts none.
        let first = rows.iter().copied().min().unwrap_or(0);
        let count = rows.iter().copied().max().map_or(0, |last| last + 1 - first);
        let by_row = self.relevance_of(&states.narrow(first, count)?, needs.top_n)?;
        Ok(rows.into_iter().map(|row| by_row[row - first]).collect())
    }

    /// As [`VisualStates::nearest`], of states where they are.
    pub(crate) fn nearest_of(&self, states: &States, count: usize) -> Result<Nearest> {
        match self.resident(states)? {
            None => with_slice(states, |states| self.nearest(states, count)),
            Some(resident) => resident.nearest(states, count),
        }
    }

    /// A_i of each state (`rows × width`): the mean of its `top_n` largest cosine similarities with the visual tokens
    /// (LVSpec eq. 8). `top_n` is clamped to the tokens there are; without any, relevance is 0.
    pub fn relevance(&self, states: &[f32], top_n: usize) -> Vec<f32> {
        let (width, tokens) = (self.width, self.tokens);
        let rows = states.len().checked_div(width).unwrap_or(0);
        if self.is_empty() || rows == 0 {
            return vec![0.0; rows];
        }
        let stride = tokens.next_multiple_of(SLOTS);
        let mut products = vec![0f32; rows * stride];
        self.products(&states[..rows * width], &mut products);
        let n = top_n.clamp(1, tokens);
        let mut relevance = vec![0f32; rows];
        largest_sums(&mut products, stride, tokens, n, &mut relevance);
        for (relevance, state) in relevance.iter_mut().zip(states.chunks_exact(width)) {
            *relevance *= inverse_length(state) / n as f32;
        }
        relevance
    }

    /// For each state (`rows × width`) the `count` visual tokens that resemble it most, with the cosine similarities, best
    /// first.
    pub fn nearest(&self, states: &[f32], count: usize) -> Vec<Vec<(u32, f32)>> {
        let rows = states.len().checked_div(self.width).unwrap_or(0);
        if self.is_empty() || rows == 0 {
            return vec![Vec::new(); rows];
        }
        let stride = self.tokens.next_multiple_of(SLOTS);
        let mut products = vec![0f32; rows * stride];
        self.products(&states[..rows * self.width], &mut products);
        let nearest = |(products, state): (&[f32], &[f32])| {
            let scale = inverse_length(state);
            let mut order: Vec<(u32, f32)> =
                (0..).zip(products[..self.tokens].iter().map(|p| p * scale)).collect();
            let by = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
            if (1..order.len()).contains(&count) {
                order.select_nth_unstable_by(count - 1, by);
            }
            order.truncate(count);
            order.sort_unstable_by(by);
            order
        };
        products.chunks_exact(stride).zip(states.chunks_exact(self.width)).map(nearest).collect()
    }

    /// `products[r * stride + t] = states[r] · unit[t]`, `stride` being the number of tokens rounded up to whole blocks.
    fn products(&self, states: &[f32], products: &mut [f32]) {
        let (width, blocks) = (self.width, self.tokens.div_ceil(SLOTS));
        let rows = states.len() / width;
        let unit = UNIT.div_ceil(rows * width * SLOTS).min(blocks);
        let out = DisjointSliceMut::new(products);
        ThreadPool::global().run(blocks.div_ceil(unit), &|at| {
            let (from, to) = (at * unit, blocks.min((at + 1) * unit));
            let (slots, keys) = ((to - from) * SLOTS, &self.unit[from * width * SLOTS..to * width * SLOTS]);
            let mut part = vec![0f32; rows * slots];
            scores_f32(states, width, keys, to - from, &mut part, slots);
            for (row, part) in part.chunks_exact(slots).enumerate() {
                // SAFETY: the blocks are this unit's.
                unsafe { out.slice((row * blocks + from) * SLOTS, slots) }.copy_from_slice(part);
            }
        });
    }
}

/// For every node of a tree the row of its verify pass (the root's is 0) whose state is compared with the visual tokens.
pub(crate) fn rows_of_drafts(tree: &Tree, at: StateAt) -> Vec<usize> {
    match at {
        StateAt::Draft => (1..=tree.len()).collect(),
        StateAt::Before => {
            tree.nodes().iter().map(|node| node.parent.map_or(0, |parent| parent + 1)).collect()
        }
    }
}

/// Multiplications that are worth handing to another thread.
const UNIT: usize = 1 << 16;

/// 1 / |state|; 0 for a state of zeros.
fn inverse_length(state: &[f32]) -> f32 {
    let [square] = dot_f32::<1>(state, state, state.len());
    if square > 0.0 { 1.0 / square.sqrt() } else { 0.0 }
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
pub(crate) fn ascending(rows: &[Row], signal: impl Fn(&Row) -> Option<f32>) -> Vec<usize> {
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
        let states = VisualStates::new(&[2.0, 0.0, 0.0, 3.0, -1.0, 0.0], 2);
        let got = states.relevance(&[5.0, 0.0], 2);
        assert!((got[0] - 0.5).abs() < 1e-6, "{got:?}"); // cosines 1, 0, -1
        let all = states.relevance(&[5.0, 0.0], 99);
        assert!(all[0].abs() < 1e-6);
    }

    #[test]
    fn relevance_does_not_depend_on_scale() {
        let seen: Vec<f32> = (0..70).map(|i| (i as f32).sin()).collect();
        let scaled: Vec<f32> = seen.iter().map(|v| v * 7.5).collect();
        let (a, b) = (VisualStates::new(&seen, 10), VisualStates::new(&scaled, 10));
        let state: Vec<f32> = (0..20).map(|i| (i as f32 * 0.7).cos()).collect();
        for (x, y) in a.relevance(&state, 3).iter().zip(b.relevance(&state, 3)) {
            assert!((x - y).abs() < 1e-5);
        }
    }

    #[test]
    fn any_number_of_tokens_is_compared_as_the_textbook_does() {
        for (tokens, width, top_n) in [(1, 5, 1), (15, 8, 10), (16, 24, 3), (41, 32, 10), (64, 100, 64)] {
            let seen: Vec<f32> = (0..tokens * width).map(|i| (i as f32 * 1.7).sin()).collect();
            let state: Vec<f32> = (0..width).map(|i| (i as f32 * 0.3).cos() * 9.0).collect();
            let length = |v: &[f32]| v.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            let cosine = |v: &[f32]| {
                let dot: f64 = v.iter().zip(&state).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                dot / length(v) / length(&state)
            };
            let mut cosines: Vec<f64> = seen.chunks_exact(width).map(cosine).collect();
            cosines.sort_by(|a, b| b.total_cmp(a));
            let want = cosines[..top_n].iter().sum::<f64>() / top_n as f64;
            let states = VisualStates::new(&seen, width);
            let two = states.relevance(&[state.clone(), vec![0.0; width]].concat(), top_n);
            assert!((f64::from(two[0]) - want).abs() < 1e-5, "{tokens} x {width}: {} for {want}", two[0]);
            assert_eq!(two[1], 0.0);
        }
    }

    #[test]
    fn the_nearest_come_best_first() {
        let states = VisualStates::new(&[2.0, 0.0, 0.0, 3.0, -1.0, 0.0, 1.0, 1.0, 4.0, 0.0], 2);
        let got = states.nearest(&[5.0, 0.0, 0.0, 2.0], 3);
        assert_eq!(got[0].iter().map(|n| n.0).collect::<Vec<_>>(), [0, 4, 3]);
        assert!((got[0][2].1 - 0.5f32.sqrt()).abs() < 1e-6);
        assert_eq!(got[1][0].0, 1);
        assert_eq!(states.nearest(&[1.0, 0.0], 99)[0].len(), 5);
        assert_eq!(VisualStates::new(&[], 2).nearest(&[1.0, 0.0], 3), [vec![]]);
    }

    /// root - a - c
    ///      \ b - d - e
    fn tree() -> Tree {
        let mut tree = Tree::default();
        let [a, b] = [10, 11].map(|id| tree.push(None, id, None));
        tree.push(Some(a), 12, None);
        let d = tree.push(Some(b), 13, None);
        tree.push(Some(d), 14, None);
        tree
    }

    #[test]
    fn a_draft_is_judged_by_its_own_row_or_by_the_one_that_predicts_it() {
        for (tree, draft, before) in [
            (Tree::default(), &[][..], &[][..]),
            (Tree::chain([7]), &[1], &[0]),
            (Tree::chain([7, 8, 9]), &[1, 2, 3], &[0, 1, 2]),
            (tree(), &[1, 2, 3, 4, 5], &[0, 0, 1, 2, 4]),
        ] {
            assert_eq!(rows_of_drafts(&tree, StateAt::Draft), draft);
            assert_eq!(rows_of_drafts(&tree, StateAt::Before), before);
        }
    }

    #[test]
    fn the_relevance_of_drafts_is_that_of_their_rows_alone() {
        let seen: Vec<f32> = (0..20 * 8).map(|i| (i as f32 * 0.7).sin()).collect();
        let visual = VisualStates::new(&seen, 8);
        let values: Vec<f32> = (0..6 * 8).map(|i| (i as f32 * 1.3).cos()).collect();
        let states = States::new(values.clone(), 8).unwrap();
        for tree in [Tree::chain([1, 2, 3, 4, 5]), tree()] {
            for at in [StateAt::Draft, StateAt::Before] {
                let got =
                    visual.relevance_of_drafts(&states, &tree, RelevanceNeeds { top_n: 3, at }).unwrap();
                // Bit by bit: a row has the same bits among any other rows.
                let alone = |row: usize| visual.relevance(&values[row * 8..(row + 1) * 8], 3)[0];
                let want: Vec<f32> = rows_of_drafts(&tree, at).into_iter().map(alone).collect();
                assert_eq!(got, want, "{at:?}");
            }
        }
    }

    #[test]
    fn nothing_seen_means_nothing_relevant() {
        assert_eq!(VisualStates::new(&[], 4).relevance(&[1.0; 8], 10), [0.0, 0.0]);
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
