//! Operations between matrices on a GPU, row by row: norms, activations, sums.

use bytemuck::{Pod, Zeroable};

use super::{Access, Buffer, GpuError, Result, Rows, Stream, attention::LINE, rows::filled};
use crate::{
    convolution::{Convolution, ConvolutionShape, Side},
    tower::Activation,
};

/// Values of a row of workgroups in a kernel over single values.
const SPREAD: usize = 1 << 22;

/// What is added to rows.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// As many rows.
    Rows(&'a Rows),
    /// Rows that repeat: row `r % rows`.
    Repeated(&'a Buffer, usize),
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct NormParams {
    width: u32,
    eps: f32,
    rows: u32,
    unused: u32,
}

/// Four numbers; each kernel says which.
type Four = [u32; 4];

/// Workgroups for `rows` rows of one workgroup each.
fn lines(rows: usize) -> [u32; 3] {
    [rows.min(LINE) as u32, rows.div_ceil(LINE) as u32, 1]
}

/// Workgroups for `rows` rows of `width` values, a thread for each value.
pub(super) fn grid(rows: usize, width: usize) -> [u32; 3] {
    [width.div_ceil(256) as u32, rows.min(LINE) as u32, rows.div_ceil(LINE) as u32]
}

/// Workgroups for `rows` rows of `heads` heads, one for each head.
pub(super) fn heads(rows: usize, heads: usize) -> [u32; 3] {
    [heads as u32, rows.min(LINE) as u32, rows.div_ceil(LINE) as u32]
}

fn fits(buffer: &Buffer, values: usize, what: &str) -> Result<()> {
    if (buffer.bytes() as usize) < 4 * values {
        let got = buffer.bytes() / 4;
        return Err(GpuError::Invalid(format!("{what}: {got} values, {values} are expected")));
    }
    Ok(())
}

fn same(a: &Rows, b: &Rows) -> Result<()> {
    if (a.rows(), a.width()) == (b.rows(), b.width()) {
        return Ok(());
    }
    let (ours, theirs) = ((a.rows(), a.width()), (b.rows(), b.width()));
    Err(GpuError::Invalid(format!("rows differ in size: {ours:?} and {theirs:?}")))
}

/// `x += add`, if there is something to add; `out` = `x / sqrt(mean(x²) + eps) * weight`, row by row, or with a bias
/// `(x - mean) / sqrt(variance + eps) * weight + bias`.
pub fn norm(
    stream: &mut Stream,
    x: &mut Rows,
    add: Option<&Rows>,
    (weight, bias): (&Buffer, Option<&Buffer>),
    eps: f32,
    out: &mut Rows,
) -> Result<()> {
    use Access::{Read, Write};
    let gpu = stream.gpu().clone();
    let (rows, width) = (x.rows(), x.width());
    fits(weight, width, "a norm's weights")?;
    bias.map_or(Ok(()), |bias| fits(bias, width, "a norm's bias"))?;
    add.map_or(Ok(()), |add| same(x, add))?;
    let adds = [("ADD", f64::from(u8::from(add.is_some())))];
    let params = NormParams { width: width as u32, eps, rows: rows as u32, unused: 0 };
    let add = add.map_or(Ok(weight), filled)?;
    let out = out.reserve(&gpu, rows, width)?;
    let Some(bias) = bias else {
        let source = &|| include_str!("shaders/norm.wgsl").into();
        let kernel = gpu.kernel("norm", source, &[Write, Read, Read, Write], &adds)?;
        return stream.dispatch(&kernel, &params, &[filled(x)?, add, weight, out], lines(rows));
    };
    let source = &|| include_str!("shaders/layer_norm.wgsl").into();
    let kernel = gpu.kernel("layer norm", source, &[Write, Read, Read, Read, Write], &adds)?;
    stream.dispatch(&kernel, &params, &[filled(x)?, add, weight, bias, out], lines(rows))
}

/// Apply an activation in place.
pub fn activate(stream: &mut Stream, activation: Activation, x: &mut Rows) -> Result<()> {
    let kind = match activation {
        Activation::QuickGelu => 1.0,
        Activation::GeluTanh => 2.0,
        Activation::GeluErf => 3.0,
    };
    let kernel = stream.gpu().clone().kernel(
        "activate",
        &|| include_str!("shaders/activate.wgsl").into(),
        &[Access::Write],
        &[("KIND", kind)],
    )?;
    let count = x.rows() * x.width();
    let line = SPREAD.min(count.next_multiple_of(256));
    let groups = [(line / 256) as u32, count.div_ceil(line.max(1)) as u32, 1];
    let params: Four = [count as u32, line as u32, 0, 0];
    stream.dispatch(&kernel, &params, &[filled(x)?], groups)
}

/// `x[r] += addend[r]`.
pub fn add(stream: &mut Stream, x: &mut Rows, addend: Addend<'_>) -> Result<()> {
    use Access::{Read, Write};
    let (y, period) = match addend {
        Addend::Rows(y) => {
            same(x, y)?;
            (filled(y)?, x.rows())
        }
        Addend::Repeated(y, rows) => {
            fits(y, rows * x.width(), "rows to add")?;
            (y, rows)
        }
    };
    let source = &|| include_str!("shaders/add.wgsl").into();
    let kernel = stream.gpu().clone().kernel("add", source, &[Write, Read], &[])?;
    let params: Four = [x.width() as u32, x.rows() as u32, period.max(1) as u32, 0];
    stream.dispatch(&kernel, &params, &[filled(x)?, y], grid(x.rows(), x.width()))
}

/// `out` = one of a sublayer's [convolutions](crate::convolution) of `x`. Fails if there are not as many corrections as it needs.
pub(crate) fn convolve(
    stream: &mut Stream,
    x: &Rows,
    corrections: &Rows,
    convolution: &Convolution<Buffer>,
    side: Side,
    out: &mut Rows,
) -> Result<()> {
    use Access::{Read, Write};
    let gpu = stream.gpu().clone();
    let Convolution { shape, width, shared } = convolution;
    let ConvolutionShape { taps, group } = *shape;
    let expected = [(x.rows(), *width), (x.rows(), shape.corrections(*width))];
    let got = [x, corrections].map(|rows| (rows.rows(), rows.width()));
    if got != expected {
        return Err(GpuError::Invalid(format!("rows and corrections {got:?}, {expected:?} are expected")));
    }
    fits(shared, 2 * taps * width, "a convolution's taps")?;
    let kernel = gpu.kernel(
        "convolve",
        &|| include_str!("shaders/convolve.wgsl").into(),
        &[Read, Read, Read, Write],
        &[],
    )?;
    let [first, own] = convolution.first(side);
    let sizes = [*width, x.rows(), taps, group, first, own, corrections.width(), 0].map(|size| size as u32);
    let out = out.reserve(&gpu, x.rows(), *width)?;
    stream.dispatch(&kernel, &sizes, &[filled(x)?, filled(corrections)?, shared, out], grid(x.rows(), *width))
}

/// Four rows of `x` and their weights for each row of a picture: bilinear pooling.
#[derive(Debug)]
pub(crate) struct Blend {
    index: Buffer,
    weight: Buffer,
    tokens: usize,
    states: usize,
}

impl Blend {
    /// For each of a picture's tokens four states, counted in the picture, and their weights; a picture has `states` states.
    pub fn new(gpu: &super::Gpu, taps: &[[(u32, f32); 4]], states: usize) -> Result<Self> {
        let (index, weight): (Vec<u32>, Vec<f32>) = taps.iter().flatten().copied().unzip();
        Ok(Self {
            index: gpu.upload(bytemuck::cast_slice(&index))?,
            weight: gpu.upload(bytemuck::cast_slice(&weight))?,
            tokens: taps.len(),
            states,
        })
    }

    /// `out` = the tokens of the pictures whose states are in `blocks`; the blocks' tokens are concatenated. Fails if the
    /// blocks differ in their number of rows, or memory is missing.
    pub fn apply(&self, stream: &mut Stream, blocks: &[&Rows], out: &mut Rows) -> Result<()> {
        use Access::{Read, Write};
        let gpu = stream.gpu().clone();
        let states = blocks.first().map_or(0, |block| block.rows());
        if let Some(other) = blocks.iter().find(|block| block.rows() != states) {
            let problem = format!("{} rows next to {states}", other.rows());
            return Err(GpuError::Invalid(problem));
        }
        let rows = states / self.states.max(1) * self.tokens;
        let wide = blocks.iter().map(|block| block.width()).sum();
        let kernel = gpu.kernel(
            "blend",
            &|| include_str!("shaders/blend.wgsl").into(),
            &[Read, Read, Read, Write],
            &[],
        )?;
        let (out, mut column) = (out.reserve(&gpu, rows, wide)?, 0);
        for block in blocks {
            let width = block.width();
            let sizes = [width, rows, self.tokens, self.states, wide, column, 0, 0].map(|size| size as u32);
            let buffers = [filled(block)?, &self.index, &self.weight, out];
            stream.dispatch(&kernel, &sizes, &buffers, grid(rows, width))?;
            column += width;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
