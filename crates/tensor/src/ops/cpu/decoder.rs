//! What decoders do on the CPU.

use super::{CpuOps, CpuWork, loading, product};
use crate::{
    LinearAttention, LinearWeights, Result, Weights,
    attention::{AttentionShape, AttentionStats},
    cpu::{
        attention,
        cache::CpuCache,
        experts,
        forms::Forms,
        kernels,
        linear::Linear,
        recurrent::{self, CpuLinear},
        rows::CpuRows,
        states::CpuRecurrent,
        table::HostTable,
        thread_pool::{DisjointSliceMut, ThreadPool},
    },
    experts::Experts,
    fused::FusedMatrix,
    logits::Logits,
    ops::{Ability, DecoderOps, HeadNorms, HeldWeights, Input, Loaded, Out, PassSpec, RowOps as _},
    recurrent::RecurrentPass,
    states::{HostRows, States, with_slice},
};

/// Values of all queries and keys below which one thread is faster than several.
const ROTATED_ALONE: usize = 1 << 15;
/// Rows of a prefill pass.
const CHUNK: usize = 128;

pub struct Embeddings {
    table: HostTable,
    /// The head is in the same memory.
    shared: bool,
}

impl HeldWeights for Embeddings {
    fn bytes(&self) -> usize {
        if self.shared { 0 } else { self.table.bytes() }
    }
}

fn look_up(table: &Embeddings, ids: &[u32], rows: &mut Vec<f32>) -> Result<()> {
    for &id in ids {
        if !table.table.row(id, rows) {
            crate::bail!("token id {id} is outside of the embedding table");
        }
    }
    Ok(())
}

/// Width of the queries, and of the keys or values, of a row.
fn widths(shape: AttentionShape) -> (usize, usize) {
    let AttentionShape { heads, kv_heads, head_dim } = shape;
    (heads * head_dim, kv_heads * head_dim)
}

impl DecoderOps for CpuOps {
    type Table = Embeddings;
    type Linear = CpuLinear;
    type Recurrent = CpuRecurrent;
    type Cache = CpuCache;

    fn is_batch_invariant(&self) -> bool {
        true
    }

    fn computes(&self, _: Ability) -> bool {
        true
    }

    fn chunk(&self) -> usize {
        CHUNK
    }

    fn linear(&self, _: &str, weights: LinearWeights) -> Loaded<CpuLinear> {
        Ok(CpuLinear::new(weights))
    }

    fn recurrent(&self, layers: usize, shape: LinearAttention) -> CpuRecurrent {
        CpuRecurrent::new(layers, shape)
    }

    fn embeddings(
        &self,
        name: &str,
        head: &FusedMatrix,
        tied: bool,
        checkpoint: &dyn Weights,
    ) -> Loaded<(Embeddings, Linear)> {
        let (vocab, width) = (head.outputs(), head.inputs);
        let head = self.matrix(head, checkpoint)?;
        // Last, as few of its rows are read: kept weights are read ahead up to it.
        let table = HostTable::new(loading::table(name, [vocab, width], checkpoint)?, width);
        Ok((Embeddings { table, shared: tied && checkpoint.keeps_types() }, head))
    }

    fn slot_bytes(&self, shape: AttentionShape) -> usize {
        2 * shape.kv_heads * self.kv_type.head_bytes(shape.head_dim)
    }

    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> CpuCache {
        CpuCache::new(layers, shape.kv_heads, shape.head_dim, capacity, self.kv_type)
    }

    fn embed(&self, table: &Embeddings, ids: &[u32]) -> Result<States> {
        let mut rows = Vec::with_capacity(ids.len() * table.table.width());
        look_up(table, ids, &mut rows)?;
        States::new(rows, table.table.width())
    }

    fn begin(&self, work: &mut CpuWork, pass: &PassSpec<'_>, cache: &mut CpuCache) -> Result<()> {
        cache.reserve(pass.rows);
        if pass.first == 0 {
            work.stats.clear();
        }
        work.stats.extend(pass.probe.map(|_| (pass.first, AttentionStats::default())));
        Ok(())
    }

    fn load(&self, _: &mut CpuWork, table: &Embeddings, input: Input<'_>, x: &mut CpuRows) -> Result<()> {
        x.rows = input.rows();
        x.values.clear();
        match input {
            Input::Ids(ids) => look_up(table, ids, &mut x.values),
            Input::States(states) => with_slice(states, |values| x.values.extend_from_slice(values)),
        }
    }

    fn experts(&self, layer: Experts<FusedMatrix>, checkpoint: &dyn Weights) -> Loaded<Experts<Linear>> {
        // Not in panels: a step reads a few of them, and the others may stay in their file.
        layer.try_map(|matrix| loading::matrix(matrix, checkpoint, self.dtype))
    }

