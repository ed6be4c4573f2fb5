//! The vision towers of Qwen2-VL (arXiv:2409.12191) and Qwen2.5-VL (arXiv:2502.13923).
//!
//! Patches are embedded by a matrix, pass blocks of attention and feed-forward layers, and are merged in squares to visual
//! embeddings. Temporal grids do not attend to each other, so the tower encodes a few at a time. Qwen2-VL attends to the whole temporal grid in all blocks, with layer norms and two linear layers;
//! Qwen2.5-VL attends within windows of merged cells in most blocks, with RMS norms and SwiGLU.
//!
//! Weights below the tower's root: `patch_embed.proj.weight` `[hidden, 3, 2, patch, patch]`, `blocks.N.{norm1,norm2}`,
//! `blocks.N.attn.{qkv,proj}`, `blocks.N.mlp.{gate,up,down}_proj` (Qwen2-VL: `blocks.N.mlp.{fc1,fc2}`),
//! `merger.{ln_q, mlp.0, mlp.2}`; all linear layers with bias, norms with one in Qwen2-VL only.

use candle_core::{D, DType, Device, IndexOp, Result as CandleResult, Tensor};
use candle_nn::{Linear, Module, VarBuilder, linear, rotary_emb::rope};

use super::{
    EncodeProgress, VisionConfig, VisionError, chunks,
    config::Generation,
    layers::{Activation, Mlp, Norm, attend, concatenate},
    windows::{Batch, Windows},
};
use crate::model::processor::Grid;

/// Rotary angles of one temporal grid in windowed order, cosine and sine of `[patches, head_dim / 2]`.
struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    fn new(config: &VisionConfig, windows: &Windows, columns: usize, device: &Device) -> CandleResult<Self> {
        let values = angles(config, windows, columns);
        let half = config.head_dim() / 2;
        let angles = Tensor::from_vec(values, ((), half), device)?;
        Ok(Self { cos: angles.cos()?, sin: angles.sin()? })
    }
}

/// Angles of rows and columns (theta 10000), each a quarter of the head, computed in f32: `patches × head_dim / 2`.
///
/// Patches are in the order of the states: cells in the order of `windows`, row by row within a cell.
pub(super) fn angles(config: &VisionConfig, windows: &Windows, columns: usize) -> Vec<f32> {
    let quarter = config.head_dim() / 4;
    let inverse: Vec<f32> =
        (0..quarter).map(|i| 1.0 / 10000f32.powf((2 * i) as f32 / (2 * quarter) as f32)).collect();
    let merge = config.merge;
    let mut values = Vec::with_capacity(windows.order.len() * merge * merge * 2 * quarter);
    for cell in &windows.order {
        let (row, column) = (*cell as usize / columns, *cell as usize % columns);
        for patch in 0..merge * merge {
            for at in [row * merge + patch / merge, column * merge + patch % merge] {
                values.extend(inverse.iter().map(|f| at as f32 * f));
            }
        }
    }
    values
}

fn norm(vb: VarBuilder, config: &VisionConfig) -> CandleResult<Norm> {
    match config.generation {
        Generation::Qwen2 => Norm::layer(config.hidden, config.eps, vb),
        Generation::Qwen25 => Norm::rms(config.hidden, config.eps, vb),
    }
}

struct Block {
    norm1: Norm,
    norm2: Norm,
    qkv: Linear,
    proj: Linear,
    mlp: Mlp,
    heads: usize,
    full: bool,
}

impl Block {
    fn load(vb: &VarBuilder, config: &VisionConfig, full: bool) -> CandleResult<Self> {
        let (d, ffn) = (config.hidden, config.ffn);
        let (attn, mlp) = (vb.pp("attn"), vb.pp("mlp"));
        Ok(Self {
            norm1: norm(vb.pp("norm1"), config)?,
            norm2: norm(vb.pp("norm2"), config)?,
            qkv: linear(d, 3 * d, attn.pp("qkv"))?,
            proj: linear(d, d, attn.pp("proj"))?,
            mlp: match config.generation {
                Generation::Qwen2 => Mlp::plain(d, ffn, Activation::QuickGelu, &mlp)?,
                Generation::Qwen25 => Mlp::gated(d, ffn, &mlp)?,
            },
            heads: config.heads,
            full,
        })
    }

    /// `x` is `[grids, patches, hidden]` in windowed order; `batches` are counted in patches.
    fn forward(&self, x: &Tensor, angles: &Angles, batches: &[Batch]) -> CandleResult<Tensor> {
        let x = (x + self.attention(&self.norm1.forward(x)?, angles, batches)?)?;
        &x + self.mlp.forward(&self.norm2.forward(&x)?)?
    }

    fn attention(&self, x: &Tensor, angles: &Angles, batches: &[Batch]) -> CandleResult<Tensor> {
        let (grids, n, d) = x.dims3()?;
        let (heads, head) = (self.heads, d / self.heads);
        // [3, grids, heads, n, head]
        let qkv = self.qkv.forward(x)?.reshape((grids, n, 3, heads, head))?.permute((2, 0, 3, 1, 4))?;
        let part = |i: usize| qkv.i(i)?.contiguous();
        // The rotation is computed in f32 for any weight type.
        let rotate =
            |t: Tensor| rope(&t.to_dtype(DType::F32)?, &angles.cos, &angles.sin)?.to_dtype(x.dtype());
        let q = (rotate(part(0)?)? * (head as f64).powf(-0.5))?;
        let (k, v) = (rotate(part(1)?)?, part(2)?);
        let all = grids * heads;
        let y = if self.full {
            let flat = |t: &Tensor| t.reshape((all, n, head));
            attend(&flat(&q)?, &flat(&k)?, &flat(&v)?)?.reshape((grids, heads, n, head))?
        } else {
            let mut parts = Vec::with_capacity(batches.len());
            let mut start = 0;
            for batch in batches {
                let length = batch.count * batch.size;
                let windows = |t: &Tensor| {
                    t.narrow(2, start, length)?.contiguous()?.reshape((all * batch.count, batch.size, head))
                };
                let y = attend(&windows(&q)?, &windows(&k)?, &windows(&v)?)?;
                parts.push(y.reshape((grids, heads, length, head))?);
                start += length;
            }
            concatenate(parts, 2)?
        };
        self.proj.forward(&y.transpose(1, 2)?.contiguous()?.reshape((grids, n, d))?)
    }
}

