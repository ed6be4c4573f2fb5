//! What vision towers do on the CPU.

use super::{CpuOps, CpuWork, loading};
use crate::{
    Result, WeightType, Weights,
    cpu::{
        kernels::{self, activations},
        linear::Linear,
        rows::CpuRows,
        thread_pool::{DisjointSliceMut, each_row},
        tower_attention,
    },
    fused::FusedMatrix,
    ops::{HeadNorms, Loaded, Out, RowPart, TowerOps},
    states::States,
    tower::{Activation, Tap, TowerLayout},
};

/// Bytes of the states, queries, keys and values of the temporal grids that share products.
pub const WORKSPACE: usize = 64 << 20;
/// Rows of a tower's products: enough that reading the weights takes no time, few enough that the rows stay in the cache.
const ROWS: usize = 256;
/// Values of a row from which on it counts as two.
const WIDE: usize = 4096;

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
        match self.dtype {
            WeightType::Q8_0 => Self { dtype: WeightType::Bf16, ..self.clone() },
            _ => self.clone(),
        }
    }

    fn tower_matrix(&self, list: &FusedMatrix, pad: bool, checkpoint: &dyn Weights) -> Loaded<Linear> {
        loading::padded_matrix(list, pad, checkpoint, self.dtype)
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

    fn patches(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        patches: &[f32],
        part: RowPart,
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

    fn activate(
        &self,
        _: &mut CpuWork,
        activation: Activation,
        x: &mut CpuRows,
        out: Out<'_, Self>,
    ) -> Result<()> {
        out.rows.fill(x.rows, x.width(), out.next, &|r, row| {
            row.copy_from_slice(x.row(r));
            activations::activate(activation, row);
        });
        Ok(())
    }

    fn norm_heads(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        qkv: &mut CpuRows,
        norms: HeadNorms<'_, Vec<f32>>,
    ) -> Result<()> {
        let (width, hidden) = (layout.head_dim, layout.hidden());
        let (rows, values) = (qkv.rows, DisjointSliceMut::new(&mut qkv.values));
        each_row(rows, 3 * hidden, &|r| {
            // SAFETY: each row belongs to one unit.
            let row = unsafe { values.slice(r * 3 * hidden, 3 * hidden) };
            for (at, head) in row.chunks_exact_mut(width).enumerate() {
                match at * width / hidden {
                    0 => kernels::rms_norm_in_place(head, norms.queries, norms.eps),
                    1 => kernels::rms_norm_in_place(head, norms.keys, norms.eps),
                    _ if norms.values => kernels::unit_rms_in_place(head, norms.eps),
                    _ => {}
                }
            }
        });
        Ok(())
    }

    fn clamp(&self, _: &mut CpuWork, x: &mut CpuRows, part: RowPart, bounds: &Vec<f32>) -> Result<()> {
        let width = bounds.len() / 2;
        let (least, most) = bounds.split_at(width);
        let x = DisjointSliceMut::new(&mut x.values);
        each_row(part.rows, width, &|r| {
            // SAFETY: each row belongs to one unit.
            let row = unsafe { x.slice((part.start + r) * width, width) };
            for (value, (least, most)) in row.iter_mut().zip(least.iter().zip(most)) {
                *value = value.max(*least).min(*most);
            }
        });
        Ok(())
    }

    fn attend_in_grids(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        qkv: &CpuRows,
        grids: usize,
        windows: bool,
        out: &mut CpuRows,
    ) -> Result<()> {
        let out = out.reserve(grids * layout.order.len(), layout.hidden());
        tower_attention::attend(&qkv.values, grids, layout, windows, out);
        Ok(())
    }

    fn add_positions(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        x: &mut CpuRows,
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

    fn blend(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        rows: &CpuRows,
        grids: usize,
        out: &mut CpuRows,
    ) -> Result<()> {
        let width = rows.values.len() / (grids * layout.sources).max(1);
        let to = out.reserve(grids * layout.results(), width);
        to.fill(0.0);
        blend(layout, &[(&rows.values, width)], grids, to);
        Ok(())
    }

    fn result(
        &self,
        _: &mut CpuWork,
        layout: &TowerLayout,
        blocks: &[CpuRows],
        grids: usize,
    ) -> Result<States> {
        let of_block = |block: &CpuRows| block.values.len() / (grids * layout.sources).max(1);
        let blocks: Vec<(&[f32], usize)> =
            blocks.iter().map(|block| (&block.values[..], of_block(block))).collect();
        let width = blocks.iter().map(|(_, width)| width).sum();
        let mut values = vec![0f32; grids * layout.results() * width];
        blend(layout, &blocks, grids, &mut values);
        States::new(values, width)
    }
}
