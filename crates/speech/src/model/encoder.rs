//! The encoder: two convolutions and layers of self-attention, from a spectrogram to one state for two frames.

use specreel_tensor::{
    Result,
    cpu::{linear::Linear, rows::CpuRows},
    ops::{CpuOps, CpuWork, Loaded, Out, Residual, RowOps as _, RowPart, TowerOps as _},
    tower::{Activation, TowerLayout},
};

use super::{
    config::{Config, STATES},
    parts::{FeedForward, Norm, Tensors, fused, norm},
};

/// Frames that a convolution sees at once.
const TAPS: usize = 3;

pub struct Encoder {
    ops: CpuOps,
    convolutions: [Linear; 2],
    /// Values of the rows that each convolution takes.
    channels: [usize; 2],
    positions: Vec<f32>,
    layers: Vec<AudioLayer>,
    norm: Norm,
    layout: TowerLayout,
    buffers: Buffers,
}

struct AudioLayer {
    norm: Norm,
    qkv: Linear,
    output: Linear,
    feed_forward: FeedForward,
}

#[derive(Default)]
struct Buffers {
    work: CpuWork,
    x: CpuRows,
    qkv: CpuRows,
    attended: CpuRows,
    input: CpuRows,
    hidden: CpuRows,
    active: CpuRows,
    sums: CpuRows,
}

impl Encoder {
    /// The tensors below `model.encoder`.
    pub fn load(ops: &CpuOps, config: &Config, tensors: &Tensors<'_>) -> Loaded<Self> {
        let (d, heads, at) = (config.d_model, config.encoder_attention_heads, "model.encoder");
        let matrix = |list: &_| ops.tower_matrix(list, false, tensors);
        let layer = |index: usize| {
            let at = format!("{at}.layers.{index}");
            let attention = format!("{at}.self_attn");
            Ok(AudioLayer {
                norm: norm(tensors, &format!("{at}.self_attn_layer_norm"), d)?,
                qkv: matrix(&fused(&attention, &["q_proj", "k_proj", "v_proj"], d, d))?,
                output: matrix(&fused(&attention, &["out_proj"], d, d))?,
                feed_forward: FeedForward::load(tensors, &at, (d, config.encoder_ffn()), matrix)?,
            })
        };
        let convolution = |name: &str, channels: usize| matrix(&fused(at, &[name], d, TAPS * channels));
        Ok(Self {
            convolutions: [convolution("conv1", config.num_mel_bins)?, convolution("conv2", d)?],
            channels: [config.num_mel_bins, d],
            positions: sinusoids(d),
            layers: (0..config.encoder_layers).map(layer).collect::<Loaded<_>>()?,
            norm: norm(tensors, &format!("{at}.layer_norm"), d)?,
            layout: TowerLayout {
                heads,
                head_dim: d / heads,
                order: (0..STATES as u32).collect(),
                windows: Vec::new(),
                angles: None,
                sources: STATES,
                taps: TowerLayout::reordered(0..STATES as u32),
            },
            buffers: Buffers::default(),
            ops: ops.clone(),
        })
    }

    /// The states of a spectrogram (`2 STATES × bands`): `STATES × d_model`.
    pub fn forward(&mut self, mel: &[f32]) -> Result<&CpuRows> {
        self.convolve(0, mel, 1)?;
        let convolved = self.ops.keep(&mut self.buffers.work, &self.buffers.active)?.to_vec()?;
        self.convolve(1, &convolved, 2)?;
        let Self { ops, layers, layout, buffers, .. } = self;
        let Buffers { work, x, qkv, attended, input, hidden, active, sums } = buffers;
        std::mem::swap(x, active);
        ops.add_positions(work, layout, x, &self.positions)?;
        let parts = || RowPart::each(STATES, ops.rows_at_once(layout.hidden()));
        for layer in layers {
            for part in parts() {
                let residual = Residual { x, part, add: None };
                ops.norm(work, residual, &layer.norm, Out::before(&layer.qkv, input))?;
                ops.product(work, &layer.qkv, input, part, qkv)?;
            }
            ops.attend_in_grids(work, layout, qkv, 1, false, attended)?;
            for part in parts() {
                let feed_forward = &layer.feed_forward;
                ops.part(work, attended, part, Out::before(&layer.output, input))?;
                ops.product(work, &layer.output, input, RowPart::all(part.rows), sums)?;
                let residual = Residual { x, part, add: Some(sums) };
                ops.norm(work, residual, &feed_forward.norm, Out::before(&feed_forward.first, input))?;
                feed_forward.forward(ops, work, input, [hidden, active], part.rows, sums)?;
                ops.add(work, x, part, sums)?;
            }
        }
        let residual = Residual { x, part: RowPart::all(STATES), add: None };
        ops.norm(work, residual, &self.norm, Out { rows: attended, next: None })?;
        Ok(attended)
    }

    /// `active` = GELU of a convolution over rows, at every `stride`-th one.
    fn convolve(&mut self, which: usize, rows: &[f32], stride: usize) -> Result<()> {
        let Self { ops, layout, buffers, convolutions, channels, .. } = self;
        let Buffers { work, input, hidden, active, .. } = buffers;
        let (matrix, channels) = (&convolutions[which], channels[which]);
        let seen = seen(rows, channels, stride);
        let width = TAPS * channels;
        for part in RowPart::each(seen.len() / width, ops.rows_at_once(width)) {
            ops.patches(work, layout, &seen, part, Out::before(matrix, input))?;
            ops.product(work, matrix, input, part, hidden)?;
        }
        ops.activate(work, Activation::GeluErf, hidden, Out { rows: active, next: None })
    }
}

/// What a convolution sees at every `stride`-th of some rows: each channel's values in the row before, the row itself and the one
/// behind, with zeros around all rows.
fn seen(rows: &[f32], channels: usize, stride: usize) -> Vec<f32> {
    let count = rows.len() / channels;
    let mut seen = vec![0.0; count.div_ceil(stride) * TAPS * channels];
    for (at, to) in seen.chunks_exact_mut(TAPS * channels).enumerate() {
        for tap in 0..TAPS {
            let Some(row) = (at * stride + tap).checked_sub(1).filter(|row| *row < count) else { continue };
            let row = &rows[row * channels..][..channels];
            to[tap..].iter_mut().step_by(TAPS).zip(row).for_each(|(to, value)| *to = *value);
        }
    }
    seen
}

/// Positions of the states: sines and cosines of `d / 2` wavelengths, from 2π to 20,000π states (OpenAI's `sinusoids`).
fn sinusoids(d: usize) -> Vec<f32> {
    let half = d / 2;
    let step = 10_000f64.ln() / (half - 1).max(1) as f64;
    let angle = |state: usize, at: usize| state as f64 * (-step * at as f64).exp();
    let value = |state: usize, at: usize| match at < half {
        true => angle(state, at).sin() as f32,
        false => angle(state, at - half).cos() as f32,
    };
    (0..STATES).flat_map(|state| (0..d).map(move |at| value(state, at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn convolutions_see_the_neighbors_of_every_row() {
        // Three rows of two channels.
        let rows = [1.0, 10.0, 2.0, 20.0, 3.0, 30.0];
        let all = [
            [0.0, 1.0, 2.0, 0.0, 10.0, 20.0],
            [1.0, 2.0, 3.0, 10.0, 20.0, 30.0],
            [2.0, 3.0, 0.0, 20.0, 30.0, 0.0],
        ];
        assert_eq!(seen(&rows, 2, 1), all.concat());
        assert_eq!(seen(&rows, 2, 2), [all[0], all[2]].concat());
    }
}
