//! Products of matrices on a GPU: the kernel that computes them, and its inputs.
//!
//! There are two kernels for each format: one for few rows, bound by reading the weights, and one of tiles for many rows, bound
//! by arithmetic. Both add in the order of `shaders/products.wgsl`, so a row's result depends neither on the kernel nor on the
//! other rows.

pub(super) mod choice;
pub(crate) mod input;
pub(crate) mod source;
use std::sync::Arc;

use super::{Access, Buffer, Gpu, Kernel, Result, Stream};
use crate::{
    TensorType,
    cpu::kernels::HalfKind,
    gpu::products::source::{Setting, source},
    quant::{
        BlockType,
        panels::{PANEL, chunk},
        with_type,
    },
};

/// Rows of a workgroup of the kernel for few rows, at most: more of them read the weights again.
const FEW: usize = 16;
/// Panels of a tile.
const TILE_PANELS: usize = 4;
/// Rows of a tile for each row of an invocation.
const TILE_ROWS: usize = 16;

/// Which kernel to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// The faster one for the number of rows; see [`choice`].
    #[default]
    Auto,
    /// That for few rows.
    Few,
    /// That for many rows.
    Tiles,
}

/// Some outputs of a matrix, in one format and no larger than the device's bindings.
pub(super) struct Piece {
    pub format: TensorType,
    /// As of [`TensorType::arrays`].
    pub arrays: Vec<Buffer>,
    /// The first of these outputs in the matrix.
    pub first: usize,
    pub outputs: usize,
}

/// Inputs in the form that a format takes: bytes and scales, or floats.
pub(crate) enum Inputs {
    Blocks {
        quants: Buffer,
        scales: Buffer,
    },
    /// Rows from `row` on.
    Floats {
        values: Buffer,
        row: usize,
    },
}

/// The rows of a product by expert (see `shaders/plan.wgsl`): the matrices of all experts are stacked in one.
#[derive(Clone, Copy)]
pub(super) struct Grouped<'a> {
    pub plan: &'a Buffer,
    /// Outputs of an expert, a multiple of [`PANEL`].
    pub outputs: usize,
    /// Rows of the result, each of a row of the inputs and an expert.
    pub pairs: usize,
    pub tiles: usize,
    pub size: Tile,
    /// Pairs of a row of the inputs.
    pub fan: usize,
}

/// The pairs that a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tile {
    /// So many, by the kernel for few rows.
    Few(usize),
    /// By the kernel of tiles.
    Many,
}

impl Tile {
    /// For so many pairs, if all experts are equally likely.
    pub fn of(pairs: usize, experts: usize) -> Self {
        match pairs * 4 / experts.max(1) {
            0..2 => Self::Few(1),
            2..8 => Self::Few(2),
            8..24 => Self::Few(4),
            24..48 => Self::Few(8),
            _ => Self::Many,
        }
    }

    pub fn rows(self) -> usize {
        match self {
            Self::Few(rows) => rows,
            Self::Many => 2 * TILE_ROWS,
        }
    }
}

/// A product of `rows` rows of `blocks` blocks.
pub(super) struct Product<'a> {
    pub rows: usize,
    pub blocks: usize,
    pub bias: Option<&'a Buffer>,
    pub y: &'a Buffer,
    /// Values of a row of `y`.
    pub stride: usize,
    pub way: Way,
    pub grouped: Option<Grouped<'a>>,
}

/// As in `shaders/products.wgsl`, without EXPERTS.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct ProductParams {
    rows: u32,
    blocks: u32,
    outputs: u32,
    first: u32,
    stride: u32,
    chunk: u32,
    has_bias: u32,
    row: u32,
}

impl Product<'_> {
    /// Record the product with a piece of a matrix.
    pub fn record(&self, stream: &mut Stream, piece: &Piece, inputs: &Inputs) -> Result<()> {
        let mut buffers: Vec<&Buffer> = piece.arrays.iter().collect();
        let row = match inputs {
            Inputs::Blocks { quants, scales } => {
                buffers.extend([quants, scales]);
                0
            }
            Inputs::Floats { values, row } => {
                buffers.push(values);
                *row
            }
        };
        if let Some(grouped) = &self.grouped {
            buffers.extend([grouped.plan, self.y]);
            return self.record_grouped(stream, piece, grouped, &buffers);
        }
        // Without a bias the binding is not read.
        buffers.extend([self.bias.unwrap_or(&piece.arrays[0]), self.y]);
        let params = ProductParams {
            rows: self.rows as u32,
            blocks: self.blocks as u32,
            outputs: piece.outputs as u32,
            first: piece.first as u32,
            stride: self.stride as u32,
            chunk: chunk(self.blocks) as u32,
            has_bias: self.bias.is_some().into(),
            row: row as u32,
        };
        let panels = piece.outputs.div_ceil(PANEL);
        let is_few = match self.way {
            Way::Auto => self.rows <= stream.gpu().few_limit(piece.format),
            way => way == Way::Few,
        };
        let (kernel, groups) = if is_few {
            let rows = few_rows(self.rows);
            (few(stream.gpu(), piece.format, rows, false)?, [panels, self.rows.div_ceil(rows), 1])
        } else {
            let rows = tile_rows(self.rows);
            let groups = [self.rows.div_ceil(rows * TILE_ROWS), panels.div_ceil(TILE_PANELS), 1];
            (tiles(stream.gpu(), piece.format, rows, false)?, groups)
        };
        stream.dispatch(&kernel, &params, &buffers, groups.map(|n| n as u32))
    }

    fn record_grouped(
        &self,
        stream: &mut Stream,
        piece: &Piece,
        grouped: &Grouped<'_>,
        buffers: &[&Buffer],
    ) -> Result<()> {
        let panels = grouped.outputs / PANEL;
        // In the order of `shaders/products.wgsl` with EXPERTS.
        let params = [
            piece.outputs / PANEL,
            self.blocks,
            grouped.outputs,
            piece.first / PANEL,
            self.stride,
            chunk(self.blocks),
            3 * grouped.tiles,
            grouped.fan,
        ];
        let (kernel, groups) = match grouped.size {
            Tile::Few(rows) => (few(stream.gpu(), piece.format, rows, true)?, [panels, grouped.tiles, 1]),
            Tile::Many => {
                let kernel = tiles(stream.gpu(), piece.format, 2, true)?;
                (kernel, [grouped.tiles, panels.div_ceil(TILE_PANELS), 1])
            }
        };
        stream.dispatch(&kernel, &params.map(|n| n as u32), buffers, groups.map(|n| n as u32))
    }
}

