//! What vision towers are made of, on any device: activations, and how the rows of a temporal grid are laid out.

use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(1.702 x).
    QuickGelu,
    /// GELU, approximated with tanh.
    GeluTanh,
    /// GELU.
    GeluErf,
}

/// Rotary angles of the rows of a temporal grid.
#[derive(Clone, Debug)]
pub struct Angles {
    /// Cosines, `rows × head_dim / 2`.
    pub cos: Vec<f32>,
    pub sin: Vec<f32>,
}

/// A row of several, and its weight in a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    pub row: u32,
    pub weight: f32,
}

/// How the rows of a temporal grid are ordered, which attend to each other, and how the result is composed.
#[derive(Clone, Debug)]
pub struct TowerLayout {
    pub heads: usize,
    pub head_dim: usize,
    /// For each row of states, its patch.
    pub order: Vec<u32>,
    /// Adjacent rows that attend to each other in layers with windows; together all rows, in order.
    pub windows: Vec<Range<usize>>,
    /// Rotation of queries and keys.
    pub angles: Option<Angles>,
    /// Rows of a grid from which its result is made.
    pub sources: usize,
    /// A row of a grid's result is the sum of the taps that these lists have for it; all have one for each row. There is at least
    /// one list.
    pub taps: Vec<Vec<Tap>>,
}

impl TowerLayout {
    /// Values of a row of states.
    pub fn hidden(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Rows of a grid's result.
    pub fn results(&self) -> usize {
        self.taps.first().map_or(0, Vec::len)
    }

    /// Taps of a result that is the rows in another order.
    pub fn reordered(rows: impl IntoIterator<Item = u32>) -> Vec<Vec<Tap>> {
        vec![rows.into_iter().map(|row| Tap { row, weight: 1.0 }).collect()]
    }
}
