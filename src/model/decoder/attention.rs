//! Attention of new rows over one layer of the cache, on the CPU.

use super::{
    cache::Cache,
    kernels::{self, DisjointBlocksMut, SLOTS},
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::model::VisualSpans;

/// Multiply-adds below which one thread is faster than several.
const ALONE: usize = 60_000;

/// Which slots a new row sees.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Each row sees every slot before it and itself.
    Causal,
    /// Rows of a tree.
    Paths {
        /// Every row sees the slots before this one.
        shared: usize,
        /// What row `r` sees beyond: slots counted from `shared`, ascending, its own last. That is the path from the tree's
        /// root to its node; nodes fed earlier may be on it.
        paths: Vec<Vec<usize>>,
    },
}

impl Mask {
    /// Rows that this mask is for; none for a causal mask, which fits any number.
    pub fn rows(&self) -> Option<usize> {
        match self {
            Mask::Causal => None,
            Mask::Paths { paths, .. } => Some(paths.len()),
        }
    }
}

/// What is asked about where rows look.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionProbe {
    /// The slots that are watched: the visual tokens.
    pub spans: VisualSpans,
    /// Also sum the weights by layer and key head.
    pub by_head: bool,
}

/// Where rows look: attention weights on the watched slots, each a share of all that a row's head sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionStats {
    /// For each row the largest weight on one watched slot, mean over layers and heads.
    pub peaks: Vec<f32>,
    /// For each layer, key head and watched slot the weights, summed over the rows and the heads of the group.
    pub by_head: Vec<f32>,
}

/// One layer's weights on the watched slots while it runs.
#[derive(Default)]
pub(super) struct Seen {
    /// `rows × heads`.
    peaks: Vec<f32>,
    /// `rows × heads × slots`, where asked.
    weights: Vec<f32>,
}

impl Seen {
    fn prepare(&mut self, watch: &AttentionProbe, rows: usize, heads: usize) {
        self.peaks.resize(rows * heads, 0.0);
        self.weights.resize(if watch.by_head { rows * heads * watch.spans.len() } else { 0 }, 0.0);
    }

    /// Add one layer to the whole; `layers` in all.
    pub fn add_to(&self, gaze: &mut AttentionStats, watch: &AttentionProbe, shape: Shape, layers: usize) {
        let (heads, n) = (shape.heads, watch.spans.len());
        gaze.peaks.resize(self.peaks.len() / heads, 0.0);
        for (sum, peaks) in gaze.peaks.iter_mut().zip(self.peaks.chunks_exact(heads)) {
            *sum += peaks.iter().sum::<f32>() / (heads * layers) as f32;
        }
        if watch.by_head {
            let start = gaze.by_head.len();
            gaze.by_head.resize(start + shape.kv_heads * n, 0.0);
            let group = heads / shape.kv_heads;
            for (index, weights) in self.weights.chunks_exact(n.max(1)).enumerate() {
                let at = start + (index % heads / group) * n;
                gaze.by_head[at..at + n].iter_mut().zip(weights).for_each(|(sum, w)| *sum += w);
            }
        }
    }
}

/// The shape of a layer's attention.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

/// Queries of one unit of work.
const QUERIES: usize = 8;

