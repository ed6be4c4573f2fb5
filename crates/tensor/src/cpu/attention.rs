//! Attention of new rows over one layer of the cache, on the CPU.

use std::ops::Range;

use super::{
    cache::CpuCache,
    kernels::{OnlineSoftmax, Panel, Queries, SEGMENT, SLOTS, Weights},
    linear::DisjointRowsMut,
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::attention::{AttentionProbe, AttentionShape, AttentionStats, Mask};
use crate::cache::DeviceCache as _;

/// Multiply-adds below which one thread is faster than several.
const SINGLE_THREADED: usize = 60_000;

/// The weights of one layer on the measured slots.
#[derive(Default)]
pub(crate) struct ProbedLayer {
    /// `rows × heads`.
    peaks: Vec<f32>,
    /// `rows × heads × slots`, if requested.
    weights: Vec<f32>,
}

impl ProbedLayer {
    fn resize(&mut self, probe: &AttentionProbe, rows: usize, heads: usize) {
        self.peaks.resize(rows * heads, 0.0);
        self.weights.resize(if probe.by_head { rows * heads * probe.spans.len() } else { 0 }, 0.0);
    }

    /// Add this layer to the statistics of a model of `layers` layers.
    pub(crate) fn add_to(
        &self,
        stats: &mut AttentionStats,
        probe: &AttentionProbe,
        shape: AttentionShape,
        layers: usize,
    ) {
        let (heads, n) = (shape.heads, probe.spans.len());
        stats.peaks.resize(self.peaks.len() / heads, 0.0);
        for (sum, peaks) in stats.peaks.iter_mut().zip(self.peaks.chunks_exact(heads)) {
            *sum += peaks.iter().sum::<f32>() / (heads * layers) as f32;
        }
        if probe.by_head {
            let start = stats.by_head.len();
            stats.by_head.resize(start + shape.kv_heads * n, 0.0);
            let group = heads / shape.kv_heads;
            for (index, weights) in self.weights.chunks_exact(n.max(1)).enumerate() {
                let at = start + (index % heads / group) * n;
                stats.by_head[at..at + n].iter_mut().zip(weights).for_each(|(sum, w)| *sum += w);
            }
        }
    }
}

/// Queries of one unit of work, which share a converted segment of keys and values.
const QUERIES: usize = 256;
/// Queries whose scores are computed at once: whole tiles of all kernels.
const TILE: usize = 24;
/// Weights of one unit that a probe may keep (1 MiB).
const PROBED: usize = 1 << 18;
/// Slots from which a unit takes all queries of a key head, if that leaves a unit for each thread: the keys are read once.
const LONG: usize = 2048;

impl Mask {
    /// The slots before the row's path (all of them in a chain), and the rest of its path within some of the slots that it sees,
    /// counted in their order.
    fn seen(&self, row: usize, shared: usize, slots: Range<usize>) -> (usize, &[usize]) {
        match self {
            Mask::Causal => ((shared + row + 1).clamp(slots.start, slots.end) - slots.start, &[]),
            Mask::Paths { paths, .. } => {
                let path = &paths[row];
                let part = |slot: usize| slot.saturating_sub(shared).min(path.len());
                let before = shared.clamp(slots.start, slots.end) - slots.start;
                (before, &path[part(slots.start)..part(slots.end)])
            }
        }
    }
}

/// `out[r]` (`heads × head_dim`) = attention of the queries `q(r)` over the slots in use before the pass and the visible new
/// ones, whose keys and values are already written.
///
/// With `quantized`, `out` is quantized too, to the values from a place on; a head must then be whole blocks.
///
/// With a window, a row sees only so many of the last of its visible slots.
///
/// A row's softmax runs over segments of the slots that it sees, without gaps and in ascending order, and so
/// do the sums of each segment. So the result of a tree node is bit-identical to the result of a chain's last
/// row, and a row's result does not depend on the rows that are computed with it.
#[expect(clippy::too_many_arguments, reason = "the operands of one layer's attention")]
pub(crate) fn attend<'a>(
    cache: &CpuCache,
    layer: usize,
    shape: AttentionShape,
    rows: usize,
    (mask, window): (&Mask, Option<usize>),
    q: &(dyn Fn(usize) -> &'a [f32] + Sync),
    out: &mut [f32],
    quantized: Option<(DisjointRowsMut<'_>, usize)>,
    probe: Option<(&AttentionProbe, &mut ProbedLayer)>,
) {
    let AttentionShape { heads, kv_heads, head_dim: d } = shape;
    let group = heads / kv_heads;
    let shared = match mask {
        Mask::Causal => cache.len(),
        Mask::Paths { shared, .. } => *shared,
    };
    let scale = 1.0 / (d as f32).sqrt();
    let out = DisjointSliceMut::new(out);
    let probe = probe.map(|(probe, probed)| {
        probed.resize(probe, rows, heads);
        (probe, DisjointSliceMut::new(&mut probed.peaks), DisjointSliceMut::new(&mut probed.weights))
    });
    // A key head has the queries of all rows and of the heads of its group; a unit computes some of them.
    let queries = rows * group;
    let total = cache.len() + rows;
    let pool = ThreadPool::global();
    let single_threaded = rows * heads * d * total < SINGLE_THREADED;
    let most = if probe.is_some() { (PROBED / total / TILE * TILE).clamp(TILE, QUERIES) } else { QUERIES };
    let taken = if single_threaded {
        most
    } else {
        let units = pool.members() * if total < LONG { 2 } else { 1 };
        (queries * kv_heads).div_ceil(units).clamp(1, most)
    };
    let units = queries.div_ceil(taken);
    let taken = queries.div_ceil(units);
    let unit = |unit: usize| {
        let (kv, first) = (unit / units, unit % units * taken);
        let queries = first..(first + taken).min(queries);
        let row_and_head = |n: usize| (n / group, kv * group + n % group);
        let seen_by = |row: usize| match mask {
            Mask::Causal => shared + row + 1,
            Mask::Paths { paths, .. } => shared + paths[row].len(),
        };
        // Of the slots that a row sees, in their order, how many are before its window.
        let passed = |row: usize| window.map_or(0, |window| seen_by(row).saturating_sub(window));
        let rows = row_and_head(queries.start).0..row_and_head(queries.end - 1).0 + 1;
        let longest = rows.clone().map(seen_by).max().unwrap_or(0);
        // Segments begin at the same slots whatever rows are computed together.
        let earliest = rows.map(passed).min().unwrap_or(0) / SEGMENT * SEGMENT;
        let head = cache.head(layer, kv);
        SCRATCH.with_borrow_mut(|scratch| {
            let QueryScratch { own, panel, weights, softmax, path: path_weights, sums, probed } = scratch;
            let values = queries.clone().map(|n| {
                let (r, h) = row_and_head(n);
                &q(r)[h * d..(h + 1) * d]
            });
            own.set(d, scale, values, head.keys);
            softmax.reset(queries.len());
            sums.clear();
            sums.resize(queries.len() * d, 0.0);
            probed.clear();
            probed.resize(if probe.is_some() { queries.len() * total } else { 0 }, 0.0);
            for start in (earliest..longest).step_by(SEGMENT) {
                let seen = start..(start + SEGMENT).min(longest);
                // The slots that hold them: the slots of a tree have gaps.
                let held = match mask {
                    Mask::Paths { .. } if seen.end > shared => start.min(shared / SLOTS * SLOTS)..total,
                    _ => seen.clone(),
                };
                let (keys, values) =
                    (head.keys.from_slot(held.start, d), head.values.from_slot(held.start, d));
                let mut segment = panel.load(keys, values, held.len(), d, queries.len());
                for tile in (0..queries.len()).step_by(TILE) {
                    let tile = tile..(tile + TILE).min(queries.len());
                    let slots = match mask {
                        Mask::Causal => {
                            mask.seen(row_and_head(queries.start + tile.end - 1).0, shared, seen.clone()).0
                        }
                        Mask::Paths { .. } => held.len(),
                    };
                    if slots == 0 {
                        continue;
                    }
                    let stride = slots.next_multiple_of(SLOTS);
                    weights.resize(tile.len() * stride, 0.0);
                    segment.scores(own, tile.clone(), slots, weights, stride);
                    for (n, weights) in tile.clone().zip(weights.chunks_exact_mut(stride)) {
                        let weights = &mut weights[..slots];
                        let row = row_and_head(queries.start + n).0;
                        let (before, path) = mask.seen(row, shared, seen.clone());
                        let outside = passed(row).saturating_sub(start).min(before + path.len());
                        let place = |row: usize| shared + row - held.start;
                        // For the softmax the scores of the path move next to those before it, as in a chain.
                        for (to, row) in path.iter().enumerate() {
                            weights[before + to] = weights[place(*row)];
                        }
                        softmax.weigh(n, &mut weights[outside..before + path.len()]);
                        weights[..outside].fill(0.0);
                        path_weights.clear();
                        path_weights.extend_from_slice(&weights[before..before + path.len()]);
                        weights[before..].fill(0.0);
                        for (weight, row) in path_weights.iter().zip(path) {
                            weights[place(*row)] = *weight;
                        }
                        if probe.is_some() {
                            let probed = &mut probed[n * total..][..total];
                            let keep = softmax.keep()[n];
                            probed.iter_mut().for_each(|weight| *weight *= keep);
                            probed[start..start + before].copy_from_slice(&weights[..before]);
                            path.iter().for_each(|row| probed[shared + row] = weights[place(*row)]);
                        }
                    }
                    let keep = &softmax.keep()[tile.clone()];
                    let weights = Weights { rows: weights, stride, slots, keep };
                    segment.add_weighted(weights, &mut sums[tile.start * d..tile.end * d]);
                }
            }
            for (n, sum) in sums.chunks_exact_mut(d).enumerate() {
                let ((r, h), total_weight) = (row_and_head(queries.start + n), softmax.total(n));
                let (factor, at) = (1.0 / total_weight, (r * heads + h) * d);
                sum.iter_mut().for_each(|v| *v *= factor);
                // SAFETY: each row's head belongs to one unit.
                unsafe {
                    out.slice(at, d).copy_from_slice(sum);
                    if let Some((quantized, first)) = &quantized {
                        quantized.quantize(first + at, sum);
                    }
                }
                if let Some((probe, peaks, shares)) = &probe {
                    let (at, weights) = (r * heads + h, &probed[n * total..][..total]);
                    let spans = probe.spans.ranges_below(total);
                    let peak =
                        spans.fold(0f32, |peak, span| weights[span].iter().copied().fold(peak, f32::max));
                    // SAFETY: each row's head belongs to one unit.
                    unsafe { peaks.set(at, peak / total_weight) };
                    if probe.by_head {
                        let width = probe.spans.len();
                        // SAFETY: each row's head belongs to one unit.
                        let shares = unsafe { shares.slice(at * width, width) };
                        let probed = probe.spans.ranges_below(total).flat_map(|span| &weights[span]);
                        // Slots beyond the row's own have no weight; the buffer holds another layer's.
                        let probed = probed.chain(std::iter::repeat(&0.0));
                        shares.iter_mut().zip(probed).for_each(|(share, w)| *share = w / total_weight);
                    }
                }
            }
        });
    };
    if single_threaded {
        (0..kv_heads * units).for_each(unit);
    } else {
        pool.run(kv_heads * units, &unit);
    }
}

#[derive(Default)]
struct QueryScratch {
    /// Queries, scaled by `1 / sqrt(head_dim)`.
    own: Queries,
    panel: Panel,
    /// The scores of a tile on a segment, then its weights.
    weights: Vec<f32>,
    softmax: OnlineSoftmax,
    path: Vec<f32>,
    sums: Vec<f32>,
    /// All weights of each query, if there is a probe.
    probed: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<QueryScratch> = std::cell::RefCell::default();
}

#[cfg(test)]
mod tests;
