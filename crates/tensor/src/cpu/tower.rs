//! The operations of vision towers on the CPU.
//!
//! Matrices are f32, 16-bit floats that are widened as they are read, or 8-bit blocks (q8_0). Widths that are no whole blocks
//! are padded with zeros, which changes no result. Every row is computed by the same operations whatever rows are beside it.

use crate::Result;

use super::{
    embeddings::CpuWork,
    kernels::{self, activations},
    linear::Linear,
    loading,
    ops::CpuOps,
    rows::{Rows, gated},
    thread_pool::{DisjointSliceMut, ThreadPool},
    tower_attention,
};
use crate::Weights;
use crate::{
    WeightType,
    fused::FusedMatrix,
    ops::Loaded,
    states::States,
    tower_ops::{Activation, Norm, Part, Tap, TowerLayout, TowerOps},
};

/// Bytes of the states, queries, keys and values of the temporal grids that share products.
pub const WORKSPACE: usize = 64 << 20;
/// Rows of a product: enough that reading the weights takes no time, few enough that the rows stay in the cache.
const ROWS: usize = 256;
/// Values of a row from which on it counts as two.
const WIDE: usize = 4096;
/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 4096;

/// Call `work` for every row, on all threads if there are many values.
fn each_row(rows: usize, width: usize, work: &(dyn Fn(usize) + Sync)) {
    if rows * width < SINGLE_THREADED {
        (0..rows).for_each(work)
    } else {
        ThreadPool::global().run(rows, work)
    }
}

impl Rows {
    /// `rows` rows as a matrix takes them; `fill` writes the first `width` values of a row, the others are zero.
    fn fill(&mut self, rows: usize, width: usize, next: &Linear, fill: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let (stride, forms) = (next.inputs(), next.forms());
        self.values.resize(rows * stride, 0.0);
        let values = DisjointSliceMut::new(&mut self.values);
        let quantized = forms.any().then(|| self.quantized.resize(forms, rows * stride));
        each_row(rows, stride, &|r| {
            // SAFETY: each row belongs to one unit.
            unsafe {
                let row = values.slice(r * stride, stride);
                fill(r, &mut row[..width]);
                row[width..].fill(0.0);
                if let Some(quantized) = &quantized {
                    quantized.quantize(r * stride, row);
                }
            }
        });
    }

    /// Values of a row, of which there are `rows`.
    fn width(&self, rows: usize) -> usize {
        self.values.len() / rows.max(1)
    }
}

impl Norm<Vec<f32>> {
    fn apply(&self, x: &[f32], out: &mut [f32]) {
        match &self.bias {
            None => kernels::rms_norm(x, &self.weight, self.eps, out),
            Some(bias) => activations::layer_norm(x, &self.weight, bias, self.eps, out),
        }
    }
}

/// `to += row · weight`.
fn add_tap(to: &mut [f32], row: &[f32], weight: f32) {
    to.iter_mut().zip(row).for_each(|(to, row)| *to += row * weight);
}

impl TowerOps for CpuOps {
    type Layout = TowerLayout;

    fn chunk_patches(&self, hidden: usize) -> usize {
        // States, queries, keys, values and what attention gives.
        WORKSPACE / (4 * 5 * hidden)
    }

    fn rows_at_once(&self, width: usize) -> usize {
        if width < WIDE { ROWS } else { ROWS / 2 }
    }

