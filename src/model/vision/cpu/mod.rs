//! Vision towers on the CPU, in this crate's own kernels.
//!
//! One forward pass for all towers: patches are embedded by a matrix, pass layers of attention and feed-forward layers, and are
//! merged or projected to visual embeddings. Temporal grids do not attend to each other; as many as fit into a bounded
//! workspace share every product. Every row is computed by the same operations whatever rows are beside it, so the embeddings of
//! a frame do not depend on the other frames of a chunk.
//!
//! Matrices are f32, 16-bit floats that are widened as they are read, or 8-bit blocks (q8_0). Widths that are no whole blocks
//! are padded with zeros, which changes no result.

mod attention;
mod loading;
mod parts;
mod projector;

use candle_core::{Device, Tensor};

use self::{
    attention::{Angles, Heads, Window},
    parts::{Input, Mlp, MlpBuffers, Norm, Source, padded},
    projector::Projector,
};
use super::{
    EncodeProgress, LlavaConfig, TowerConfig, VisionConfig, VisionError, chunks, qwen_vit, windows::Windows,
};
use crate::model::{
    WeightType,
    checkpoint::Checkpoint,
    device::{
        cpu::{kernels, linear::Linear},
        states::with_tensor,
    },
    processor::Grid,
};

/// Bytes of the states, queries, keys and values of the temporal grids that share products.
pub const WORKSPACE: usize = 64 << 20;
/// Rows of a product: enough that reading the weights takes no time, few enough that the rows stay in the cache.
const ROWS: usize = 256;

/// A loaded tower, including its merger or projector.
pub struct CpuTower {
    config: TowerConfig,
    embed: Linear,
    /// Added to the patches of each temporal grid.
    positions: Option<Vec<f32>>,
    layers: Vec<Layer>,
    projector: Projector,
    /// The vector that ends a video, in families that have one.
    newline: Option<Tensor>,
    dtype: WeightType,
}

struct Layer {
    norm1: Norm,
    qkv: Linear,
    output: Linear,
    norm2: Norm,
    mlp: Mlp,
    /// Attention among all patches of a temporal grid, else within windows.
    full: bool,
}

/// The sizes that all towers have.
struct Sizes {
    /// Values of a patch.
    row: usize,
    hidden: usize,
    heads: Heads,
}

/// How the patches of a temporal grid are ordered, and which attend to each other.
struct Layout {
    /// For each row of states, its patch.
    order: Vec<usize>,
    /// For each visual token in the order of the states, its index in the result.
    cells: Vec<usize>,
    windows: Vec<Window>,
    angles: Option<Angles>,
}

/// Buffers of a pass.
#[derive(Default)]
struct Workspace {
    x: Vec<f32>,
    qkv: Vec<f32>,
    attended: Vec<f32>,
    sums: Vec<f32>,
    input: Input,
    mlp: MlpBuffers,
}

