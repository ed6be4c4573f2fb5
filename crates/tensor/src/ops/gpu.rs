//! The operations of models on a GPU.
//!
//! Operations are recorded and not waited for: the first read submits them, together with the logits that were recorded after a
//! pass. Only requested values come back to host memory. Widths that are not a multiple of the block are padded with zeros in towers, as on the
//! CPU.

mod placing;
mod tower;
mod work;

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use self::{
    tower::{GpuLayout, blend, copy_back, copy_part, fit, with_part},
    work::{GpuWork, again, given},
};
use super::{HeadNorms, Input, Loaded, Norm, Ops, Out, Part, PassSpec, Residual};
use crate::{
    CheckpointError, KvType, LinearAttention, LinearWeights, Result, WeightType, Weights,
    attention::{AttentionShape, AttentionStats},
    convolution::{Convolution, Side},
    experts::Experts,
    fused::FusedMatrix,
    gpu::{
        Buffer, Gpu, Matrix, Rows, Table,
        attention::{self, Attention, NormedHeads, Visible, gaze::Gaze},
        buffer::grown,
        cache,
        columns::{self, Columns, copy_columns},
        elements::{self, Addend},
        experts,
        held::GpuCache,
        recurrent::{Recurrent, mixing::GpuLinear},
        rows::filled,
        states::{self, GpuRows, SharedStream, beside},
    },
    logits::{GpuLogits, Logits},
    recurrent::RecurrentPass,
    states::{States, with_slice},
    tower::{Activation, Tap, TowerLayout},
};

/// Rows of a prefill pass on a GPU, which few rows do not fill.
const CHUNK: usize = 512;
/// Rows of a prefill pass on an adapter that computes on the CPU: cancelling waits for one.
const SOFTWARE_CHUNK: usize = 128;
/// Bytes of the queries, keys and values of a chunk of patches.
const PATCHES: usize = 64 << 20;
/// Patches of a chunk on an adapter that computes on the CPU: cancelling waits for a layer.
const SOFTWARE_PATCHES: usize = 1024;
/// Rows of a tower's products, which bound the buffers of feed-forward layers.
const ROWS: usize = 2048;
/// Values of a row from which on it counts as four.
const WIDE: usize = 4096;

/// A GPU, with weights and keys and values of some types.
#[derive(Clone, Debug)]
pub struct GpuOps {
    gpu: Gpu,
    dtype: WeightType,
    kv_type: KvType,
    /// For rows that no sequence computes.
    stream: SharedStream,
}

impl GpuOps {
    /// Weights in `dtype`, keys and values in `kv_type`; neither is `Auto`.
    pub fn new(gpu: &Gpu, dtype: WeightType, kv_type: KvType) -> Self {
        Self { gpu: gpu.clone(), dtype, kv_type, stream: SharedStream::new(gpu) }
    }
}

impl Ops for GpuOps {
    type Matrix = Arc<Matrix>;
    type Vector = Buffer;
    type Table = Table;
    type Columns = (Buffer, usize);
    type Linear = GpuLinear;
    type Layout = GpuLayout;
    type Recurrent = Recurrent;
    type Rows = Rows;
    type Cache = GpuCache;
    type Work = GpuWork;

    const COMPUTES_EXPERTS: bool = true;

    fn is_exact(&self) -> bool {
        self.gpu.is_exact()
    }

    fn computes(&self, head_dim: usize) -> bool {
        attention::computes(head_dim)
    }

    fn kernel_device(&self) -> Option<String> {
        Some(self.gpu.identity())
    }

    fn choose_kernels(
        &self,
        known: &BTreeMap<String, usize>,
        matrices: &[&Self::Matrix],
    ) -> Result<BTreeMap<String, usize>> {
        self.gpu.set_few_limits(known);
        let matrices: Vec<&Matrix> = matrices.iter().map(|matrix| &***matrix).collect();
        Ok(self.gpu.measure_few_limits(&matrices)?)
    }

    fn first_outputs(matrix: &Self::Matrix, outputs: usize) -> Option<Self::Matrix> {
        Some(Arc::new(matrix.first_outputs(outputs)))
    }

