//! Matrices, norms and feed-forward layers of a tower on the CPU, and how they are read from a checkpoint.

use crate::model::{
    WeightType,
    checkpoint::{Checkpoint, CheckpointError},
    device::cpu::{
        kernels::{
            self, BLOCK,
            activations::{self, Activation},
        },
        linear::{Builder, Forms, Linear, QuantizedRows},
        thread_pool::{DisjointSliceMut, ThreadPool},
    },
};

/// Values of all rows below which one thread is faster than several.
const SINGLE_THREADED: usize = 4096;

/// The width of rows that are multiplied: whole blocks, the rest zero.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(BLOCK)
}

/// Call `work` for every row, on all threads if there are many values.
pub(super) fn each_row(rows: usize, width: usize, work: &(dyn Fn(usize) + Sync)) {
    if rows * width < SINGLE_THREADED {
        (0..rows).for_each(work)
    } else {
        ThreadPool::global().run(rows, work)
    }
}

/// Where a tower's weights are read from, and the type in which they are held.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub checkpoint: &'a Checkpoint,
    pub dtype: WeightType,
}

/// A tensor of weights, without `.weight`, and its number of rows.
type Rows<'a> = (&'a str, usize);

impl Source<'_> {
    /// For the first and the last matrices: bf16 in place of q8_0. They are a sixtieth of the work, and 8 bits there would cost
    /// as much precision as in all layers between them.
    pub fn ends(self) -> Self {
        let dtype = if self.dtype == WeightType::Q8_0 { WeightType::Bf16 } else { self.dtype };
        Self { dtype, ..self }
    }

    /// A vector.
    pub fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>, CheckpointError> {
        self.checkpoint.f32(name, &[len])
    }

    /// The rows of some tensors, stacked, `inputs` values each. Rows and inputs are padded with zeros: the matrix takes rows of
    /// `padded(inputs)` values, and every tensor gives `padded(rows)` outputs if `pad` says so.
    pub fn matrix(
        &self,
        tensors: &[Rows<'_>],
        inputs: usize,
        bias: bool,
        pad: bool,
    ) -> Result<Linear, CheckpointError> {
        // Before memory is allocated for sizes that a configuration only claims.
        for (name, rows) in tensors {
            self.checkpoint.verify(&format!("{name}.weight"), &[*rows, inputs])?;
        }
        let height = |rows: usize| if pad { padded(rows) } else { rows };
        let (width, outputs) = (padded(inputs), tensors.iter().map(|(_, rows)| height(*rows)).sum());
        let mut biases = Vec::new();
        for (name, rows) in tensors.iter().filter(|_| bias) {
            biases.extend(self.vector(&format!("{name}.bias"), *rows)?);
            biases.resize(biases.len() + height(*rows) - rows, 0.0);
        }
        let key = tensors.first().map_or("", |(name, _)| name);
        let refuse = |problem: String| CheckpointError::tensor(key, &problem);
        let weight = match self.checkpoint.kept().get(key, outputs, width) {
            Some(weight) => weight,
            None => {
                let mut matrix = Builder::wide(outputs, width, self.dtype);
                let mut sources = Vec::with_capacity(tensors.len());
                for (name, rows) in tensors {
                    let name = format!("{name}.weight");
                    let place = matrix.append(*rows).map_err(refuse)?;
                    let hash = self.checkpoint.rows_parallel(&name, [*rows, inputs], &|first, values| {
                        let mut wide = Vec::new();
                        let values = if width == inputs {
                            values
                        } else {
                            wide.resize(values.len() / inputs * width, 0.0);
                            for (row, values) in wide.chunks_exact_mut(width).zip(values.chunks_exact(inputs))
                            {
                                row[..inputs].copy_from_slice(values);
                            }
                            &wide[..]
                        };
                        // SAFETY: each call has rows of its own.
                        unsafe { place.store(first, values) }
                    })?;
                    sources.push((name, hash));
                    matrix.push(&vec![0f32; (height(*rows) - rows) * width]).map_err(refuse)?;
                }
                let weight = matrix.into_weight();
                self.checkpoint.kept().put(key, &weight, [outputs, width], sources);
                weight
            }
        };
        Linear::stack(vec![(weight, outputs)], width, bias.then_some(biases)).map_err(refuse)
    }
}

/// A norm over the width of the states.
pub(super) enum Norm {
    /// RMS norm.
    Rms {
        /// One value per state.
        weight: Vec<f32>,
        /// Epsilon.
        eps: f32,
    },
    /// Layer norm.
    Layer {
        /// One value per state.
        weight: Vec<f32>,
        /// One value per state.
        bias: Vec<f32>,
        /// Epsilon.
        eps: f32,
    },
}

impl Norm {
    pub fn rms(source: &Source<'_>, name: &str, width: usize, eps: f64) -> Result<Self, CheckpointError> {
        Ok(Self::Rms { weight: source.vector(&format!("{name}.weight"), width)?, eps: eps as f32 })
    }

