//! The tower of MiniCPM-V 4.6: tensors, order of patches, positions, work.
//!
//! SigLIP below `vision_tower.` (see [`SiglipConfig::parts`]) with its last norm, `vision_tower.post_layernorm`. After one of the
//! layers, `vision_tower.vit_merger.{layer_norm1,self_attn.{q,k,v,out}_proj}` attends within squares of four states, and
//! `vision_tower.vit_merger.{pre_norm,linear_1,linear_2}` makes one of them. `merger.mlp.0.{pre_norm,linear_1,linear_2}` makes a
//! visual token of four states. All have biases.
//!
//! [`SiglipConfig::parts`]: crate::vision::SiglipConfig::parts

use super::MiniCpmVisionConfig;
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

/// Epsilon of the projector's norm, which no file has.
const EPS: f32 = 1e-6;

/// Side of a square of states that become one.
const SIDE: usize = 2;
const SQUARE: usize = SIDE * SIDE;

impl MiniCpmVisionConfig {
    /// For each state before the first that is joined, its patch. Patches of a visual token are adjacent, row by row; states that
    /// become one are too.
    fn order(&self, patches: usize) -> impl Iterator<Item = u32> {
        let merge = self.merge();
        let in_token: Vec<usize> =
            places::in_squares(merge, merge, SIDE).map(|[row, column]| row * merge + column).collect();
        let tokens = patches / in_token.len();
        (0..tokens).flat_map(move |token| {
            let first = token * in_token.len();
            in_token.clone().into_iter().map(move |patch| (first + patch) as u32)
        })
    }

    fn layout_of(&self, states: usize, order: Vec<u32>, taps: Vec<Vec<Tap>>) -> TowerLayout {
        TowerLayout {
            heads: self.tower.heads,
            head_dim: self.tower.hidden / self.tower.heads,
            order,
            windows: (0..states / SQUARE).map(|square| square * SQUARE..(square + 1) * SQUARE).collect(),
            angles: None,
            sources: states,
            taps,
        }
    }

    /// The layout of the last layers' states.
    fn last_layout(&self, states: usize, output: TowerOutput) -> TowerLayout {
        let sources = match output {
            TowerOutput::Embeddings => states / SQUARE,
            TowerOutput::States => states,
        };
        let taps = TowerLayout::reordered(0..sources as u32);
        TowerLayout { sources, ..self.layout_of(states, (0..states as u32).collect(), taps) }
    }

    /// The layer that joins squares of states.
    fn joining(&self) -> LayerParts {
        let (d, at) = (self.tower.hidden, |part: &str| format!("vision_tower.vit_merger.{part}"));
        let [q, k, v] = ["q", "k", "v"].map(|part| at(&format!("self_attn.{part}_proj")));
        LayerParts {
            norm1: self.tower.norm(at("layer_norm1")),
            qkv: matrix(&[(&q, d), (&k, d), (&v, d)], d, true),
            output: matrix(&[(&at("self_attn.out_proj"), d)], d, true),
            norm2: NormParts { width: SQUARE * d, ..self.tower.norm(at("pre_norm")) },
            mlp: MlpParts::Plain {
                first: matrix(&[(&at("linear_1"), SQUARE * self.tower.ffn)], SQUARE * d, true),
                activation: Activation::GeluTanh,
                second: matrix(&[(&at("linear_2"), d)], SQUARE * self.tower.ffn, true),
            },
            windows: true,
            heads: None,
            after: None,
            bounded: false,
            joined: SQUARE,
        }
    }
}

