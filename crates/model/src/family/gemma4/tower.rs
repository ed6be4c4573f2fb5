//! The tower of Gemma 4: tensors, order of patches, positions, pooling, work.
//!
//! `vision_tower.patch_embedder.input_proj.weight` `[hidden, 3 · patch²]`, whose inputs are the pixels of a patch with their three colors
//! together (in GGUF files color by color); `….position_embedding_table` `[2, table, hidden]`, for columns and rows; `vision_tower.encoder.layers.N.{input_layernorm,
//! post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm}`, `….self_attn.{q,k,v,o}_proj.linear`,
//! `….self_attn.{q,k}_norm`, `….mlp.{gate,up,down}_proj.linear`, next to each matrix perhaps its bounds; and
//! `embed_vision.embedding_projection` `[width, hidden]`. There are no biases.

use super::GemmaVisionConfig;
use crate::{
    mac_count::{MacCount, TowerMacCount},
    processor::{Grid, ProcessorConfig},
    vision::{
        MergedPatches, TowerOutput, TowerRules, TowerSizes,
        parts::{HeadParts, LayerParts, MlpParts, NormParts, ProjectorParts, TowerParts, matrix},
        places,
    },
};
use specreel_tensor::{
    Gate,
    tower::{Tap, TowerLayout},
};

impl GemmaVisionConfig {
    /// States of a visual token.
    fn pooled(&self) -> usize {
        self.pool * self.pool
    }

    /// Row and column of each patch: those of a visual token are adjacent.
    fn places(&self, Grid { h, w, .. }: Grid) -> impl Iterator<Item = [usize; 2]> + Clone + use<> {
        places::in_squares(h, w, self.pool)
    }

    fn norm(&self, name: String) -> NormParts {
        NormParts { name, width: self.hidden, bias: false, eps: self.eps as f32, unit: false }
    }

    fn layer(&self, index: usize) -> LayerParts {
        let (d, ffn) = (self.hidden, self.ffn);
        let at = |part: &str| format!("vision_tower.encoder.layers.{index}.{part}");
        let linear = |part: &str| at(&format!("{part}_proj.linear"));
        let [q, k, v] = ["q", "k", "v"].map(|part| linear(&format!("self_attn.{part}")));
        // The first half of a head turns with the column, the second with the row.
        let (half, quarter) = (self.head_dim() / 2, self.head_dim() / 4);
        let order = [0..quarter, half..half + quarter, quarter..half, half + quarter..2 * half];
        LayerParts {
            norm1: self.norm(at("input_layernorm")),
            qkv: matrix(&[(&q, d), (&k, d), (&v, d)], d, false),
            output: matrix(&[(&linear("self_attn.o"), d)], d, false),
            norm2: self.norm(at("pre_feedforward_layernorm")),
            mlp: MlpParts::Gated {
                gate_up: matrix(&[(&linear("mlp.gate"), ffn), (&linear("mlp.up"), ffn)], d, false),
                gate: Gate::GeluTanh,
                down: matrix(&[(&linear("mlp.down"), d)], ffn, false),
            },
            windows: false,
            heads: Some(HeadParts {
                names: ["q", "k"].map(|part| at(&format!("self_attn.{part}_norm.weight"))),
                eps: self.eps as f32,
                order: order.into_iter().flatten().collect(),
            }),
            after: Some(
                ["post_attention_layernorm", "post_feedforward_layernorm"].map(|part| self.norm(at(part))),
            ),
            bounded: self.bounded,
            joined: 1,
        }
    }

    fn layout_of(&self, grid: Grid, sources: usize, taps: Vec<Vec<Tap>>) -> TowerLayout {
        let patches = grid.h * grid.w;
        let turned = self.places(grid).map(|[row, column]| [column, row]);
        TowerLayout {
            heads: self.heads,
            head_dim: self.head_dim(),
            order: (0..patches as u32).collect(),
            windows: vec![0..patches; 1],
            angles: Some(places::angles(self.head_dim(), self.theta as f32, turned)),
            sources,
            taps,
        }
    }
}

impl TowerRules for GemmaVisionConfig {
    fn processor(&self) -> ProcessorConfig {
        let config = ProcessorConfig::gemma4(self.patch, self.pool);
        ProcessorConfig { colors_last: !self.colors_apart, ..config }
    }

    fn merged(&self) -> Option<MergedPatches> {
        Some(MergedPatches { patch: self.patch, temporal: 1, merge: self.pool })
    }

    fn sizes(&self) -> TowerSizes {
        let Self { out, hidden, heads, ffn, layers, .. } = *self;
        TowerSizes { out, row: 3 * self.patch * self.patch, hidden, heads, ffn, layers }
    }

