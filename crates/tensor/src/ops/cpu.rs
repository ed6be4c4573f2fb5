//! The operations of models on the CPU.
//!
//! Matrices of towers are f32, 16-bit floats that are widened as they are read, or 8-bit blocks (q8_0). Widths that are not a multiple of
//! the block are padded with zeros, which changes no result. Every row is computed by the same operations, independent of the other
//! rows.

mod decoder;
pub(crate) mod loading;
mod tower;

use std::ops::Range;

pub use self::tower::WORKSPACE;
use super::{HeldWeights, Loaded, Norm, Out, Residual, RowOps, RowPart};
use crate::{
    Gate, KvType, Result, WeightType, Weights,
    attention::AttentionStats,
    convolution::{Convolution, Side, convolve_row},
    cpu::{
        attention::ProbedLayer,
        experts::ExpertRows,
        forms::QuantizedRows,
        kernels::{self, activations},
        linear::Linear,
        rows::{CpuRows, gated},
        thread_pool::{DisjointSliceMut, each_row},
    },
    fused::FusedMatrix,
    states::{States, with_slice},
};

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
    /// Of the passes with a probe, each with its first row.
    stats: Vec<(usize, AttentionStats)>,
    quantized: QuantizedRows,
    /// Gates and values before they are multiplied.
    gate_up: Vec<f32>,
    experts: ExpertRows,
}

impl HeldWeights for Linear {
    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn mapped_bytes(&self) -> usize {
        self.mapped_bytes()
    }
}

/// `W x + b` of states.
fn product(work: &mut CpuWork, matrix: &Linear, states: &States) -> Result<Vec<f32>> {
    let rows = states.rows();
    let mut out = vec![0f32; rows * matrix.outputs()];
    with_slice(states, |x| matrix.forward(x, rows, &mut out, &mut work.quantized))??;
    Ok(out)
}

impl RowOps for CpuOps {
    type Matrix = Linear;
    type Vector = Vec<f32>;
    type Columns = Vec<u32>;
    type Rows = CpuRows;
    type Work = CpuWork;

    fn matrix(&self, list: &FusedMatrix, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::matrix(list, checkpoint, self.dtype).map(loading::in_panels)
    }

    fn vector(&self, _: &str, values: Vec<f32>) -> Loaded<Vec<f32>> {
        Ok(values)
    }

    fn chosen(&self, columns: Vec<u32>) -> Loaded<Vec<u32>> {
        Ok(columns)
    }

    fn part(&self, _: &mut CpuWork, rows: &CpuRows, part: RowPart, out: Out<'_, Self>) -> Result<()> {
        out.rows.fill(part.rows, rows.width(), out.next, &|r, to| {
            to.copy_from_slice(rows.row(part.start + r));
        });
        Ok(())
    }

    fn norm(
        &self,
        _: &mut CpuWork,
        Residual { x, part, add }: Residual<'_, CpuRows>,
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

    fn product(
        &self,
        _: &mut CpuWork,
        matrix: &Linear,
        x: &CpuRows,
        part: RowPart,
        out: &mut CpuRows,
    ) -> Result<()> {
        let outputs = matrix.outputs();
        let out = out.reserve(part.of, outputs);
        let out = &mut out[part.start * outputs..(part.start + part.rows) * outputs];
        matrix.forward_prepared(&x.values, &x.quantized, part.rows, out)
    }

    fn gated(
        &self,
        work: &mut CpuWork,
        matrix: &Linear,
        gate: Gate,
        x: &CpuRows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        gated((matrix, gate), x, &mut work.gate_up, out.next, out.rows)
    }

    fn choose(&self, _: &mut CpuWork, from: &CpuRows, columns: &Vec<u32>, x: &mut CpuRows) -> Result<()> {
        x.rows = from.rows;
        x.values.clear();
        for row in from.values.chunks_exact(from.width().max(1)) {
            x.values.extend(columns.iter().map(|&at| row[at as usize]));
        }
        Ok(())
    }

    fn gate_by(&self, _: &mut CpuWork, gates: &CpuRows, gate: Gate, x: Out<'_, Self>) -> Result<()> {
        match gate {
            Gate::Sigmoid => kernels::gate(&gates.values, &mut x.rows.values),
            Gate::Silu | Gate::GeluTanh => {
                let values = x.rows.values.clone();
                kernels::gated(gate, &gates.values, &values, &mut x.rows.values);
            }
        }
        x.rows.quantize(x.next);
        Ok(())
    }

    fn scale(&self, _: &mut CpuWork, x: &mut CpuRows, factor: f32) -> Result<()> {
        activations::scale(&mut x.values, factor);
        Ok(())
    }

    fn convolve(
        &self,
        _: &mut CpuWork,
        x: &CpuRows,
        corrections: &CpuRows,
        convolution: &Convolution<Vec<f32>>,
        side: Side,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.fill(x.rows, convolution.width, out.next, &|row, to| {
            convolve_row(convolution, side, &x.values, &corrections.values, row, to);
        });
        Ok(())
    }

    fn add(&self, _: &mut CpuWork, x: &mut CpuRows, part: RowPart, add: &CpuRows) -> Result<()> {
        let width = add.width();
        let x = DisjointSliceMut::new(&mut x.values);
        each_row(part.rows, width, &|r| {
            // SAFETY: each row belongs to one unit.
            let x = unsafe { x.slice((part.start + r) * width, width) };
            kernels::add(x, add.row(r));
        });
        Ok(())
    }

    fn columns(&self, _: &mut CpuWork, from: &CpuRows, columns: Range<usize>, x: &mut CpuRows) -> Result<()> {
        x.rows = from.rows;
        x.values.clear();
        x.values.extend(from.columns(columns).flatten());
        Ok(())
    }

    fn add_columns(
        &self,
        _: &mut CpuWork,
        x: &mut CpuRows,
        from: &CpuRows,
        columns: Range<usize>,
    ) -> Result<()> {
        let width = columns.len().max(1);
        let added = from.columns(columns);
        x.values.chunks_exact_mut(width).zip(added).for_each(|(x, row)| kernels::add(x, row));
        Ok(())
    }

    fn keep(&self, _: &mut CpuWork, rows: &CpuRows) -> Result<States> {
        States::new(rows.values.clone(), rows.width())
    }

    fn project(&self, work: &mut CpuWork, matrix: &Linear, states: &States) -> Result<States> {
        States::new(product(work, matrix, states)?, matrix.outputs())
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
