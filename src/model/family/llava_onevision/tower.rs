//! The tower of LLaVA-OneVision: tensors, layout of a picture, work.
//!
//! `vision_tower.embeddings.patch_embedding.{weight,bias}` `[hidden, 3, patch, patch]`,
//! `vision_tower.embeddings.position_embedding.weight` `[patches, hidden]`,
//! `vision_tower.encoder.layers.N.{layer_norm1,layer_norm2}`, `….self_attn.{q,k,v,out}_proj`, `….mlp.{fc1,fc2}`, all with bias;
//! `multi_modal_projector.{linear_1,linear_2}`, `image_newline` `[width]`. `post_layernorm` and a head may exist and are not
//! read: the projector's input is the last layer's states.

use super::{LlavaConfig, POOL, config::taps};
use crate::model::{
    device::tower_ops::{Activation, TowerLayout},
    processor::{Grid, ProcessorConfig},
    vision::{
        Output, TowerRules,
        parts::{LayerParts, MlpParts, NormParts, ProjectorParts, TowerParts, matrix},
    },
    work::{Macs, TowerWork},
};

impl TowerRules for LlavaConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig::pictures(self.tower.image, self.tower.patch, POOL)
    }

    fn pairs(&self, frames: &ProcessorConfig) -> Vec<(&'static str, usize, usize)> {
        let (height, width) = frames.fixed.unwrap_or_default();
        vec![
            ("patch size", self.tower.patch, frames.patch),
            ("picture height", self.tower.image, height),
            ("picture width", self.tower.image, width),
        ]
    }

    fn out(&self) -> usize {
        self.out
    }

    fn row(&self) -> usize {
        self.tower.row()
    }

    fn hidden(&self) -> usize {
        self.tower.hidden
    }

    fn heads(&self) -> usize {
        self.tower.heads
    }

    fn ffn(&self) -> usize {
        self.tower.ffn
    }

    fn layers(&self) -> usize {
        self.tower.layers
    }

    fn parts(&self) -> TowerParts {
        parts(self)
    }

    fn mismatch(&self, grid: Grid) -> Option<String> {
        let side = self.tower.side();
        ((grid.h, grid.w) != (side, side)).then(|| format!("expected {side}x{side} patches a frame"))
    }

    fn layout(&self, _: Grid, output: Output) -> TowerLayout {
        layout(self, output)
    }

    fn work(&self, grid: Grid) -> TowerWork {
        let LlavaConfig { tower, out, .. } = self;
        let products = |products: usize| Macs { products: products as f64, attention: 0.0 };
        let (patches, d) = (tower.side().pow(2), tower.hidden);
        let layer = Macs {
            products: (patches * d * (4 * d + 2 * tower.ffn)) as f64,
            attention: 2.0 * d as f64 * (patches as f64).powi(2),
        };
        TowerWork {
            grids: grid.t,
            before: products(patches * tower.row() * d),
            layers: vec![layer; tower.layers],
            after: products(patches * out * (d + out)),
        }
    }
}

fn parts(config: &LlavaConfig) -> TowerParts {
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
    TowerParts {
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

/// All patches of a picture attend to each other; their states are pooled.
fn layout(LlavaConfig { tower, .. }: &LlavaConfig, output: Output) -> TowerLayout {
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
            Output::Embeddings => taps(tower.side(), tower.side().div_ceil(POOL)),
            Output::States => TowerLayout::reordered(order),
        },
    }
}
