//! The operations of models on the CPU.

use std::ops::Range;

use crate::Result;
use candle_core::{Device, Tensor};

use super::{
    attention::{self, ProbedLayer},
    cache::Cache,
    embeddings::{CpuWork, Embeddings, look_up, product},
    forms::Forms,
    kernels,
    linear::Linear,
    loading,
    recurrent::{self, CpuLinear},
    rows::{Rows, gated},
    states::CpuRecurrent,
    table::Table,
    thread_pool::{DisjointSliceMut, ThreadPool},
};
use crate::Weights;
use crate::{
    KvType, LinearAttention, WeightType,
    attention::{AttentionShape, AttentionStats},
    fused::FusedMatrix,
    logits::Logits,
    ops::{HeadNorms, Input, LinearWeights, Loaded, Ops, PassSpec},
    recurrent::Plan,
    states::{States, with_slice},
};

/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 1536;
/// The same for queries and keys, which are rotated in less time.
const ROTATED_ALONE: usize = 1 << 15;
/// Rows of a prefill pass.
const CHUNK: usize = 128;

/// The CPU, with weights and keys and values of some types.
#[derive(Clone, Debug)]
pub struct CpuOps {
    dtype: WeightType,
    kv_type: KvType,
}

impl CpuOps {
    /// Weights in `dtype`, keys and values in `kv_type`; neither is `Auto`.
    pub fn new(dtype: WeightType, kv_type: KvType) -> Self {
        Self { dtype, kv_type }
    }

    /// The same with other weights.
    pub(super) fn with_weights(&self, dtype: WeightType) -> Self {
        Self { dtype, ..self.clone() }
    }

    pub(super) fn dtype(&self) -> WeightType {
        self.dtype
    }
}

/// A pass in progress.
pub struct CpuPass<'a> {
    spec: PassSpec<'a>,
    probed: &'a mut ProbedLayer,
    stats: Option<AttentionStats>,
}

impl CpuPass<'_> {
    /// Width of the queries, and of the keys or values, of a row.
    fn widths(&self) -> (usize, usize) {
        let AttentionShape { heads, kv_heads, head_dim } = self.spec.shape;
        (heads * head_dim, kv_heads * head_dim)
    }
}

impl Ops for CpuOps {
    type Matrix = Linear;
    type Vector = Vec<f32>;
    type Table = Embeddings;
    type Columns = Vec<u32>;
    type Linear = CpuLinear;
    type Recurrent = CpuRecurrent;
    type Rows = Rows;
    type Cache = Cache;
    type Work = CpuWork;
    type Pass<'a> = CpuPass<'a>;