    fn mix_experts(
        &self,
        work: &mut CpuWork,
        layer: &Experts<Linear>,
        x: &CpuRows,
        out: &mut CpuRows,
    ) -> Result<Option<usize>> {
        experts::mix(layer, x, &mut work.experts, out).map(Some)
    }

    fn store(
        &self,
        _: &mut CpuWork,
        pass: &PassSpec<'_>,
        qkv: &mut CpuRows,
        norms: Option<HeadNorms<'_, Vec<f32>>>,
        cache: &mut CpuCache,
        layer: usize,
    ) -> Result<()> {
        let ((q, kv), d, rows) = (widths(pass.shape), pass.shape.head_dim, pass.rows);
        let (half, fused) = (d / 2, qkv.width());
        let rotated = fused.min(q + kv);
        let own = &mut qkv.values[pass.first * fused..][..rows * fused];
        let values = DisjointSliceMut::new(own);
        let unit = |r: usize| {
            let (cos, sin) = (&pass.cos[r * half..][..half], &pass.sin[r * half..][..half]);
            // SAFETY: each row belongs to one unit.
            let (row, values) = unsafe { values.slice(r * fused, fused) }.split_at_mut(rotated);
            if let Some(eps) = norms.filter(|norms| norms.values).map(|norms| norms.eps) {
                values.chunks_exact_mut(d).for_each(|head| kernels::unit_rms_in_place(head, eps));
            }
            for (at, head) in row.chunks_exact_mut(d).enumerate() {
                if let Some(norms) = norms {
                    let weight = if at * d < q { norms.queries } else { norms.keys };
                    kernels::rms_norm_in_place(head, weight, norms.eps);
                }
                kernels::rotate(head, cos, sin);
            }
        };
        if rows * (q + kv) < ROTATED_ALONE {
            (0..rows).for_each(unit);
        } else {
            ThreadPool::global().run(rows, &unit);
        }
        if fused == q {
            return Ok(());
        }
        cache.write(layer, rows, |r| {
            let row = &own[r * fused..(r + 1) * fused];
            (&row[q..q + kv], &row[q + kv..])
        });
        Ok(())
    }

    fn attend<'c>(
        &self,
        work: &mut CpuWork,
        passes: &[PassSpec<'_>],
        qkv: &CpuRows,
        caches: &dyn Fn(usize) -> &'c CpuCache,
        layer: usize,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let Some(shape) = passes.first().map(|pass| pass.shape) else { return Ok(()) };
        let ((q, _), rows) = (widths(shape), qkv.rows);
        // Rows without keys and values attend to what is in the cache.
        let stride = qkv.width();
        let forms = next.map_or_else(Forms::default, Linear::forms);
        let in_place = forms.any() && shape.head_dim.is_multiple_of(forms.block());
        out.reserve(rows, q);
        let quantized = in_place.then(|| out.quantized.resize(forms, rows, q));
        for (number, pass) in passes.iter().enumerate() {
            let (first, rows) = (pass.first, pass.rows);
            attention::attend(
                caches(number),
                layer,
                shape,
                rows,
                (pass.mask, pass.window),
                &|r| &qkv.values[(first + r) * stride..][..q],
                &mut out.values[first * q..][..rows * q],
                quantized.map(|quantized| (quantized, first * q)),
                pass.probe.map(|probe| (probe, &mut work.probed)),
            );
            let stats = work.stats.iter_mut().find(|(of, _)| *of == first);
            if let (Some((_, stats)), Some(probe)) = (stats, pass.probe) {
                work.probed.add_to(stats, probe, shape, pass.layers);
            }
        }
        match quantized {
            Some(quantized) => quantized.finish(&out.values, rows),
            None => out.quantize(next),
        }
        Ok(())
    }

    fn mix(
        &self,
        _: &mut CpuWork,
        mixed: &CpuRows,
        weights: &CpuLinear,
        pass: RecurrentPass<'_, CpuRecurrent>,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let (rows, values) = (mixed.rows, pass.states.values());
        let forms = next.map_or_else(Forms::default, Linear::forms);
        out.reserve(rows, values);
        let quantized = forms.any().then(|| out.quantized.resize(forms, rows, values));
        recurrent::mix((&mixed.values, rows), weights, pass, &mut out.values, quantized)?;
        if let Some(quantized) = quantized {
            quantized.finish(&out.values, rows);
        }
        Ok(())
    }

    fn finish(
        &self,
        work: &mut CpuWork,
        pass: &PassSpec<'_>,
        cache: &mut CpuCache,
    ) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        let own = work.stats.iter().position(|(of, _)| pass.probe.is_some() && *of == pass.first);
        Ok(own.map(|own| work.stats.swap_remove(own).1))
    }

    fn logits(&self, work: &mut CpuWork, head: &Linear, states: &States) -> Result<Logits> {
        HostRows::new(product(work, head, states)?, head.outputs()).map(Logits::Host)
    }
}