impl TowerRules for MiniCpmVisionConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig::minicpmv(self.tower.patch, self.merge())
    }

    fn merged(&self) -> Option<MergedPatches> {
        Some(MergedPatches { patch: self.tower.patch, temporal: 1, merge: self.merge() })
    }

    fn pairs(&self, frames: &ProcessorConfig) -> Vec<(&'static str, usize, usize)> {
        vec![
            ("patch size", self.tower.patch, frames.patch),
            ("a downsample_mode with visual tokens whose side in patches is", self.merge(), frames.merge),
        ]
    }

    fn sizes(&self) -> TowerSizes {
        self.tower.sizes(self.out)
    }

    fn parts(&self) -> TowerParts {
        let width = SQUARE * self.tower.hidden;
        let at = |part: &str| format!("merger.mlp.0.{part}");
        let projector = ProjectorParts {
            after: self.tower.layers - 1 + usize::from(self.joins_after.is_some()),
            norm: Some(self.tower.norm("vision_tower.post_layernorm".into())),
            joint_norm: Some(NormParts { name: at("pre_norm"), width, bias: true, eps: EPS, unit: false }),
            joined: SQUARE,
            first: matrix(&[(&at("linear_1"), width)], width, true),
            second: Some(matrix(&[(&at("linear_2"), self.out)], width, true)),
            pooled: false,
        };
        let mut parts = self.tower.parts("vision_tower", projector);
        if let Some(layer) = self.joins_after {
            parts.layers.insert(layer + 1, self.joining());
        }
        parts
    }

    /// Of a table of positions for any number of patches along a side, each patch takes the row at its own share of the frame.
    fn positions(&self, Grid { h, w, .. }: Grid) -> Option<Vec<Vec<Tap>>> {
        let side = self.tower.side();
        let places: Vec<[usize; 2]> = places::in_squares(h, w, self.merge()).collect();
        let row = |patch: u32| {
            let [row, column] = places[patch as usize];
            (side * row / h * side + side * column / w) as u32
        };
        Some(TowerLayout::reordered(self.order(h * w).map(row)))
    }

    /// All states of a frame attend to each other, or only the states within a square.
    fn layout(&self, Grid { h, w, .. }: Grid, output: TowerOutput) -> TowerLayout {
        let patches = h * w;
        if self.joins_after.is_none() {
            return self.last_layout(patches, output);
        }
        let mean = |nth: usize| {
            let row =
                move |square: usize| Tap { row: (square * SQUARE + nth) as u32, weight: 1.0 / SQUARE as f32 };
            (0..patches / SQUARE).map(row).collect()
        };
        self.layout_of(patches, self.order(patches).collect(), (0..SQUARE).map(mean).collect())
    }

    fn merged_layout(&self, Grid { h, w, .. }: Grid, output: TowerOutput) -> Option<TowerLayout> {
        self.joins_after.map(|_| self.last_layout(h * w / SQUARE, output))
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let (d, ffn) = (self.tower.hidden, self.tower.ffn);
        let count = |products: usize, attention: f64| MacCount { products: products as f64, attention };
        let layer =
            |states: usize| count(states * d * (4 * d + 2 * ffn), 2.0 * d as f64 * (states as f64).powi(2));
        let patches = grid.h * grid.w;
        let joined = patches / SQUARE;
        let (before, after) = match self.joins_after {
            Some(layer) => (layer + 1, self.tower.layers - layer - 1),
            None => (self.tower.layers, 0),
        };
        let mut layers = vec![layer(patches); before];
        let mut states = patches;
        if self.joins_after.is_some() {
            // A square's feed-forward layer is four times as wide, and takes four times as many values.
            let products = patches * 4 * d * d + joined * SQUARE * ffn * (SQUARE + 1) * d;
            layers.push(count(products, 2.0 * (d * patches * SQUARE) as f64));
            layers.extend(vec![layer(joined); after]);
            states = joined;
        }
        let width = SQUARE * d;
        TowerMacCount {
            grids: grid.t,
            before: count(patches * self.tower.row() * d, 0.0),
            layers,
            after: count(states / SQUARE * width * (width + self.out), 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mode: &str) -> MiniCpmVisionConfig {
        let config = serde_json::json!({"downsample_mode": mode, "insert_layer_id": 1, "vision_config": {
            "hidden_size": 32, "image_size": 98, "intermediate_size": 40, "num_attention_heads": 2, "patch_size": 14,
            "num_hidden_layers": 4,
        }});
        MiniCpmVisionConfig::from_json(&config, 64).unwrap()
    }

    #[test]
    fn states_that_become_one_are_adjacent() {
        let (grid, config) = (Grid { t: 1, h: 4, w: 8 }, config("16x"));
        let layout = config.layout(grid, TowerOutput::Embeddings);
        // The first token's squares: patches of a token are row by row.
        assert_eq!(layout.order[..16], [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
        assert_eq!(layout.order[16], 16);
        assert_eq!((layout.windows.len(), layout.windows[1].clone(), layout.results()), (8, 4..8, 8));
        assert_eq!(layout.taps.iter().map(|taps| taps[1].row).collect::<Vec<_>>(), [4, 5, 6, 7]);
        let merged = config.merged_layout(grid, TowerOutput::Embeddings).unwrap();
        assert_eq!((merged.order.len(), merged.sources, merged.results()), (8, 2, 2));
        assert_eq!(config.merged_layout(grid, TowerOutput::States).unwrap().results(), 8);
        assert!(config.mismatch(Grid { h: 6, ..grid }).is_some());
    }

    #[test]
    fn four_patches_are_a_token_where_no_states_are_joined() {
        let (grid, config) = (Grid { t: 1, h: 2, w: 6 }, config("4x"));
        let layout = config.layout(grid, TowerOutput::Embeddings);
        assert_eq!((layout.order, layout.sources), ((0..12).collect(), 3));
        assert!(
            config.merged_layout(grid, TowerOutput::Embeddings).is_none() && config.mismatch(grid).is_none()
        );
        assert!(config.parts().layers.iter().all(|layer| layer.joined == 1));
    }

    /// As `floor(side · i / n)` on each axis.
    #[test]
    fn a_patch_has_the_position_of_its_share_of_the_frame() {
        let config = config("4x");
        let taps = config.positions(Grid { t: 1, h: 2, w: 4 }).unwrap();
        let rows: Vec<u32> = taps[0].iter().map(|tap| tap.row).collect();
        // Square by square: columns 0, 1, 3, 5 and rows 0, 3 of seven.
        assert_eq!(rows, [0, 1, 21, 22, 3, 5, 24, 26]);
        assert!(taps[0].iter().all(|tap| tap.weight == 1.0));
    }

    #[test]
    fn work_shrinks_after_the_joining_layer() {
        let grid = Grid { t: 3, h: 4, w: 8 };
        let (four, sixteen) = (config("4x").mac_count(grid), config("16x").mac_count(grid));
        assert_eq!((four.layers.len(), sixteen.layers.len()), (4, 5));
        assert_eq!(sixteen.layers[..2], four.layers[..2]);
        assert_eq!(sixteen.layers[3].products * 4.0, four.layers[2].products);
        assert_eq!(sixteen.layers[3].attention * 16.0, four.layers[2].attention);
        // Four projections of 32 x 32 for each of 32 patches, and 128 x 160 x 32 for each of eight squares.
        assert_eq!(sixteen.layers[2].products, (32 * 4 * 32 * 32 + 8 * (128 * 160 + 160 * 32)) as f64);
        assert_eq!(sixteen.after.products * 4.0, four.after.products);
        assert_eq!(config("16x").parts().layers.len(), 5);
        assert_eq!(config("16x").parts().projectors[0].after, 4);
    }
}
