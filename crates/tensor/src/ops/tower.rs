//! What vision towers do on a device.

use super::{HeadNorms, Loaded, Out, RowOps, RowPart};
use crate::{
    Result, Weights,
    fused::FusedMatrix,
    states::States,
    tower::{Activation, Tap, TowerLayout},
};

/// What vision towers do on a device.
pub trait TowerOps: RowOps {
    type Layout: Send;

    /// Patches of a chunk whose states have `hidden` values. A chunk has at least one temporal grid.
    fn chunk_patches(&self, hidden: usize) -> usize;

    /// Rows of `width` values that pass several operations one after the other, at least 1.
    fn rows_at_once(&self, width: usize) -> usize;

    /// The same device for the first and the last matrices of a tower. They are a sixtieth of the work, and 8 bits there would
    /// cost as much precision as in all layers between them.
    fn for_ends(&self) -> Self;

    /// Load a matrix of a tower, which on an accelerator has the compute type. With `pad`, a device may add outputs that are zero
    /// to each tensor, if it also pads the inputs of the next matrix.
    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Self::Matrix>;

    fn layout(&self, layout: TowerLayout) -> Result<Self::Layout>;

    /// Positions from a table of rows of `width` values: row `r` is the sum of the `r`-th taps of all lists, which are equally
    /// long. There is at least one list.
    fn interpolate(
        &self,
        work: &mut Self::Work,
        table: &Self::Vector,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Self::Vector>;

    /// `out` = the patches of a part, in the layout's order. `patches` are the chunk's, grid by grid.
    fn patches(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        patches: &[f32],
        part: RowPart,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// `out` = an activation function of `x`, which may be overwritten.
    fn activate(
        &self,
        work: &mut Self::Work,
        activation: Activation,
        x: &mut Self::Rows,
        out: Out<'_, Self>,
    ) -> Result<()>;

    /// Norm the queries, keys and values of `qkv` (`rows × 3 hidden`) in each head. Fails unless the device computes it.
    fn norm_heads(
        &self,
        _work: &mut Self::Work,
        _layout: &Self::Layout,
        _qkv: &mut Self::Rows,
        _norms: HeadNorms<'_, Self::Vector>,
    ) -> Result<()> {
        crate::bail!("norms in the heads of a tower are computed on the CPU only")
    }

    /// Bound a part of `x`: `bounds` are the smallest value of each column, then the largest. Fails unless the device computes
    /// it.
    fn clamp(
        &self,
        _work: &mut Self::Work,
        _x: &mut Self::Rows,
        _part: RowPart,
        _bounds: &Self::Vector,
    ) -> Result<()> {
        crate::bail!("bounds of a tower's matrices are computed on the CPU only")
    }

    /// `out` (`rows × hidden`) = softmax attention of the rotated queries and keys of `qkv` (`rows × 3 hidden`) among the rows of
    /// a temporal grid, or with `windows` within a window.
    fn attend_in_grids(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        qkv: &Self::Rows,
        grids: usize,
        windows: bool,
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

    /// `out` = the rows of `grids` temporal grids that the layout's taps make of `rows`.
    fn blend(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        rows: &Self::Rows,
        grids: usize,
        out: &mut Self::Rows,
    ) -> Result<()>;

    /// The result of `grids` temporal grids, made of each of `blocks` by the layout's taps; the blocks' results are next to
    /// each other in its rows. There is at least one block.
    fn result(
        &self,
        work: &mut Self::Work,
        layout: &Self::Layout,
        blocks: &[Self::Rows],
        grids: usize,
    ) -> Result<States>;

    /// Execute queued operations, so that progress can be reported.
    fn catch_up(&self, _: &mut Self::Work) -> Result<()> {
        Ok(())
    }
}
