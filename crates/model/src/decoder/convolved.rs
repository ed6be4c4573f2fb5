//! The convolutions around a sublayer of a DFlash 2 head: see [`specreel_tensor::convolution`].

use super::parts;
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Result, Weights,
    convolution::{Convolution, Side},
    ops::{Loaded, Norm, Out, Residual, RowOps, RowPart},
};

/// The convolutions of one sublayer.
pub(super) struct Convolved<D: RowOps> {
    /// What makes the corrections of a row, `2 · taps · width / group × width`.
    pub(super) matrix: D::Matrix,
    convolution: Convolution<D::Vector>,
}

/// Rows that the convolutions of all layers use again.
pub(super) struct ConvolvedRows<D: RowOps> {
    /// The rows before or after a convolution.
    rows: D::Rows,
    /// The corrections of the sublayer in progress.
    corrections: D::Rows,
}

impl<D: RowOps> Default for ConvolvedRows<D> {
    fn default() -> Self {
        Self { rows: D::Rows::default(), corrections: D::Rows::default() }
    }
}

impl<D: RowOps> Convolved<D> {
    /// Those around a layer's attention and its feed-forward layer, if the model has some.
    pub(super) fn load(
        ops: &D,
        checkpoint: &Checkpoint,
        c: &TextConfig,
        index: usize,
    ) -> Loaded<Option<[Self; 2]>> {
        let Some((shape, sublayers)) = parts::convolutions(c, index) else { return Ok(None) };
        let load = |(matrix, shared): &(_, String)| {
            let taps = checkpoint.f32(shared, &[2, shape.taps, c.hidden])?;
            let convolution = Convolution { shape, width: c.hidden, shared: ops.vector(shared, taps)? };
            Loaded::Ok(Self { matrix: ops.matrix(matrix, checkpoint)?, convolution })
        };
        let [attention, feed_forward] = &sublayers;
        Ok(Some([load(attention)?, load(feed_forward)?]))
    }

    /// `out` = what enters a sublayer, the normed and convolved rows, as the matrix `next` takes them.
    pub(super) fn enter(
        &self,
        ops: &D,
        work: &mut D::Work,
        residual: Residual<'_, D::Rows>,
        norm: &Norm<D::Vector>,
        rows: &mut ConvolvedRows<D>,
        out: Out<'_, D>,
    ) -> Result<()> {
        let all = RowPart::all(residual.part.rows);
        let Out { rows: out, next } = out;
        ops.norm(work, residual, norm, Out { rows: &mut rows.rows, next: None })?;
        ops.part(work, &rows.rows, all, Out::before(&self.matrix, out))?;
        ops.product(work, &self.matrix, out, all, &mut rows.corrections)?;
        let out = Out { rows: out, next };
        ops.convolve(work, &rows.rows, &rows.corrections, &self.convolution, Side::Before, out)
    }

    /// `x` = what the sublayer gives, convolved.
    pub(super) fn leave(
        &self,
        ops: &D,
        work: &mut D::Work,
        rows: &mut ConvolvedRows<D>,
        x: &mut D::Rows,
    ) -> Result<()> {
        let out = Out { rows: &mut rows.rows, next: None };
        ops.convolve(work, x, &rows.corrections, &self.convolution, Side::After, out)?;
        std::mem::swap(x, &mut rows.rows);
        Ok(())
    }
}
