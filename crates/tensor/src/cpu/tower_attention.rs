//! Softmax attention among the patches of a window, or of a whole temporal grid.

use std::ops::Range;

use super::{
    kernels::{self, OnlineSoftmax, SEGMENT, SLOTS, Weights, activations},
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::tower::{Angles, TowerLayout};

/// Queries at a time: whole tiles of the scores (8) and of the weighted sums (6).
const QUERIES: usize = 48;
/// Patches of a window from which on every head is a unit of work of its own.
const LARGE: usize = 256;

/// Attention of `grids` temporal grids of rows in `qkv`, each of which holds `3 × heads × width` values; `out` has rows of
/// `heads × width`. With `windows`, within the layout's windows.
pub fn attend(qkv: &[f32], grids: usize, layout: &TowerLayout, windows: bool, out: &mut [f32]) {
    let (patches, heads) = (layout.order.len(), layout.heads);
    let whole = 0..patches;
    let windows = if windows { &layout.windows[..] } else { std::slice::from_ref(&whole) };
    let largest = windows.iter().map(Range::len).max().unwrap_or(0);
    // Small windows: all heads of one window are a unit, whose rows are read once. Large ones: a head is, or a part of its
    // queries if there are few heads for many threads.
    let (units, parts) = if largest < LARGE {
        (1, 1)
    } else {
        let wanted = 4 * ThreadPool::global().members();
        let jobs = (grids * windows.len() * heads).max(1);
        (heads, wanted.div_ceil(jobs).clamp(1, largest.div_ceil(QUERIES)))
    };
    let out = DisjointSliceMut::new(out);
    ThreadPool::global().run(grids * windows.len() * units * parts, &|unit| {
        let (unit, part) = (unit / parts, unit % parts);
        let (at, head) = (unit / units, unit % units);
        let (grid, window) = (at / windows.len(), &windows[at % windows.len()]);
        let whole = heads / units;
        let length = window.len().div_ceil(parts).next_multiple_of(QUERIES);
        let queries = (part * length).min(window.len())..((part + 1) * length).min(window.len());
        let job = WindowAttention { qkv, first: grid * patches, layout, window, queries };
        SCRATCH.with_borrow_mut(|scratch| {
            for head in head * whole..(head + 1) * whole {
                job.run(head, scratch, &out);
            }
        });
    });
}

/// Some queries of a window.
struct WindowAttention<'a> {
    qkv: &'a [f32],
    /// The row of the grid's first patch.
    first: usize,
    layout: &'a TowerLayout,
    /// Rows of the grid that attend to each other.
    window: &'a Range<usize>,
    /// Counted in the window.
    queries: Range<usize>,
}

#[derive(Default)]
struct WindowScratch {
    queries: Vec<f32>,
    /// Interleaved, see [`kernels::scores_f32`].
    keys: Vec<f32>,
    /// Rows of whole vectors.
    values: Vec<f32>,
    row: Vec<f32>,
    weights: Vec<f32>,
    softmax: OnlineSoftmax,
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<WindowScratch> = std::cell::RefCell::default();
}

