//! The operations of models on a GPU.
//!
//! A pass is recorded and not waited for: its first read submits it, together with the logits that were recorded after it. Only
//! what is read comes back to host memory.

use std::{ops::Range, sync::Arc};

use crate::Result;

use super::{
    Buffer, Gpu, Rows,
    attention::{Attention, NormedHeads, Visible},
    buffer::grown,
    columns,
    elements::{self, Addend},
    held::GpuCache,
    matrix::Matrix,
    recurrent::Recurrent,
    rows::filled,
    states::{Part, SharedStream, beside},
    table::Table,
    work::{GpuWork, again, given},
};
use crate::Weights;
use crate::gpu::{
    attention::gaze::Gaze,
    logits::rows::GpuLogits,
    products::input::Scratch,
    recurrent::mixing::{GpuLinear, Mixing},
};
use crate::{
    CheckpointError, KvType, LinearAttention, WeightType,
    attention::{AttentionShape, AttentionStats},
    fused::FusedMatrix,
    logits::Logits,
    ops::{HeadNorms, Input, LinearWeights, Loaded, Ops, PassSpec},
    recurrent::Plan,
    states::{States, with_slice},
};

/// Rows of a prefill pass on a GPU, which few rows do not fill.
const CHUNK: usize = 512;
/// Rows of a prefill pass on an adapter that computes on the CPU: cancelling waits for one.
const SOFTWARE_CHUNK: usize = 128;

/// A GPU, with weights and keys and values of some types.
#[derive(Clone, Debug)]
pub struct GpuOps {
    pub(super) gpu: Gpu,
    pub(super) dtype: WeightType,
    pub(super) kv_type: KvType,
    /// For rows that no sequence computes.
    pub(super) stream: SharedStream,
}

/// A pass in progress.
pub struct GpuPass<'a> {
    stream: SharedStream,
    scratch: &'a mut Scratch,
    attention: &'a mut Attention,
    gaze: Option<&'a mut Gaze>,
    mixing: &'a mut Mixing,
    angles: &'a Buffer,
    ids: &'a mut Option<Buffer>,
    given: &'a mut Vec<Buffer>,
    rows: usize,
}

impl GpuOps {
    /// Weights in `dtype`, keys and values in `kv_type`; neither is `Auto`.
    pub fn new(gpu: &Gpu, dtype: WeightType, kv_type: KvType) -> Self {
        Self { gpu: gpu.clone(), dtype, kv_type, stream: SharedStream::new(gpu) }
    }

    /// See [`Gpu::is_exact`].
    pub fn is_exact(&self) -> bool {
        self.gpu.is_exact()
    }
}

impl Ops for GpuOps {
    type Matrix = Arc<Matrix>;
    type Vector = Buffer;
    type Table = Table;
    type Rows = Rows;
    type Columns = (Buffer, usize);
    type Linear = GpuLinear;
    type Recurrent = Recurrent;
    type Cache = GpuCache;
    type Work = GpuWork;
    type Pass<'a> = GpuPass<'a>;

    fn chunk(&self) -> usize {
        if self.gpu.is_software() { SOFTWARE_CHUNK } else { CHUNK }
    }

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Arc<Matrix>> {
        Matrix::load(&self.gpu, list, checkpoint, self.dtype).map(Arc::new)
    }

