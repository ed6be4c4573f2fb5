//! The tower of SmolVLM2: tensors, layout of a picture, work.
//!
//! SigLIP below `vision_model.` (see [`SiglipConfig::parts`]) with its last norm, `vision_model.post_layernorm`, and
//! `connector.modality_projection.proj.weight` `[width, scale² · hidden]`, without a bias.
//!
//! [`SiglipConfig::parts`]: crate::vision::SiglipConfig::parts

use super::SmolVlmVisionConfig;
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::{FrameSize, Grid, ProcessorConfig},
    vision::{
        TowerOutput, TowerRules, TowerSizes,
        parts::{ProjectorParts, TowerParts, matrix},
        places,
    },
};
use specreel_tensor::tower::{Tap, TowerLayout};

impl SmolVlmVisionConfig {
    /// For each state, its patch: the states of a visual token are adjacent, row by row.
    fn order(&self) -> impl Iterator<Item = u32> {
        let side = self.tower.side();
        places::in_squares(side, side, self.scale).map(move |[row, column]| (row * side + column) as u32)
    }

    /// States of a visual token.
    fn joined(&self) -> usize {
        self.scale * self.scale
    }
}

impl TowerRules for SmolVlmVisionConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig::smolvlm(self.tower.image, self.tower.patch, self.scale)
    }

    fn pairs(&self, frames: &ProcessorConfig) -> Vec<(&'static str, usize, usize)> {
        // Pictures of another size would have other positions than the learned ones.
        let FrameSize { height, width } = frames.fixed.unwrap_or_default();
        vec![
            ("patch size", self.tower.patch, frames.patch),
            ("scale factor", self.scale, frames.pool),
            ("picture height", self.tower.image, height),
            ("picture width", self.tower.image, width),
        ]
    }

    fn sizes(&self) -> TowerSizes {
        self.tower.sizes(self.out)
    }

    fn parts(&self) -> TowerParts {
        let (joined, norm) = (self.joined(), self.tower.norm("vision_model.post_layernorm".into()));
        let projection = [("connector.modality_projection.proj", self.out)];
        let projector = ProjectorParts {
            after: self.tower.layers - 1,
            norm: Some(norm),
            joint_norm: None,
            joined,
            first: matrix(&projection, joined * self.tower.hidden, false),
            second: None,
            pooled: false,
        };
        self.tower.parts("vision_model", projector)
    }

    fn mismatch(&self, grid: Grid) -> Option<String> {
        self.tower.mismatch(grid)
    }

    fn positions(&self, _: Grid) -> Option<Vec<Vec<Tap>>> {
        Some(TowerLayout::reordered(self.order()))
    }

    fn layout(&self, _: Grid, output: TowerOutput) -> TowerLayout {
        let order: Vec<u32> = self.order().collect();
        let patches = order.len();
        let (sources, taps) = match output {
            TowerOutput::Embeddings => {
                let tokens = patches / self.joined();
                (tokens, TowerLayout::reordered(0..tokens as u32))
            }
            TowerOutput::States => {
                let mut states = vec![0; patches];
                for (state, patch) in order.iter().enumerate() {
                    states[*patch as usize] = state as u32;
                }
                (patches, TowerLayout::reordered(states))
            }
        };
        TowerLayout {
            heads: self.tower.heads,
            head_dim: self.tower.hidden / self.tower.heads,
            order,
            windows: vec![0..patches; 1],
            angles: None,
            sources,
            taps,
        }
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let products = self.tower.side().pow(2) * self.tower.hidden * self.out;
        self.tower.mac_count(grid, MacCount { products: products as f64, attention: 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_a_token_are_adjacent_and_patches_return_to_their_order() {
        let config = serde_json::json!({"scale_factor": 2, "vision_config": {
            "hidden_size": 32, "image_size": 60, "intermediate_size": 40, "num_attention_heads": 2, "patch_size": 14,
            "num_hidden_layers": 2,
        }});
        let config = SmolVlmVisionConfig::from_json(&config, 64).unwrap();
        let grid = Grid { t: 1, h: 4, w: 4 };
        let layout = config.layout(grid, TowerOutput::States);
        assert_eq!(layout.order, [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15]);
        let restored: Vec<u32> = layout.taps[0].iter().map(|tap| layout.order[tap.row as usize]).collect();
        assert_eq!(restored, (0..16).collect::<Vec<_>>());
        assert_eq!(config.layout(grid, TowerOutput::Embeddings).sources, 4);
        let positions = config.positions(grid).unwrap();
        assert!(positions[0].iter().zip(&layout.order).all(|(tap, patch)| tap.row == *patch));
        assert_eq!(config.mac_count(grid).after.products, (4 * 4 * 32 * 64) as f64);
        assert!(config.mismatch(Grid { h: 2, ..grid }).is_some());
    }
}
