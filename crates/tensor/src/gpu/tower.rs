//! The operations of vision towers on a GPU.
//!
//! Widths that are no whole blocks are padded with zeros, as on the CPU. Every row is computed by the same operations whatever
//! rows are beside it, so the embeddings of a frame do not depend on the other frames of a chunk.

use std::sync::Arc;

use crate::Result;

use super::{
    Buffer, Gpu, GpuError, Rows, Stream,
    attention::{Attention, Visible},
    cache::Cache,
    elements::{self, Addend, Blend},
    matrix::Matrix,
    ops::GpuOps,
    rows::filled,
    states::GpuRows,
    work::GpuWork,
};
use crate::Weights;
use crate::gpu::products::input::{Source, spread};
use crate::{
    CheckpointError, KvType, WeightType,
    attention::AttentionShape,
    fused::FusedMatrix,
    ops::Loaded,
    states::States,
    tower_ops::{Activation, Norm, Part, Tap, TowerLayout, TowerOps},
};

/// Bytes of the queries, keys and values of a chunk.
const CHUNK: usize = 64 << 20;
/// Patches of a chunk on an adapter that computes on the CPU: cancelling waits for a layer.
const SOFTWARE_CHUNK: usize = 1024;
/// Rows of a product, which bound the buffers of feed-forward layers.
const ROWS: usize = 2048;
/// Values of a row from which on it counts as four.
const WIDE: usize = 4096;

/// A layout, and what the device needs of it.
pub struct GpuLayout {
    layout: TowerLayout,
    /// Cosines and sines of the rows of a grid, `rows × head_dim`.
    angles: Option<Vec<f32>>,
    blend: Blend,
}

/// What a tower keeps between layers.
#[derive(Debug, Default)]
pub struct TowerWork {
    attention: Option<GridAttention>,
    /// A part of rows, or rows before they are padded.
    spare: Rows,
}

/// Attention of a number of temporal grids.
#[derive(Debug)]
struct GridAttention {
    grids: usize,
    /// Among the rows of a grid, and of a window.
    whole: Attention,
    windows: Attention,
    /// Keys and values of a layer.
    cache: Cache,
    /// `rows × head_dim`.
    angles: Option<Buffer>,
}

impl GridAttention {
    fn new(gpu: &Gpu, stream: &mut Stream, layout: &GpuLayout, grids: usize) -> super::Result<Self> {
        let GpuLayout { layout, angles, .. } = layout;
        let (heads, head_dim, per_grid) = (layout.heads, layout.head_dim, layout.order.len());
        let shape = AttentionShape { heads, kv_heads: heads, head_dim };
        let attention = || Attention::new(gpu, shape, KvType::F32);
        let (mut whole, mut windows) = (attention()?, attention()?);
        whole.begin(stream, Visible::windows(std::iter::repeat_n(per_grid, grids)))?;
        let lengths = || layout.windows.iter().map(ExactSizeIterator::len);
        windows.begin(stream, Visible::windows((0..grids).flat_map(|_| lengths())))?;
        let mut cache = Cache::new(gpu, 1, heads, head_dim, 0, KvType::F32);
        cache.prepare(stream, grids * per_grid)?;
        let angles = angles.as_ref().map(|angles| {
            let buffer = gpu.buffer((grids * angles.len()) as u64 * 4)?;
            for grid in 0..grids {
                let at = (grid * angles.len()) as u64 * 4;
                stream.write(&buffer, at, bytemuck::cast_slice(angles))?;
            }
            Ok::<_, GpuError>(buffer)
        });
        Ok(Self { grids, whole, windows, cache, angles: angles.transpose()? })
    }
}

/// Copy the rows of a part to the beginning of `out`.
fn copy_part(stream: &mut Stream, rows: &Rows, part: Part, out: &mut Rows) -> super::Result<()> {
    let row = rows.width() as u64 * 4;
    let to = out.reserve(&stream.gpu().clone(), part.rows, rows.width())?;
    stream.copy(filled(rows)?, part.start as u64 * row, to, 0, part.rows as u64 * row)
}

/// Copy rows to those of a part.
fn copy_back(stream: &mut Stream, rows: &Rows, part: Part, out: &mut Rows) -> super::Result<()> {
    let row = rows.width() as u64 * 4;
    let to = out.reserve(&stream.gpu().clone(), part.of, rows.width())?;
    stream.copy(filled(rows)?, 0, to, part.start as u64 * row, part.rows as u64 * row)
}

