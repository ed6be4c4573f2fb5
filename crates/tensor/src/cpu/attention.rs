//! Attention of new rows over one layer of the cache, on the CPU.

use super::{
    cache::Cache,
    kernels::{self, Queries, SLOTS},
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

/// Queries of one unit of work: a loaded key or value serves all of them.
const QUERIES: usize = 64;
/// Queries of a tile, to which units are rounded.
const TILE: usize = 8;
/// Scores of one unit beyond which it takes fewer queries, so that they stay in the processor's cache (1 MiB).
const SCORES: usize = 1 << 18;
/// Slots whose keys or values are used for all queries of a unit before the next ones are read.
const SPAN: usize = 128;
/// Slots from which a unit takes all queries of a key head, if that leaves a unit for each thread: the keys are read once.
const LONG: usize = 2048;

/// `out[r]` (`heads × head_dim`) = attention of the queries `q(r)` over the slots in use before the pass and the visible new
/// ones, whose keys and values are already written.
///
/// With `quantized`, `out` is quantized too; a head must then be whole blocks.
///
/// A row's sums run over its visible slots in ascending order, and its softmax over them without gaps. So the result of a tree
/// node is bit-identical to the result of a chain's last row.
#[expect(clippy::too_many_arguments, reason = "the operands of one layer's attention")]
pub(crate) fn attend<'a>(
    cache: &Cache,
    layer: usize,
    shape: AttentionShape,
    rows: usize,
    mask: &Mask,
    q: &(dyn Fn(usize) -> &'a [f32] + Sync),
    out: &mut [f32],
    quantized: Option<DisjointRowsMut<'_>>,
    probe: Option<(&AttentionProbe, &mut ProbedLayer)>,
) {
    let AttentionShape { heads, kv_heads, head_dim: d } = shape;
    let group = heads / kv_heads;
    let prefix = match mask {
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
    let pool = ThreadPool::global();
    let single_threaded = rows * heads * d * (cache.len() + rows) < SINGLE_THREADED;
    let taken = if single_threaded {
        QUERIES
    } else {
        let slots = cache.len() + rows;
        let units = pool.members() * if slots < LONG { 2 } else { 1 };
        let most = (SCORES / slots / TILE * TILE).clamp(TILE, QUERIES);
        (queries * kv_heads).div_ceil(units).clamp(1, most)
    };
    let units = queries.div_ceil(taken);
    let unit = |unit: usize| {
        let (kv, first) = (unit / units, unit % units * taken);
        let queries = first..(first + taken).min(queries);
        let row_and_head = |n: usize| (n / group, kv * group + n % group);
        let last_row = row_and_head(queries.end - 1).0;
        let slots = match mask {
            Mask::Causal => prefix + last_row + 1,
            Mask::Paths { .. } => cache.len() + rows,
        };
        let head = cache.head(layer, kv);
        let stride = slots.next_multiple_of(SLOTS);
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { own, weights, factors, path: path_weights, sums, wide } = scratch;
            let values = queries.clone().map(|n| {
                let (r, h) = row_and_head(n);
                &q(r)[h * d..(h + 1) * d]
            });
            own.set(d, scale, values, head.keys);
            weights.resize(queries.len() * stride, 0.0);
            for (start, count) in spans(slots) {
                let keys = head.keys.from_slot(start, d);
                kernels::scores(own, keys, count, wide, &mut weights[start..], stride);
            }
            factors.clear();
            for (n, weights) in queries.clone().zip(weights.chunks_exact_mut(stride)) {
                let weights = &mut weights[..slots];
                let r = row_and_head(n).0;
                let sum = match mask {
                    Mask::Causal => {
                        let (visible, hidden) = weights.split_at_mut(prefix + r + 1);
                        hidden.fill(0.0);
                        kernels::softmax_unnormalized(visible)
                    }
                    Mask::Paths { paths, .. } => {
                        let path = &paths[r];
                        // For the softmax the scores of the path move next to the prefix, as in a chain.
                        for (to, row) in path.iter().enumerate() {
                            weights[prefix + to] = weights[prefix + row];
                        }
                        let sum = kernels::softmax_unnormalized(&mut weights[..prefix + path.len()]);
                        path_weights.clear();
                        path_weights.extend_from_slice(&weights[prefix..prefix + path.len()]);
                        weights[prefix..].fill(0.0);
                        for (weight, row) in path_weights.iter().zip(path) {
                            weights[prefix + row] = *weight;
                        }
                        sum
                    }
                };
                factors.push(1.0 / sum);
                if let Some((probe, peaks, shares)) = &probe {
                    let at = r * heads + row_and_head(n).1;
                    let spans = probe.spans.ranges_below(slots);
                    let peak =
                        spans.fold(0f32, |peak, span| weights[span].iter().copied().fold(peak, f32::max));
                    // SAFETY: each row's head belongs to one unit.
                    unsafe { peaks.set(at, peak / sum) };
                    if probe.by_head {
                        let width = probe.spans.len();
                        // SAFETY: each row's head belongs to one unit.
                        let shares = unsafe { shares.slice(at * width, width) };
                        let probed = probe.spans.ranges_below(slots).flat_map(|span| &weights[span]);
                        // Slots beyond the row's own have no weight; the buffer holds another layer's.
                        let probed = probed.chain(std::iter::repeat(&0.0));
                        shares.iter_mut().zip(probed).for_each(|(share, w)| *share = w / sum);
                    }
                }
            }
            sums.clear();
            sums.resize(queries.len() * d, 0.0);
            for (start, count) in spans(slots) {
                let values = head.values.from_slot(start, d);
                kernels::add_weighted(&weights[start..], stride, values, count, d, wide, sums);
            }
            for ((n, sum), factor) in queries.zip(sums.chunks_exact_mut(d)).zip(factors) {
                sum.iter_mut().for_each(|v| *v *= *factor);
                let (r, h) = row_and_head(n);
                let at = (r * heads + h) * d;
                // SAFETY: each row's head belongs to one unit.
                unsafe {
                    out.slice(at, d).copy_from_slice(sum);
                    if let Some(quantized) = &quantized {
                        quantized.quantize(at, sum);
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

/// The spans of so many slots: the first slot of each, and its number of slots.
fn spans(slots: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..slots).step_by(SPAN).map(move |start| (start, SPAN.min(slots - start)))
}

#[derive(Default)]
struct Scratch {
    /// Queries, scaled by `1 / sqrt(head_dim)`.
    own: Queries,
    /// Their scores, then their unnormalized weights.
    weights: Vec<f32>,
    /// One over the sum of each query's weights.
    factors: Vec<f32>,
    path: Vec<f32>,
    sums: Vec<f32>,
    /// Keys or values of a span, widened.
    wide: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}