/// `out[r]` (`heads × head_dim`) = attention of the queries `q(r)` over the slots in use before the pass and the visible new
/// ones, which are already written.
///
/// With `quantized`, what goes to `out` is quantised too; the width of a head is whole blocks then.
///
/// A row's sums run over its visible slots in ascending order, and its softmax over them side by side. A node of a tree
/// therefore gets, bit for bit, what it would have got as the last row of a chain.
#[expect(clippy::too_many_arguments, reason = "one layer: where, what, who sees what, and what is watched")]
pub(super) fn attend<'a>(
    cache: &Cache,
    layer: usize,
    shape: Shape,
    rows: usize,
    mask: &Mask,
    q: &(dyn Fn(usize) -> &'a [f32] + Sync),
    out: &mut [f32],
    quantized: Option<DisjointBlocksMut<'_>>,
    watch: Option<(&AttentionProbe, &mut Seen)>,
) {
    let Shape { heads, kv_heads, head_dim: d } = shape;
    let group = heads / kv_heads;
    let prefix = match mask {
        Mask::Causal => cache.len(),
        Mask::Paths { shared, .. } => *shared,
    };
    let scale = 1.0 / (d as f32).sqrt();
    let shards = DisjointSliceMut::new(out);
    let watch = watch.map(|(watch, seen)| {
        seen.prepare(watch, rows, heads);
        (watch, DisjointSliceMut::new(&mut seen.peaks), DisjointSliceMut::new(&mut seen.weights))
    });
    // The queries of a key head are its rows times the heads of its group; a unit takes some of them.
    let queries = rows * group;
    let pool = ThreadPool::global();
    let alone = rows * heads * d * (cache.len() + rows) < ALONE;
    let taken =
        if alone { QUERIES } else { (queries * kv_heads).div_ceil(2 * pool.members()).clamp(1, QUERIES) };
    let units = queries.div_ceil(taken);
    let unit = |unit: usize| {
        let (kv, first) = (unit / units, unit % units * taken);
        let queries = first..(first + taken).min(queries);
        let place = |n: usize| (n / group, kv * group + n % group);
        let last_row = place(queries.end - 1).0;
        let slots = match mask {
            Mask::Causal => prefix + last_row + 1,
            Mask::Paths { .. } => cache.len() + rows,
        };
        let head = cache.head(layer, kv);
        let stride = slots.next_multiple_of(SLOTS);
        SCRATCH.with_borrow_mut(|scratch| {
            let Scratch { scaled, weights, factors, path: aside, sums } = scratch;
            scaled.clear();
            for n in queries.clone() {
                let (r, h) = place(n);
                scaled.extend(q(r)[h * d..(h + 1) * d].iter().map(|v| v * scale));
            }
            weights.resize(queries.len() * stride, 0.0);
            kernels::scores(scaled, d, head.keys, slots, weights, stride);
            factors.clear();
            for (n, weights) in queries.clone().zip(weights.chunks_exact_mut(stride)) {
                let weights = &mut weights[..slots];
                let r = place(n).0;
                let sum = match mask {
                    Mask::Causal => {
                        let (seen, unseen) = weights.split_at_mut(prefix + r + 1);
                        unseen.fill(0.0);
                        kernels::softmax_unnormalized(seen)
                    }
                    Mask::Paths { paths, .. } => {
                        let path = &paths[r];
                        // Scores of a path move next to the prefix for the softmax, as a chain's would lie.
                        for (to, row) in path.iter().enumerate() {
                            weights[prefix + to] = weights[prefix + row];
                        }
                        let sum = kernels::softmax_unnormalized(&mut weights[..prefix + path.len()]);
                        aside.clear();
                        aside.extend_from_slice(&weights[prefix..prefix + path.len()]);
                        weights[prefix..].fill(0.0);
                        for (weight, row) in aside.iter().zip(path) {
                            weights[prefix + row] = *weight;
                        }
                        sum
                    }
                };
                factors.push(1.0 / sum);
                if let Some((watch, peaks, shares)) = &watch {
                    let at = r * heads + place(n).1;
                    let spans = watch.spans.ranges_below(slots);
                    let peak =
                        spans.fold(0f32, |peak, span| weights[span].iter().copied().fold(peak, f32::max));
                    // SAFETY: each row's head belongs to one unit.
                    unsafe { peaks.set(at, peak / sum) };
                    if watch.by_head {
                        let width = watch.spans.len();
                        // SAFETY: as above.
                        let shares = unsafe { shares.slice(at * width, width) };
                        let watched = watch.spans.ranges_below(slots).flat_map(|span| &weights[span]);
                        shares
                            .iter_mut()
                            .zip(watched.chain(std::iter::repeat(&0.0)))
                            .for_each(|(share, w)| *share = w / sum);
                    }
                }
            }
            sums.resize(queries.len() * d, 0.0);
            kernels::weighted_sum(weights, stride, head.values, slots, factors, d, sums);
            for (n, sum) in queries.zip(sums.chunks_exact(d)) {
                let (r, h) = place(n);
                let at = (r * heads + h) * d;
                // SAFETY: each row's head belongs to one unit.
                unsafe {
                    shards.slice(at, d).copy_from_slice(sum);
                    if let Some(quantized) = &quantized {
                        quantized.quantize(at, sum);
                    }
                }
            }
        });
    };
    if alone {
        (0..kv_heads * units).for_each(unit);
    } else {
        pool.run(kv_heads * units, &unit);
    }
}

/// A thread's buffers: scaled queries, their scores or weights, their factors, a path's weights, their sums.
#[derive(Default)]
struct Scratch {
    scaled: Vec<f32>,
    weights: Vec<f32>,
    factors: Vec<f32>,
    path: Vec<f32>,
    sums: Vec<f32>,
}

thread_local! {
    static SCRATCH: std::cell::RefCell<Scratch> = std::cell::RefCell::default();
}