/// Call `f` with the rows of a part, and write them back if `changed`.
fn with_part(
    stream: &mut Stream,
    x: &mut Rows,
    part: Part,
    spare: &mut Rows,
    changed: bool,
    f: impl FnOnce(&mut Stream, &mut Rows) -> super::Result<()>,
) -> super::Result<()> {
    if part.rows == part.of {
        return f(stream, x);
    }
    copy_part(stream, x, part, spare)?;
    f(stream, spare)?;
    if changed { copy_back(stream, spare, part, x) } else { Ok(()) }
}

/// Pad rows to the width that a matrix takes.
fn fit(stream: &mut Stream, rows: &mut Rows, next: &Matrix, spare: &mut Rows) -> super::Result<()> {
    let (count, width) = (rows.rows(), rows.width());
    if width == next.inputs() {
        return Ok(());
    }
    let to = spare.reserve(&stream.gpu().clone(), count, next.inputs())?;
    let source = Source { x: filled(rows)?, row: 0, rows: count, width, gated: false };
    spread(stream, source, to, next.inputs())?;
    std::mem::swap(rows, spare);
    Ok(())
}

/// Sums of up to four rows each, of tables that have `sources` rows.
fn blend(gpu: &Gpu, lists: &[Vec<Tap>], sources: usize) -> Result<Blend> {
    if lists.len() > 4 {
        crate::bail!("{} rows are to be put together, at most four can be", lists.len());
    }
    let mut taps = vec![[(0, 0.0); 4]; lists.first().map_or(0, Vec::len)];
    for (nth, list) in lists.iter().enumerate() {
        taps.iter_mut().zip(list).for_each(|(taps, tap)| taps[nth] = (tap.row, tap.weight));
    }
    Ok(Blend::new(gpu, &taps, sources)?)
}

impl TowerOps for GpuOps {
    type Layout = GpuLayout;

    fn chunk_patches(&self, hidden: usize) -> usize {
        let most = CHUNK / (4 * 3 * hidden);
        if self.gpu.is_software() { most.min(SOFTWARE_CHUNK) } else { most }
    }

    fn rows_at_once(&self, width: usize) -> usize {
        if width < WIDE { ROWS } else { ROWS / 4 }
    }

    fn for_ends(&self) -> Self {
        match self.dtype {
            WeightType::Q8_0 => Self { dtype: WeightType::Bf16, ..self.clone() },
            _ => self.clone(),
        }
    }

    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Arc<Matrix>> {
        Matrix::load_padded(&self.gpu, list, pad, checkpoint, self.dtype).map(Arc::new)
    }