/// Rows of a workgroup of the kernel for few rows, if all have as many: exact up to 8, so that none is computed in vain where it
/// costs most.
fn few_rows(rows: usize) -> usize {
    let groups = rows.div_ceil(FEW).max(1);
    match rows.div_ceil(groups) {
        each @ 0..=8 => each.max(1),
        9..=12 => 12,
        _ => FEW,
    }
}

fn tile_rows(rows: usize) -> usize {
    if rows <= 2 * TILE_ROWS { 2 } else { 4 }
}

/// The part of a kernel that reads a format's weights, and multiplies its blocks.
pub(super) fn weights(format: TensorType) -> String {
    match format {
        TensorType::F32 => include_str!("shaders/float_32.wgsl").into(),
        TensorType::Half(HalfKind::F16) => include_str!("shaders/float_16.wgsl").into(),
        TensorType::Half(HalfKind::Bf16) => include_str!("shaders/float_b16.wgsl").into(),
        TensorType::Blocks(kind) => with_type!(kind, T => blocks::<T>()),
    }
}

fn blocks<T: BlockType>() -> String {
    let products = match (T::PART, T::MINIMA) {
        (16, false) => include_str!("shaders/block_halves.wgsl"),
        // Its own shader has them.
        (16, true) => "",
        (_, true) => include_str!("shaders/block_minimum.wgsl"),
        (_, false) => include_str!("shaders/block_plain.wgsl"),
    };
    let table = T::TABLE.map(|table| {
        let word = |value: i8| format!("{:#010x}u", u32::from(value.cast_unsigned()) * 0x0101_0101);
        let words = table.map(word).join(", ");
        format!("const TABLE = array<u32, 16>({words});\n{}", include_str!("shaders/block_table.wgsl"))
    });
    let input = include_str!("shaders/block_input.wgsl");
    [&table.unwrap_or_default(), T::SHADER, input, products].concat()
}

/// The bindings of a kernel: a format's arrays, and what follows them.
pub(super) fn bindings(format: TensorType, others: &[Access]) -> Vec<Access> {
    let mut all = vec![Access::Read; format.arrays().len()];
    all.extend(others);
    all
}

/// Buffers of a product: inputs, bias, and `y`.
fn product_bindings(format: TensorType) -> Vec<Access> {
    const ALL: [Access; 4] = [Access::Read, Access::Read, Access::Read, Access::Write];
    bindings(format, if format.takes_blocks() { &ALL } else { &ALL[1..] })
}

fn few(gpu: &Gpu, format: TensorType, rows: usize, by_expert: bool) -> Result<Arc<Kernel>> {
    let parts = match format.takes_blocks() {
        true => [include_str!("shaders/few_blocks.wgsl"), ""],
        false => [include_str!("shaders/add4.wgsl"), include_str!("shaders/few_floats.wgsl")],
    };
    let name = format!("{} times {rows} rows", format.name());
    product(gpu, format, &name, parts, include_str!("shaders/few_finish.wgsl"), rows, by_expert)
}

fn tiles(gpu: &Gpu, format: TensorType, rows: usize, by_expert: bool) -> Result<Arc<Kernel>> {
    let parts = match format.takes_blocks() {
        true => [include_str!("shaders/tile_blocks.wgsl"), ""],
        false => [include_str!("shaders/add4.wgsl"), include_str!("shaders/tile_floats.wgsl")],
    };
    let name = format!("{} times tiles of {} rows", format.name(), rows * TILE_ROWS);
    product(gpu, format, &name, parts, "", rows, by_expert)
}

fn product(
    gpu: &Gpu,
    format: TensorType,
    name: &str,
    parts: [&str; 2],
    last: &str,
    rows: usize,
    by_expert: bool,
) -> Result<Arc<Kernel>> {
    let (name, names): (String, &[&str]) = match by_expert {
        true => (format!("{name} by expert"), &["EXPERTS"]),
        false => (name.into(), &[]),
    };
    let written = || {
        let weights = weights(format);
        let all = [include_str!("shaders/products.wgsl"), &weights, parts[0], parts[1], last];
        source(&all, Setting { rows, names })
    };
    gpu.kernel(&name, &written, &product_bindings(format), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kernel_has_more_than_eight_buffers_and_the_fewest_rows_are_exact() {
        for kind in TensorType::ALL {
            assert!(product_bindings(kind).len() <= 8, "{kind:?}");
        }
        for rows in 1..=64 {
            let (each, groups) = (few_rows(rows), rows.div_ceil(FEW));
            assert!(each <= FEW && each * groups >= rows && (rows > 8 || each == rows), "{rows}");
        }
        assert_eq!([17, 24, 26, 33].map(few_rows), [12, 12, 16, 12]);
    }
}
