//! The tensors of the towers: names, shapes and uses.

use super::TowerConfig;
use specreel_tensor::{Gate, Importance, fused::FusedMatrix, tower::Activation};

pub(crate) struct TowerParts {
    /// Over the values of a patch.
    pub embed: FusedMatrix,
    /// The table of learned positions, with its shape: its last axis is the width of the states.
    pub positions: Option<(String, Vec<usize>)>,
    pub layers: Vec<LayerParts>,
    /// One for each embedding of a visual token, in the order of its row.
    pub(crate) projectors: Vec<ProjectorParts>,
    /// The vector that ends a video, with its width.
    pub newline: Option<(String, usize)>,
}

/// A layer norm with a bias, else an RMS norm.
pub(crate) struct NormParts {
    /// Without `.weight`.
    pub name: String,
    pub width: usize,
    pub bias: bool,
    pub eps: f32,
    /// Its weights are 1, and in no file.
    pub unit: bool,
}

/// Norms of queries and keys in each head, and of values without weights, before scores that are not divided by the root of the
/// heads' width.
pub(crate) struct HeadParts {
    /// The weights for queries and keys.
    pub names: [String; 2],
    pub eps: f32,
    /// The order of a head's values in which those that are rotated together are half a head apart.
    pub order: Vec<usize>,
}

pub(crate) struct LayerParts {
    pub(crate) norm1: NormParts,
    pub qkv: FusedMatrix,
    pub output: FusedMatrix,
    pub(crate) norm2: NormParts,
    pub mlp: MlpParts,
    /// Attention within windows, else among all patches of a temporal grid.
    pub windows: bool,
    pub heads: Option<HeadParts>,
    /// Norms of what attention and the feed-forward layer add.
    pub after: Option<[NormParts; 2]>,
    /// The inputs and outputs of matrices are bounded, by values of files.
    pub bounded: bool,
    /// States that the feed-forward layer takes together: they become one, its result and their mean. 1 in most layers.
    pub joined: usize,
}

pub(crate) enum MlpParts {
    /// Gates and values, then down.
    Gated { gate_up: FusedMatrix, gate: Gate, down: FusedMatrix },
    /// Two linear layers with an activation in between.
    Plain { first: FusedMatrix, activation: Activation, second: FusedMatrix },
}

/// From states to an embedding of each visual token: linear, or linear, GELU, linear.
pub(crate) struct ProjectorParts {
    /// The layer whose states it takes, counted from 0.
    pub after: usize,
    /// The norm of its input: of each state, or of all states of an input row together, as its width says.
    pub norm: Option<NormParts>,
    /// A second norm, of all states of an input row together, after one of each state.
    pub joint_norm: Option<NormParts>,
    /// States of an input row.
    pub joined: usize,
    pub first: FusedMatrix,
    pub second: Option<FusedMatrix>,
    /// It takes what the layout's taps make of the states.
    pub pooled: bool,
}

/// Rows of `inputs` values of some tensors.
pub(crate) fn matrix(tensors: &[(&str, usize)], inputs: usize, bias: bool) -> FusedMatrix {
    let tensors = tensors.iter().map(|(name, rows)| ((*name).to_owned(), *rows)).collect();
    FusedMatrix { tensors, inputs, bias, importance: Importance::Usual }
}

/// The bounds of a matrix's inputs and outputs, of tensors whose names end with these.
pub(crate) const BOUNDS: [&str; 4] = ["input_min", "input_max", "output_min", "output_max"];

impl LayerParts {
    /// The matrices of a layer.
    pub(crate) fn matrices(&self) -> [&FusedMatrix; 4] {
        let [first, second] = match &self.mlp {
            MlpParts::Gated { gate_up: first, down: second, .. } => [first, second],
            MlpParts::Plain { first, second, .. } => [first, second],
        };
        [&self.qkv, &self.output, first, second]
    }

