//! Keys and values of new rows on their way to the cache.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::{
    Access, Attention, AttentionShape, Buffer, Cache, GpuError, Kernel, KvType, LINE, Result, Rows, Stream,
};
use crate::gpu::products::source::{Setting, source};

/// Threads of a workgroup, as in the shaders.
const THREADS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct StoreParams {
    rows: u32,
    heads: u32,
    kv_heads: u32,
    stride: u32,
    slot: u32,
    capacity: u32,
    eps: f32,
    unused: u32,
}

/// Norms of the queries and keys in each head.
#[derive(Clone, Copy, Debug)]
pub struct NormedHeads<'a> {
    /// Weights for queries and for keys, `head_dim` values each.
    pub weights: [&'a Buffer; 2],
    /// Added to the mean square.
    pub eps: f32,
}

impl Attention {
    /// Rotate the queries in `qkv` (in place) and its keys, and write keys and values to the reserved slots after those in use. A
    /// row of `qkv` holds queries, keys, values. `angles` has `head_dim` values for each row: the cosines, then the sines. Fails
    /// if the slots are not reserved, or the sizes do not fit.
    pub fn store(
        &self,
        stream: &mut Stream,
        qkv: &Rows,
        angles: Option<&Buffer>,
        cache: &Cache,
        layer: usize,
    ) -> Result<()> {
        let (qkv, params) = self.store_params(qkv, cache)?;
        let kernel = self.store_kernel(angles.is_some(), false)?;
        let layer = cache.layer(layer)?;
        let table = self.table()?;
        let buffers = [qkv, angles.unwrap_or(table), &layer.keys, &layer.values];
        stream.dispatch(&kernel, &params, &buffers, self.store_groups())
    }

    /// As [`Attention::store`], with queries and keys normed in each head before they are rotated.
    pub(crate) fn store_normed(
        &self,
        stream: &mut Stream,
        qkv: &Rows,
        angles: &Buffer,
        norms: NormedHeads<'_>,
        cache: &Cache,
        layer: usize,
    ) -> Result<()> {
        let (qkv, params) = self.store_params(qkv, cache)?;
        let head_dim = self.shape.head_dim;
        if norms.weights.iter().any(|weight| weight.bytes() < head_dim as u64 * 4) {
            return Err(GpuError::Invalid(format!("norms of heads have fewer than {head_dim} weights")));
        }
        let kernel = self.store_kernel(true, true)?;
        let params = StoreParams { eps: norms.eps, ..params };
        let layer = cache.layer(layer)?;
        let [queries, keys] = norms.weights;
        let buffers = [qkv, angles, &layer.keys, &layer.values, queries, keys];
        stream.dispatch(&kernel, &params, &buffers, self.store_groups())
    }

    fn store_kernel(&self, rotate: bool, normed: bool) -> Result<Arc<Kernel>> {
        use Access::{Read, Write};
        let kept = match self.kind {
            KvType::F16 => include_str!("../shaders/store_f16.wgsl"),
            KvType::Q8_0 => include_str!("../shaders/store_q8_0.wgsl"),
            KvType::Auto | KvType::F32 => include_str!("../shaders/store_f32.wgsl"),
        };
        let (name, names): (&str, &'static [&'static str]) =
            if normed { ("store normed", &["NORMED"]) } else { ("store", &[]) };
        let bindings = [Write, Read, Write, Write, Read, Read];
        self.gpu.kernel(
            &self.named(name),
            &|| source(&[include_str!("../shaders/store.wgsl"), kept], Setting { rows: 0, names }),
            if normed { &bindings } else { &bindings[..4] },
            &[("D", self.shape.head_dim as f64), ("ROTATE", f64::from(u8::from(rotate)))],
        )
    }

    /// Workgroups of a pass: each computes some whole heads of a row.
    fn store_groups(&self) -> [u32; 3] {
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let (rows, heads_of_group) = (self.visible.rows(), THREADS / (head_dim / 8));
        let width = (heads + 2 * kv_heads).div_ceil(heads_of_group);
        [width as u32, rows.min(LINE) as u32, rows.div_ceil(LINE) as u32]
    }

    /// The memory of a pass's rows, and where they go.
    fn store_params<'a>(&self, qkv: &'a Rows, cache: &Cache) -> Result<(&'a Buffer, StoreParams)> {
        let rows = self.visible.rows();
        let (buffer, stride) = self.check(qkv, rows, cache)?;
        if cache.len() + rows > cache.capacity() {
            return Err(GpuError::Invalid("the slots are not reserved".into()));
        }
        let params = StoreParams {
            rows: rows as u32,
            heads: self.shape.heads as u32,
            kv_heads: self.shape.kv_heads as u32,
            stride,
            slot: cache.len() as u32,
            capacity: cache.capacity() as u32,
            eps: 0.0,
            unused: 0,
        };
        Ok((buffer, params))
    }
}
