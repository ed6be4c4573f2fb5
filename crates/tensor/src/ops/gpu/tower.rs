//! What vision towers do on a GPU.

use std::sync::Arc;

use super::{
    GpuOps,
    grids::{GpuLayout, blend},
    work::GpuWork,
};
use crate::{
    Result, WeightType, Weights,
    fused::FusedMatrix,
    gpu::{
        Buffer, Matrix, Rows,
        elements::{self, Addend},
        rows::filled,
        states::GpuRows,
    },
    ops::{Loaded, Out, RowPart, TowerOps},
    states::States,
    tower::{Activation, Tap, TowerLayout},
};

/// Bytes of the queries, keys and values of a chunk of patches.
const PATCHES: usize = 64 << 20;
/// Patches of a chunk on an adapter that computes on the CPU: cancelling waits for a layer.
const SOFTWARE_PATCHES: usize = 1024;
/// Rows of a tower's products, which bound the buffers of feed-forward layers.
const ROWS: usize = 2048;
/// Values of a row from which on it counts as four.
const WIDE: usize = 4096;

impl TowerOps for GpuOps {
    type Layout = GpuLayout;

    fn chunk_patches(&self, hidden: usize) -> usize {
        let most = PATCHES / (4 * 3 * hidden);
        if self.gpu.is_software() { most.min(SOFTWARE_PATCHES) } else { most }
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

    fn layout(&self, layout: TowerLayout) -> Result<GpuLayout> {
        GpuLayout::new(&self.gpu, layout)
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

    fn patches(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        patches: &[f32],
        part: RowPart,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let (order, row) = (&layout.layout.order, patches.len() / part.of.max(1));
        let width = next.map_or(row, |next| next.inputs());
        let mut values = Vec::with_capacity(part.rows * width);
        for r in part.range() {
            let patch = r / order.len() * order.len() + order[r % order.len()] as usize;
            values.extend_from_slice(&patches[patch * row..(patch + 1) * row]);
            values.resize(values.len() + width - row, 0.0);
        }
        let to = out.reserve(&self.gpu, part.rows, width)?;
        Ok(work.stream(&self.gpu).lock().write(to, 0, bytemuck::cast_slice(&values))?)
    }

    fn activate(
        &self,
        work: &mut GpuWork,
        activation: Activation,
        x: &mut Rows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        std::mem::swap(x, out.rows);
        Ok(elements::activate(&mut work.stream(&self.gpu).lock(), activation, out.rows)?)
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
        let attention = work.tower.attention(&self.gpu, stream, layout, grids)?;
        let of = if windows { &mut attention.windows } else { &mut attention.whole };
        of.store(stream, qkv, attention.angles.as_ref(), &attention.cache, 0)?;
        Ok(of.attend(stream, qkv, &attention.cache, 0, out, None)?)
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

    fn blend(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        rows: &Rows,
        _: usize,
        out: &mut Rows,
    ) -> Result<()> {
        Ok(layout.blend.apply(&mut work.stream(&self.gpu).lock(), &[rows], out)?)
    }

    fn result(&self, work: &mut GpuWork, layout: &GpuLayout, blocks: &[Rows], _: usize) -> Result<States> {
        let stream = work.stream(&self.gpu);
        let mut out = Rows::default();
        let blocks: Vec<&Rows> = blocks.iter().collect();
        layout.blend.apply(&mut stream.lock(), &blocks, &mut out)?;
        let buffer = filled(&out)?.clone();
        Ok(States::Gpu(GpuRows::new(&stream, buffer, out.rows(), out.width())))
    }

    fn catch_up(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }
}
