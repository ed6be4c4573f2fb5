//! The tensors of the towers: names, shapes, and what they are used for.
//!
//! Qwen2-VL and Qwen2.5-VL: `visual.patch_embed.proj.weight` `[hidden, 3, 2, patch, patch]`, `visual.blocks.N.{norm1,norm2}`,
//! `visual.blocks.N.attn.{qkv,proj}`, `visual.blocks.N.mlp.{gate,up,down}_proj` (Qwen2-VL: `mlp.{fc1,fc2}`),
//! `visual.merger.{ln_q, mlp.0, mlp.2}`; all linear layers with bias, norms with one in Qwen2-VL only.
//!
//! LLaVA-OneVision: `vision_tower.embeddings.patch_embedding.{weight,bias}` `[hidden, 3, patch, patch]`,
//! `vision_tower.embeddings.position_embedding.weight` `[patches, hidden]`,
//! `vision_tower.encoder.layers.N.{layer_norm1,layer_norm2}`, `….self_attn.{q,k,v,out}_proj`, `….mlp.{fc1,fc2}`, all with bias;
//! `multi_modal_projector.{linear_1,linear_2}`, `image_newline` `[width]`. `post_layernorm` and a head may exist and are not
//! read: the projector's input is the last layer's states.

use super::{Generation, LlavaConfig, TowerConfig, VisionConfig};
use crate::model::device::{fused::FusedMatrix, tower_ops::Activation};

/// All tensors of a tower.
pub(super) struct TowerParts {
    /// Over the values of a patch.
    pub embed: FusedMatrix,
    /// Positions of the patches of a picture, with the shape.
    pub positions: Option<(String, [usize; 2])>,
    pub layers: Vec<LayerParts>,
    pub projector: ProjectorParts,
    /// The vector that ends a video, with its width.
    pub newline: Option<(String, usize)>,
}

/// A layer norm with a bias, else an RMS norm.
pub(super) struct NormParts {
    /// Without `.weight`.
    pub name: String,
    pub width: usize,
    pub bias: bool,
    pub eps: f32,
}

pub(super) struct LayerParts {
    pub norm1: NormParts,
    pub qkv: FusedMatrix,
    pub output: FusedMatrix,
    pub norm2: NormParts,
    pub mlp: MlpParts,
    /// Attention within windows, else among all patches of a temporal grid.
    pub windows: bool,
}

pub(super) enum MlpParts {
    /// SwiGLU: gates and values, then down.
    Gated { gate_up: FusedMatrix, down: FusedMatrix },
    /// Two linear layers with an activation in between.
    Plain { first: FusedMatrix, activation: Activation, second: FusedMatrix },
}

/// Linear, GELU, linear.
pub(super) struct ProjectorParts {
    /// The norm of its input.
    pub norm: Option<NormParts>,
    /// States of an input row.
    pub joined: usize,
    pub first: FusedMatrix,
    pub second: FusedMatrix,
}

/// Rows of `inputs` values of some tensors.
fn matrix(tensors: &[(&str, usize)], inputs: usize, bias: bool) -> FusedMatrix {
    let tensors = tensors.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
    FusedMatrix { tensors, inputs, bias }
}

impl TowerParts {
    /// The tensors of a tower of these dimensions.
    pub fn of(config: &TowerConfig) -> Self {
        match config {
            TowerConfig::Qwen(config) => Self::qwen(config),
            TowerConfig::Llava(config) => Self::llava(config),
        }
    }

    fn qwen(config: &VisionConfig) -> Self {
        let (d, ffn) = (config.hidden, config.ffn);
        let bias = config.generation == Generation::Qwen2;
        let norm = |name: String| NormParts { name, width: d, bias, eps: config.eps as f32 };
        let layer = |index: usize| {
            let at = |part: &str| format!("visual.blocks.{index}.{part}");
            LayerParts {
                norm1: norm(at("norm1")),
                qkv: matrix(&[(&at("attn.qkv"), 3 * d)], d, true),
                output: matrix(&[(&at("attn.proj"), d)], d, true),
                norm2: norm(at("norm2")),
                mlp: match config.generation {
                    Generation::Qwen25 => MlpParts::Gated {
                        gate_up: matrix(&[(&at("mlp.gate_proj"), ffn), (&at("mlp.up_proj"), ffn)], d, true),
                        down: matrix(&[(&at("mlp.down_proj"), d)], ffn, true),
                    },
                    Generation::Qwen2 => MlpParts::Plain {
                        first: matrix(&[(&at("mlp.fc1"), ffn)], d, true),
                        activation: Activation::QuickGelu,
                        second: matrix(&[(&at("mlp.fc2"), d)], ffn, true),
                    },
                },
                windows: !config.full_attention[index],
            }
        };
        let joined = config.merge * config.merge;
        let width = d * joined;
        Self {
            embed: matrix(&[("visual.patch_embed.proj", d)], config.row(), false),
            positions: None,
            layers: (0..config.depth).map(layer).collect(),
            projector: ProjectorParts {
                norm: Some(norm("visual.merger.ln_q".into())),
                joined,
                first: matrix(&[("visual.merger.mlp.0", width)], width, true),
                second: matrix(&[("visual.merger.mlp.2", config.out)], width, true),
            },
            newline: None,
        }
    }