impl CpuTower {
    /// Load a checkpoint's tower; its matrices are held in `dtype` (f32, f16, bf16 or q8_0).
    ///
    /// # Errors
    /// [`VisionError::Weights`] if a tensor is missing, does not match the configuration, or does not fit into the type.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TowerConfig,
        dtype: WeightType,
    ) -> Result<Self, VisionError> {
        let source = Source { checkpoint, dtype };
        let loaded = match config {
            TowerConfig::Qwen(qwen) => Self::load_qwen(&source, qwen),
            TowerConfig::Llava(llava) => Self::load_llava(&source, llava),
        };
        loaded.map_err(|error| VisionError::Weights(candle_core::Error::wrap(error)))
    }

    /// The dimensions.
    pub fn config(&self) -> &TowerConfig {
        &self.config
    }

    /// The type of its matrices.
    pub fn dtype(&self) -> WeightType {
        self.dtype
    }

    /// The vector that ends a video, `[1, out]`, in families that have one.
    pub fn newline(&self) -> Option<&Tensor> {
        self.newline.as_ref()
    }

    /// Size of the matrices in bytes.
    pub fn bytes(&self) -> usize {
        let layers = self.layers.iter().map(|l| l.qkv.bytes() + l.output.bytes() + l.mlp.bytes());
        self.embed.bytes() + layers.sum::<usize>() + self.projector.bytes()
    }

    /// Visual embeddings of `patches` `[n, row]` over `grid`, one row for each visual token in the order of the cells, without
    /// the newline.
    ///
    /// # Errors
    /// [`VisionError::Patches`] if the patches do not match the grid or the tower, [`VisionError::Cancelled`] if `progress`
    /// breaks, [`VisionError::Compute`] if the computation fails.
    pub fn forward(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        self.run(patches, grid, progress, true)
    }

    /// The states `[n, hidden]` before they are merged or projected, in the order of the patches.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn states(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        self.run(patches, grid, progress, false)
    }

    fn sizes(&self) -> Sizes {
        match &self.config {
            TowerConfig::Qwen(c) => {
                let heads = Heads { count: c.heads, width: c.head_dim() };
                Sizes { row: c.row(), hidden: c.hidden, heads }
            }
            TowerConfig::Llava(LlavaConfig { tower: c, .. }) => {
                let heads = Heads { count: c.heads, width: c.hidden / c.heads };
                Sizes { row: c.row(), hidden: c.hidden, heads }
            }
        }
    }

    /// What is wrong with a grid.
    fn mismatch(&self, grid: Grid) -> Option<String> {
        match &self.config {
            TowerConfig::Qwen(VisionConfig { merge, .. }) => {
                let whole = grid.h.is_multiple_of(*merge) && grid.w.is_multiple_of(*merge);
                (!whole).then(|| format!("rows and columns must be multiples of {merge}"))
            }
            TowerConfig::Llava(config) => {
                let side = config.tower.side();
                ((grid.h, grid.w) != (side, side)).then(|| format!("expected {side}x{side} patches a frame"))
            }
        }
    }

    fn layout(&self, grid: Grid) -> Layout {
        let patches = grid.h * grid.w;
        match &self.config {
            TowerConfig::Qwen(config) => {
                let (cell, columns) = (config.merge * config.merge, grid.w / config.merge);
                let cells = Windows::new(grid.h / config.merge, columns, config.window);
                let (mut windows, mut at) = (Vec::new(), 0);
                for batch in cells.in_patches(cell) {
                    for _ in 0..batch.count {
                        windows.push(at..at + batch.size);
                        at += batch.size;
                    }
                }
                let patches = |&token: &u32| (0..cell).map(move |patch| token as usize * cell + patch);
                let (cos, sin) =
                    qwen_vit::angles(config, &cells, columns).iter().map(|a| (a.cos(), a.sin())).unzip();
                Layout {
                    order: cells.order.iter().flat_map(patches).collect(),
                    cells: cells.order.iter().map(|&token| token as usize).collect(),
                    windows,
                    angles: Some(Angles { cos, sin }),
                }
            }
            TowerConfig::Llava(_) => Layout {
                order: (0..patches).collect(),
                cells: Vec::new(),
                windows: vec![0..patches; 1],
                angles: None,
            },
        }
    }

    fn run(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
        project: bool,
    ) -> Result<Tensor, VisionError> {
        let Sizes { row, hidden, .. } = self.sizes();
        chunks::check(patches, grid, row, self.mismatch(grid))?;
        let layout = self.layout(grid);
        let per_grid = grid.h * grid.w;
        let most = WORKSPACE / (4 * (4 * hidden + padded(hidden)));
        let mut workspace = Workspace::default();
        let patches = patches.to_dtype(candle_core::DType::F32)?;
        chunks::encode(grid, self.layers.len(), most, progress, |grids, after_layer| {
            let input = patches.narrow(0, grids.start * per_grid, grids.len() * per_grid)?;
            with_tensor(&input, |input| {
                self.encode(input, grids.len(), &layout, &mut workspace, after_layer)
            })??;
            let x = &workspace.x;
            let (values, width) = match project {
                true => self.projector.forward(x, grids.len(), hidden, &layout.cells)?,
                false => {
                    let mut states = vec![0f32; x.len()];
                    for (r, x) in x.chunks_exact(hidden).enumerate() {
                        let to = r / per_grid * per_grid + layout.order[r % per_grid];
                        states[to * hidden..(to + 1) * hidden].copy_from_slice(x);
                    }
                    (states, hidden)
                }
            };
            Ok(Tensor::from_vec(values, ((), width), &Device::Cpu)?)
        })
    }

    /// The states of some temporal grids, in the layout's order, to the workspace.
    fn encode(
        &self,
        patches: &[f32],
        grids: usize,
        layout: &Layout,
        ws: &mut Workspace,
        after_layer: &mut dyn FnMut() -> Result<(), VisionError>,
    ) -> Result<(), VisionError> {
        let Sizes { row, hidden, heads } = self.sizes();
        let per_grid = layout.order.len();
        let (rows, stride) = (grids * per_grid, padded(hidden));
        let Workspace { x, qkv, attended, sums, input, mlp } = ws;
        x.resize(rows * hidden, 0.0);
        qkv.resize(rows * 3 * hidden, 0.0);
        attended.resize(rows * stride, 0.0);
        let parts = || (0..rows).step_by(ROWS).map(|start| start..rows.min(start + ROWS));

        for part in parts() {
            let n = part.len();
            input.fill(n, row, self.embed.forms(), &|r, to| {
                let r = part.start + r;
                let patch = r / per_grid * per_grid + layout.order[r % per_grid];
                to.copy_from_slice(&patches[patch * row..(patch + 1) * row]);
            });
            let x = &mut x[part.start * hidden..part.end * hidden];
            input.multiply(&self.embed, n, x)?;
            if let Some(positions) = &self.positions {
                for (r, x) in part.zip(x.chunks_exact_mut(hidden)) {
                    let patch = layout.order[r % per_grid];
                    kernels::add(x, &positions[patch * hidden..(patch + 1) * hidden]);
                }
            }
        }
        let all = 0..per_grid;
        let whole = std::slice::from_ref(&all);
        for layer in &self.layers {
            for part in parts() {
                let x = &x[part.start * hidden..part.end * hidden];
                input.fill(part.len(), hidden, layer.qkv.forms(), &|r, to| {
                    layer.norm1.apply(&x[r * hidden..(r + 1) * hidden], to);
                });
                let qkv = &mut qkv[part.start * 3 * hidden..part.end * 3 * hidden];
                input.multiply(&layer.qkv, part.len(), qkv)?;
            }
            let windows = if layer.full { whole } else { &layout.windows };
            let angles = layout.angles.as_ref();
            attention::attend(qkv, (grids, per_grid), heads, angles, windows, attended, stride);
            for part in parts() {
                let n = part.len();
                sums.resize(n * hidden, 0.0);
                let attended = &attended[part.start * stride..part.end * stride];
                input.fill(n, hidden, layer.output.forms(), &|r, to| {
                    to.copy_from_slice(&attended[r * stride..r * stride + hidden]);
                });
                input.multiply(&layer.output, n, sums)?;
                let x = &mut x[part.start * hidden..part.end * hidden];
                parts::add_and_norm(x, sums, hidden, &layer.norm2, layer.mlp.forms(), input);
                layer.mlp.forward(input, n, sums, mlp)?;
                parts::each_slice(x, hidden, &|r, x| kernels::add(x, &sums[r * hidden..(r + 1) * hidden]));
            }
            after_layer()?;
        }
        Ok(())
    }
}