impl WindowAttention<'_> {
    fn run(&self, head: usize, scratch: &mut WindowScratch, out: &DisjointSliceMut<'_>) {
        let Self { window, queries, .. } = self;
        let (n, d) = (window.len(), self.layout.head_dim);
        let wide = d.next_multiple_of(SLOTS);
        let WindowScratch { queries: q, keys, values, row, weights, softmax, sums } = scratch;
        keys.resize(n.next_multiple_of(SLOTS) * d, 0.0);
        values.resize(n * wide, 0.0);
        row.resize(d, 0.0);
        for i in 0..n {
            self.load(i, 1, head, row);
            let block = &mut keys[i / SLOTS * SLOTS * d..][..SLOTS * d];
            for (slots, value) in block.as_chunks_mut::<SLOTS>().0.iter_mut().zip(row.iter()) {
                slots[i % SLOTS] = *value;
            }
            let (value, rest) = values[i * wide..(i + 1) * wide].split_at_mut(d);
            self.load(i, 2, head, value);
            rest.fill(0.0);
        }
        let scale = (d as f32).powf(-0.5);
        for start in queries.clone().step_by(QUERIES) {
            let count = QUERIES.min(queries.end - start);
            q.resize(count * d, 0.0);
            for (i, q) in q.chunks_exact_mut(d).enumerate() {
                self.load(start + i, 0, head, q);
                activations::scale(q, scale);
            }
            softmax.reset(count);
            sums.clear();
            sums.resize(count * wide, 0.0);
            for from in (0..n).step_by(SEGMENT) {
                let slots = SEGMENT.min(n - from);
                let stride = slots.next_multiple_of(SLOTS);
                weights.resize(count * stride, 0.0);
                kernels::scores_f32(q, d, &keys[from * d..], stride / SLOTS, weights, stride);
                for (i, weights) in weights.chunks_exact_mut(stride).enumerate() {
                    softmax.weigh(i, &mut weights[..slots]);
                }
                let weights = Weights { rows: weights, stride, slots, keep: softmax.keep() };
                kernels::add_weighted_f32(weights, &values[from * wide..], wide, sums);
            }
            for (i, sum) in sums.chunks_exact_mut(wide).enumerate() {
                let factor = 1.0 / softmax.total(i);
                sum.iter_mut().for_each(|sum| *sum *= factor);
                let at = (self.first + window.start + start + i) * self.layout.hidden() + head * d;
                // SAFETY: these rows of this head belong to one unit.
                unsafe { out.slice(at, d).copy_from_slice(&sum[..d]) };
            }
        }
    }

    /// The query (0), key (1) or value (2) of patch `i` of the window; queries and keys are rotated.
    fn load(&self, i: usize, part: usize, head: usize, to: &mut [f32]) {
        let TowerLayout { heads, head_dim: width, .. } = *self.layout;
        let patch = self.window.start + i;
        let at = ((self.first + patch) * 3 + part) * heads * width + head * width;
        to.copy_from_slice(&self.qkv[at..at + width]);
        if let Some(Angles { cos, sin }) = self.layout.angles.as_ref().filter(|_| part < 2) {
            let half = patch * width / 2..(patch + 1) * width / 2;
            kernels::rotate(to, &cos[half.clone()], &sin[half]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain attention in f64, without rotation.
    fn plain(
        qkv: &[f32],
        rows: Range<usize>,
        (heads, d): (usize, usize),
        row: usize,
        head: usize,
    ) -> Vec<f64> {
        let at = |row: usize, part: usize| &qkv[(row * 3 + part) * heads * d + head * d..][..d];
        let dot = |other: usize| {
            let terms = at(row, 0).iter().zip(at(other, 1)).map(|(a, b)| f64::from(*a) * f64::from(*b));
            (terms.sum::<f64>() / (d as f64).sqrt()).exp()
        };
        let total: f64 = rows.clone().map(dot).sum();
        let value = |i: usize| rows.clone().map(|r| dot(r) * f64::from(at(r, 2)[i])).sum::<f64>() / total;
        (0..d).map(value).collect()
    }

    #[test]
    fn every_patch_attends_to_its_window_in_its_grid() {
        for (width, patches, windows) in [
            (8, 7, vec![0..4, 4..7]),
            (12, 300, Vec::from_iter(std::iter::once(0..300))),
            (20, 41, Vec::from_iter(std::iter::once(0..41))),
            (80, 64, Vec::from_iter(std::iter::once(0..64))),
        ] {
            let (heads, grids) = (3, 2);
            let hidden = heads * width;
            let qkv: Vec<f32> = (0..grids * patches * 3 * hidden).map(|i| (i as f32 * 0.7).sin()).collect();
            let layout = TowerLayout {
                heads,
                head_dim: width,
                order: (0..patches as u32).collect(),
                windows: windows.clone(),
                angles: None,
                sources: patches,
                taps: Vec::new(),
            };
            let mut out = vec![0f32; grids * patches * hidden];
            attend(&qkv, grids, &layout, true, &mut out);
            for row in (0..grids * patches).step_by(13) {
                let (grid, patch) = (row / patches, row % patches);
                let window = windows.iter().find(|w| w.contains(&patch)).unwrap();
                let rows = grid * patches + window.start..grid * patches + window.end;
                for head in 0..heads {
                    let want = plain(&qkv, rows.clone(), (heads, width), row, head);
                    let got = &out[row * hidden + head * width..][..width];
                    for (got, want) in got.iter().zip(want) {
                        assert!((f64::from(*got) - want).abs() < 1e-5, "{width} {patches} {row} {head}");
                    }
                }
            }
            // A grid on its own gives the same bits.
            let mut alone = vec![0f32; patches * hidden];
            attend(&qkv[patches * 3 * hidden..], 1, &layout, true, &mut alone);
            let other = &out[patches * hidden..];
            assert!(alone.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
