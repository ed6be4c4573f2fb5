//! What towers are built of: norms, feed-forward layers, and softmax attention in bounded memory.

use candle_core::{DType, Device, Result as CandleResult, Tensor};
use candle_nn::{LayerNorm, Linear, Module, RmsNorm, VarBuilder, layer_norm, linear, ops, rms_norm};

/// Patches that pass the blocks together: on a CPU more at a time would only cost memory, an accelerator is busy only with many.
pub(super) fn portion(device: &Device) -> usize {
    if device.is_cpu() { 1024 } else { 8192 }
}

/// Attention scores that are held at a time, in values: 64 MiB as f32 on a CPU, 256 MiB as bf16 on an accelerator.
fn scores(device: &Device) -> usize {
    if device.is_cpu() { 1 << 24 } else { 1 << 27 }
}

/// Softmax attention of `[b, n, d]` queries (already scaled), keys and values, in portions of queries whose scores stay
/// bounded.
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> CandleResult<Tensor> {
    let (batch, n, _) = q.dims3()?;
    let keys = k.transpose(1, 2)?.contiguous()?;
    let rows = (scores(q.device()) / (batch * n).max(1)).clamp(1, n);
    let mut parts = Vec::with_capacity(n.div_ceil(rows));
    for start in (0..n).step_by(rows) {
        let part = q.narrow(1, start, rows.min(n - start))?.contiguous()?;
        parts.push(ops::softmax_last_dim(&part.matmul(&keys)?)?.matmul(v)?);
    }
    if parts.len() == 1 { Ok(parts.remove(0)) } else { Tensor::cat(&parts, 1) }
}

/// A portion of the patches as the tower computes with them. Only the portion travels, and in half the bytes where the type has
/// half.
pub(super) fn send(portion: &Tensor, dtype: DType, device: &Device) -> CandleResult<Tensor> {
    match device.is_cpu() {
        true => portion.to_dtype(dtype),
        false => portion.force_contiguous()?.to_dtype(dtype)?.to_device(device),
    }
}

/// A norm over the width of the states.
pub(super) enum Norm {
    /// By the root of the mean square.
    Rms(RmsNorm),
    /// By mean and deviation, with a bias.
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

/// The bend between two linear layers.
#[derive(Clone, Copy)]
pub(super) enum Bend {
    /// x · sigmoid(1.702 x).
    QuickGelu,
    /// GELU by its approximation with tanh.
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
    /// Two layers with a bend between.
    Plain {
        /// `fc1`.
        first: Linear,
        /// The bend.
        bend: Bend,
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

    pub(super) fn plain(width: usize, ffn: usize, bend: Bend, vb: &VarBuilder) -> CandleResult<Self> {
        Ok(Self::Plain {
            first: linear(width, ffn, vb.pp("fc1"))?,
            bend,
            second: linear(ffn, width, vb.pp("fc2"))?,
        })
    }

    pub(super) fn forward(&self, x: &Tensor) -> CandleResult<Tensor> {
        match self {
            Self::Gated { gate, up, down } => {
                down.forward(&(ops::silu(&gate.forward(x)?)? * up.forward(x)?)?)
            }
            Self::Plain { first, bend, second } => {
                let x = first.forward(x)?;
                second.forward(&match bend {
                    Bend::QuickGelu => (&x * ops::sigmoid(&(&x * 1.702)?)?)?,
                    Bend::GeluTanh => x.gelu()?,
                })
            }
        }
    }
}
