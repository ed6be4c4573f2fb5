//! The operations of models on the CPU.
//!
//! Matrices of towers are f32, 16-bit floats that are widened as they are read, or 8-bit blocks (q8_0). Widths that are not a multiple of
//! the block are padded with zeros, which changes no result. Every row is computed by the same operations, independent of the other
//! rows.

pub(crate) mod loading;

use std::ops::Range;

use candle_core::{Device, Tensor};

use super::{HeadNorms, Input, Loaded, Norm, Ops, Out, Part, PassSpec, Residual};
use crate::{
    KvType, LinearAttention, LinearWeights, Result, WeightType, Weights,
    attention::{AttentionShape, AttentionStats},
    convolution::{Convolution, Side, convolve_row},
    cpu::{
        attention::{self, ProbedLayer},
        cache::Cache,
        experts::{self, ExpertRows},
        forms::{Forms, QuantizedRows},
        kernels::{self, activations},
        linear::Linear,
        recurrent::{self, CpuLinear},
        rows::{Rows, each_row, gated},
        states::CpuRecurrent,
        table::Table,
        thread_pool::{DisjointSliceMut, ThreadPool},
        tower_attention,
    },
    experts::Experts,
    fused::FusedMatrix,
    logits::Logits,
    recurrent::RecurrentPass,
    states::{States, with_slice},
    tower::{Activation, Tap, TowerLayout},
};

/// Bytes of the states, queries, keys and values of the temporal grids that share products.
pub const WORKSPACE: usize = 64 << 20;
/// Values of all queries and keys below which one thread is faster than several.
const ROTATED_ALONE: usize = 1 << 15;
/// Rows of a prefill pass.
const CHUNK: usize = 128;
/// Rows of a tower's products: enough that reading the weights takes no time, few enough that the rows stay in the cache.
const ROWS: usize = 256;
/// Values of a row from which on it counts as two.
const WIDE: usize = 4096;

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
}

/// Buffers that passes use again.
#[derive(Default)]
pub struct CpuWork {
    probed: ProbedLayer,
    stats: Option<AttentionStats>,
    quantized: QuantizedRows,
    /// Gates and values before they are multiplied.
    gate_up: Vec<f32>,
    experts: ExpertRows,
}

pub struct Embeddings {
    table: Table,
    /// The head is in the same memory.
    shared: bool,
}

fn look_up(table: &Embeddings, ids: &[u32], rows: &mut Vec<f32>) -> Result<()> {
    for &id in ids {
        if !table.table.row(id, rows) {
            crate::bail!("token id {id} is outside of the embedding table");
        }
    }
    Ok(())
}

/// `W x + b` of states.
fn product(work: &mut CpuWork, matrix: &Linear, states: &States) -> Result<Vec<f32>> {
    let rows = states.rows();
    let mut out = vec![0f32; rows * matrix.outputs()];
    with_slice(states, |x| matrix.forward(x, rows, &mut out, &mut work.quantized))??;
    Ok(out)
}

/// Width of the queries, and of the keys or values, of a row.
fn widths(shape: AttentionShape) -> (usize, usize) {
    let AttentionShape { heads, kv_heads, head_dim } = shape;
    (heads * head_dim, kv_heads * head_dim)
}

/// `to += row · weight`.
fn add_tap(to: &mut [f32], row: &[f32], weight: f32) {
    to.iter_mut().zip(row).for_each(|(to, row)| *to += row * weight);
}

/// Add to the results of grids what the layout's taps make of each block of rows, which has a width. The blocks' results are
/// next to each other.
fn blend(layout: &TowerLayout, blocks: &[(&[f32], usize)], grids: usize, results: &mut [f32]) {
    let (per_grid, width) = (layout.results(), blocks.iter().map(|(_, width)| width).sum());
    let results = DisjointSliceMut::new(results);
    each_row(grids * per_grid, width, &|at| {
        // SAFETY: each row belongs to one unit.
        let mut rest = unsafe { results.slice(at * width, width) };
        for (values, width) in blocks {
            let (to, others) = rest.split_at_mut(*width);
            for Tap { row, weight } in layout.taps.iter().map(|taps| taps[at % per_grid]) {
                let row = at / per_grid * layout.sources + row as usize;
                add_tap(to, &values[row * width..][..*width], weight);
            }
            rest = others;
        }
    });
}

