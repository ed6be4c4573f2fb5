//! `vision_config` of the Qwen towers: a raw mirror of the file, and the resolved form without options.

use serde::Deserialize;

use crate::vision::{
    VisionError,
    values::{LARGEST, required, within},
};

/// The two Qwen towers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// Qwen2-VL: full attention, layer norms, quick GELU.
    Qwen2,
    /// Qwen2.5-VL: windows, RMS norms, SwiGLU.
    Qwen25,
}

/// `vision_config` as written by any version of the reference implementation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RawVisionConfig {
    depth: Option<usize>,
    hidden_size: Option<usize>,
    hidden_act: Option<String>,
    intermediate_size: Option<usize>,
    // Names of Qwen2-VL, where `hidden_size` is the output width.
    embed_dim: Option<usize>,
    mlp_ratio: Option<usize>,
    num_heads: Option<usize>,
    // Either name occurs, or both.
    in_channels: Option<usize>,
    in_chans: Option<usize>,
    patch_size: Option<usize>,
    temporal_patch_size: Option<usize>,
    spatial_merge_size: Option<usize>,
    window_size: Option<usize>,
    out_hidden_size: Option<usize>,
    fullatt_block_indexes: Option<Vec<usize>>,
    tokens_per_second: Option<f32>,
}

/// A Qwen tower's dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionConfig {
    /// The kind of tower.
    pub generation: Generation,
    /// Number of blocks.
    pub depth: usize,
    /// Width of the states.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    /// Attention heads; `hidden / heads` is a multiple of 4.
    pub heads: usize,
    pub channels: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in one patch.
    pub temporal: usize,
    /// Side of a merged cell in patches.
    pub merge: usize,
    /// Side of an attention window in merged cells.
    pub window: usize,
    /// For each block, whether it attends to its whole temporal grid, else to its window.
    pub full_attention: Vec<bool>,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
    /// Positions per second of video on M-RoPE's time axis; `None` if that axis counts temporal grids.
    pub tokens_per_second: Option<f32>,
    pub eps: f64,
}

impl VisionConfig {
    /// Values in one row of patches: channels · temporal · patch².
    pub fn row(&self) -> usize {
        self.channels * self.temporal * self.patch * self.patch
    }

    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }

    /// Read and resolve a `vision_config` object. [`VisionError::Parse`] for values of the wrong type.
    pub fn from_json(value: &serde_json::Value, generation: Generation) -> Result<Self, VisionError> {
        RawVisionConfig::deserialize(value)?.resolve(generation)
    }
}

impl RawVisionConfig {
    /// The resolved configuration, with the reference implementation's defaults for missing values. Fails with
    /// [`VisionError::Config`] for the first value that is missing, out of range, or inconsistent with the others.
    pub fn resolve(self, generation: Generation) -> Result<VisionConfig, VisionError> {
        let refuse = |name, problem| Err(VisionError::Config { name, problem });
        let supported = match generation {
            Generation::Qwen2 => "quick_gelu",
            Generation::Qwen25 => "silu",
        };
        if let Some(act) = self.hidden_act.as_ref().filter(|act| *act != supported) {
            return refuse("hidden_act", format!("is {act:?}; only {supported:?} is supported"));
        }
        let depth = required("depth", self.depth, 4096)?;
        let (hidden, ffn, out) = match generation {
            Generation::Qwen2 => {
                let hidden = required("embed_dim", self.embed_dim, LARGEST)?;
                let ffn = hidden * within("mlp_ratio", self.mlp_ratio.unwrap_or(4), 256)?;
                (hidden, ffn, required("hidden_size", self.hidden_size, LARGEST)?)
            }
            Generation::Qwen25 => (
                required("hidden_size", self.hidden_size, LARGEST)?,
                required("intermediate_size", self.intermediate_size, LARGEST)?,
                required("out_hidden_size", self.out_hidden_size, LARGEST)?,
            ),
        };
        let heads = required("num_heads", self.num_heads, LARGEST)?;
        if !hidden.is_multiple_of(heads) || !(hidden / heads).is_multiple_of(4) {
            let problem = format!("is {heads}; it must divide the width {hidden} into multiples of 4");
            return refuse("num_heads", problem);
        }
        let patch = within("patch_size", self.patch_size.unwrap_or(14), 256)?;
        let merge = within("spatial_merge_size", self.spatial_merge_size.unwrap_or(2), 256)?;
        let (window, full_attention) = match generation {
            Generation::Qwen2 => (LARGEST, vec![true; depth]),
            Generation::Qwen25 => self.windows(depth, patch * merge)?,
        };
        let tokens_per_second = match generation {
            Generation::Qwen2 => None,
            Generation::Qwen25 => Some(self.tokens_per_second.unwrap_or(4.0)),
        };
        if let Some(rate) = tokens_per_second.filter(|rate| !rate.is_finite() || *rate <= 0.0) {
            return refuse("tokens_per_second", format!("is {rate}; it must be positive"));
        }
        Ok(VisionConfig {
            generation,
            depth,
            hidden,
            ffn,
            heads,
            channels: within("in_channels", self.in_chans.or(self.in_channels).unwrap_or(3), 256)?,
            patch,
            temporal: within("temporal_patch_size", self.temporal_patch_size.unwrap_or(2), 256)?,
            merge,
            window,
            full_attention,
            out,
            tokens_per_second,
            eps: 1e-6,
        })
    }

