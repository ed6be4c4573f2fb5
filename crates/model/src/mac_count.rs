//! Multiply-adds (MACs) of a model, from sizes alone: the cost of a tower, a prompt and a token before they are computed.
//!
//! Matrix products and attention are counted apart, because they run at different speeds, and because attention over a prompt
//! grows with the square of its length.

use std::ops::{Add, Mul, Sub};

use crate::config::TextConfig;

/// A number of multiply-adds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MacCount {
    /// Products with weight matrices.
    pub products: f64,
    /// Queries with keys, and weights with values.
    pub attention: f64,
}

impl Add for MacCount {
    type Output = MacCount;

    fn add(self, other: MacCount) -> MacCount {
        MacCount { products: self.products + other.products, attention: self.attention + other.attention }
    }
}

impl Sub for MacCount {
    type Output = MacCount;

    fn sub(self, other: MacCount) -> MacCount {
        self + other * -1.0
    }
}

impl Mul<f64> for MacCount {
    type Output = MacCount;

    fn mul(self, times: f64) -> MacCount {
        MacCount { products: self.products * times, attention: self.attention * times }
    }
}

impl MacCount {
    /// All multiply-adds.
    pub fn total(&self) -> f64 {
        self.products + self.attention
    }
}

/// What it takes to read `rows` rows after `before` others through all layers, without logits.
pub fn prompt(c: &TextConfig, before: usize, rows: usize) -> MacCount {
    let (n, before) = (rows as f64, before as f64);
    // Row i sees the rows before it and itself.
    MacCount { products: n * row(c), attention: slot(c) * n * (before + (n + 1.0) / 2.0) }
}

/// Multiply-adds of attention for a row and one slot of the cache, in all layers: its queries with the keys, and weights with values.
pub fn slot(c: &TextConfig) -> f64 {
    // Layers that attend within a window count as if they saw all slots.
    let of = |layer: usize| if c.is_linear(layer) { 0 } else { c.attention_shape(layer).head_dim };
    (0..c.layers).map(|layer| 2 * c.heads * of(layer)).sum::<usize>() as f64
}

/// Multiply-adds of the logits of a row.
pub fn logits(c: &TextConfig) -> f64 {
    (c.vocab * c.hidden) as f64
}

/// What it takes to write one token after `before` others: a pass of one row, and its logits.
pub fn token(c: &TextConfig, before: usize) -> MacCount {
    prompt(c, before, 1) + MacCount { products: logits(c), attention: 0.0 }
}

/// Multiply-adds of a row in all layers: one for each weight of their matrices, and four for each value of a recurrent state, which
/// is read, changed and read again.
pub fn row(c: &TextConfig) -> f64 {
    let added = c.per_layer().map_or(0, |per_layer| 3 * c.hidden * per_layer.width);
    let attention = |layer: usize| {
        let shape = c.attention_shape(layer);
        let (query, key) = (shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim);
        let gates = if c.output_gate { query } else { 0 };
        c.hidden * (2 * query + gates + if c.has_keys(layer) { 2 * key } else { 0 })
    };
    let feed_forward = |layer: usize| {
        let router = c.experts(layer).map_or(0, |sparse| sparse.experts);
        c.hidden * (3 * c.active_intermediate(layer) + router)
    };
    let linear = c
        .linear
        .map_or(0, |l| c.hidden * (l.channels() + 2 * l.values() + 2 * l.value_heads) + 4 * l.state());
    let mixer = |layer: usize| if c.is_linear(layer) { linear } else { attention(layer) };
    (0..c.layers).map(|layer| mixer(layer) + feed_forward(layer) + added).sum::<usize>() as f64
}

/// The multiply-adds of a vision tower on the patches of a video, and how many of them are done when its progress says so.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerMacCount {
    pub grids: usize,
    /// What comes before the layers, on one temporal grid.
    pub before: MacCount,
    pub layers: Vec<MacCount>,
    /// What comes after them.
    pub after: MacCount,
}

impl TowerMacCount {
    pub fn total(&self) -> MacCount {
        self.one_grid() * self.grids as f64
    }

    fn one_grid(&self) -> MacCount {
        self.layers.iter().fold(self.before + self.after, |sum, layer| sum + *layer)
    }

    /// What is done after `done` of `total` units of progress: a unit is a layer of a chunk, and chunks have equally many
    /// temporal grids, except the last.
    pub fn after(&self, done: usize, total: usize) -> MacCount {
        let depth = self.layers.len().max(1);
        if total == 0 || done >= total {
            return self.total();
        }
        if !total.is_multiple_of(depth) {
            return self.total() * (done as f64 / total as f64);
        }
        let chunk = self.grids.div_ceil(total / depth);
        let (whole, layers) = (done / depth * chunk, done % depth);
        let grids = chunk.min(self.grids.saturating_sub(whole)) as f64;
        let begun = if layers > 0 { self.before } else { MacCount::default() };
        let part = self.layers.iter().take(layers).fold(begun, |sum, layer| sum + *layer);
        self.one_grid() * whole.min(self.grids) as f64 + part * grids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        family::qwen2_vl::{Generation, VisionConfig},
        processor::Grid,
        shapes,
        vision::TowerConfig,
    };

    fn qwen25() -> TowerConfig {
        let config = serde_json::json!({
            "depth": 4, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
            "window_size": 112, "fullatt_block_indexes": [3],
        });
        VisionConfig::from_json(&config, Generation::Qwen25).unwrap().into()
    }

    #[test]
    fn a_prompt_is_the_sum_of_its_parts() {
        let c = shapes::find("tiny").unwrap();
        let whole = prompt(&c, 0, 300);
        let parts = prompt(&c, 0, 128) + prompt(&c, 128, 128) + prompt(&c, 256, 44);
        assert_eq!(whole, parts);
        // Twice as many rows are twice the products and nearly four times the attention.
        let twice = prompt(&c, 0, 600);
        assert_eq!(twice.products, 2.0 * whole.products);
        let ratio = twice.attention / whole.attention;
        assert!((3.9..4.0).contains(&ratio), "{ratio}");
        let by_hand = c.layers * 2 * c.heads * c.head_dim * (1 + 2 + 3);
        assert_eq!(prompt(&c, 0, 3).attention, by_hand as f64);
        assert_eq!(token(&c, 9).products, prompt(&c, 9, 1).products + (c.vocab * c.hidden) as f64);
    }

    #[test]
    fn progress_adds_up_to_the_total() {
        let tower = tower_of(5);
        assert_eq!(tower.after(0, 8), MacCount::default());
        // Two chunks of three and two grids, of four layers each.
        let done: Vec<f64> = (0..=8).map(|done| tower.after(done, 8).total()).collect();
        assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
        assert_eq!(tower.after(4, 8), tower.one_grid() * 3.0);
        assert_eq!(tower.after(8, 8), tower.total());
        // The layer of full attention takes longer than one of windows.
        let layer = |n: usize| done[n] - done[n - 1];
        assert!(layer(3) < layer(4));
        // Units that are not layers count equally.
        assert_eq!(tower.after(1, 5), tower.total() * 0.2);
        let pictures = TowerMacCount { grids: 1, ..tower };
        assert_eq!(pictures.total() * 5.0, tower_of(5).total());
    }

    fn tower_of(grids: usize) -> TowerMacCount {
        qwen25().mac_count(Grid { t: grids, h: 12, w: 12 })
    }
}
