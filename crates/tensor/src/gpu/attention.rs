//! Attention on a GPU: of new rows over one layer of the cache, or of a tower's patches among each other.
//!
//! A row's sums run over its visible tokens by their number in the row, in spans of 128, which are put together in one order (see
//! `shaders/attend.wgsl`). So a row's result has the same bits among any other rows, and a tree node has the bits of the
//! last row of a chain.

pub mod gaze;
mod store;
pub(crate) mod visible;

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

pub use self::store::NormedHeads;
use super::{
    Access, Buffer, Gpu, GpuError, Kernel, Result, Rows, Stream,
    cache::{Cache, held},
};
pub use crate::gpu::attention::visible::Visible;
use crate::{KvType, attention::AttentionShape, gpu::attention::gaze::Gaze};

/// Visible tokens of a span, as in the shaders.
const SPAN: usize = 128;
/// Queries of a workgroup, as in the shaders.
const TILE: usize = 8;
/// Bytes of the spans' records beyond which a pass is computed in several parts.
const RECORDS: u64 = 64 << 20;
/// Rows that a dimension of a dispatch holds; more continue in the next dimension.
pub(super) const LINE: usize = 32768;

/// True if the kernels compute heads of this width.
pub fn computes(head_dim: usize) -> bool {
    head_dim.is_multiple_of(8) && (8..=256).contains(&head_dim)
}