    fn positions(&self, name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Loaded<Buffer> {
        let values = checkpoint.f32(name, &shape)?;
        let uploaded = self.gpu.upload(bytemuck::cast_slice(&values));
        uploaded.map_err(|e| CheckpointError::tensor(name, &e.to_string()))
    }

    fn interpolate(
        &self,
        work: &mut GpuWork,
        table: &Buffer,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Buffer> {
        let sources = table.bytes() as usize / 4 / width.max(1);
        let blend = blend(&self.gpu, taps, sources)?;
        let (table, mut out) = (Rows::of(table.clone(), sources, width), Rows::default());
        blend.apply(&mut work.stream(&self.gpu).lock(), &[&table], &mut out)?;
        Ok(filled(&out)?.clone())
    }

    fn layout(&self, layout: TowerLayout) -> Result<GpuLayout> {
        let half = (layout.head_dim / 2).max(1);
        let angles = layout.angles.as_ref().map(|angles| {
            let rows = angles.cos.chunks_exact(half).zip(angles.sin.chunks_exact(half));
            rows.flat_map(|(cos, sin)| cos.iter().chain(sin).copied()).collect()
        });
        Ok(GpuLayout { angles, blend: blend(&self.gpu, &layout.taps, layout.sources)?, layout })
    }

    fn patches(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        patches: &[f32],
        part: Part,
        next: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let (order, row, width) = (&layout.layout.order, patches.len() / part.of.max(1), next.inputs());
        let mut values = Vec::with_capacity(part.rows * width);
        for r in part.range() {
            let patch = r / order.len() * order.len() + order[r % order.len()] as usize;
            values.extend_from_slice(&patches[patch * row..(patch + 1) * row]);
            values.resize(values.len() + width - row, 0.0);
        }
        let to = out.reserve(&self.gpu, part.rows, width)?;
        Ok(work.stream(&self.gpu).lock().write(to, 0, bytemuck::cast_slice(&values))?)
    }

    fn multiply(
        &self,
        work: &mut GpuWork,
        matrix: &Arc<Matrix>,
        x: &Rows,
        part: Part,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, scratch, spare) = (&mut stream.lock(), &mut work.scratch, &mut work.tower.spare);
        if part.rows == part.of {
            return Ok(matrix.forward(stream, x, part.rows, out, scratch)?);
        }
        matrix.forward(stream, x, part.rows, spare, scratch)?;
        Ok(copy_back(stream, spare, part, out)?)
    }

    fn add_positions(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        x: &mut Rows,
        positions: &Buffer,
    ) -> Result<()> {
        let addend = Addend::Repeated(positions, layout.layout.order.len());
        Ok(elements::add(&mut work.stream(&self.gpu).lock(), x, addend)?)
    }

    fn normalize(
        &self,
        work: &mut GpuWork,
        x: &mut Rows,
        part: Part,
        add: Option<&Rows>,
        norm: &Norm<Buffer>,
        joined: usize,
        next: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, spare) = (&mut stream.lock(), &mut work.tower.spare);
        let (rows, width) = (x.rows(), x.width());
        x.reshape(rows * width / norm.width, norm.width);
        with_part(stream, x, part, spare, add.is_some(), |stream, x| match &norm.bias {
            None => elements::norm(stream, x, add, &norm.weight, norm.eps, out),
            Some(bias) => elements::layer_norm(stream, x, add, (&norm.weight, bias), norm.eps, out),
        })?;
        x.reshape(rows, width);
        out.reshape(part.rows / joined, norm.width * joined);
        Ok(fit(stream, out, next, spare)?)
    }

    fn attend_in_grids(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        qkv: &Rows,
        grids: usize,
        windows: bool,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        let attention = match work.tower.attention.take().filter(|attention| attention.grids == grids) {
            Some(attention) => attention,
            None => GridAttention::new(&self.gpu, stream, layout, grids)?,
        };
        let attention = work.tower.attention.insert(attention);
        let of = if windows { &mut attention.windows } else { &mut attention.whole };
        of.store(stream, qkv, attention.angles.as_ref(), &attention.cache, 0)?;
        Ok(of.attend(stream, qkv, &attention.cache, 0, out, None)?)
    }

    fn part(
        &self,
        work: &mut GpuWork,
        rows: &Rows,
        part: Part,
        next: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        copy_part(stream, rows, part, out)?;
        Ok(fit(stream, out, next, &mut work.tower.spare)?)
    }

    fn gate(
        &self,
        work: &mut GpuWork,
        matrix: &Arc<Matrix>,
        x: &Rows,
        rows: usize,
        _: &mut Rows,
        _: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        Ok(matrix.forward_gated(&mut stream.lock(), x, rows, out, &mut work.scratch)?)
    }

    fn activate(
        &self,
        work: &mut GpuWork,
        activation: Activation,
        x: &mut Rows,
        _: usize,
        _: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let kind = match activation {
            Activation::QuickGelu => elements::Activation::QuickGelu,
            Activation::GeluTanh => elements::Activation::GeluTanh,
            Activation::GeluErf => elements::Activation::GeluErf,
        };
        std::mem::swap(x, out);
        Ok(elements::activate(&mut work.stream(&self.gpu).lock(), kind, out)?)
    }

    fn accumulate(&self, work: &mut GpuWork, x: &mut Rows, part: Part, add: &Rows) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, spare) = (&mut stream.lock(), &mut work.tower.spare);
        let added =
            with_part(stream, x, part, spare, true, |stream, x| elements::add(stream, x, Addend::Rows(add)));
        Ok(added?)
    }

    fn catch_up(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }

    fn result(&self, work: &mut GpuWork, layout: &GpuLayout, blocks: &[Rows], _: usize) -> Result<States> {
        let stream = work.stream(&self.gpu);
        let mut out = Rows::default();
        let blocks: Vec<&Rows> = blocks.iter().collect();
        layout.blend.apply(&mut stream.lock(), &blocks, &mut out)?;
        let buffer = filled(&out)?.clone();
        Ok(States::Gpu(GpuRows::new(&stream, buffer, out.rows(), out.width())))
    }
}

#[cfg(test)]
mod tests;