    pub fn layer(source: &Source<'_>, name: &str, width: usize, eps: f64) -> Result<Self, CheckpointError> {
        Ok(Self::Layer {
            weight: source.vector(&format!("{name}.weight"), width)?,
            bias: source.vector(&format!("{name}.bias"), width)?,
            eps: eps as f32,
        })
    }

    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        match self {
            Self::Rms { weight, eps } => kernels::rms_norm(x, weight, *eps, out),
            Self::Layer { weight, bias, eps } => activations::layer_norm(x, weight, bias, *eps, out),
        }
    }
}

/// Rows to be multiplied, in f32 and in the quantised forms that the matrix needs; the buffers are kept between calls.
#[derive(Default)]
pub(super) struct Input {
    values: Vec<f32>,
    quantized: QuantizedRows,
}

impl Input {
    /// Rows of `padded(width)` values; `fill` writes the first `width` values of a row.
    pub fn fill(
        &mut self,
        rows: usize,
        width: usize,
        forms: Forms,
        fill: &(dyn Fn(usize, &mut [f32]) + Sync),
    ) {
        let stride = padded(width);
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

    /// `y = W x + b` of the rows.
    pub fn multiply(&self, matrix: &Linear, rows: usize, y: &mut [f32]) -> candle_core::Result<()> {
        matrix.forward_prepared(&self.values, &self.quantized, rows, y)
    }
}

/// A feed-forward layer.
pub(super) enum Mlp {
    /// SwiGLU.
    Gated {
        /// `gate_proj` and `up_proj`, stacked.
        gate_up: Linear,
        /// `down_proj`.
        down: Linear,
    },
    /// Two linear layers with an activation in between.
    Plain {
        /// `fc1`.
        first: Linear,
        /// The activation.
        activation: Activation,
        /// `fc2`.
        second: Linear,
    },
}

/// Buffers of a feed-forward layer.
#[derive(Default)]
pub(super) struct MlpBuffers {
    hidden: Vec<f32>,
    gated: Input,
}

impl Mlp {
    /// The quantised forms of its input.
    pub fn forms(&self) -> Forms {
        match self {
            Self::Gated { gate_up, .. } => gate_up.forms(),
            Self::Plain { first, .. } => first.forms(),
        }
    }

    /// Size of the weights in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Gated { gate_up: a, down: b } | Self::Plain { first: a, second: b, .. } => {
                a.bytes() + b.bytes()
            }
        }
    }

    /// `out` = the layer's output for rows of input.
    pub fn forward(
        &self,
        input: &Input,
        rows: usize,
        out: &mut [f32],
        buffers: &mut MlpBuffers,
    ) -> candle_core::Result<()> {
        let MlpBuffers { hidden, gated } = buffers;
        match self {
            Self::Gated { gate_up, down } => {
                let width = gate_up.outputs() / 2;
                hidden.resize(rows * 2 * width, 0.0);
                gated.values.resize(rows * width, 0.0);
                let forms = down.forms();
                let in_place = forms.any() && Linear::quantizes_gated(forms);
                let next = in_place.then(|| gated.quantized.resize(forms, rows * width));
                gate_up.forward_gated(
                    &input.values,
                    &input.quantized,
                    rows,
                    hidden,
                    &mut gated.values,
                    next,
                )?;
                if forms.any() && !in_place {
                    gated.quantized.quantize(forms, &gated.values);
                }
                gated.multiply(down, rows, out)
            }
            Self::Plain { first, activation, second } => {
                let width = first.outputs();
                hidden.resize(rows * width, 0.0);
                input.multiply(first, rows, hidden)?;
                gated.fill(rows, width, second.forms(), &|r, row| {
                    row.copy_from_slice(&hidden[r * width..(r + 1) * width]);
                    activations::activate(*activation, row);
                });
                gated.multiply(second, rows, out)
            }
        }
    }
}

/// Call `work` with every row of `width` values and its index, on all threads if there are many values.
pub(super) fn each_slice(x: &mut [f32], width: usize, work: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = x.len() / width;
    let x = DisjointSliceMut::new(x);
    each_row(rows, width, &|r| {
        // SAFETY: each row belongs to one unit.
        work(r, unsafe { x.slice(r * width, width) });
    });
}

/// Add `sums` to the states `x`, row by row, and norm these to `input`.
pub(super) fn add_and_norm(
    x: &mut [f32],
    sums: &[f32],
    width: usize,
    norm: &Norm,
    forms: Forms,
    input: &mut Input,
) {
    let rows = x.len() / width;
    let x = DisjointSliceMut::new(x);
    input.fill(rows, width, forms, &|r, to| {
        // SAFETY: each row belongs to one unit.
        let x = unsafe { x.slice(r * width, width) };
        kernels::add(x, &sums[r * width..(r + 1) * width]);
        norm.apply(x, to);
    });
}