    /// Side of a window in cells of `cell` pixels, and which of `depth` blocks have full attention.
    fn windows(&self, depth: usize, cell: usize) -> Result<(usize, Vec<bool>), VisionError> {
        let refuse = |name, problem| Err(VisionError::Config { name, problem });
        let mut full_attention = vec![false; depth];
        for &index in self.fullatt_block_indexes.as_deref().unwrap_or(&[7, 15, 23, 31]) {
            match full_attention.get_mut(index) {
                Some(full) => *full = true,
                None => {
                    return refuse(
                        "fullatt_block_indexes",
                        format!("has block {index}, but there are {depth} blocks"),
                    );
                }
            }
        }
        let window_size = within("window_size", self.window_size.unwrap_or(112), LARGEST)?;
        match window_size / cell {
            0 => refuse(
                "window_size",
                format!("is {window_size}; it must be at least one cell of {cell} pixels"),
            ),
            window => Ok((window, full_attention)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> serde_json::Value {
        serde_json::json!({
            "depth": 32, "hidden_act": "silu", "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
            "in_chans": 3, "in_channels": 3, "out_hidden_size": 2048, "patch_size": 14, "spatial_merge_size": 2,
            "spatial_patch_size": 14, "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31],
            "tokens_per_second": 2, "temporal_patch_size": 2,
        })
    }

    #[test]
    fn qwen25_as_published_resolves() {
        let config = VisionConfig::from_json(&raw(), Generation::Qwen25).unwrap();
        assert_eq!((config.window, config.row(), config.head_dim()), (4, 1176, 80));
        assert_eq!(config.full_attention.iter().filter(|full| **full).count(), 4);
        assert_eq!(config.tokens_per_second, Some(2.0));
    }

    #[test]
    fn qwen2_as_published_resolves() {
        let raw = serde_json::json!({
            "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3, "hidden_size": 3584,
            "patch_size": 14, "spatial_merge_size": 2, "spatial_patch_size": 14, "temporal_patch_size": 2,
        });
        let config = VisionConfig::from_json(&raw, Generation::Qwen2).unwrap();
        assert_eq!((config.hidden, config.ffn, config.out, config.head_dim()), (1280, 5120, 3584, 80));
        assert!(config.full_attention.iter().all(|full| *full) && config.tokens_per_second.is_none());
        for (name, value) in [("embed_dim", serde_json::json!(null)), ("mlp_ratio", serde_json::json!(0))] {
            let mut raw = raw.clone();
            raw[name] = value;
            let error = VisionConfig::from_json(&raw, Generation::Qwen2).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (name, value) in [
            ("depth", serde_json::json!(0)),
            ("depth", serde_json::json!(1u64 << 40)),
            ("hidden_size", serde_json::json!(1281)),
            ("num_heads", serde_json::json!(0)),
            ("num_heads", serde_json::json!(640)),
            ("patch_size", serde_json::json!(0)),
            ("spatial_merge_size", serde_json::json!(0)),
            ("window_size", serde_json::json!(27)),
            ("fullatt_block_indexes", serde_json::json!([32])),
            ("in_chans", serde_json::json!(0)),
            ("out_hidden_size", serde_json::Value::Null),
            ("intermediate_size", serde_json::json!(0)),
            ("tokens_per_second", serde_json::json!(-1)),
            ("hidden_act", serde_json::json!("gelu")),
            ("temporal_patch_size", serde_json::json!("two")),
            ("depth", serde_json::json!(-3)),
        ] {
            let mut config = raw();
            config[name] = value.clone();
            let error = VisionConfig::from_json(&config, Generation::Qwen25).unwrap_err().to_string();
            assert!(error.contains("vision_config"), "{name} = {value}: {error}");
        }
        for other in [serde_json::json!([1]), serde_json::json!({})] {
            assert!(VisionConfig::from_json(&other, Generation::Qwen25).is_err());
        }
    }
}
