//! What a tower computes, on any device.
//!
//! One forward pass for all towers: patches are embedded by a matrix, pass layers of attention and feed-forward layers, and are
//! merged or projected to visual embeddings, of the last layer's states and perhaps of some earlier layers' states. A layer may join
//! states, so that those after it have fewer rows. Temporal grids do not attend to each other; as many as fit into bounded memory
//! are computed together.

use super::{
    EncodeProgress, TowerConfig, TowerOutput, VisionError, chunks,
    layers::{Projector, TowerBuffers, TowerLayer},
};
use crate::processor::Patches;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Weights,
    ops::{HeldWeights as _, Loaded, Out, RowPart, TowerOps},
    states::States,
};

/// A tower on any device.
pub(super) trait DeviceTower: std::any::Any + Send + Sync {
    fn encode(
        &self,
        patches: &Patches,
        output: TowerOutput,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError>;
    fn newline(&self) -> Option<&States>;
    fn bytes(&self) -> usize;
}

pub(super) struct OnDevice<D: TowerOps> {
    ops: D,
    config: TowerConfig,
    embed: D::Matrix,
    /// A table of which rows are added to the patches of each temporal grid.
    positions: Option<D::Vector>,
    layers: Vec<TowerLayer<D>>,
    projectors: Vec<Projector<D>>,
    newline: Option<States>,
}

impl<D: TowerOps> OnDevice<D> {
    pub fn load(ops: D, checkpoint: &Checkpoint, config: &TowerConfig) -> Loaded<Self> {
        let parts = config.rules().parts();
        let ends = ops.for_ends();
        let positions =
            parts.positions.map(|(name, shape)| ops.vector(&name, checkpoint.f32(&name, &shape)?));
        let newline = parts.newline.map(|(name, width)| {
            let values = checkpoint.f32(&name, &[width])?;
            States::new(values, width).map_err(|error| chunks::on_tensor(&name, &error))
        });
        Ok(Self {
            positions: positions.transpose()?,
            newline: newline.transpose()?,
            embed: ends.tower_matrix(&parts.embed, false, checkpoint)?,
            layers: (parts.layers.iter())
                .map(|parts| TowerLayer::load(&ops, parts, checkpoint))
                .collect::<Loaded<_>>()?,
            projectors: (parts.projectors.iter())
                .map(|parts| Projector::load(&ends, parts, checkpoint))
                .collect::<Loaded<_>>()?,
            config: config.clone(),
            ops,
        })
    }
}

impl<D: TowerOps> DeviceTower for OnDevice<D> {
    fn newline(&self) -> Option<&States> {
        self.newline.as_ref()
    }

    fn bytes(&self) -> usize {
        let layers = self.layers.iter().map(TowerLayer::bytes).sum::<usize>();
        let projectors = self.projectors.iter().map(Projector::bytes).sum::<usize>();
        self.embed.bytes() + layers + projectors
    }

    fn encode(
        &self,
        patches: &Patches,
        output: TowerOutput,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError> {
        let (ops, grid) = (&self.ops, patches.grid);
        chunks::check(patches, self.config.row(), self.config.rules().mismatch(grid))?;
        let rules = self.config.rules();
        let layout = rules.layout(grid, output);
        let (per_grid, hidden, tokens) = (layout.order.len(), layout.hidden(), layout.results());
        let layout = ops.layout(layout)?;
        let merged = rules.merged_layout(grid, output).map(|layout| ops.layout(layout)).transpose()?;
        let mut buffers = TowerBuffers::<D>::default();
        let interpolated = match (&self.positions, rules.positions(grid)) {
            (Some(table), Some(taps)) => Some(ops.interpolate(&mut buffers.work, table, hidden, &taps)?),
            _ => None,
        };
        let positions = interpolated.as_ref().or(self.positions.as_ref());
        let projectors = match output {
            TowerOutput::Embeddings => &self.projectors[..],
            TowerOutput::States => &[],
        };
        chunks::encode(grid, self.layers.len(), ops.chunk_patches(hidden), progress, |grids, after_layer| {
            let values = grids.start * per_grid * patches.row..grids.end * per_grid * patches.row;
            let (values, grids) = (&patches.data[values], grids.len());
            let rows = grids * per_grid;
            for part in RowPart::each(rows, ops.rows_at_once(hidden)) {
                let TowerBuffers { work, x, input, .. } = &mut buffers;
                ops.patches(work, &layout, values, part, Out::before(&self.embed, input))?;
                ops.product(work, &self.embed, input, part, x)?;
            }
            if let Some(positions) = positions {
                ops.add_positions(&mut buffers.work, &layout, &mut buffers.x, positions)?;
            }
            let (mut rows, mut layout) = (rows, &layout);
            for (index, layer) in self.layers.iter().enumerate() {
                layer.forward(ops, layout, grids, rows, &mut buffers)?;
                if layer.joined() > 1 {
                    (rows, layout) = (rows / layer.joined(), merged.as_ref().unwrap_or(layout));
                }
                for (nth, projector) in projectors.iter().enumerate().filter(|(_, p)| p.after == index) {
                    if projector.pools()
                        && let Some(merged) = &merged
                    {
                        buffers.pool(ops, layout, grids)?;
                        (rows, layout) = (grids * tokens, merged);
                    }
                    projector.forward(ops, rows, nth, &mut buffers)?;
                }
                after_layer()?;
            }
            let TowerBuffers { work, x, projected, .. } = &mut buffers;
            let blocks = match output {
                TowerOutput::States => std::slice::from_ref(x),
                TowerOutput::Embeddings => projected,
            };
            let result = ops.result(work, layout, blocks, grids)?;
            // So that measured times include the work.
            ops.catch_up(&mut buffers.work)?;
            Ok(result)
        })
    }
}
