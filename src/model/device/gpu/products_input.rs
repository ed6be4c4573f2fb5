//! Inputs of products in the form that the matrix takes: quantised, or padded to whole blocks.

use super::{
    Access, Buffer, Gpu, Result, Rows, Stream,
    matrix_format::{BLOCK, blocks},
    products::Inputs,
    products_source::{Setting, source},
};

/// Buffers of products, kept between passes.
#[derive(Debug, Default)]
pub struct Scratch {
    quants: Option<Buffer>,
    scales: Option<Buffer>,
    floats: Option<Buffer>,
    /// Gates and values before they are multiplied.
    pub(super) gate_up: Rows,
}

/// Rows to prepare: of `width` values, from `row` on.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub x: &'a Buffer,
    pub row: usize,
    pub rows: usize,
    /// Values of a row of the product; a row of `x` has twice as many if it is gated.
    pub width: usize,
    /// Rows of gates and as many values: their inputs are `silu(gate) · value`.
    pub gated: bool,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct Params {
    width: u32,
    /// Blocks of a row, or its values.
    stored: u32,
    row: u32,
    padding: u32,
}

/// Memory of at least `bytes`, with room to grow.
fn grown<'a>(buffer: &'a mut Option<Buffer>, gpu: &Gpu, bytes: usize) -> Result<&'a Buffer> {
    if buffer.as_ref().is_none_or(|b| b.bytes() < bytes as u64) {
        *buffer = None;
    }
    match buffer {
        Some(buffer) => Ok(buffer),
        none => Ok(none.insert(gpu.buffer(bytes as u64)?)),
    }
}

impl Scratch {
    /// Rows in 8-bit blocks.
    pub(super) fn quantized(&mut self, stream: &mut Stream, source: Source<'_>) -> Result<Inputs> {
        let blocks = blocks(source.width);
        let quants = grown(&mut self.quants, stream.gpu(), source.rows * blocks * BLOCK)?.clone();
        let scales = grown(&mut self.scales, stream.gpu(), source.rows * blocks * 8)?.clone();
        let params =
            Params { width: source.width as u32, stored: blocks as u32, row: source.row as u32, padding: 0 };
        let text = include_str!("shaders/quantize.wgsl");
        let access = [Access::Read, Access::Write, Access::Write];
        let name = if source.gated { "gate and quantize" } else { "quantize" };
        let kernel =
            stream.gpu().kernel(name, &|| self::source(&[text], setting(source.gated)), &access, &[])?;
        // A workgroup takes 32 blocks of a row.
        let groups = [blocks.div_ceil(32) as u32, source.rows as u32, 1];
        stream.dispatch(&kernel, &params, &[source.x, &quants, &scales], groups)?;
        Ok(Inputs::Blocks { quants, scales })
    }

    /// Rows of floats in whole blocks.
    pub(super) fn floats(&mut self, stream: &mut Stream, source: Source<'_>) -> Result<Inputs> {
        let width = blocks(source.width) * BLOCK;
        if width == source.width && !source.gated {
            return Ok(Inputs::Floats { values: source.x.clone(), row: source.row });
        }
        let values = grown(&mut self.floats, stream.gpu(), source.rows * width * 4)?.clone();
        spread(stream, source, &values, width)?;
        Ok(Inputs::Floats { values, row: 0 })
    }
}

fn setting(gated: bool) -> Setting {
    Setting { rows: 0, names: if gated { &["GATED"] } else { &[] } }
}

/// Copy rows to rows of `padded` values, or gate them.
pub(super) fn spread(stream: &mut Stream, source: Source<'_>, y: &Buffer, padded: usize) -> Result<()> {
    let params =
        Params { width: source.width as u32, stored: padded as u32, row: source.row as u32, padding: 0 };
    let text = include_str!("shaders/spread.wgsl");
    let name = if source.gated { "gate" } else { "pad" };
    let written = || self::source(&[text], setting(source.gated));
    let kernel = stream.gpu().kernel(name, &written, &[Access::Read, Access::Write], &[])?;
    stream.dispatch(&kernel, &params, &[source.x, y], [padded.div_ceil(256) as u32, source.rows as u32, 1])
}