    fn parts(&self) -> TowerParts {
        let d = self.hidden;
        let projector = ProjectorParts {
            after: self.layers - 1,
            // The reference multiplies the means by √hidden before this norm, which is the same but for the epsilon.
            norm: Some(NormParts {
                eps: (self.eps / d as f64) as f32,
                unit: true,
                ..self.norm("embed_vision.embedding_pre_projection_norm".into())
            }),
            joint_norm: None,
            joined: 1,
            first: matrix(&[("embed_vision.embedding_projection", self.out)], d, false),
            second: None,
            pooled: true,
        };
        let table = "vision_tower.patch_embedder.position_embedding_table".to_owned();
        let embed = matrix(&[("vision_tower.patch_embedder.input_proj", d)], self.sizes().row, false);
        TowerParts {
            embed,
            positions: Some((table, vec![2, self.table, d])),
            layers: (0..self.layers).map(|index| self.layer(index)).collect(),
            projectors: vec![projector],
            newline: None,
        }
    }

    fn mismatch(&self, grid: Grid) -> Option<String> {
        if !(grid.h.is_multiple_of(self.pool) && grid.w.is_multiple_of(self.pool)) {
            return Some(format!("rows and columns must be multiples of {}", self.pool));
        }
        (grid.h.max(grid.w) > self.table)
            .then(|| format!("there are positions for {} patches along a side", self.table))
    }

    fn positions(&self, grid: Grid) -> Option<Vec<Vec<Tap>>> {
        let tap = |row: usize| Tap { row: row as u32, weight: 1.0 };
        let columns = self.places(grid).map(|[_, column]| tap(column)).collect();
        let rows = self.places(grid).map(|[row, _]| tap(self.table + row)).collect();
        Some(vec![columns, rows])
    }

    /// With the means of the states of a visual token.
    fn layout(&self, grid: Grid, output: TowerOutput) -> TowerLayout {
        let (patches, pooled) = (grid.h * grid.w, self.pooled());
        match output {
            TowerOutput::Embeddings => {
                let of = |nth: usize, token: usize| Tap {
                    row: (token * pooled + nth) as u32,
                    weight: 1.0 / pooled as f32,
                };
                let mean = |nth: usize| (0..patches / pooled).map(|token| of(nth, token)).collect();
                self.layout_of(grid, patches, (0..pooled).map(mean).collect())
            }
            TowerOutput::States => self.layout_of(grid, patches, TowerLayout::reordered(0..patches as u32)),
        }
    }

    fn merged_layout(&self, grid: Grid, output: TowerOutput) -> Option<TowerLayout> {
        let tokens = grid.h * grid.w / self.pooled();
        (output == TowerOutput::Embeddings)
            .then(|| self.layout_of(grid, tokens, TowerLayout::reordered(0..tokens as u32)))
    }

    fn mac_count(&self, grid: Grid) -> TowerMacCount {
        let (d, patches) = (self.hidden, grid.h * grid.w);
        let products = |products: usize| MacCount { products: products as f64, attention: 0.0 };
        let layer = MacCount {
            products: (patches * d * (4 * d + 3 * self.ffn)) as f64,
            attention: 2.0 * d as f64 * (patches as f64).powi(2),
        };
        TowerMacCount {
            grids: grid.t,
            before: products(patches * self.sizes().row * d),
            layers: vec![layer; self.layers],
            after: products(patches / self.pooled() * d * self.out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visual_token_is_the_mean_of_a_square() {
        let config = serde_json::json!({
            "hidden_size": 32, "num_attention_heads": 2, "head_dim": 16, "intermediate_size": 40, "num_hidden_layers": 2,
            "position_embedding_size": 8,
        });
        let config = GemmaVisionConfig::from_json(&config, 64).unwrap();
        let grid = Grid { t: 1, h: 3, w: 6 };
        let layout = config.layout(grid, TowerOutput::Embeddings);
        assert_eq!((layout.taps.len(), layout.results(), layout.sources), (9, 2, 18));
        let second: Vec<u32> = layout.taps.iter().map(|taps| taps[1].row).collect();
        assert_eq!(second, (9..18).collect::<Vec<_>>());
        let places: Vec<[usize; 2]> = config.places(grid).collect();
        assert_eq!((places[9], places[17]), ([0, 3], [2, 5]));
        let positions = config.positions(grid).unwrap();
        assert_eq!((positions[0][17].row, positions[1][17].row), (5, 8 + 2));
        assert!(
            config.mismatch(Grid { h: 4, ..grid }).is_some()
                && config.mismatch(Grid { w: 9, ..grid }).is_some()
        );
        assert!(config.mismatch(grid).is_none());
    }
}
