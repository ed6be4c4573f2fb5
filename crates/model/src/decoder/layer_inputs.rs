//! Embeddings that are added in each layer, of a model that has them (Gemma 4's per-layer embeddings).
//!
//! A row has `width` values for each layer, all of them side by side: `(norm(W e / √hidden) + √width · t) / √2`, where e is what enters
//! the first layer, W the projection, and t the row of the id in a table of its own. A visual token has the id of the padding there.

use super::parts;
use crate::config::{PerLayer, TextConfig};
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    HostTable, Result, Weights,
    ops::{DecoderOps, Input, Loaded, Norm, Out, Residual, RowPart},
    states::States,
};

pub(super) struct LayerInputs<D: DecoderOps> {
    pub(super) per_layer: PerLayer,
    /// In host memory on every device: a pass reads a few rows of it.
    pub(super) table: HostTable,
    pub(super) projection: D::Matrix,
    /// Of the values of each layer, divided by √2.
    norm: Norm<D::Vector>,
}

impl<D: DecoderOps> LayerInputs<D> {
    pub(super) fn load(ops: &D, checkpoint: &Checkpoint, c: &TextConfig) -> Loaded<Option<Self>> {
        let (Some((table, shape, projection, norm)), Some(per_layer)) =
            (parts::layer_inputs(c), c.per_layer())
        else {
            return Ok(None);
        };
        let weight: Vec<f32> = checkpoint.f32(norm, &[per_layer.width])?;
        let weight = weight.iter().map(|weight| weight * std::f32::consts::FRAC_1_SQRT_2).collect();
        Ok(Some(Self {
            per_layer,
            projection: ops.matrix(&projection, checkpoint)?,
            norm: Norm {
                width: per_layer.width,
                weight: ops.vector(norm, weight)?,
                bias: None,
                // A norm of rows that are divided by √hidden is that of the rows with so much larger an epsilon.
                eps: c.norm_eps * c.hidden as f32,
                joined: per_layer.layers,
            },
            table: HostTable::load(table, shape, checkpoint)?,
        }))
    }

    /// `added` = what is added in each layer to the rows of these ids, whose embeddings are `x`; `normed` and `projected` are used
    /// in between. Fails if an id has no row.
    pub(super) fn write(
        &self,
        ops: &D,
        (work, table): (&mut D::Work, &D::Table),
        ids: &[u32],
        (x, normed, projected): (&D::Rows, &mut D::Rows, &mut D::Rows),
        added: &mut D::Rows,
    ) -> Result<()> {
        let (rows, PerLayer { width, layers, .. }) = (ids.len(), self.per_layer);
        let all = RowPart::all(rows);
        ops.part(work, x, all, Out::before(&self.projection, normed))?;
        ops.product(work, &self.projection, normed, all, projected)?;
        let residual = Residual { x: projected, part: RowPart::all(rows * layers), add: None };
        ops.norm(work, residual, &self.norm, Out { rows: added, next: None })?;
        let mut own = Vec::with_capacity(rows * self.per_layer.values());
        for &id in ids {
            if !self.table.row(id, &mut own) {
                specreel_tensor::bail!("token id {id} is outside of the table of embeddings for each layer");
            }
        }
        let factor = (width as f32 / 2.0).sqrt();
        own.iter_mut().for_each(|value| *value *= factor);
        let own = States::new(own, self.per_layer.values())?;
        ops.load(work, table, Input::States(&own), projected)?;
        ops.add(work, added, all, projected)
    }
}
