//! Attention of new rows over one layer of the cache, on the CPU.

use super::{
    cache::Cache,
    kernels::{self, LANES, Visible},
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

/// `out[r]` (`heads × head_dim`) = attention of the queries `q(r)` over the slots in use before the pass and the visible new
/// ones, which are already written.
///
/// A row's sums run over its visible slots in path order. A node of a tree therefore gets, bit for bit, what it would
/// have got as the last row of a chain.
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
    let unit = |unit: usize| {
        let (kv, r) = (unit / rows, unit % rows);
        let head = cache.head(layer, kv);
        let slots = match mask {
            Mask::Causal => prefix + r + 1,
            Mask::Paths(_) => prefix + rows,
        };
        SCORES.with_borrow_mut(|scores| {
            scores.resize(slots.next_multiple_of(LANES), 0.0);
            for h in kv * group..(kv + 1) * group {
                let query = &q(r)[h * d..(h + 1) * d];
                kernels::scores(query, head.keys, slots, scale, scores);
                // SAFETY: each row's head belongs to one unit.
                let out = unsafe { shards.slice((r * heads + h) * d, d) };
                let visible = match mask {
                    Mask::Causal => Visible { prefix: slots, path: &[] },
                    Mask::Paths(paths) => Visible { prefix, path: &paths[r] },
                };
                // Scores of a path move next to the prefix, so that its sums run in the order in which a chain's would.
                for (to, row) in visible.path.iter().enumerate() {
                    scores[prefix + to] = scores[prefix + row];
                }
                let weights = &mut scores[..visible.count()];
                let sum = kernels::softmax_unnormalized(weights);
                kernels::weighted_sum(weights, head.values, visible, 1.0 / sum, out);
            }
        });
    };
    let units = kv_heads * rows;
    if rows * heads * d * (prefix + rows) < ALONE {
        (0..units).for_each(unit);
    } else {
        Team::global().run(units, &unit);
    }
}

thread_local! {
    static SCORES: std::cell::RefCell<Vec<f32>> = const { std::cell::RefCell::new(Vec::new()) };
}