    /// The names of the bounds of all matrices.
    fn bounds(&self) -> Vec<String> {
        let tensors = self.matrices().into_iter().flat_map(|matrix| &matrix.tensors);
        tensors.flat_map(|(name, _)| BOUNDS.map(|bound| bound_of(name, bound))).collect()
    }
}

/// A bound lies beside the matrix: `….q_proj.input_min` for `….q_proj.linear.weight`.
pub(crate) fn bound_of(matrix: &str, bound: &str) -> String {
    format!("{}.{bound}", matrix.trim_end_matches(".linear"))
}

impl TowerParts {
    fn norms(&self) -> impl Iterator<Item = &NormParts> {
        let layers = self
            .layers
            .iter()
            .flat_map(|layer| [&layer.norm1, &layer.norm2].into_iter().chain(layer.after.iter().flatten()));
        let projectors =
            self.projectors.iter().flat_map(|projector| [&projector.norm, &projector.joint_norm]);
        layers.chain(projectors.flatten())
    }

    /// Weights of the first and the last matrices, which have more bits than the others in a tower of 8 bits.
    pub fn ends(&self) -> usize {
        let projectors = self.projectors.iter();
        let projectors =
            projectors.flat_map(|projector| [&projector.first].into_iter().chain(&projector.second));
        std::iter::once(&self.embed).chain(projectors).map(|matrix| matrix.inputs * matrix.outputs()).sum()
    }

    fn matrices(&self) -> impl Iterator<Item = &FusedMatrix> {
        let layers = self.layers.iter().flat_map(LayerParts::matrices);
        let projectors = self
            .projectors
            .iter()
            .flat_map(|projector| [&projector.first].into_iter().chain(&projector.second));
        std::iter::once(&self.embed).chain(layers).chain(projectors)
    }
}

/// All tensors that [`super::Tower::load`] reads, by their original names.
pub fn tensors(config: &TowerConfig) -> Vec<(String, Vec<usize>)> {
    let parts = config.rules().parts();
    let mut all = Vec::new();
    for norm in parts.norms().filter(|norm| !norm.unit) {
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
    for layer in &parts.layers {
        let width = config.head_dim();
        all.extend(layer.heads.iter().flat_map(|heads| heads.names.clone()).map(|name| (name, vec![width])));
        if layer.bounded {
            all.extend(layer.bounds().into_iter().map(|name| (name, Vec::new())));
        }
    }
    all.extend(parts.positions);
    all.extend(parts.newline.map(|(name, width)| (name, vec![width])));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{family::VlConfig, testing::fixture};
    use specreel_checkpoint::Checkpoint;
    use specreel_tensor::Weights;

    #[test]
    fn the_list_is_what_towers_in_files_consist_of() {
        for name in [
            "gqa_tied",
            "qwen2_vl",
            "llava_ov",
            "qwen3_vl",
            "smolvlm",
            "qwen3_5",
            "minicpmv4_6",
            "minicpmv4_6_4x",
            "gemma4",
        ] {
            let dir = fixture(name);
            let checkpoint = Checkpoint::open(&dir).unwrap();
            let listed = tensors(&VlConfig::read(&dir).unwrap().tower().unwrap());
            for (tensor, shape) in &listed {
                checkpoint.verify(tensor, shape).unwrap();
            }
            // SmolVLM2 reads SigLIP's last norm, LLaVA-OneVision does not. Without a layer that joins states, it is not read.
            let unread = [
                "vision_tower.vision_model.post_layernorm",
                "vision_model.head",
                if name == "minicpmv4_6_4x" { "vit_merger" } else { "none" },
            ];
            let found = checkpoint.tensors().filter(|tensor| {
                !tensor.name.contains("lm_head")
                    && !["model.layers.", "language_model.", "text_model.", "model.norm.", "embed_tokens."]
                        .iter()
                        .any(|part| tensor.name.contains(part))
                    && !unread.iter().any(|part| tensor.name.contains(part))
            });
            assert_eq!(found.count(), listed.len(), "{name}");
        }
    }
}
