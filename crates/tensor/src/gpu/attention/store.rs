//! Keys and values of new rows on their way to the cache.

use bytemuck::{Pod, Zeroable};

use super::{Access, Attention, AttentionShape, Buffer, Cache, GpuError, KvType, LINE, Result, Rows, Stream};

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
        use Access::{Read, Write};
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let (qkv, params) = self.store_params(qkv, cache)?;
        let kernel = self.gpu.kernel(
            self.named("store f16", "store f32"),
            &|| self.store_source(include_str!("../shaders/store.wgsl")),
            &[Write, Read, Write, Write],
            &[("D", head_dim as f64), ("ROTATE", f64::from(u8::from(angles.is_some())))],
        )?;
        let layer = cache.layer(layer)?;
        let table = self.table()?;
        let threads = (heads + 2 * kv_heads) * head_dim / 8;
        let groups = store_groups(threads.div_ceil(THREADS), params.rows as usize);
        stream.dispatch(&kernel, &params, &[qkv, angles.unwrap_or(table), &layer.keys, &layer.values], groups)
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
        use Access::{Read, Write};
        let AttentionShape { heads, kv_heads, head_dim } = self.shape;
        let (qkv, params) = self.store_params(qkv, cache)?;
        if norms.weights.iter().any(|weight| weight.bytes() < head_dim as u64 * 4) {
            return Err(GpuError::Invalid(format!("norms of heads have fewer than {head_dim} weights")));
        }
        let kernel = self.gpu.kernel(
            self.named("store normed f16", "store normed f32"),
            &|| self.store_source(include_str!("../shaders/store_normed.wgsl")),
            &[Write, Read, Write, Write, Read, Read],
            &[("D", head_dim as f64)],
        )?;
        let params = StoreParams { eps: norms.eps, ..params };
        let layer = cache.layer(layer)?;
        // A head is computed in one workgroup, whose threads add up its squares.
        let heads_of_group = THREADS / (head_dim / 8);
        let groups = store_groups((heads + 2 * kv_heads).div_ceil(heads_of_group), params.rows as usize);
        let [queries, keys] = norms.weights;
        let buffers = [qkv, angles, &layer.keys, &layer.values, queries, keys];
        stream.dispatch(&kernel, &params, &buffers, groups)
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

    /// A kernel's source before what writes this type of keys and values.
    fn store_source(&self, source: &str) -> String {
        let kind = match self.kind {
            KvType::F16 => include_str!("../shaders/store_f16.wgsl"),
            _ => include_str!("../shaders/store_f32.wgsl"),
        };
        [source, kind].concat()
    }
}

/// Workgroups for rows of `width` workgroups each.
fn store_groups(width: usize, rows: usize) -> [u32; 3] {
    [width as u32, rows.min(LINE) as u32, rows.div_ceil(LINE) as u32]
}