    fn chunk(&self) -> usize {
        CHUNK
    }

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::matrix(list, checkpoint, self.dtype)
    }

    fn vector(&self, _: &str, values: Vec<f32>) -> Loaded<Vec<f32>> {
        Ok(values)
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<Vec<u32>> {
        Ok(columns)
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
        let table = Table::new(loading::table(name, [vocab, width], checkpoint)?, width);
        Ok((Embeddings { table, shared: tied && checkpoint.keeps_types() }, head))
    }

    fn matrix_bytes(matrix: &Linear) -> usize {
        matrix.bytes()
    }

    fn mapped_bytes(matrix: &Linear) -> usize {
        matrix.mapped_bytes()
    }

    fn table_bytes(table: &Embeddings) -> usize {
        if table.shared { 0 } else { table.table.bytes() }
    }

    fn slot_bytes(&self, shape: AttentionShape) -> usize {
        2 * shape.kv_heads * self.kv_type.head_bytes(shape.head_dim)
    }

    fn cache(&self, layers: usize, shape: AttentionShape, capacity: usize) -> Cache {
        Cache::new(layers, shape.kv_heads, shape.head_dim, capacity, self.kv_type)
    }

    fn embed(&self, table: &Embeddings, ids: &[u32]) -> Result<States> {
        let mut rows = Vec::with_capacity(ids.len() * table.table.width());
        look_up(table, ids, &mut rows)?;
        States::new(rows, table.table.width())
    }

    fn begin<'a>(&self, work: &'a mut CpuWork, spec: PassSpec<'a>, cache: &mut Cache) -> Result<CpuPass<'a>> {
        cache.reserve(spec.rows);
        Ok(CpuPass { stats: spec.probe.map(|_| AttentionStats::default()), spec, probed: &mut work.probed })
    }

    fn load(&self, _: &mut CpuPass<'_>, table: &Embeddings, input: Input<'_>, x: &mut Rows) -> Result<()> {
        x.values.clear();
        match input {
            Input::Ids(ids) => look_up(table, ids, &mut x.values),
            Input::States(states) => with_slice(states, |values| x.values.extend_from_slice(values)),
        }
    }

    fn norm(
        &self,
        pass: &mut CpuPass<'_>,
        x: &mut Rows,
        add: Option<&Rows>,
        weight: &Vec<f32>,
        eps: f32,
        next: Option<&Linear>,
        out: &mut Rows,
    ) -> Result<()> {
        let (rows, width) = (pass.spec.rows, weight.len());
        let forms = next.map_or_else(Forms::default, Linear::forms);
        out.values.resize(rows * width, 0.0);
        let quantized = forms.any().then(|| out.quantized.resize(forms, rows * width));
        let (x, normed) = (DisjointSliceMut::new(&mut x.values), DisjointSliceMut::new(&mut out.values));
        let unit = |r: usize| {
            let at = r * width;
            // SAFETY: each row belongs to one unit.
            unsafe {
                let (x, normed) = (x.slice(at, width), normed.slice(at, width));
                if let Some(add) = add {
                    kernels::add(x, &add.values[at..at + width]);
                }
                kernels::rms_norm(x, weight, eps, normed);
                if let Some(quantized) = &quantized {
                    quantized.quantize(at, normed);
                }
            }
        };
        if rows * width < SINGLE_THREADED {
            (0..rows).for_each(unit);
        } else {
            ThreadPool::global().run(rows, &unit);
        }
        Ok(())
    }

    fn product(&self, pass: &mut CpuPass<'_>, matrix: &Linear, x: &Rows, out: &mut Rows) -> Result<()> {
        let rows = pass.spec.rows;
        out.values.resize(rows * matrix.outputs(), 0.0);
        matrix.forward_prepared(&x.values, &x.quantized, rows, &mut out.values)
    }

    fn gated(
        &self,
        pass: &mut CpuPass<'_>,
        matrix: &Linear,
        x: &Rows,
        buffer: &mut Rows,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        gated(matrix, x, pass.spec.rows, buffer, next, out)
    }

    fn store(
        &self,
        pass: &mut CpuPass<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Vec<f32>>>,
        cache: &mut Cache,
        layer: usize,
    ) -> Result<()> {
        let ((q, kv), d, rows) = (pass.widths(), pass.spec.shape.head_dim, pass.spec.rows);
        let (half, fused) = (d / 2, q + 2 * kv);
        let (spec, values) = (&pass.spec, DisjointSliceMut::new(&mut qkv.values));
        let unit = |r: usize| {
            let (cos, sin) = (&spec.cos[r * half..][..half], &spec.sin[r * half..][..half]);
            // SAFETY: each row belongs to one unit.
            let row = unsafe { values.slice(r * fused, q + kv) };
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
        cache.write(layer, rows, |r| {
            let row = &qkv.values[r * fused..(r + 1) * fused];
            (&row[q..q + kv], &row[q + kv..])
        });
        Ok(())
    }

    fn attend(
        &self,
        pass: &mut CpuPass<'_>,
        qkv: &Rows,
        cache: &Cache,
        layer: usize,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        let ((q, kv), rows, shape) = (pass.widths(), pass.spec.rows, pass.spec.shape);
        let fused = q + 2 * kv;
        let forms = next.forms();
        let in_place = forms.any() && shape.head_dim.is_multiple_of(forms.block());
        out.values.resize(rows * q, 0.0);
        attention::attend(
            cache,
            layer,
            shape,
            rows,
            pass.spec.mask,
            &|r| &qkv.values[r * fused..r * fused + q],
            &mut out.values,
            in_place.then(|| out.quantized.resize(forms, rows * q)),
            pass.spec.probe.map(|probe| (probe, &mut *pass.probed)),
        );
        if let (Some(stats), Some(probe)) = (&mut pass.stats, pass.spec.probe) {
            pass.probed.add_to(stats, probe, shape, pass.spec.layers);
        }
        if forms.any() && !in_place {
            out.quantized.quantize(forms, &out.values);
        }
        Ok(())
    }

    fn mix(
        &self,
        pass: &mut CpuPass<'_>,
        mixed: &Rows,
        weights: &CpuLinear,
        plan: &Plan,
        states: &mut CpuRecurrent,
        layer: usize,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        let (rows, values) = (pass.spec.rows, states.values());
        let forms = next.forms();
        out.values.resize(rows * values, 0.0);
        let quantized = forms.any().then(|| out.quantized.resize(forms, rows * values));
        recurrent::mix((&mixed.values, rows), weights, plan, states, layer, &mut out.values, quantized)
    }

    fn choose(&self, pass: &mut CpuPass<'_>, from: &Rows, columns: &Vec<u32>, x: &mut Rows) -> Result<()> {
        from.choose(pass.spec.rows, columns, x);
        Ok(())
    }

    fn gate_by(&self, _: &mut CpuPass<'_>, gates: &Rows, next: &Linear, x: &mut Rows) -> Result<()> {
        kernels::gate(&gates.values, &mut x.values);
        let forms = next.forms();
        if forms.any() {
            x.quantized.quantize(forms, &x.values);
        }
        Ok(())
    }

    fn add(&self, _: &mut CpuPass<'_>, x: &mut Rows, add: &Rows) -> Result<()> {
        kernels::add(&mut x.values, &add.values);
        Ok(())
    }

    fn columns(
        &self,
        pass: &mut CpuPass<'_>,
        from: &Rows,
        columns: Range<usize>,
        x: &mut Rows,
    ) -> Result<()> {
        x.values.clear();
        x.values.extend(from.columns(pass.spec.rows, columns).flatten());
        Ok(())
    }

    fn add_columns(
        &self,
        pass: &mut CpuPass<'_>,
        x: &mut Rows,
        from: &Rows,
        columns: Range<usize>,
    ) -> Result<()> {
        let width = columns.len().max(1);
        let added = from.columns(pass.spec.rows, columns);
        x.values.chunks_exact_mut(width).zip(added).for_each(|(x, row)| kernels::add(x, row));
        Ok(())
    }

    fn keep(&self, pass: &mut CpuPass<'_>, rows: &Rows) -> Result<States> {
        let width = rows.values.len() / pass.spec.rows.max(1);
        Ok(States::Tensor(Tensor::from_slice(&rows.values, (pass.spec.rows, width), &Device::Cpu)?))
    }

    fn finish(&self, pass: CpuPass<'_>, cache: &mut Cache) -> Result<Option<AttentionStats>> {
        cache.advance(pass.spec.rows);
        Ok(pass.stats)
    }

    fn project(&self, work: &mut CpuWork, matrix: &Linear, states: &States) -> Result<States> {
        States::new(product(work, matrix, states)?, matrix.outputs())
    }

    fn logits(&self, work: &mut CpuWork, head: &Linear, states: &States) -> Result<Logits> {
        let shape = (states.rows(), head.outputs());
        Ok(Logits::Tensor(Tensor::from_vec(product(work, head, states)?, shape, &Device::Cpu)?))
    }

    fn beside(&self, a: &States, b: &States) -> Result<States> {
        let ((rows, left), (other, right)) = (a.shape(), b.shape());
        if rows != other {
            crate::bail!("{rows} rows beside {other}");
        }
        let mut both = Vec::with_capacity(rows * (left + right));
        with_slice(a, |a| {
            with_slice(b, |b| {
                for (a, b) in a.chunks_exact(left.max(1)).zip(b.chunks_exact(right.max(1))) {
                    both.extend_from_slice(a);
                    both.extend_from_slice(b);
                }
            })
        })??;
        States::new(both, left + right)
    }

    fn synchronize(&self, _: &mut CpuWork) -> Result<()> {
        Ok(())
    }
}