    fn for_ends(&self) -> Self {
        match self.dtype() {
            WeightType::Q8_0 => self.with_weights(WeightType::Bf16),
            _ => self.clone(),
        }
    }

    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::padded_matrix(list, pad, checkpoint, self.dtype())
    }

    fn positions(&self, name: &str, shape: [usize; 2], checkpoint: &dyn Weights) -> Loaded<Vec<f32>> {
        checkpoint.f32(name, &shape)
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

    fn layout(&self, layout: TowerLayout) -> Result<TowerLayout> {
        Ok(layout)
    }

    fn patches(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        patches: &[f32],
        part: Part,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        let (row, per_grid) = (patches.len() / part.of.max(1), layout.order.len());
        out.fill(part.rows, row, next, &|r, to| {
            let r = part.start + r;
            let patch = r / per_grid * per_grid + layout.order[r % per_grid] as usize;
            to.copy_from_slice(&patches[patch * row..(patch + 1) * row]);
        });
        Ok(())
    }

    fn multiply(&self, _: &mut CpuWork, matrix: &Linear, x: &Rows, part: Part, out: &mut Rows) -> Result<()> {
        let outputs = matrix.outputs();
        out.values.resize(part.of * outputs, 0.0);
        let out = &mut out.values[part.start * outputs..(part.start + part.rows) * outputs];
        matrix.forward_prepared(&x.values, &x.quantized, part.rows, out)
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

    fn normalize(
        &self,
        _: &mut CpuWork,
        x: &mut Rows,
        part: Part,
        add: Option<&Rows>,
        norm: &Norm<Vec<f32>>,
        joined: usize,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        let width = norm.width;
        let x = DisjointSliceMut::new(&mut x.values);
        out.fill(part.rows / joined, joined * width, next, &|r, to| {
            for (r, to) in (r * joined..).zip(to.chunks_exact_mut(width)) {
                // SAFETY: each row belongs to one unit.
                let x = unsafe { x.slice((part.start + r) * width, width) };
                if let Some(add) = add {
                    kernels::add(x, &add.values[r * width..(r + 1) * width]);
                }
                norm.apply(x, to);
            }
        });
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
        out.values.resize(grids * layout.order.len() * layout.hidden(), 0.0);
        tower_attention::attend(&qkv.values, grids, layout, windows, &mut out.values);
        Ok(())
    }

    fn part(&self, _: &mut CpuWork, rows: &Rows, part: Part, next: &Linear, out: &mut Rows) -> Result<()> {
        let width = rows.width(part.of);
        out.fill(part.rows, width, next, &|r, to| {
            let r = part.start + r;
            to.copy_from_slice(&rows.values[r * width..(r + 1) * width]);
        });
        Ok(())
    }

    fn gate(
        &self,
        _: &mut CpuWork,
        matrix: &Linear,
        x: &Rows,
        rows: usize,
        buffer: &mut Rows,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        gated(matrix, x, rows, buffer, next, out)
    }

    fn activate(
        &self,
        _: &mut CpuWork,
        activation: Activation,
        x: &mut Rows,
        rows: usize,
        next: &Linear,
        out: &mut Rows,
    ) -> Result<()> {
        let width = x.width(rows);
        out.fill(rows, width, next, &|r, row| {
            row.copy_from_slice(&x.values[r * width..(r + 1) * width]);
            activations::activate(activation, row);
        });
        Ok(())
    }

    fn accumulate(&self, _: &mut CpuWork, x: &mut Rows, part: Part, add: &Rows) -> Result<()> {
        let width = add.width(part.rows);
        let x = DisjointSliceMut::new(&mut x.values);
        each_row(part.rows, width, &|r| {
            // SAFETY: each row belongs to one unit.
            let x = unsafe { x.slice((part.start + r) * width, width) };
            kernels::add(x, &add.values[r * width..(r + 1) * width]);
        });
        Ok(())
    }

    fn result(&self, _: &mut CpuWork, layout: &TowerLayout, blocks: &[Rows], grids: usize) -> Result<States> {
        let of_block = |block: &Rows| block.width(grids * layout.sources);
        let width = blocks.iter().map(of_block).sum();
        let per_grid = layout.taps.first().map_or(0, Vec::len);
        let mut values = vec![0f32; grids * per_grid * width];
        let result = DisjointSliceMut::new(&mut values);
        each_row(grids * per_grid, width, &|at| {
            // SAFETY: each row belongs to one unit.
            let mut rest = unsafe { result.slice(at * width, width) };
            for block in blocks {
                let (to, others) = rest.split_at_mut(of_block(block));
                for Tap { row, weight } in layout.taps.iter().map(|taps| taps[at % per_grid]) {
                    let row = at / per_grid * layout.sources + row as usize;
                    add_tap(to, &block.values[row * to.len()..][..to.len()], weight);
                }
                rest = others;
            }
        });
        States::new(values, width)
    }
}
