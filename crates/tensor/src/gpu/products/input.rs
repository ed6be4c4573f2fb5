//! Inputs of products in the form that the matrix takes: quantized, or padded to whole blocks.

use crate::{
    gpu::{
        Access, Buffer, Gpu, GpuError, Result, Rows, Stream,
        buffer::grown,
        products::{
            Inputs,
            source::{Setting, source},
        },
    },
    quant::panels::{BLOCK, blocks},
};

/// Buffers of products, kept between passes.
#[derive(Debug, Default)]
pub struct Scratch {
    quants: Option<Buffer>,
    scales: Option<Buffer>,
    floats: Option<Buffer>,
    /// How often blocks were filled so far.
    filling: u64,
    /// Gates and values before they are multiplied.
    pub(crate) gate_up: Rows,
}

/// Rows to prepare: of `width` values, from `row` on.
#[derive(Clone, Copy)]
pub(crate) struct InputRows<'a> {
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
struct InputParams {
    width: u32,
    /// Blocks of a row, or its values.
    stored: u32,
    row: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct NormParams {
    width: u32,
    blocks: u32,
    eps: f32,
    padding: u32,
}

impl Scratch {
    /// Memory for rows in 8-bit blocks: bytes and scales.
    fn blocks(&mut self, gpu: &Gpu, rows: usize, width: usize) -> Result<[Buffer; 2]> {
        self.filling += 1;
        let blocks = rows * blocks(width);
        let quants = grown(&mut self.quants, gpu, blocks * BLOCK)?.clone();
        Ok([quants, grown(&mut self.scales, gpu, blocks * 8)?.clone()])
    }

    /// The blocks of rows whose values are only there.
    /// Errors: if they have been filled with others since.
    pub(crate) fn filled(&self, filling: u64) -> Result<Inputs> {
        match (&self.quants, &self.scales) {
            (Some(quants), Some(scales)) if self.filling == filling => {
                Ok(Inputs::Blocks { quants: quants.clone(), scales: scales.clone() })
            }
            _ => Err(GpuError::Invalid("rows are used after the next rows were quantized".into())),
        }
    }

    /// Rows in 8-bit blocks.
    pub(crate) fn quantized(&mut self, stream: &mut Stream, source: InputRows<'_>) -> Result<Inputs> {
        let [quants, scales] = self.blocks(stream.gpu(), source.rows, source.width)?;
        let params = InputParams {
            width: source.width as u32,
            stored: blocks(source.width) as u32,
            row: source.row as u32,
            padding: 0,
        };
        let text = [include_str!("../shaders/quantize.wgsl"), include_str!("../shaders/quantize_words.wgsl")];
        let access = [Access::Read, Access::Write, Access::Write];
        let name = if source.gated { "gate and quantize" } else { "quantize" };
        let kernel =
            stream.gpu().kernel(name, &|| self::source(&text, setting(source.gated)), &access, &[])?;
        // A workgroup takes 32 blocks of a row.
        let groups = [params.stored.div_ceil(32), source.rows as u32, 1];
        stream.dispatch(&kernel, &params, &[source.x, &quants, &scales], groups)?;
        Ok(Inputs::Blocks { quants, scales })
    }

    /// Gate rows for a product that takes blocks only: they are `out`'s values, of which nothing else is stored.
    pub(crate) fn gate(&mut self, stream: &mut Stream, source: InputRows<'_>, out: &mut Rows) -> Result<()> {
        out.reserve(stream.gpu(), source.rows, source.width)?;
        self.quantized(stream, source)?;
        out.place_in_blocks(self.filling);
        Ok(())
    }

    /// As [`norm`](crate::gpu::elements::norm) for rows of whole blocks, for a product that takes blocks only: they are `out`'s
    /// values, of which nothing else is stored.
    /// Errors: if sizes do not fit, memory is missing, or the device is lost.
    pub(crate) fn norm(
        &mut self,
        stream: &mut Stream,
        x: &mut Rows,
        add: Option<&Rows>,
        weight: &Buffer,
        eps: f32,
        out: &mut Rows,
    ) -> Result<()> {
        let (rows, width) = (x.rows(), x.width());
        let fits = |add: &Rows| (add.rows(), add.width()) == (rows, width) && add.in_blocks().is_none();
        let addend = add.filter(|add| fits(add)).and_then(Rows::buffer);
        let x = x.buffer().filter(|_| addend.is_some() == add.is_some() && x.in_blocks().is_none());
        let Some(x) = x.filter(|_| width.is_multiple_of(BLOCK) && weight.bytes() >= 4 * width as u64) else {
            return Err(GpuError::Invalid(format!(
                "a norm of {rows} × {width} values: other sizes are expected"
            )));
        };
        out.reserve(stream.gpu(), rows, width)?;
        let [quants, scales] = self.blocks(stream.gpu(), rows, width)?;
        let params = NormParams { width: width as u32, blocks: blocks(width) as u32, eps, padding: 0 };
        let text =
            [include_str!("../shaders/norm_blocks.wgsl"), include_str!("../shaders/quantize_words.wgsl")];
        let (name, names): (&str, &'static [&'static str]) = match add {
            Some(_) => ("add, norm and quantize", &["ADD"]),
            None => ("norm and quantize", &[]),
        };
        let access = [Access::Write, Access::Read, Access::Read, Access::Write, Access::Write];
        let written = || source(&text, Setting { rows: 0, names });
        let kernel = stream.gpu().kernel(name, &written, &access, &[])?;
        let buffers = [x, addend.unwrap_or(weight), weight, &quants, &scales];
        stream.dispatch(&kernel, &params, &buffers, [rows as u32, 1, 1])?;
        out.place_in_blocks(self.filling);
        Ok(())
    }

    /// Rows of floats in whole blocks.
    pub(crate) fn floats(&mut self, stream: &mut Stream, source: InputRows<'_>) -> Result<Inputs> {
        let width = blocks(source.width) * BLOCK;
        if width == source.width && !source.gated {
            return Ok(Inputs::Floats { values: source.x.clone(), row: source.row });
        }
        let values = grown(&mut self.floats, stream.gpu(), source.rows * width * 4)?.clone();
        spread(stream, source, &values, width)?;
        Ok(Inputs::Floats { values, row: 0 })
    }
}

fn setting(gated: bool) -> Setting<'static> {
    Setting { rows: 0, names: if gated { &["GATED"] } else { &[] } }
}

/// Copy rows to rows of `padded` values, or gate them.
pub(crate) fn spread(stream: &mut Stream, source: InputRows<'_>, y: &Buffer, padded: usize) -> Result<()> {
    let params =
        InputParams { width: source.width as u32, stored: padded as u32, row: source.row as u32, padding: 0 };
    let text = include_str!("../shaders/spread.wgsl");
    let name = if source.gated { "gate" } else { "pad" };
    let written = || self::source(&[text], setting(source.gated));
    let kernel = stream.gpu().kernel(name, &written, &[Access::Read, Access::Write], &[])?;
    stream.dispatch(&kernel, &params, &[source.x, y], [padded.div_ceil(256) as u32, source.rows as u32, 1])
}