    fn chunk(&self) -> usize {
        if self.gpu.is_software() { SOFTWARE_CHUNK } else { CHUNK }
    }

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

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Arc<Matrix>> {
        Matrix::load(&self.gpu, list, checkpoint, self.dtype).map(Arc::new)
    }

    fn arrange(pairs: Vec<[FusedMatrix; 2]>) -> Vec<[FusedMatrix; 2]> {
        let stack = |mut all: [FusedMatrix; 2], pair: [FusedMatrix; 2]| {
            all.iter_mut().zip(pair).for_each(|(to, from)| to.tensors.extend(from.tensors));
            all
        };
        pairs.into_iter().reduce(stack).into_iter().collect()
    }

    fn experts_problem(layer: &Experts<Arc<Matrix>>) -> Option<String> {
        experts::problem(layer)
    }

    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Arc<Matrix>> {
        Matrix::load_padded(&self.gpu, list, pad, checkpoint, self.dtype).map(Arc::new)
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
        2 * shape.kv_heads * cache::slot_bytes(self.kv_type, shape.head_dim)
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

    fn embed_in(&self, work: &mut GpuWork, table: &Table, ids: &[u32]) -> Result<States> {
        let (stream, mut out) = (work.stream(&self.gpu), work.rows(ids.len(), table.width()));
        self.look_up(&stream, &mut work.ids, table, ids, &mut out)?;
        Ok(States::Gpu(given(&stream, &mut work.given, &mut out)?))
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

    fn begin(&self, work: &mut GpuWork, pass: &PassSpec<'_>, cache: &mut GpuCache) -> Result<()> {
        let PassSpec { rows, layers, shape, mask, probe, .. } = *pass;
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
        let halves = pass.cos.chunks_exact(half).zip(pass.sin.chunks_exact(half));
        let table: Vec<f32> = halves.flat_map(|(c, s)| [c, s].concat()).collect();
        recording.write(angles, 0, bytemuck::cast_slice(&table))?;
        work.mixing.begin();
        if let Some(probe) = probe {
            let usable = |gaze: &Gaze| gaze.probe() == probe && gaze.covers(before + rows);
            if !work.gaze.as_ref().is_some_and(usable) {
                work.gaze = Some(Gaze::new(&self.gpu, probe, layers, (before + rows).next_power_of_two())?);
            }
            if let Some(gaze) = &mut work.gaze {
                gaze.begin();
            }
        }
        Ok(())
    }

    fn load(&self, work: &mut GpuWork, table: &Table, input: Input<'_>, x: &mut Rows) -> Result<()> {
        let stream = work.stream(&self.gpu);
        match input {
            Input::Ids(ids) => self.look_up(&stream, &mut work.ids, table, ids, x)?,
            Input::States(states) => {
                let (rows, width) = states.shape();
                let x = x.reserve(&self.gpu, rows, width)?;
                match states {
                    States::Gpu(from) => {
                        let from = from.moved_to(&stream)?;
                        let (memory, start) = from.place_for(&stream)?;
                        stream.lock().copy(memory, start, x, 0, from.bytes())?;
                    }
                    States::Tensor(_) => {
                        with_slice(states, |values| stream.lock().write(x, 0, bytemuck::cast_slice(values)))??
                    }
                }
            }
        }
        Ok(())
    }

    fn patches(
        &self,
        work: &mut GpuWork,
        layout: &GpuLayout,
        patches: &[f32],
        part: Part,
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

    fn part(&self, work: &mut GpuWork, rows: &Rows, part: Part, out: Out<'_, Self>) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        copy_part(stream, rows, part, out.rows)?;
        Ok(fit(stream, out.rows, out.next, &mut work.tower.spare)?)
    }

    fn norm(
        &self,
        work: &mut GpuWork,
        Residual { x, part, add }: Residual<'_, Rows>,
        norm: &Norm<Buffer>,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let (rows, width) = (x.rows(), x.width());
        if out.memory().is_none()
            && let Some(buffer) = again(&mut work.given, x.bytes())
        {
            *out = Rows::of(buffer, rows, width);
        }
        let stream = work.stream(&self.gpu);
        let (stream, scratch, spare) = (&mut stream.lock(), &mut work.scratch, &mut work.tower.spare);
        let Norm { weight, eps, joined, .. } = norm;
        x.reshape(rows * width / norm.width, norm.width);
        with_part(stream, x, part, spare, add.is_some(), |stream, x| match (&norm.bias, next) {
            (Some(bias), _) => elements::layer_norm(stream, x, add, (weight, bias), *eps, out),
            (None, Some(next)) => next.norm_before(stream, x, add, weight, *eps, out, scratch),
            (None, None) => elements::norm(stream, x, add, weight, *eps, out),
        })?;
        x.reshape(rows, width);
        out.reshape(part.rows / joined, norm.width * joined);
        Ok(fit(stream, out, next, spare)?)
    }

    fn product(
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

    fn gated(&self, work: &mut GpuWork, matrix: &Arc<Matrix>, x: &Rows, out: Out<'_, Self>) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, scratch) = (&mut stream.lock(), &mut work.scratch);
        let made = match out.next {
            Some(next) => matrix.forward_gated_for(next, stream, x, x.rows(), out.rows, scratch),
            None => matrix.forward_gated(stream, x, x.rows(), out.rows, scratch),
        };
        Ok(made?)
    }

    fn mix_experts(
        &self,
        work: &mut GpuWork,
        layer: &Experts<Arc<Matrix>>,
        x: &Rows,
        out: &mut Rows,
    ) -> Result<Option<usize>> {
        let stream = work.stream(&self.gpu);
        let (stream, scratch) = (&mut stream.lock(), &mut work.scratch);
        experts::mix(layer, stream, x, scratch, &mut work.experts, out)?;
        Ok(None)
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

    fn store(
        &self,
        work: &mut GpuWork,
        _: &PassSpec<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Buffer>>,
        cache: &mut GpuCache,
        layer: usize,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (Some(attention), Some(angles)) = (&mut work.attention, &work.angles) else {
            crate::bail!("no pass has begun");
        };
        let stream = &mut stream.lock();
        Ok(cache.with(|cache| match norms {
            None => attention.store(stream, qkv, Some(angles), cache, layer),
            Some(HeadNorms { queries, keys, eps }) => {
                let norms = NormedHeads { weights: [queries, keys], eps };
                attention.store_normed(stream, qkv, angles, norms, cache, layer)
            }
        })?)
    }

    fn attend(
        &self,
        work: &mut GpuWork,
        pass: &PassSpec<'_>,
        qkv: &Rows,
        cache: &GpuCache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let Some(attention) = &mut work.attention else {
            crate::bail!("no pass has begun");
        };
        let (stream, gaze) = (&mut stream.lock(), work.gaze.as_mut().filter(|_| pass.probe.is_some()));
        Ok(cache.with(|cache| attention.attend(stream, qkv, cache, layer, out.rows, gaze))?)
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

    fn mix(
        &self,
        work: &mut GpuWork,
        mixed: &Rows,
        weights: &GpuLinear,
        pass: RecurrentPass<'_, Recurrent>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        Ok(work.mixing.mix(&stream, mixed, weights, pass, out.rows)?)
    }

    fn choose(
        &self,
        work: &mut GpuWork,
        from: &Rows,
        (columns, width): &(Buffer, usize),
        x: &mut Rows,
    ) -> Result<()> {
        Ok(columns::choose(&mut work.stream(&self.gpu).lock(), from, columns, *width, x)?)
    }

    fn gate_by(&self, work: &mut GpuWork, gates: &Rows, x: Out<'_, Self>) -> Result<()> {
        Ok(columns::gate(&mut work.stream(&self.gpu).lock(), gates, x.rows)?)
    }

    fn convolve(
        &self,
        work: &mut GpuWork,
        x: &Rows,
        corrections: &Rows,
        convolution: &Convolution<Buffer>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let stream = &mut stream.lock();
        elements::convolve(stream, x, corrections, convolution, side, out.rows)?;
        Ok(fit(stream, out.rows, out.next, &mut work.tower.spare)?)
    }

    fn add(&self, work: &mut GpuWork, x: &mut Rows, part: Part, add: &Rows) -> Result<()> {
        let stream = work.stream(&self.gpu);
        let (stream, spare) = (&mut stream.lock(), &mut work.tower.spare);
        let added =
            with_part(stream, x, part, spare, true, |stream, x| elements::add(stream, x, Addend::Rows(add)));
        Ok(added?)
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

    fn columns(&self, work: &mut GpuWork, from: &Rows, columns: Range<usize>, x: &mut Rows) -> Result<()> {
        x.reserve(&self.gpu, from.rows(), columns.len())?;
        Ok(columns::between(&mut work.stream(&self.gpu).lock(), from, columns, x, false)?)
    }

    fn add_columns(
        &self,
        work: &mut GpuWork,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        Ok(columns::between(&mut work.stream(&self.gpu).lock(), from, columns, x, true)?)
    }

    fn keep(&self, work: &mut GpuWork, rows: &Rows) -> Result<States> {
        let (from, stream) = (filled(rows)?, work.stream(&self.gpu));
        let buffer = match again(&mut work.given, rows.bytes()) {
            Some(buffer) => buffer,
            None => self.gpu.buffer(rows.bytes())?,
        };
        stream.lock().copy(from, 0, &buffer, 0, rows.bytes())?;
        let mut kept = Rows::of(buffer, rows.rows(), rows.width());
        Ok(States::Gpu(given(&stream, &mut work.given, &mut kept)?))
    }

    fn take(&self, work: &mut GpuWork, rows: &mut Rows) -> Result<States> {
        Ok(States::Gpu(given(&work.stream(&self.gpu), &mut work.given, rows)?))
    }

    fn finish(
        &self,
        work: &mut GpuWork,
        pass: &PassSpec<'_>,
        cache: &mut GpuCache,
    ) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        let stream = work.stream(&self.gpu);
        let gaze = work.gaze.as_mut().filter(|_| pass.probe.is_some());
        Ok(gaze.map(|gaze| gaze.read(&mut stream.lock())).transpose()?)
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
            Some(values) => Some(states::Part::Host(values)),
            None => [a, b][at].on_gpu().map(states::Part::Device),
        };
        let (Some(left), Some(right)) = (part(0), part(1)) else {
            crate::bail!("concatenated rows are on no device");
        };
        // Where one of them is computed: often nothing has to be submitted.
        let stream =
            [a, b].into_iter().find_map(|rows| Some(rows.on_gpu()?.stream())).unwrap_or(&self.stream);
        Ok(States::Gpu(beside(stream, [left, right], [a.shape().1, b.shape().1])?))
    }

    fn normed(&self, work: &mut GpuWork, states: &States, weight: &[f32], eps: f32) -> Result<States> {
        let stream = work.stream(&self.gpu);
        let (from, range) = self.place(&stream, states)?;
        let (rows, width) = states.shape();
        let (mut x, mut out) = (work.rows(rows, width), work.rows(rows, width));
        let weight = self.gpu.upload(bytemuck::cast_slice(weight))?;
        {
            let mut stream = stream.lock();
            let from = Columns { buffer: filled(&from)?, first: (range.start * width) as u64, stride: width };
            let to = Columns { buffer: x.reserve(&self.gpu, rows, width)?, first: 0, stride: width };
            copy_columns(&mut stream, from, to, rows, width, false)?;
            elements::norm(&mut stream, &mut x, None, &weight, eps, &mut out)?;
        }
        given(&stream, &mut work.given, &mut x)?;
        Ok(States::Gpu(given(&stream, &mut work.given, &mut out)?))
    }

    fn synchronize(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }

    fn catch_up(&self, work: &mut GpuWork) -> Result<()> {
        Ok(work.stream(&self.gpu).lock().wait()?)
    }
}

#[cfg(test)]
mod tests;