    fn vector(&self, name: &str, values: Vec<f32>) -> Loaded<Buffer> {
        let uploaded = self.gpu.upload(bytemuck::cast_slice(&values));
        uploaded.map_err(|e| CheckpointError::tensor(name, &e.to_string()))
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<(Buffer, usize)> {
        let uploaded = self.gpu.upload(bytemuck::cast_slice(&columns));
        Ok((uploaded.map_err(|e| CheckpointError::tensor("chosen columns", &e.to_string()))?, columns.len()))
    }

    fn linear(&self, name: &str, weights: LinearWeights) -> Loaded<GpuLinear> {
        GpuLinear::new(&self.gpu, weights).map_err(|e| CheckpointError::tensor(name, &e.to_string()))
    }

    fn recurrent(&self, layers: usize, shape: LinearAttention) -> Recurrent {
        Recurrent::new(&self.gpu, layers, shape)
    }

    fn embeddings(
        &self,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
    ) -> Loaded<(Table, Arc<Matrix>)> {
        Table::load_with_head(&self.gpu, name, head, tied, checkpoint, self.dtype)
    }

    fn matrix_bytes(matrix: &Arc<Matrix>) -> usize {
        matrix.bytes() as usize
    }

    fn table_bytes(table: &Table) -> usize {
        table.bytes() as usize
    }

    fn slot_bytes(&self, shape: AttentionShape) -> usize {
        2 * shape.kv_heads * self.kv_type.head_bytes(shape.head_dim)
    }

    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> GpuCache {
        GpuCache::new(&self.gpu, layers, shape, capacity, self.kv_type)
    }

    fn embed(&self, table: &Table, ids: &[u32]) -> Result<States> {
        let mut out = Rows::default();
        self.look_up(&self.stream, &mut None, table, ids, &mut out)?;
        let rows = given(&self.stream, &mut Vec::new(), &mut out)?;
        self.stream.lock().submit()?;
        Ok(States::Gpu(rows))
    }

    fn begin<'a>(
        &self,
        work: &'a mut GpuWork,
        spec: PassSpec<'a>,
        cache: &mut GpuCache,
    ) -> Result<GpuPass<'a>> {
        let PassSpec { rows, layers, shape, cos, sin, mask, probe } = spec;
        if !cache.is_on(&self.gpu) {
            crate::bail!("the decoder and the cache are on different devices");
        }
        let stream = work.stream(&self.gpu);
        let mut recording = stream.lock();
        let before = cache.begin(&stream, &mut recording, rows)?;
        let attention = match &mut work.attention {
            Some(attention) => attention,
            none => none.insert(Attention::new(&self.gpu, shape, self.kv_type)?),
        };
        attention.begin(&mut recording, Visible::new(mask, before, rows))?;
        let angles = grown(&mut work.angles, &self.gpu, (rows * shape.head_dim * 4).next_power_of_two())?;
        let half = (shape.head_dim / 2).max(1);
        let table: Vec<f32> =
            cos.chunks_exact(half).zip(sin.chunks_exact(half)).flat_map(|(c, s)| [c, s].concat()).collect();
        recording.write(angles, 0, bytemuck::cast_slice(&table))?;
        if let Some(probe) = probe {
            let usable = |gaze: &Gaze| gaze.probe() == probe && gaze.covers(before + rows);
            if !work.gaze.as_ref().is_some_and(usable) {
                work.gaze = Some(Gaze::new(&self.gpu, probe, layers, (before + rows).next_power_of_two())?);
            }
        }
        let gaze = work.gaze.as_mut().filter(|_| probe.is_some());
        drop(recording);
        let mut pass = GpuPass {
            stream,
            scratch: &mut work.scratch,
            attention,
            gaze,
            mixing: &mut work.mixing,
            angles,
            ids: &mut work.ids,
            given: &mut work.given,
            rows,
        };
        pass.mixing.begin();
        if let Some(gaze) = &mut pass.gaze {
            gaze.begin();
        }
        Ok(pass)
    }

    fn load(&self, pass: &mut GpuPass<'_>, table: &Table, input: Input<'_>, x: &mut Rows) -> Result<()> {
        match input {
            Input::Ids(ids) => self.look_up(&pass.stream, pass.ids, table, ids, x)?,
            Input::States(states) => {
                let (rows, width) = states.shape();
                let x = x.reserve(&self.gpu, rows, width)?;
                match states {
                    States::Gpu(from) => {
                        let from = from.moved_to(&pass.stream)?;
                        let (memory, start) = from.place_for(&pass.stream)?;
                        pass.stream.lock().copy(memory, start, x, 0, from.bytes())?;
                    }
                    States::Tensor(_) => with_slice(states, |values| {
                        pass.stream.lock().write(x, 0, bytemuck::cast_slice(values))
                    })??,
                }
            }
        }
        Ok(())
    }

    fn norm(
        &self,
        pass: &mut GpuPass<'_>,
        x: &mut Rows,
        add: Option<&Rows>,
        weight: &Buffer,
        eps: f32,
        next: Option<&Arc<Matrix>>,
        out: &mut Rows,
    ) -> Result<()> {
        let bytes = x.bytes();
        if out.memory().is_none()
            && let Some(buffer) = again(pass.given, bytes)
        {
            *out = Rows::of(buffer, x.rows(), x.width());
        }
        let stream = &mut pass.stream.lock();
        match next {
            Some(next) => next.norm_before(stream, x, add, weight, eps, out, pass.scratch)?,
            None => elements::norm(stream, x, add, weight, eps, out)?,
        }
        Ok(())
    }

    fn product(&self, pass: &mut GpuPass<'_>, matrix: &Arc<Matrix>, x: &Rows, out: &mut Rows) -> Result<()> {
        Ok(matrix.forward(&mut pass.stream.lock(), x, pass.rows, out, pass.scratch)?)
    }

    fn gated(
        &self,
        pass: &mut GpuPass<'_>,
        matrix: &Arc<Matrix>,
        x: &Rows,
        _: &mut Rows,
        next: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let stream = &mut pass.stream.lock();
        Ok(matrix.forward_gated_for(next, stream, x, pass.rows, out, pass.scratch)?)
    }

    fn store(
        &self,
        pass: &mut GpuPass<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Buffer>>,
        cache: &mut GpuCache,
        layer: usize,
    ) -> Result<()> {
        let (stream, angles) = (&mut pass.stream.lock(), pass.angles);
        Ok(cache.with(|cache| match norms {
            None => pass.attention.store(stream, qkv, Some(angles), cache, layer),
            Some(HeadNorms { queries, keys, eps }) => {
                let norms = NormedHeads { weights: [queries, keys], eps };
                pass.attention.store_normed(stream, qkv, angles, norms, cache, layer)
            }
        })?)
    }

    fn attend(
        &self,
        pass: &mut GpuPass<'_>,
        qkv: &Rows,
        cache: &GpuCache,
        layer: usize,
        _: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        let (stream, gaze) = (&mut pass.stream.lock(), pass.gaze.as_deref_mut());
        Ok(cache.with(|cache| pass.attention.attend(stream, qkv, cache, layer, out, gaze))?)
    }

    fn mix(
        &self,
        pass: &mut GpuPass<'_>,
        mixed: &Rows,
        weights: &GpuLinear,
        plan: &Plan,
        states: &mut Recurrent,
        layer: usize,
        _: &Arc<Matrix>,
        out: &mut Rows,
    ) -> Result<()> {
        Ok(pass.mixing.mix(&pass.stream, mixed, weights, plan, states, layer, out)?)
    }

    fn choose(
        &self,
        pass: &mut GpuPass<'_>,
        from: &Rows,
        (columns, width): &(Buffer, usize),
        x: &mut Rows,
    ) -> Result<()> {
        Ok(columns::choose(&mut pass.stream.lock(), from, columns, *width, x)?)
    }

    fn gate_by(&self, pass: &mut GpuPass<'_>, gates: &Rows, _: &Arc<Matrix>, x: &mut Rows) -> Result<()> {
        Ok(columns::gate(&mut pass.stream.lock(), gates, x)?)
    }

    fn add(&self, pass: &mut GpuPass<'_>, x: &mut Rows, add: &Rows) -> Result<()> {
        Ok(elements::add(&mut pass.stream.lock(), x, Addend::Rows(add))?)
    }

    fn columns(
        &self,
        pass: &mut GpuPass<'_>,
        from: &Rows,
        columns: Range<usize>,
        x: &mut Rows,
    ) -> Result<()> {
        x.reserve(&self.gpu, from.rows(), columns.len())?;
        Ok(columns::between(&mut pass.stream.lock(), from, columns, x, false)?)
    }

    fn add_columns(
        &self,
        pass: &mut GpuPass<'_>,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        Ok(columns::between(&mut pass.stream.lock(), from, columns, x, true)?)
    }

    fn keep(&self, pass: &mut GpuPass<'_>, rows: &Rows) -> Result<States> {
        let from = filled(rows)?;
        let buffer = match again(pass.given, rows.bytes()) {
            Some(buffer) => buffer,
            None => self.gpu.buffer(rows.bytes())?,
        };
        pass.stream.lock().copy(from, 0, &buffer, 0, rows.bytes())?;
        let mut kept = Rows::of(buffer, rows.rows(), rows.width());
        Ok(States::Gpu(given(&pass.stream, pass.given, &mut kept)?))
    }

    fn take(&self, pass: &mut GpuPass<'_>, rows: &mut Rows) -> Result<States> {
        Ok(States::Gpu(given(&pass.stream, pass.given, rows)?))
    }

    fn finish(&self, pass: GpuPass<'_>, cache: &mut GpuCache) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        let read = |gaze: &mut Gaze| gaze.read(&mut pass.stream.lock());
        Ok(pass.gaze.map(read).transpose()?)
    }

    fn project(&self, work: &mut GpuWork, matrix: &Arc<Matrix>, states: &States) -> Result<States> {
        Ok(States::Gpu(self.project_rows(work, matrix, states)?))
    }

    fn logits(&self, work: &mut GpuWork, head: &Arc<Matrix>, states: &States) -> Result<Logits> {
        let rows = self.project_rows(work, head, states)?;
        Ok(Logits::Gpu(GpuLogits::new(rows, &work.extracted)))
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        let host = [a.in_host_memory()?, b.in_host_memory()?];
        let part = |at: usize| match &host[at] {
            Some(values) => Some(Part::Host(values)),
            None => [a, b][at].on_gpu().map(Part::Device),
        };
        let (Some(left), Some(right)) = (part(0), part(1)) else {
            crate::bail!("rows beside each other are on no device");
        };
        Ok(States::Gpu(beside(&self.stream, [left, right], [a.shape().1, b.shape().1])?))
    }

    fn synchronize(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }
}
