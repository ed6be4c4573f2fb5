//! Layers of vision towers: norms, feed-forward layers, and softmax attention in bounded memory.

use candle_core::{Device, Result as CandleResult, Tensor};
use candle_nn::{LayerNorm, Linear, Module, RmsNorm, VarBuilder, layer_norm, linear, ops, rms_norm};

/// Attention scores in memory at a time, in values: 64 MiB as f32 on the CPU, 256 MiB as bf16 on an accelerator.
fn max_scores(device: &Device) -> usize {
    if device.is_cpu() { 1 << 24 } else { 1 << 27 }
}

/// Softmax attention of `[b, n, d]` queries (already scaled), keys and values, for some queries at a time so that the scores
/// stay bounded.
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> CandleResult<Tensor> {
    let (batch, n, _) = q.dims3()?;
    let keys = k.transpose(1, 2)?.contiguous()?;
    let rows = (max_scores(q.device()) / (batch * n).max(1)).clamp(1, n);
    let mut parts = Vec::with_capacity(n.div_ceil(rows));
    for start in (0..n).step_by(rows) {
        let part = q.narrow(1, start, rows.min(n - start))?.contiguous()?;
        parts.push(ops::softmax_last_dim(&part.matmul(&keys)?)?.matmul(v)?);
    }
    concatenate(parts, 1)
}

/// Concatenate tensors along a dimension, without a copy if there is one.
pub(super) fn concatenate(mut parts: Vec<Tensor>, dim: usize) -> CandleResult<Tensor> {
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Tensor::cat(&parts, dim) }
}

/// A norm over the width of the states.
pub(super) enum Norm {
    /// RMS norm.
    Rms(RmsNorm),
    /// Layer norm with a bias.
    Layer(LayerNorm),
}

impl Norm {
    pub(super) fn rms(width: usize, eps: f64, vb: VarBuilder) -> CandleResult<Self> {
        rms_norm(width, eps, vb).map(Self::Rms)
    }

    pub(super) fn layer(width: usize, eps: f64, vb: VarBuilder) -> CandleResult<Self> {
        layer_norm(width, eps, vb).map(Self::Layer)
    }

    pub(super) fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self {
            Self::Rms(norm) => norm.forward(x),
            Self::Layer(norm) => norm.forward(x),
        }
    }
}

/// The activation between two linear layers.
#[derive(Clone, Copy)]
pub(super) enum Activation {
    /// x · sigmoid(1.702 x).
    QuickGelu,
    /// GELU, approximated with tanh.
    GeluTanh,
}

/// A feed-forward layer.
pub(super) enum Mlp {
    /// SwiGLU.
    Gated {
        /// `gate_proj`.
        gate: Linear,
        /// `up_proj`.
        up: Linear,
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

impl Mlp {
    pub(super) fn gated(width: usize, ffn: usize, vb: &VarBuilder) -> CandleResult<Self> {
        Ok(Self::Gated {
            gate: linear(width, ffn, vb.pp("gate_proj"))?,
            up: linear(width, ffn, vb.pp("up_proj"))?,
            down: linear(ffn, width, vb.pp("down_proj"))?,
        })
    }

    pub(super) fn plain(
        width: usize,
        ffn: usize,
        activation: Activation,
        vb: &VarBuilder,
    ) -> CandleResult<Self> {
        Ok(Self::Plain {
            first: linear(width, ffn, vb.pp("fc1"))?,
            activation,
            second: linear(ffn, width, vb.pp("fc2"))?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self {
            Self::Gated { gate, up, down } => {
                down.forward(&(ops::silu(&gate.forward(x)?)? * up.forward(x)?)?)
            }
            Self::Plain { first, activation, second } => {
                let x = first.forward(x)?;
                second.forward(&match activation {
                    Activation::QuickGelu => (&x * ops::sigmoid(&(&x * 1.702)?)?)?,
                    Activation::GeluTanh => x.gelu()?,
                })
            }
        }
    }
}
