//! What a GPU keeps of the temporal grids of a tower: their layout, and attention within them.

use crate::{
    KvType, Result,
    attention::AttentionShape,
    gpu::{
        self, Buffer, Gpu, GpuError, Rows, Stream,
        attention::{Attention, Visible},
        cache::Cache,
        elements::Blend,
    },
    tower::{Tap, TowerLayout},
};

/// A layout, in the form that the device needs.
pub struct GpuLayout {
    pub(super) layout: TowerLayout,
    /// Cosines and sines of the rows of a grid, `rows × head_dim`.
    angles: Option<Vec<f32>>,
    pub(super) blend: Blend,
}

impl GpuLayout {
    pub(super) fn new(gpu: &Gpu, layout: TowerLayout) -> Result<Self> {
        let half = (layout.head_dim / 2).max(1);
        let angles = layout.angles.as_ref().map(|angles| {
            let rows = angles.cos.chunks_exact(half).zip(angles.sin.chunks_exact(half));
            rows.flat_map(|(cos, sin)| cos.iter().chain(sin).copied()).collect()
        });
        Ok(Self { angles, blend: blend(gpu, &layout.taps, layout.sources)?, layout })
    }
}

/// What a tower keeps between layers.
#[derive(Debug, Default)]
pub(crate) struct TowerWork {
    /// One for each layout of a tower, for as many grids as were attended to last.
    attention: Vec<GridAttention>,
    /// A part of rows, or rows before they are padded.
    pub(super) spare: Rows,
}

impl TowerWork {
    /// Attention among the rows of so many grids of a layout.
    pub(super) fn attention(
        &mut self,
        gpu: &Gpu,
        stream: &mut Stream,
        layout: &GpuLayout,
        grids: usize,
    ) -> gpu::Result<&mut GridAttention> {
        let rows = layout.layout.order.len();
        self.attention.retain(|attention| attention.grids == grids);
        let at = match self.attention.iter().position(|attention| attention.rows == rows) {
            Some(at) => at,
            None => {
                self.attention.push(GridAttention::new(gpu, stream, layout, grids)?);
                self.attention.len() - 1
            }
        };
        Ok(&mut self.attention[at])
    }
}

#[derive(Debug)]
pub(super) struct GridAttention {
    grids: usize,
    /// Rows of a grid.
    rows: usize,
    /// Among the rows of a grid, and of a window.
    pub(super) whole: Attention,
    pub(super) windows: Attention,
    pub(super) cache: Cache,
    /// `rows × head_dim`.
    pub(super) angles: Option<Buffer>,
}

impl GridAttention {
    fn new(gpu: &Gpu, stream: &mut Stream, layout: &GpuLayout, grids: usize) -> gpu::Result<Self> {
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
        Ok(Self { grids, rows: per_grid, whole, windows, cache, angles: angles.transpose()? })
    }
}

/// Sums of up to four rows each, of tables that have `sources` rows.
pub(super) fn blend(gpu: &Gpu, lists: &[Vec<Tap>], sources: usize) -> Result<Blend> {
    if lists.len() > 4 {
        crate::bail!("{} rows are to be put together, at most four can be", lists.len());
    }
    let mut taps = vec![[(0, 0.0); 4]; lists.first().map_or(0, Vec::len)];
    for (nth, list) in lists.iter().enumerate() {
        taps.iter_mut().zip(list).for_each(|(taps, tap)| taps[nth] = (tap.row, tap.weight));
    }
    Ok(Blend::new(gpu, &taps, sources)?)
}
