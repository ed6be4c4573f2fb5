//! The weights of each tower.

use candle_core::{Device, Tensor};

use super::{
    CpuTower, Layer,
    parts::{Mlp, Norm, Source},
    projector::Projector,
};
use crate::model::{
    checkpoint::CheckpointError,
    device::cpu::kernels::activations::Activation,
    vision::{Generation, LlavaConfig, TowerConfig, VisionConfig},
};

impl CpuTower {
    pub(super) fn load_qwen(source: &Source<'_>, config: &VisionConfig) -> Result<Self, CheckpointError> {
        let (d, ffn) = (config.hidden, config.ffn);
        let norm = |name: &str| match config.generation {
            Generation::Qwen2 => Norm::layer(source, name, d, config.eps),
            Generation::Qwen25 => Norm::rms(source, name, d, config.eps),
        };
        let layer = |index: usize| -> Result<Layer, CheckpointError> {
            let at = |part: &str| format!("visual.blocks.{index}.{part}");
            let (gate, up) = (at("mlp.gate_proj"), at("mlp.up_proj"));
            Ok(Layer {
                norm1: norm(&at("norm1"))?,
                qkv: source.matrix(&[(&at("attn.qkv"), 3 * d)], d, true, false)?,
                output: source.matrix(&[(&at("attn.proj"), d)], d, true, false)?,
                norm2: norm(&at("norm2"))?,
                mlp: match config.generation {
                    Generation::Qwen25 => Mlp::Gated {
                        gate_up: source.matrix(&[(&gate, ffn), (&up, ffn)], d, true, true)?,
                        down: source.matrix(&[(&at("mlp.down_proj"), d)], ffn, true, false)?,
                    },
                    Generation::Qwen2 => Mlp::Plain {
                        first: source.matrix(&[(&at("mlp.fc1"), ffn)], d, true, true)?,
                        activation: Activation::QuickGelu,
                        second: source.matrix(&[(&at("mlp.fc2"), d)], ffn, true, false)?,
                    },
                },
                full: config.full_attention[index],
            })
        };
        let width = d * config.merge * config.merge;
        Ok(Self {
            config: TowerConfig::Qwen(config.clone()),
            embed: source.ends().matrix(&[("visual.patch_embed.proj", d)], config.row(), false, false)?,
            positions: None,
            layers: (0..config.depth).map(layer).collect::<Result<_, _>>()?,
            projector: Projector::Merger {
                norm: norm("visual.merger.ln_q")?,
                first: source.ends().matrix(&[("visual.merger.mlp.0", width)], width, true, true)?,
                second: source.ends().matrix(&[("visual.merger.mlp.2", config.out)], width, true, false)?,
            },
            newline: None,
            dtype: source.dtype,
        })
    }

    pub(super) fn load_llava(source: &Source<'_>, config: &LlavaConfig) -> Result<Self, CheckpointError> {
        let (tower, out) = (&config.tower, config.out);
        let (d, eps) = (tower.hidden, tower.eps);
        let layer = |index: usize| -> Result<Layer, CheckpointError> {
            let at = |part: &str| format!("vision_tower.encoder.layers.{index}.{part}");
            let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
            Ok(Layer {
                norm1: Norm::layer(source, &at("layer_norm1"), d, eps)?,
                qkv: source.matrix(&[(&q, d), (&k, d), (&v, d)], d, true, false)?,
                output: source.matrix(&[(&at("self_attn.out_proj"), d)], d, true, false)?,
                norm2: Norm::layer(source, &at("layer_norm2"), d, eps)?,
                mlp: Mlp::Plain {
                    first: source.matrix(&[(&at("mlp.fc1"), tower.ffn)], d, true, true)?,
                    activation: Activation::GeluTanh,
                    second: source.matrix(&[(&at("mlp.fc2"), d)], tower.ffn, true, false)?,
                },
                full: true,
            })
        };
        let side = tower.side();
        let patches =
            source.checkpoint.f32("vision_tower.embeddings.position_embedding.weight", &[side * side, d])?;
        let first = "multi_modal_projector.linear_1";
        let newline = source.vector("image_newline", out)?;
        let newline = Tensor::from_vec(newline, (1, out), &Device::Cpu)
            .map_err(|e| CheckpointError::tensor("image_newline", &e.to_string()))?;
        Ok(Self {
            config: TowerConfig::Llava(config.clone()),
            embed: source.ends().matrix(
                &[("vision_tower.embeddings.patch_embedding", d)],
                tower.row(),
                true,
                false,
            )?,
            positions: Some(patches),
            layers: (0..tower.layers).map(layer).collect::<Result<_, _>>()?,
            projector: Projector::pooled(
                source.ends().matrix(&[(first, out)], d, config.bias, true)?,
                source.ends().matrix(&[("multi_modal_projector.linear_2", out)], out, config.bias, false)?,
                side,
            ),
            newline: Some(newline),
            dtype: source.dtype,
        })
    }
}
