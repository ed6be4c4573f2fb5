//! The tower of Qwen3-VL: tensors, order of patches, positions, work.
//!
//! `visual.patch_embed.proj.{weight,bias}` `[hidden, 3, 2, patch, patch]`, `visual.pos_embed.weight` `[positions, hidden]`,
//! `visual.blocks.N.{norm1,norm2}`, `visual.blocks.N.attn.{qkv,proj}`, `visual.blocks.N.mlp.{linear_fc1,linear_fc2}`;
//! `visual.merger.{norm,linear_fc1,linear_fc2}`, whose norm is over each state, and
//! `visual.deepstack_merger_list.N.{norm,linear_fc1,linear_fc2}`, whose norm is over the joined states. All have biases.

use super::VisionConfig;
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::{Grid, ProcessorConfig},
    vision::{
        MergedPatches, TowerOutput, TowerRules, TowerSizes,
        parts::{LayerParts, MlpParts, NormParts, ProjectorParts, TowerParts, matrix},
        places,
    },
};
use specreel_tensor::tower::{Activation, Tap, TowerLayout};

/// Epsilon of the norms, which no file has.
const EPS: f32 = 1e-6;

impl VisionConfig {
    fn row(&self) -> usize {
        3 * self.temporal * self.patch * self.patch
    }

    /// States of a merged cell.
    fn joined(&self) -> usize {
        self.merge * self.merge
    }
}

impl TowerRules for VisionConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig {
            patch: self.patch,
            temporal: self.temporal,
            merge: self.merge,
            ..ProcessorConfig::qwen3_vl()
        }
    }

    fn merged(&self) -> Option<MergedPatches> {
        Some(MergedPatches { patch: self.patch, temporal: self.temporal, merge: self.merge })
    }

    fn sizes(&self) -> TowerSizes {
        let Self { out, hidden, heads, ffn, depth: layers, .. } = *self;
        TowerSizes { out, row: self.row(), hidden, heads, ffn, layers }
    }

    fn embeddings(&self) -> usize {
        1 + self.deepstack.len()
    }

    fn parts(&self) -> TowerParts {
        parts(self)
    }

    fn positions(&self, Grid { h, w, .. }: Grid) -> Option<Vec<Vec<Tap>>> {
        Some(places::interpolated(places::in_squares(h, w, self.merge), [h, w], self.side))
    }

    /// States are in the order of the patches, cell by cell; all of a temporal grid attend to each other.
    fn layout(&self, Grid { h, w, .. }: Grid, output: TowerOutput) -> TowerLayout {
        let (patches, head_dim) = (h * w, self.hidden / self.heads);
        let sources = match output {
            TowerOutput::Embeddings => patches / self.joined(),
            TowerOutput::States => patches,
        };
        TowerLayout {
            heads: self.heads,
            head_dim,
            order: (0..patches as u32).collect(),
            windows: vec![0..patches; 1],
            angles: Some(places::angles(head_dim, self.theta, places::in_squares(h, w, self.merge))),
            sources,
            taps: TowerLayout::reordered(0..sources as u32),
        }
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let products = |products: usize| MacCount { products: products as f64, attention: 0.0 };
        let (d, patches) = (self.hidden, grid.h * grid.w);
        let width = d * self.joined();
        let merger = products(patches / self.joined() * width * (width + self.out));
        let layer = MacCount {
            products: (patches * d * (4 * d + 2 * self.ffn)) as f64,
            attention: 2.0 * d as f64 * (patches as f64).powi(2),
        };
        let with_merger = |index: usize| if self.deepstack.contains(&index) { layer + merger } else { layer };
        TowerMacCount {
            grids: grid.t,
            before: products(patches * self.row() * d),
            layers: (0..self.depth).map(with_merger).collect(),
            after: merger,
        }
    }
}

fn parts(config: &VisionConfig) -> TowerParts {
    let (d, ffn) = (config.hidden, config.ffn);
    let norm = |name: String, width| NormParts { name, width, bias: true, eps: EPS, unit: false };
    let layer = |index: usize| {
        let at = |part: &str| format!("visual.blocks.{index}.{part}");
        LayerParts {
            norm1: norm(at("norm1"), d),
            qkv: matrix(&[(&at("attn.qkv"), 3 * d)], d, true),
            output: matrix(&[(&at("attn.proj"), d)], d, true),
            norm2: norm(at("norm2"), d),
            mlp: MlpParts::Plain {
                first: matrix(&[(&at("mlp.linear_fc1"), ffn)], d, true),
                activation: Activation::GeluTanh,
                second: matrix(&[(&at("mlp.linear_fc2"), d)], ffn, true),
            },
            windows: false,
            heads: None,
            after: None,
            bounded: false,
            joined: 1,
        }
    };
    let (joined, width) = (config.joined(), config.joined() * d);
    let merger = |name: &str, after: usize, normed: usize| {
        let at = |part: &str| format!("visual.{name}.{part}");
        ProjectorParts {
            after,
            norm: Some(norm(at("norm"), normed)),
            joint_norm: None,
            joined,
            first: matrix(&[(&at("linear_fc1"), width)], width, true),
            second: Some(matrix(&[(&at("linear_fc2"), config.out)], width, true)),
            pooled: false,
        }
    };
    let levels = config.deepstack.iter().enumerate();
    let levels = levels.map(|(nth, after)| merger(&format!("deepstack_merger_list.{nth}"), *after, width));
    TowerParts {
        embed: matrix(&[("visual.patch_embed.proj", d)], config.row(), true),
        positions: Some(("visual.pos_embed.weight".to_owned(), vec![config.side * config.side, d])),
        layers: (0..config.depth).map(layer).collect(),
        projectors: std::iter::once(merger("merger", config.depth - 1, d)).chain(levels).collect(),
        newline: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(deepstack: &[usize]) -> VisionConfig {
        let config = serde_json::json!({
            "deepstack_visual_indexes": deepstack, "depth": 4, "hidden_size": 32, "intermediate_size": 48,
            "num_heads": 2, "num_position_embeddings": 9, "out_hidden_size": 64,
        });
        VisionConfig::from_json(&config).unwrap()
    }

    #[test]
    fn work_of_a_merger_counts_with_the_layer_before_it() {
        let grid = Grid { t: 3, h: 4, w: 6 };
        let (plain, deep) = (config(&[]).mac_count(grid), config(&[1, 3]).mac_count(grid));
        // Six cells of 4 x 32 values, through 128 x 128 and 128 x 64.
        let merger = MacCount { products: 6.0 * 128.0 * (128.0 + 64.0), attention: 0.0 };
        assert_eq!(plain.after, merger);
        assert_eq!(plain.layers[1].attention, 2.0 * 32.0 * 24.0 * 24.0);
        let added: Vec<MacCount> = deep.layers.iter().zip(&plain.layers).map(|(a, b)| *a - *b).collect();
        assert_eq!(added, [MacCount::default(), merger, MacCount::default(), merger]);
        assert_eq!(deep.total(), plain.total() + merger * 6.0);
    }

    #[test]
    fn every_level_has_a_merger() {
        let config = config(&[0, 2]);
        assert_eq!(config.embeddings(), 3);
        let parts = config.parts();
        let after: Vec<usize> = parts.projectors.iter().map(|projector| projector.after).collect();
        assert_eq!(after, [3, 0, 2]);
        let normed: Vec<usize> =
            parts.projectors.iter().flat_map(|p| &p.norm).map(|norm| norm.width).collect();
        assert_eq!(normed, [32, 128, 128]);
    }
}