/// The kernels of one shape of attention and one type of keys and values, and their buffers. One for each sequence or tower.
#[derive(Debug)]
pub struct Attention {
    gpu: Gpu,
    shape: AttentionShape,
    kind: KvType,
    visible: Visible,
    table: Option<Buffer>,
    records: Option<Buffer>,
    /// Bound where a kernel has nothing to write to.
    nothing: Buffer,
    limit: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct AttendParams {
    rows: u32,
    first_row: u32,
    heads: u32,
    group: u32,
    stride: u32,
    capacity: u32,
    spans: u32,
    scale: f32,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct CombineParams {
    first_row: u32,
    heads: u32,
    spans: u32,
    stride: u32,
    all: u32,
    unused: [u32; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct GazeParams {
    rows: u32,
    heads: u32,
    group: u32,
    stride: u32,
    capacity: u32,
    count: u32,
    at: u32,
    scale: f32,
}

impl Attention {
    /// Attention of this shape over caches of this type. Fails if the shape is none that the kernels compute.
    pub fn new(gpu: &Gpu, shape: AttentionShape, kind: KvType) -> Result<Self> {
        let AttentionShape { heads, kv_heads, head_dim } = shape;
        if !computes(head_dim) {
            return Err(GpuError::Invalid(format!(
                "attention heads of {head_dim} values: a multiple of 8 up to 256 is expected"
            )));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(GpuError::Invalid(format!("{kv_heads} key heads do not divide {heads} heads")));
        }
        let limit = RECORDS.min(gpu.limits().max_storage_buffer_binding_size);
        let kind = held(kind);
        let (visible, table, records) = Default::default();
        let nothing = gpu.buffer(16)?;
        Ok(Self { gpu: gpu.clone(), shape, kind, visible, table, records, nothing, limit })
    }

    /// Begin a pass: its rows see this.
    pub fn begin(&mut self, stream: &mut Stream, visible: Visible) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(visible.table());
        if self.table.as_ref().is_none_or(|table| table.bytes() < bytes.len() as u64) {
            self.table = Some(self.gpu.buffer((bytes.len() as u64).next_power_of_two().max(1024))?);
        }
        if let Some(table) = &self.table {
            stream.write(table, 0, bytes)?;
        }
        self.visible = visible;
        Ok(())
    }

    pub fn bytes(&self) -> u64 {
        [&self.table, &self.records].into_iter().flatten().map(Buffer::bytes).sum()
    }

    /// `out[r]` (`heads × head_dim`, or wider) = attention of the rotated queries in `qkv` over what row `r` sees; keys and values
    /// are written by [`Attention::store`].
    pub fn attend(
        &mut self,
        stream: &mut Stream,
        qkv: &Rows,
        cache: &Cache,
        layer: usize,
        out: &mut Rows,
        gaze: Option<&mut Gaze>,
    ) -> Result<()> {
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let (rows, group) = (self.visible.rows(), heads / kv_heads);
        let (qkv, stride) = self.check(qkv, rows, cache)?;
        let width = out.width().max(heads * head_dim);
        if !width.is_multiple_of(4) {
            return Err(GpuError::Invalid(format!("rows of {width} values: a multiple of 4 is expected")));
        }
        let out = out.reserve(&self.gpu, rows, width)?;
        let record = (head_dim as u64 / 4 + 1) * 16 * heads as u64;
        // Rows of one dispatch; a row's arithmetic is the same in any.
        let most = (self.limit / (record * self.visible.longest().div_ceil(SPAN).max(1) as u64)).max(1);
        let part = (most as usize).min(rows).min(LINE);
        let spans = |rows: std::ops::Range<usize>| {
            rows.map(|row| self.visible.count(row)).max().unwrap_or(0).div_ceil(SPAN)
        };
        let need = (part * spans(0..rows)) as u64 * record;
        if self.records.as_ref().is_none_or(|records| records.bytes() < need) {
            self.records = None;
            self.records = Some(self.gpu.buffer(need.next_power_of_two().min(self.limit).max(need))?);
        }
        let (records, table) = (self.records.as_ref().unwrap_or(qkv), self.table()?);
        let layer_cache = cache.layer(layer)?;
        let (attend, combine) = (self.attend_kernel(gaze.is_some())?, self.combine_kernel(gaze.is_some())?);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let gaze = match gaze {
            Some(gaze) => {
                gaze.begin_layer(stream, rows, self.shape)?;
                Some(gaze)
            }
            None => None,
        };
        let (measured, probed) = match &gaze {
            Some(gaze) => gaze.buffers()?,
            None => (table, &self.nothing),
        };
        for first in (0..rows).step_by(part.max(1)) {
            let count = part.min(rows - first);
            let spans = spans(first..first + count) as u32;
            let params = AttendParams {
                rows: count as u32,
                first_row: first as u32,
                heads: heads as u32,
                group: group as u32,
                stride,
                capacity: cache.capacity() as u32,
                spans,
                scale,
            };
            let groups = [spans, (count * group).div_ceil(TILE) as u32, kv_heads as u32];
            let buffers = [qkv, &layer_cache.keys, &layer_cache.values, table, records, measured];
            stream.dispatch(&attend, &params, &buffers, groups)?;
            let params = CombineParams {
                first_row: first as u32,
                heads: heads as u32,
                spans,
                stride: (width / 4) as u32,
                all: (rows * heads) as u32,
                unused: [0; 3],
            };
            stream.dispatch(
                &combine,
                &params,
                &[records, table, out, probed],
                [heads as u32, count as u32, 1],
            )?;
        }
        let Some(gaze) = gaze else { return Ok(()) };
        if let Some((at, count)) = gaze.next_layer()? {
            let (slots, sums) = gaze.sums()?;
            let params = GazeParams {
                rows: rows as u32,
                heads: heads as u32,
                group: group as u32,
                stride,
                capacity: cache.capacity() as u32,
                count: count as u32,
                at: at as u32,
                scale,
            };
            let (_, probed) = gaze.buffers()?;
            let buffers = [qkv, &layer_cache.keys, &layer_cache.values, table, slots, probed, sums];
            let kernel = self.gaze_kernel()?;
            stream.dispatch(&kernel, &params, &buffers, [count.div_ceil(64) as u32, kv_heads as u32, 1])?;
        }
        Ok(())
    }

    fn table(&self) -> Result<&Buffer> {
        self.table.as_ref().ok_or_else(|| GpuError::Invalid("no pass has begun".into()))
    }

    /// The name of a kernel for this type of keys and values.
    fn named(&self, what: &str) -> String {
        format!("{what} {}", self.kind.name())
    }

    /// The kernel's source with what reads this type of keys and values.
    fn source(&self, source: &str) -> String {
        let kind = match self.kind {
            KvType::F16 => include_str!("shaders/kv_f16.wgsl"),
            KvType::Q8_0 => include_str!("shaders/kv_q8_0.wgsl"),
            KvType::Auto | KvType::F32 => include_str!("shaders/kv_f32.wgsl"),
        };
        [source, kind].concat()
    }

    fn attend_kernel(&self, probe: bool) -> Result<Arc<Kernel>> {
        use Access::{Read, Write};
        let d = self.shape.head_dim;
        let per = match d {
            ..=64 => 1,
            65..=128 => 2,
            _ => 4,
        };
        self.gpu.kernel(
            &self.named("attend"),
            &|| self.source(include_str!("shaders/attend.wgsl")),
            &[Read, Read, Read, Read, Write, Read],
            &[("D", d as f64), ("PER", f64::from(per)), ("PROBE", f64::from(u8::from(probe)))],
        )
    }

    fn combine_kernel(&self, probe: bool) -> Result<Arc<Kernel>> {
        use Access::{Read, Write};
        self.gpu.kernel(
            "combine",
            &|| include_str!("shaders/combine.wgsl").into(),
            &[Read, Read, Write, Write],
            &[("D", self.shape.head_dim as f64), ("PROBE", f64::from(u8::from(probe)))],
        )
    }

    fn gaze_kernel(&self) -> Result<Arc<Kernel>> {
        use Access::{Read, Write};
        self.gpu.kernel(
            &self.named("gaze"),
            &|| self.source(include_str!("shaders/gaze.wgsl")),
            &[Read, Read, Read, Read, Read, Read, Write],
            &[("D", self.shape.head_dim as f64)],
        )
    }

    /// The rows' memory and their width in fours.
    fn check<'a>(&self, qkv: &'a Rows, rows: usize, cache: &Cache) -> Result<(&'a Buffer, u32)> {
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let [_, cache_heads, cache_dim] = cache.layout();
        if (cache_heads, cache_dim, cache.kind()) != (kv_heads, head_dim, self.kind) {
            return Err(GpuError::Invalid("the cache is of another model".into()));
        }
        let width = (heads + 2 * kv_heads) * head_dim;
        match qkv.buffer() {
            Some(buffer) if qkv.rows() >= rows && qkv.width() >= width && qkv.width().is_multiple_of(4) => {
                Ok((buffer, (qkv.width() / 4) as u32))
            }
            _ => Err(GpuError::Invalid(format!(
                "{} rows of {} values for attention of {rows} rows of {width}",
                qkv.rows(),
                qkv.width()
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