struct Merger {
    norm: Norm,
    first: Linear,
    second: Linear,
    width: usize,
}

impl Merger {
    fn load(vb: &VarBuilder, config: &VisionConfig) -> CandleResult<Self> {
        let width = config.hidden * config.merge * config.merge;
        Ok(Self {
            norm: norm(vb.pp("ln_q"), config)?,
            first: linear(width, width, vb.pp("mlp").pp("0"))?,
            second: linear(width, config.out, vb.pp("mlp").pp("2"))?,
            width,
        })
    }

    /// `[cells · merge², hidden]` to `[cells, out]`.
    fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        let x = self.norm.forward(x)?.reshape(((), self.width))?;
        self.second.forward(&self.first.forward(&x)?.gelu_erf()?)
    }
}

/// The tower.
pub struct QwenVit {
    config: VisionConfig,
    /// `[hidden, row]`.
    embed: Linear,
    blocks: Vec<Block>,
    merger: Merger,
    device: Device,
    dtype: DType,
}

impl QwenVit {
    /// Load the tower; `vb` is at its root (`visual` or `model.visual`) and has the type and device to compute with (f32 on the
    /// CPU).
    ///
    /// # Errors
    /// [`VisionError::Weights`] if a tensor is missing or has another shape than the configuration says.
    pub fn load(vb: VarBuilder, config: &VisionConfig) -> Result<Self, VisionError> {
        Self::read(&vb, config).map_err(VisionError::Weights)
    }

    fn read(vb: &VarBuilder, config: &VisionConfig) -> CandleResult<Self> {
        let shape = (config.hidden, config.channels, config.temporal, config.patch, config.patch);
        let embed = vb.get(shape, "patch_embed.proj.weight")?.reshape((config.hidden, config.row()))?;
        let blocks = vb.pp("blocks");
        Ok(Self {
            embed: Linear::new(embed, None),
            blocks: (config.full_attention.iter().enumerate())
                .map(|(i, full)| Block::load(&blocks.pp(i), config, *full))
                .collect::<CandleResult<_>>()?,
            merger: Merger::load(&vb.pp("merger"), config)?,
            device: vb.device().clone(),
            dtype: vb.dtype(),
            config: config.clone(),
        })
    }

    /// The dimensions.
    pub fn config(&self) -> &VisionConfig {
        &self.config
    }

    /// Visual embeddings `[n / merge², out]` of `patches` `[n, row]` over `grid`, in the order of the cells.
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
        self.run(patches, grid, progress, &|states| self.merger.forward(states))
    }

    /// The states `[n, hidden]` before merging, in the order of the patches.
    ///
    /// # Errors
    /// As [`Self::forward`].
    pub fn states(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        let (cell, hidden) = (self.config.merge * self.config.merge, self.config.hidden);
        let states = self.run(patches, grid, progress, &|states| states.reshape(((), cell * hidden)))?;
        Ok(states.reshape(((), hidden))?)
    }

    /// Run the blocks and `finish` (`[cells · merge², hidden]` to `[cells, …]`) chunk by chunk, and restore the order of cells.
    fn run(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
        finish: &dyn Fn(&Tensor) -> CandleResult<Tensor>,
    ) -> Result<Tensor, VisionError> {
        let Grid { h, w, .. } = grid;
        let (merge, hidden) = (self.config.merge, self.config.hidden);
        let mismatch = (!h.is_multiple_of(merge) || !w.is_multiple_of(merge))
            .then(|| format!("rows and columns must be multiples of {merge}"));
        chunks::check(patches, grid, self.config.row(), mismatch)?;
        let (cell, columns) = (merge * merge, w / merge);
        let cells = h / merge * columns;
        let windows = Windows::new(h / merge, columns, self.config.window);
        let angles = Angles::new(&self.config, &windows, columns, &self.device)?;
        let order = Tensor::new(windows.order.as_slice(), &self.device)?;
        let restore = Tensor::new(windows.restore.as_slice(), &self.device)?;
        let batches = windows.in_patches(cell);

        let most = chunks::max_patches(&self.device);
        chunks::encode(grid, self.blocks.len(), most, progress, |grids, after_block| {
            let n = grids.len();
            let input = chunks::select(patches, grid, grids, self.dtype, &self.device)?;
            let mut x = self
                .embed
                .forward(&input)?
                .reshape((n, cells, cell * hidden))?
                .index_select(&order, 1)?
                .reshape((n, cells * cell, hidden))?;
            for block in &self.blocks {
                x = block.forward(&x, &angles, &batches)?;
                after_block()?;
            }
            let out = finish(&x.reshape((n * cells * cell, hidden))?)?;
            let width = out.dim(D::Minus1)?;
            let out = out.reshape((n, cells, width))?.index_select(&restore, 1)?;
            Ok(out.reshape((n * cells, width))?)
        })
    }
}
