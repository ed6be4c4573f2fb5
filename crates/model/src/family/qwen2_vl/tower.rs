//! The towers of Qwen2-VL and Qwen2.5-VL: tensors, order of patches, windows, work.
//!
//! `visual.patch_embed.proj.weight` `[hidden, 3, 2, patch, patch]`, `visual.blocks.N.{norm1,norm2}`,
//! `visual.blocks.N.attn.{qkv,proj}`, `visual.blocks.N.mlp.{gate,up,down}_proj` (Qwen2-VL: `mlp.{fc1,fc2}`),
//! `visual.merger.{ln_q, mlp.0, mlp.2}`; all linear layers with bias, norms with one in Qwen2-VL only.

use super::{Generation, VisionConfig, windows::Windows};
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::{Grid, ProcessorConfig},
    vision::{
        MergedPatches, TowerOutput, TowerRules, TowerSizes,
        parts::{LayerParts, MlpParts, NormParts, ProjectorParts, TowerParts, matrix},
        places,
    },
};
use specreel_tensor::{
    Gate,
    tower::{Activation, TowerLayout},
};

impl TowerRules for VisionConfig {
    fn processor(&self) -> ProcessorConfig {
        ProcessorConfig::default()
    }

    fn merged(&self) -> Option<MergedPatches> {
        Some(MergedPatches { patch: self.patch, temporal: self.temporal, merge: self.merge })
    }

    fn sizes(&self) -> TowerSizes {
        let Self { out, hidden, heads, ffn, depth: layers, .. } = *self;
        TowerSizes { out, row: self.row(), hidden, heads, ffn, layers }
    }

    fn tokens_per_second(&self) -> Option<f32> {
        self.tokens_per_second
    }

    fn parts(&self) -> TowerParts {
        parts(self)
    }

    fn layout(&self, grid: Grid, output: TowerOutput) -> TowerLayout {
        layout(self, grid, output)
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let products = |products: usize| MacCount { products: products as f64, attention: 0.0 };
        let patches = grid.h * grid.w;
        let cells = patches / (self.merge * self.merge).max(1);
        let width = self.hidden * self.merge * self.merge;
        TowerMacCount {
            grids: grid.t,
            before: products(patches * self.row() * self.hidden),
            layers: self.full_attention.iter().map(|full| layer_macs(self, grid, *full)).collect(),
            after: products(cells * width * (width + self.out)),
        }
    }
}

fn parts(config: &VisionConfig) -> TowerParts {
    let (d, ffn) = (config.hidden, config.ffn);
    let bias = config.generation == Generation::Qwen2;
    let norm = |name: String| NormParts { name, width: d, bias, eps: config.eps as f32, unit: false };
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
                    gate: Gate::Silu,
                    down: matrix(&[(&at("mlp.down_proj"), d)], ffn, true),
                },
                Generation::Qwen2 => MlpParts::Plain {
                    first: matrix(&[(&at("mlp.fc1"), ffn)], d, true),
                    activation: Activation::QuickGelu,
                    second: matrix(&[(&at("mlp.fc2"), d)], ffn, true),
                },
            },
            windows: !config.full_attention[index],
            heads: None,
            after: None,
            bounded: false,
            joined: 1,
        }
    };
    let joined = config.merge * config.merge;
    let width = d * joined;
    TowerParts {
        embed: matrix(&[("visual.patch_embed.proj", d)], config.row(), false),
        positions: None,
        layers: (0..config.depth).map(layer).collect(),
        projectors: vec![ProjectorParts {
            after: config.depth - 1,
            norm: Some(norm("visual.merger.ln_q".into())),
            joint_norm: None,
            joined,
            first: matrix(&[("visual.merger.mlp.0", width)], width, true),
            second: Some(matrix(&[("visual.merger.mlp.2", config.out)], width, true)),
            pooled: false,
        }],
        newline: None,
    }
}

/// States are in the order of windows, cell by cell; a visual token for each cell.
fn layout(config: &VisionConfig, grid: Grid, output: TowerOutput) -> TowerLayout {
    let (cell, columns) = (config.merge * config.merge, grid.w / config.merge);
    let windows = Windows::new(grid.h / config.merge, columns, config.window);
    let cells = windows.order.iter().map(|cell| [*cell as usize / columns, *cell as usize % columns]);
    let places = cells.flat_map(|cell| places::in_square(cell, config.merge));
    let patches = |&token: &u32| (0..cell as u32).map(move |patch| token * cell as u32 + patch);
    let restored = windows.restore.iter();
    let (sources, taps) = match output {
        TowerOutput::Embeddings => (windows.restore.len(), TowerLayout::reordered(restored.copied())),
        TowerOutput::States => {
            (windows.restore.len() * cell, TowerLayout::reordered(restored.flat_map(patches)))
        }
    };
    TowerLayout {
        heads: config.heads,
        head_dim: config.head_dim(),
        order: windows.order.iter().flat_map(patches).collect(),
        windows: windows.ranges(cell),
        angles: Some(places::angles(config.head_dim(), places::THETA, places)),
        sources,
        taps,
    }
}

fn layer_macs(c: &VisionConfig, grid: Grid, full: bool) -> MacCount {
    let (d, patches) = (c.hidden, grid.h * grid.w);
    let mlp = match c.generation {
        Generation::Qwen2 => 2,
        Generation::Qwen25 => 3,
    };
    let pairs = if full {
        (patches as f64).powi(2)
    } else {
        // Windows at the right and the bottom may be smaller.
        let merge = c.merge.max(1);
        let along = |side: usize| {
            let (cells, window) = (side / merge, c.window.max(1));
            let rest = cells % window;
            (cells / window * window * window + rest * rest) as f64
        };
        along(grid.h) * along(grid.w) * (merge as f64).powi(4)
    };
    MacCount { products: (patches * d * (4 * d + mlp * c.ffn)) as f64, attention: 2.0 * d as f64 * pairs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cost_less_than_the_whole_grid() {
        // 6 x 5 cells: a window of 4 x 4, and smaller ones at the edges.
        let grid = Grid { t: 1, h: 12, w: 10 };
        let c = VisionConfig::from_json(
            &serde_json::json!({
                "depth": 4, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
                "window_size": 112, "fullatt_block_indexes": [3],
            }),
            Generation::Qwen25,
        )
        .unwrap();
        let (window, full) = (layer_macs(&c, grid, false), layer_macs(&c, grid, true));
        assert_eq!(window.products, full.products);
        assert_eq!(full.attention, 64.0 * 120.0 * 120.0);
        // (16 + 4) x (16 + 1) pairs of cells, of 16 pairs of patches.
        assert_eq!(window.attention, 64.0 * 20.0 * 17.0 * 16.0);
    }
}
