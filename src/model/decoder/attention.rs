//! Attention of new rows over one layer of the cache, on the CPU.

use super::{
    cache::Cache,
    kernels::{self, SLOTS},
    team::{Shards, Team},
};

/// Multiply-adds below which one thread is faster than several.
const ALONE: usize = 60_000;

/// Which of the new rows a new row sees; all earlier slots are visible to every row.
#[derive(Clone, Debug, PartialEq)]
pub enum Mask {
    /// Each row sees the rows before it and itself.
    Causal,
    /// Row `r` sees the new rows `paths[r]`, ascending, itself last: the path from a tree's root to a node.
    Paths(Vec<Vec<usize>>),
}

impl Mask {
    /// Rows that this mask is for; none for a causal mask, which fits any number.
    pub fn rows(&self) -> Option<usize> {
        match self {
            Mask::Causal => None,
            Mask::Paths(paths) => Some(paths.len()),
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
/// A row's sums run over its visible slots in ascending order, and its softmax over them side by side. A node of a tree
/// therefore gets, bit for bit, what it would have got as the last row of a chain.
pub(super) fn attend<'a>(
    cache: &Cache,
    layer: usize,
    shape: Shape,
    rows: usize,
    mask: &Mask,
    q: &(dyn Fn(usize) -> &'a [f32] + Sync),
    out: &mut [f32],
) {
    let Shape { heads, kv_heads, head_dim: d } = shape;
    let (group, prefix) = (heads / kv_heads, cache.len());
    let scale = 1.0 / (d as f32).sqrt();
    let shards = Shards::new(out);
    // The queries of a key head are its rows times the heads of its group; a unit takes some of them.
    let queries = rows * group;
    let team = Team::global();
    let alone = rows * heads * d * (prefix + rows) < ALONE;
    let taken =
        if alone { QUERIES } else { (queries * kv_heads).div_ceil(2 * team.members()).clamp(1, QUERIES) };
    let units = queries.div_ceil(taken);
    let unit = |unit: usize| {
        let (kv, first) = (unit / units, unit % units * taken);
        let queries = first..(first + taken).min(queries);
        let place = |n: usize| (n / group, kv * group + n % group);
        let last_row = place(queries.end - 1).0;
        let slots = match mask {
            Mask::Causal => prefix + last_row + 1,
            Mask::Paths(_) => prefix + rows,
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
                    Mask::Paths(paths) => {
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
            }
            sums.resize(queries.len() * d, 0.0);
            kernels::weighted_sum(weights, stride, head.values, slots, factors, d, sums);
            for (n, sum) in queries.zip(sums.chunks_exact(d)) {
                let (r, h) = place(n);
                // SAFETY: each row's head belongs to one unit.
                unsafe { shards.slice((r * heads + h) * d, d) }.copy_from_slice(sum);
            }
        });
    };
    if alone {
        (0..kv_heads * units).for_each(unit);
    } else {
        team.run(kv_heads * units, &unit);
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
