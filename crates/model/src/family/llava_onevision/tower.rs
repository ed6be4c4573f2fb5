//! The tower of LLaVA-OneVision: tensors, layout of a picture, work.
//!
//! SigLIP below `vision_tower.` (see [`SiglipConfig::parts`]), `multi_modal_projector.{linear_1,linear_2}`, `image_newline`
//! `[width]`. `post_layernorm` and a head may exist and are not read: the projector's input is the last layer's states.
//!
//! [`SiglipConfig::parts`]: crate::vision::SiglipConfig::parts

use super::{LlavaConfig, POOL, config::taps};
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::{FrameSize, Grid, ProcessorConfig},
    vision::{
        TowerOutput, TowerRules, TowerSizes,
        parts::{ProjectorParts, TowerParts, matrix},
    },
};
use specreel_tensor::tower::TowerLayout;

impl TowerRules for LlavaConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig::pictures(self.tower.image, self.tower.patch, POOL)
    }

    fn pairs(&self, frames: &ProcessorConfig) -> Vec<(&'static str, usize, usize)> {
        let FrameSize { height, width } = frames.fixed.unwrap_or_default();
        vec![
            ("patch size", self.tower.patch, frames.patch),
            ("picture height", self.tower.image, height),
            ("picture width", self.tower.image, width),
        ]
    }

    fn sizes(&self) -> TowerSizes {
        self.tower.sizes(self.out)
    }

    fn parts(&self) -> TowerParts {
        parts(self)
    }

    fn mismatch(&self, grid: Grid) -> Option<String> {
        self.tower.mismatch(grid)
    }

    fn layout(&self, _: Grid, output: TowerOutput) -> TowerLayout {
        layout(self, output)
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let LlavaConfig { tower, out, .. } = self;
        let products = tower.side().pow(2) * out * (tower.hidden + out);
        tower.mac_count(grid, MacCount { products: products as f64, attention: 0.0 })
    }
}

fn parts(LlavaConfig { tower, bias, out }: &LlavaConfig) -> TowerParts {
    let projector = ProjectorParts {
        after: tower.layers - 1,
        norm: None,
        joint_norm: None,
        joined: 1,
        first: matrix(&[("multi_modal_projector.linear_1", *out)], tower.hidden, *bias),
        second: Some(matrix(&[("multi_modal_projector.linear_2", *out)], *out, *bias)),
        pooled: false,
    };
    TowerParts { newline: Some(("image_newline".into(), *out)), ..tower.parts("vision_tower", projector) }
}

/// All patches of a picture attend to each other; their states are pooled.
fn layout(LlavaConfig { tower, .. }: &LlavaConfig, output: TowerOutput) -> TowerLayout {
    let patches = tower.side() * tower.side();
    let order = 0..patches as u32;
    TowerLayout {
        heads: tower.heads,
        head_dim: tower.hidden / tower.heads,
        order: order.clone().collect(),
        windows: vec![0..patches; 1],
        angles: None,
        sources: patches,
        taps: match output {
            TowerOutput::Embeddings => taps(tower.side(), tower.side().div_ceil(POOL)),
            TowerOutput::States => TowerLayout::reordered(order),
        },
    }
}