    fn llava(config: &LlavaConfig) -> Self {
        let (tower, out, bias) = (&config.tower, config.out, config.bias);
        let (d, ffn) = (tower.hidden, tower.ffn);
        let norm = |name: String| NormParts { name, width: d, bias: true, eps: tower.eps as f32 };
        let layer = |index: usize| {
            let at = |part: &str| format!("vision_tower.encoder.layers.{index}.{part}");
            let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
            LayerParts {
                norm1: norm(at("layer_norm1")),
                qkv: matrix(&[(&q, d), (&k, d), (&v, d)], d, true),
                output: matrix(&[(&at("self_attn.out_proj"), d)], d, true),
                norm2: norm(at("layer_norm2")),
                mlp: MlpParts::Plain {
                    first: matrix(&[(&at("mlp.fc1"), ffn)], d, true),
                    activation: Activation::GeluTanh,
                    second: matrix(&[(&at("mlp.fc2"), d)], ffn, true),
                },
                windows: false,
            }
        };
        let positions = "vision_tower.embeddings.position_embedding.weight".to_owned();
        Self {
            embed: matrix(&[("vision_tower.embeddings.patch_embedding", d)], tower.row(), true),
            positions: Some((positions, [tower.side() * tower.side(), d])),
            layers: (0..tower.layers).map(layer).collect(),
            projector: ProjectorParts {
                norm: None,
                joined: 1,
                first: matrix(&[("multi_modal_projector.linear_1", out)], d, bias),
                second: matrix(&[("multi_modal_projector.linear_2", out)], out, bias),
            },
            newline: Some(("image_newline".into(), out)),
        }
    }

    fn norms(&self) -> impl Iterator<Item = &NormParts> {
        let layers = self.layers.iter().flat_map(|layer| [&layer.norm1, &layer.norm2]);
        layers.chain(&self.projector.norm)
    }

    fn matrices(&self) -> impl Iterator<Item = &FusedMatrix> {
        let layers = self.layers.iter().flat_map(|layer| {
            let [first, second] = match &layer.mlp {
                MlpParts::Gated { gate_up: first, down: second } => [first, second],
                MlpParts::Plain { first, second, .. } => [first, second],
            };
            [&layer.qkv, &layer.output, first, second]
        });
        let ends = [&self.embed, &self.projector.first, &self.projector.second];
        layers.chain(ends)
    }
}

/// All tensors that [`super::Tower::load`] reads, by their original names.
pub fn tensors(config: &TowerConfig) -> Vec<(String, Vec<usize>)> {
    let parts = TowerParts::of(config);
    let mut all = Vec::new();
    for norm in parts.norms() {
        all.push((format!("{}.weight", norm.name), vec![norm.width]));
        if norm.bias {
            all.push((format!("{}.bias", norm.name), vec![norm.width]));
        }
    }
    for matrix in parts.matrices() {
        for (name, rows) in &matrix.tensors {
            all.push((format!("{name}.weight"), vec![*rows, matrix.inputs]));
            if matrix.bias {
                all.push((format!("{name}.bias"), vec![*rows]));
            }
        }
    }
    all.extend(parts.positions.map(|(name, shape)| (name, shape.to_vec())));
    all.extend(parts.newline.map(|(name, width)| (name, vec![width])));
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::{checkpoint::Checkpoint, config::VlConfig};

    #[test]
    fn the_list_is_what_towers_in_files_consist_of() {
        for name in ["gqa_tied", "qwen2_vl", "llava_ov"] {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name);
            let checkpoint = Checkpoint::open(&dir).unwrap();
            let listed = tensors(&TowerConfig::of(&VlConfig::read(&dir).unwrap()).unwrap());
            for (tensor, shape) in &listed {
                checkpoint.verify(tensor, shape).unwrap();
            }
            let ours = ["visual", "vision_tower", "multi_modal_projector", "image_newline"];
            let unread = ["post_layernorm", "vision_model.head"];
            let found = checkpoint.tensors().filter(|tensor| {
                ours.iter().any(|part| tensor.name.contains(part))
                    && !unread.iter().any(|part| tensor.name.contains(part))
            });
            assert_eq!(found.count(), listed.len(), "{name}");
        }
    }
}
