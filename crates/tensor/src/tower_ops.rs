//! The operations of which vision towers consist, beside those of decoders.
//!
//! The states of a chunk of temporal grids are rows below each other, grid by grid. A device that is faster with few rows at a
//! time passes them through several operations in parts ([`TowerOps::rows_at_once`]); attention is computed for a whole chunk.

use std::ops::Range;

use crate::Result;

use super::{
    fused::FusedMatrix,
    ops::{Loaded, Ops},
    states::States,
};
use crate::Weights;

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x · sigmoid(1.702 x).
    QuickGelu,
    /// GELU, approximated with tanh.
    GeluTanh,
    /// GELU.
    GeluErf,
}

/// Some rows of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first of them.
    pub start: usize,
    /// Their number.
    pub rows: usize,
    /// Rows of the chunk.
    pub of: usize,
}

impl Part {
    /// All of `rows` rows.
    pub fn all(rows: usize) -> Self {
        Self { start: 0, rows, of: rows }
    }

    /// The parts of `of` rows, up to `most` (at least 1) at a time.
    pub fn each(of: usize, most: usize) -> impl Iterator<Item = Self> {
        (0..of).step_by(most).map(move |start| Self { start, rows: most.min(of - start), of })
    }

    /// The rows.
    pub fn range(self) -> Range<usize> {
        self.start..self.start + self.rows
    }
}

/// The weights of a norm over rows of some width: a layer norm with a bias, else an RMS norm.
pub struct Norm<V> {
    /// Values of a row.
    pub width: usize,
    /// One value per value of a row.
    pub weight: V,
    /// One value per value of a row.
    pub bias: Option<V>,
    /// Epsilon.
    pub eps: f32,
}

/// Rotary angles of the rows of a temporal grid.
#[derive(Clone, Debug)]
pub struct Angles {
    /// Cosines, `rows × head_dim / 2`.
    pub cos: Vec<f32>,
    /// Their sines.
    pub sin: Vec<f32>,
}

/// A row of several, and its weight in a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tap {
    /// The row.
    pub row: u32,
    /// Its weight.
    pub weight: f32,
}

/// How the rows of a temporal grid are ordered, which attend to each other, and what the result is made of.
#[derive(Clone, Debug)]
pub struct TowerLayout {
    /// Attention heads.
    pub heads: usize,
    /// Width of a head.
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

    /// Taps of a result that is the rows in another order.
    pub fn reordered(rows: impl IntoIterator<Item = u32>) -> Vec<Vec<Tap>> {
        vec![rows.into_iter().map(|row| Tap { row, weight: 1.0 }).collect()]
    }
}

/// The operations of vision towers on one device.
///
/// As in [`Ops`], `next` is the matrix that takes an operation's output, and operations may be queued. Rows of a part are counted
/// from its first; where rows of a whole chunk are read or written, the part says which.
pub trait TowerOps: Ops {
    /// A layout in the device's memory.
    type Layout: Send;

    /// Patches of a chunk whose states have `hidden` values. A chunk has at least one temporal grid.
    fn chunk_patches(&self, hidden: usize) -> usize;

    /// Rows of `width` values that pass several operations one after the other, at least 1.
    fn rows_at_once(&self, width: usize) -> usize;

    /// The same device for the first and the last matrices of a tower. They are a sixtieth of the work, and 8 bits there would
    /// cost as much precision as in all layers between them.
    fn for_ends(&self) -> Self;

    /// Load a matrix. With `pad`, a device may add outputs that are zero to each tensor, if it also pads the inputs of the next
    /// matrix.
    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    /// Load a table of positions: rows of values that are added to the rows of each temporal grid.
    fn positions(&self, name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Loaded<Self::Vector>;

    /// Positions from a table of rows of `width` values: row `r` is the sum of the `r`-th taps of all lists, which are equally
    /// long. There is at least one list.
    fn interpolate(
        &self,
        work: &mut Self::Work,
        table: &Self::Vector,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Self::Vector>;

    /// Send a layout to the device.
    fn layout(&self, layout: TowerLayout) -> Result<Self::Layout>;

    /// `out` = the patches of a part, in the layout's order. `patches` are those of the chunk, grid by grid.
    fn patches(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        patches: &[f32],
        part: Part,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `W x + b` of a part, written to its rows of `out`.
    fn multiply(
        &self,
        work: &mut Self::Work,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        part: Part,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// Add positions to the rows of each grid in `x`.
    fn add_positions(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        x: &mut Self::Rows,
        positions: &Self::Vector,
    ) -> Result<()>;

    /// For a part of `x`: `x += add`, then `out` = the norm of `x`, where every `joined` rows of `x` are one row of `out`. Here
    /// `x` counts as rows of the norm's width, which is that of one or several of its rows.
    #[expect(clippy::too_many_arguments, reason = "two inputs, weights, two outputs")]
    fn normalize(
        &self,
        work: &mut Self::Work,
        x: &mut Self::Rows,
        part: Part,
        add: Option<&Self::Rows>,
        norm: &Norm<Self::Vector>,
        joined: usize,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `out` (`rows × hidden`) = softmax attention of the rotated queries and keys of `qkv` (`rows × 3 hidden`) among the rows of
    /// a temporal grid, or with `windows` among those of a window.
    fn attend_in_grids(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        qkv: &Self::Rows,
        grids: usize,
        windows: bool,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `out` = a part of `rows`.
    fn part(
        &self,
        work: &mut Self::Work,
        rows: &Self::Rows,
        part: Part,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// For a matrix of gates and as many values and `rows` rows: `out = silu(gates) ∘ values`. `buffer` holds both.
    #[expect(clippy::too_many_arguments, reason = "two buffers and the output")]
    fn gate(
        &self,
        work: &mut Self::Work,
        matrix: &Self::Matrix,
        x: &Self::Rows,
        rows: usize,
        buffer: &mut Self::Rows,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// `out` = an activation function of `rows` rows of `x`, which may be overwritten.
    fn activate(
        &self,
        work: &mut Self::Work,
        activation: Activation,
        x: &mut Self::Rows,
        rows: usize,
        next: &Self::Matrix,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// Add the rows of a part to a part of `x`.
    fn accumulate(
        &self,
        work: &mut Self::Work,
        x: &mut Self::Rows,
        part: Part,
        add: &Self::Rows,
    ) -> Result<()>;

    /// Do what is queued, so that progress can be reported.
    fn catch_up(&self, _: &mut Self::Work) -> Result<()> {
        Ok(())
    }

    /// The result of `grids` temporal grids, made of each of `blocks` by the layout's taps; the results of the blocks stand beside
    /// each other in its rows. There is at least one block.
    fn result(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        blocks: &[Self::Rows],
        grids: usize,
    ) -> Result<States>;
}