impl Ops for CpuOps {
    type Matrix = Linear;
    type Vector = Vec<f32>;
    type Table = Embeddings;
    type Columns = Vec<u32>;
    type Linear = CpuLinear;
    type Layout = TowerLayout;
    type Recurrent = CpuRecurrent;
    type Rows = Rows;
    type Cache = Cache;
    type Work = CpuWork;

    const COMPUTES_EXPERTS: bool = true;

    fn is_exact(&self) -> bool {
        true
    }

    fn chunk(&self) -> usize {
        CHUNK
    }

    fn chunk_patches(&self, hidden: usize) -> usize {
        // States, queries, keys, values and what attention gives.
        WORKSPACE / (4 * 5 * hidden)
    }

    fn rows_at_once(&self, width: usize) -> usize {
        if width < WIDE { ROWS } else { ROWS / 2 }
    }

    fn for_ends(&self) -> Self {
        match self.dtype {
            WeightType::Q8_0 => Self { dtype: WeightType::Bf16, ..self.clone() },
            _ => self.clone(),
        }
    }

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::matrix(list, checkpoint, self.dtype)
    }

    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::padded_matrix(list, pad, checkpoint, self.dtype)
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

    fn layout(&self, layout: TowerLayout) -> Result<TowerLayout> {
        Ok(layout)
    }

    fn interpolate(
        &self,
        _: &mut CpuWork,
        table: &Vec<f32>,
        width: usize,
        taps: &[Vec<Tap>],
    ) -> Result<Vec<f32>> {
        let rows = taps.first().map_or(0, Vec::len);
        let mut values = vec![0f32; rows * width];
        let result = DisjointSliceMut::new(&mut values);
        each_row(rows, width, &|r| {
            // SAFETY: each row belongs to one unit.
            let to = unsafe { result.slice(r * width, width) };
            for Tap { row, weight } in taps.iter().map(|taps| taps[r]) {
                add_tap(to, &table[row as usize * width..][..width], weight);
            }
        });
        Ok(values)
    }

    fn begin(&self, work: &mut CpuWork, pass: &PassSpec<'_>, cache: &mut Cache) -> Result<()> {
        cache.reserve(pass.rows);
        work.stats = pass.probe.map(|_| AttentionStats::default());
        Ok(())
    }

    fn load(&self, _: &mut CpuWork, table: &Embeddings, input: Input<'_>, x: &mut Rows) -> Result<()> {
        x.rows = input.rows();
        x.values.clear();
        match input {
            Input::Ids(ids) => look_up(table, ids, &mut x.values),
            Input::States(states) => with_slice(states, |values| x.values.extend_from_slice(values)),
        }
    }

    fn patches(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        patches: &[f32],
        part: Part,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let (row, per_grid) = (patches.len() / part.of.max(1), layout.order.len());
        out.rows.fill(part.rows, row, out.next, &|r, to| {
            let r = part.start + r;
            let patch = r / per_grid * per_grid + layout.order[r % per_grid] as usize;
            to.copy_from_slice(&patches[patch * row..(patch + 1) * row]);
        });
        Ok(())
    }

    fn part(&self, _: &mut CpuWork, rows: &Rows, part: Part, out: Out<'_, Self>) -> Result<()> {
        out.rows.fill(part.rows, rows.width(), out.next, &|r, to| {
            to.copy_from_slice(rows.row(part.start + r));
        });
        Ok(())
    }

    fn norm(
        &self,
        _: &mut CpuWork,
        Residual { x, part, add }: Residual<'_, Rows>,
        norm: &Norm<Vec<f32>>,
        out: Out<'_, Self>,
    ) -> Result<()> {
        let Norm { width, joined, eps, .. } = *norm;
        let x = DisjointSliceMut::new(&mut x.values);
        out.rows.fill(part.rows / joined, joined * width, out.next, &|r, to| {
            for (r, to) in (r * joined..).zip(to.chunks_exact_mut(width)) {
                // SAFETY: each row belongs to one unit.
                let x = unsafe { x.slice((part.start + r) * width, width) };
                if let Some(add) = add {
                    kernels::add(x, &add.values[r * width..(r + 1) * width]);
                }
                match &norm.bias {
                    None => kernels::rms_norm(x, &norm.weight, eps, to),
                    Some(bias) => activations::layer_norm(x, &norm.weight, bias, eps, to),
                }
            }
        });
        Ok(())
    }

    fn product(&self, _: &mut CpuWork, matrix: &Linear, x: &Rows, part: Part, out: &mut Rows) -> Result<()> {
        let outputs = matrix.outputs();
        let out = out.reserve(part.of, outputs);
        let out = &mut out[part.start * outputs..(part.start + part.rows) * outputs];
        matrix.forward_prepared(&x.values, &x.quantized, part.rows, out)
    }

    fn gated(&self, work: &mut CpuWork, matrix: &Linear, x: &Rows, out: Out<'_, Self>) -> Result<()> {
        gated(matrix, x, &mut work.gate_up, out.next, out.rows)
    }

    fn mix_experts(
        &self,
        work: &mut CpuWork,
        layer: &Experts<Linear>,
        x: &Rows,
        out: &mut Rows,
    ) -> Result<Option<usize>> {
        experts::mix(layer, x, &mut work.experts, out).map(Some)
    }

    fn activate(
        &self,
        _: &mut CpuWork,
        activation: Activation,
        x: &mut Rows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.fill(x.rows, x.width(), out.next, &|r, row| {
            row.copy_from_slice(x.row(r));
            activations::activate(activation, row);
        });
        Ok(())
    }

    fn store(
        &self,
        _: &mut CpuWork,
        pass: &PassSpec<'_>,
        qkv: &mut Rows,
        norms: Option<HeadNorms<'_, Vec<f32>>>,
        cache: &mut Cache,
        layer: usize,
    ) -> Result<()> {
        let ((q, kv), d, rows) = (widths(pass.shape), pass.shape.head_dim, pass.rows);
        let (half, fused) = (d / 2, q + 2 * kv);
        let values = DisjointSliceMut::new(&mut qkv.values);
        let unit = |r: usize| {
            let (cos, sin) = (&pass.cos[r * half..][..half], &pass.sin[r * half..][..half]);
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
        work: &mut CpuWork,
        pass: &PassSpec<'_>,
        qkv: &Rows,
        cache: &Cache,
        layer: usize,
        Out { rows: out, next }: Out<'_, Self>,
    ) -> Result<()> {
        let ((q, _), rows, shape) = (widths(pass.shape), pass.rows, pass.shape);
        // Rows without keys and values attend to what is in the cache.
        let stride = qkv.width();
        let forms = next.map_or_else(Forms::default, Linear::forms);
        let in_place = forms.any() && shape.head_dim.is_multiple_of(forms.block());
        out.reserve(rows, q);
        let quantized = in_place.then(|| out.quantized.resize(forms, rows, q));
        attention::attend(
            cache,
            layer,
            shape,
            rows,
            pass.mask,
            &|r| &qkv.values[r * stride..r * stride + q],
            &mut out.values,
            quantized,
            pass.probe.map(|probe| (probe, &mut work.probed)),
        );
        if let (Some(stats), Some(probe)) = (&mut work.stats, pass.probe) {
            work.probed.add_to(stats, probe, shape, pass.layers);
        }
        match quantized {
            Some(quantized) => quantized.finish(&out.values, rows),
            None => out.quantize(next),
        }
        Ok(())
    }

    fn attend_in_grids(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        qkv: &Rows,
        grids: usize,
        windows: bool,
        out: &mut Rows,
    ) -> Result<()> {
        let out = out.reserve(grids * layout.order.len(), layout.hidden());
        tower_attention::attend(&qkv.values, grids, layout, windows, out);
        Ok(())
    }

    fn mix(
        &self,
        _: &mut CpuWork,
        mixed: &Rows,
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

    fn choose(&self, _: &mut CpuWork, from: &Rows, columns: &Vec<u32>, x: &mut Rows) -> Result<()> {
        x.rows = from.rows;
        x.values.clear();
        for row in from.values.chunks_exact(from.width().max(1)) {
            x.values.extend(columns.iter().map(|&at| row[at as usize]));
        }
        Ok(())
    }

    fn gate_by(&self, _: &mut CpuWork, gates: &Rows, x: Out<'_, Self>) -> Result<()> {
        kernels::gate(&gates.values, &mut x.rows.values);
        x.rows.quantize(x.next);
        Ok(())
    }

    fn convolve(
        &self,
        _: &mut CpuWork,
        x: &Rows,
        corrections: &Rows,
        convolution: &Convolution<Vec<f32>>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.fill(x.rows, convolution.width, out.next, &|row, to| {
            convolve_row(convolution, side, &x.values, &corrections.values, row, to);
        });
        Ok(())
    }

    fn add(&self, _: &mut CpuWork, x: &mut Rows, part: Part, add: &Rows) -> Result<()> {
        let width = add.width();
        let x = DisjointSliceMut::new(&mut x.values);
        each_row(part.rows, width, &|r| {
            // SAFETY: each row belongs to one unit.
            let x = unsafe { x.slice((part.start + r) * width, width) };
            kernels::add(x, add.row(r));
        });
        Ok(())
    }

    fn add_positions(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        x: &mut Rows,
        positions: &Vec<f32>,
    ) -> Result<()> {
        let (width, per_grid) = (layout.hidden(), layout.order.len());
        let rows = x.values.len() / width.max(1);
        let x = DisjointSliceMut::new(&mut x.values);
        each_row(rows, width, &|r| {
            let at = r % per_grid * width;
            // SAFETY: each row belongs to one unit.
            kernels::add(unsafe { x.slice(r * width, width) }, &positions[at..at + width]);
        });
        Ok(())
    }

    fn columns(&self, _: &mut CpuWork, from: &Rows, columns: Range<usize>, x: &mut Rows) -> Result<()> {
        x.rows = from.rows;
        x.values.clear();
        x.values.extend(from.columns(columns).flatten());
        Ok(())
    }

    fn add_columns(&self, _: &mut CpuWork, x: &mut Rows, from: &Rows, columns: Range<usize>) -> Result<()> {
        let width = columns.len().max(1);
        let added = from.columns(columns);
        x.values.chunks_exact_mut(width).zip(added).for_each(|(x, row)| kernels::add(x, row));
        Ok(())
    }

    fn keep(&self, _: &mut CpuWork, rows: &Rows) -> Result<States> {
        Ok(States::Tensor(Tensor::from_slice(&rows.values, (rows.rows, rows.width()), &Device::Cpu)?))
    }

    fn finish(
        &self,
        work: &mut CpuWork,
        pass: &PassSpec<'_>,
        cache: &mut Cache,
    ) -> Result<Option<AttentionStats>> {
        cache.advance(pass.rows);
        Ok(work.stats.take())
    }

    fn blend(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        rows: &Rows,
        grids: usize,
        out: &mut Rows,
    ) -> Result<()> {
        let width = rows.values.len() / (grids * layout.sources).max(1);
        let to = out.reserve(grids * layout.results(), width);
        to.fill(0.0);
        blend(layout, &[(&rows.values, width)], grids, to);
        Ok(())
    }

    fn result(&self, _: &mut CpuWork, layout: &TowerLayout, blocks: &[Rows], grids: usize) -> Result<States> {
        let of_block = |block: &Rows| block.values.len() / (grids * layout.sources).max(1);
        let blocks: Vec<(&[f32], usize)> =
            blocks.iter().map(|block| (&block.values[..], of_block(block))).collect();
        let width = blocks.iter().map(|(_, width)| width).sum();
        let mut values = vec![0f32; grids * layout.results() * width];
        blend(layout, &blocks, grids, &mut values);
        States::new(values, width)
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
            crate::bail!("{rows} rows next to {other}");
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
