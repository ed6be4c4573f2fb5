//! What decoders do on a GPU.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    GpuOps,
    work::{GpuWork, given},
};
use crate::{
    CheckpointError, LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionShape, AttentionStats},
    experts::Experts,
    fused::FusedMatrix,
    gpu::{
        Buffer, Matrix, Rows, Table,
        attention::{self, Attention, NormedHeads, Visible, gaze::Gaze},
        buffer::grown,
        cache, experts,
        held::GpuCache,
        recurrent::{Recurrent, mixing::GpuLinear},
    },
    logits::{GpuLogits, Logits},
    ops::{Ability, DecoderOps, HeadNorms, HeldWeights, Input, Loaded, Out, PassSpec, RowOps as _, TunedOps},
    recurrent::RecurrentPass,
    states::{States, with_slice},
};

/// Rows of a prefill pass on a GPU, which few rows do not fill.
const CHUNK: usize = 512;
/// Rows of a prefill pass on an adapter that computes on the CPU: cancelling waits for one.
const SOFTWARE_CHUNK: usize = 128;

impl HeldWeights for Table {
    fn bytes(&self) -> usize {
        self.bytes() as usize
    }
}

/// The matrices of all experts below each other, as a GPU keeps them.
fn stacked(pairs: Vec<[FusedMatrix; 2]>) -> Vec<[FusedMatrix; 2]> {
    let stack = |mut all: [FusedMatrix; 2], pair: [FusedMatrix; 2]| {
        all.iter_mut().zip(pair).for_each(|(to, from)| to.tensors.extend(from.tensors));
        all
    };
    pairs.into_iter().reduce(stack).into_iter().collect()
}

impl DecoderOps for GpuOps {
    type Table = Table;
    type Linear = GpuLinear;
    type Recurrent = Recurrent;
    type Cache = GpuCache;

    fn is_batch_invariant(&self) -> bool {
        self.gpu.is_batch_invariant()
    }

    fn computes(&self, ability: Ability) -> bool {
        match ability {
            Ability::Heads(width) => attention::computes(width),
            Ability::Windows | Ability::Together => false,
        }
    }

    fn chunk(&self) -> usize {
        if self.gpu.is_software() { SOFTWARE_CHUNK } else { CHUNK }
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
                    States::Host(_) | States::Candle(_) => {
                        with_slice(states, |values| stream.lock().write(x, 0, bytemuck::cast_slice(values)))??
                    }
                }
            }
        }
        Ok(())
    }

    fn experts(&self, layer: Experts<FusedMatrix>, checkpoint: &dyn Weights) -> Loaded<Experts<Arc<Matrix>>> {
        let layer = Experts { routed: stacked(layer.routed), ..layer };
        let loaded = layer.try_map(|matrix| self.matrix(matrix, checkpoint))?;
        match experts::problem(&loaded) {
            Some(problem) => Err(CheckpointError::tensor(layer.router.name(), &problem)),
            None => Ok(loaded),
        }
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
            Some(HeadNorms { queries, keys, eps, .. }) => {
                let norms = NormedHeads { weights: [queries, keys], eps };
                attention.store_normed(stream, qkv, angles, norms, cache, layer)
            }
        })?)
    }

    fn attend<'c>(
        &self,
        work: &mut GpuWork,
        passes: &[PassSpec<'_>],
        qkv: &Rows,
        caches: &dyn Fn(usize) -> &'c GpuCache,
        layer: usize,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let [pass] = passes else { crate::bail!("{} passes at once on a GPU", passes.len()) };
        let stream = work.stream(&self.gpu);
        let Some(attention) = &mut work.attention else {
            crate::bail!("no pass has begun");
        };
        let (stream, gaze) = (&mut stream.lock(), work.gaze.as_mut().filter(|_| pass.probe.is_some()));
        Ok(caches(0).with(|cache| attention.attend(stream, qkv, cache, layer, out.rows, gaze))?)
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

    fn logits(&self, work: &mut GpuWork, head: &Arc<Matrix>, states: &States) -> Result<Logits> {
        let rows = self.project_rows(work, head, states)?;
        Ok(Logits::Gpu(GpuLogits::new(rows, &work.extracted)))
    }
}

impl TunedOps for GpuOps {
    fn kernel_device(&self) -> String {
        self.gpu.identity()
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

    fn first_outputs(matrix: &Self::Matrix, outputs: usize) -> Self::Matrix {
        Arc::new(matrix.first_outputs(outputs))
    }
}
