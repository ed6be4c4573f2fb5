//! `vision_config` of Qwen3-VL: a raw mirror of the file, and the resolved form without options.

use serde::Deserialize;

use crate::vision::{
    VisionError,
    places::THETA,
    values::{LARGEST, required, within},
};

/// `vision_config` as published; missing sizes of patches and tables are the reference class's defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawVisionConfig {
    deepstack_visual_indexes: Option<Vec<usize>>,
    depth: Option<usize>,
    hidden_act: Option<String>,
    hidden_size: Option<usize>,
    in_channels: Option<usize>,
    intermediate_size: Option<usize>,
    num_heads: Option<usize>,
    num_position_embeddings: Option<usize>,
    out_hidden_size: Option<usize>,
    patch_size: Option<usize>,
    rope_parameters: Option<RawRope>,
    spatial_merge_size: Option<usize>,
    temporal_patch_size: Option<usize>,
}

/// As newer versions of transformers save it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawRope {
    rope_theta: Option<f32>,
    rope_type: Option<String>,
}

/// A tower's dimensions.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionConfig {
    /// Number of blocks.
    pub depth: usize,
    /// Width of the states.
    pub hidden: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    /// Attention heads; `hidden / heads` is a multiple of 4.
    pub heads: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Frames in one patch.
    pub temporal: usize,
    /// Side of a merged cell in patches.
    pub merge: usize,
    /// Side of the table of positions.
    pub side: usize,
    /// The blocks whose states become embeddings of their own, ascending, counted from 0.
    pub deepstack: Vec<usize>,
    /// Width of an embedding, which is the decoder's.
    pub out: usize,
    /// Base of the rotary frequencies.
    pub(crate) theta: f32,
}

impl VisionConfig {
    /// Read and resolve a `vision_config` object. Fails with [`VisionError::Parse`] for values of the wrong type,
    /// [`VisionError::Config`] for the first value that is missing, out of range, not supported, or inconsistent with the others.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, VisionError> {
        let mut raw = RawVisionConfig::deserialize(value)?;
        let levels = raw.deepstack_visual_indexes.take().unwrap_or_else(|| vec![8, 16, 24]);
        Self::resolve(raw, levels)
    }

    /// As [`Self::from_json`], for a family without DeepStack. Fails also for a file that names blocks for DeepStack.
    pub(crate) fn without_deepstack(value: &serde_json::Value) -> Result<Self, VisionError> {
        let mut raw = RawVisionConfig::deserialize(value)?;
        let levels = raw.deepstack_visual_indexes.take().unwrap_or_default();
        if !levels.is_empty() {
            let problem = format!("is {levels:?}; the family has no DeepStack");
            return Err(VisionError::Config { name: "deepstack_visual_indexes", problem });
        }
        Self::resolve(raw, levels)
    }

    fn resolve(raw: RawVisionConfig, levels: Vec<usize>) -> Result<Self, VisionError> {
        let refuse = |name, problem| Err(VisionError::Config { name, problem });
        if let Some(act) = raw.hidden_act.filter(|act| act != "gelu_pytorch_tanh") {
            return refuse("hidden_act", format!("is {act:?}; only \"gelu_pytorch_tanh\" is supported"));
        }
        let channels = raw.in_channels.unwrap_or(3);
        if channels != 3 {
            return refuse("in_channels", format!("is {channels}; only 3 is supported"));
        }
        let depth = required("depth", raw.depth, 4096)?;
        let hidden = required("hidden_size", raw.hidden_size, LARGEST)?;
        let heads = required("num_heads", raw.num_heads, LARGEST)?;
        if !hidden.is_multiple_of(heads) || !(hidden / heads).is_multiple_of(4) {
            let problem = format!("is {heads}; it must divide the width {hidden} into multiples of 4");
            return refuse("num_heads", problem);
        }
        let positions =
            within("num_position_embeddings", raw.num_position_embeddings.unwrap_or(2304), LARGEST)?;
        let side = positions.isqrt();
        if side * side != positions {
            return refuse("num_position_embeddings", format!("is {positions}; it must be a square"));
        }
        let rope = raw.rope_parameters.unwrap_or_default();
        if let Some(kind) = rope.rope_type.filter(|kind| !["axial", "default"].contains(&kind.as_str())) {
            return refuse("rope_parameters", format!("have the type {kind:?}; only \"axial\" is supported"));
        }
        let theta = rope.rope_theta.unwrap_or(THETA);
        if !(theta.is_finite() && theta > 0.0) {
            return refuse("rope_parameters", format!("have the base {theta}; it must be positive"));
        }
        Ok(Self {
            depth,
            hidden,
            ffn: required("intermediate_size", raw.intermediate_size, LARGEST)?,
            heads,
            patch: within("patch_size", raw.patch_size.unwrap_or(16), 256)?,
            temporal: within("temporal_patch_size", raw.temporal_patch_size.unwrap_or(2), 256)?,
            merge: within("spatial_merge_size", raw.spatial_merge_size.unwrap_or(2), 256)?,
            side,
            deepstack: deepstack(levels, depth)?,
            out: required("out_hidden_size", raw.out_hidden_size, LARGEST)?,
            theta,
        })
    }
}

/// Check the blocks of which embeddings are made. The reference takes a repeated one once and all in ascending order, which would
/// assign mergers to other blocks than the list says.
fn deepstack(indexes: Vec<usize>, depth: usize) -> Result<Vec<usize>, VisionError> {
    let refuse = |problem| Err(VisionError::Config { name: "deepstack_visual_indexes", problem });
    if let Some(index) = indexes.iter().find(|index| **index >= depth) {
        return refuse(format!("has block {index}, but there are {depth} blocks, counted from 0"));
    }
    if !indexes.is_sorted_by(|a, b| a < b) {
        return refuse(format!("is {indexes:?}; blocks must ascend, each named once"));
    }
    Ok(indexes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw() -> serde_json::Value {
        json!({
            "deepstack_visual_indexes": [5, 11, 17], "depth": 24, "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 1024, "in_channels": 3, "initializer_range": 0.02, "intermediate_size": 4096,
            "model_type": "qwen3_vl", "num_heads": 16, "num_position_embeddings": 2304, "out_hidden_size": 2048,
            "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
        })
    }

    #[test]
    fn the_published_config_resolves() {
        let config = VisionConfig::from_json(&raw()).unwrap();
        assert_eq!((config.side, config.deepstack, config.theta), (48, vec![5, 11, 17], 10000.0));
        assert_eq!((config.patch, config.temporal, config.merge, config.out), (16, 2, 2, 2048));
        let mut saved = raw();
        saved["rope_parameters"] = json!({"rope_type": "axial", "rope_theta": 500.0});
        assert_eq!(VisionConfig::from_json(&saved).unwrap().theta, 500.0);
    }

    #[test]
    fn a_family_without_deepstack_has_no_blocks_for_it() {
        let mut config = raw();
        let error = VisionConfig::without_deepstack(&config).unwrap_err().to_string();
        assert!(error.contains("deepstack_visual_indexes is [5, 11, 17]"), "{error}");
        config["deepstack_visual_indexes"] = json!([]);
        let empty = VisionConfig::without_deepstack(&config).unwrap();
        config.as_object_mut().unwrap().remove("deepstack_visual_indexes");
        assert_eq!(VisionConfig::without_deepstack(&config).unwrap(), empty);
        assert_eq!((empty.deepstack, empty.side), (vec![], 48));
        // What the merger needs.
        for key in ["out_hidden_size", "hidden_size"] {
            let mut config = config.clone();
            config.as_object_mut().unwrap().remove(key);
            let error = VisionConfig::without_deepstack(&config).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} is missing")), "{error}");
        }
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (name, value, word) in [
            ("depth", json!(0), "depth is 0"),
            ("depth", json!(17), "deepstack_visual_indexes has block 17"),
            ("deepstack_visual_indexes", json!([5, 11, 24]), "has block 24, but there are 24 blocks"),
            ("deepstack_visual_indexes", json!([5, 5, 11]), "deepstack_visual_indexes is [5, 5, 11]"),
            ("deepstack_visual_indexes", json!([11, 5]), "deepstack_visual_indexes is [11, 5]"),
            ("deepstack_visual_indexes", json!([-1]), "invalid vision_config"),
            ("deepstack_visual_indexes", json!("5"), "invalid vision_config"),
            ("hidden_act", json!("gelu"), "hidden_act"),
            ("hidden_size", json!(1023), "must divide the width 1023"),
            ("hidden_size", json!(null), "hidden_size is missing"),
            ("in_channels", json!(1), "in_channels"),
            ("intermediate_size", json!(1u64 << 40), "intermediate_size"),
            ("num_heads", json!(0), "num_heads"),
            ("num_heads", json!(512), "num_heads"),
            ("num_position_embeddings", json!(2305), "must be a square"),
            ("num_position_embeddings", json!(0), "num_position_embeddings"),
            ("out_hidden_size", json!(null), "out_hidden_size"),
            ("patch_size", json!(0), "patch_size"),
            ("rope_parameters", json!({"rope_type": "yarn"}), "yarn"),
            ("rope_parameters", json!({"rope_theta": -1.0}), "rope_parameters"),
            ("spatial_merge_size", json!(0), "spatial_merge_size"),
            ("temporal_patch_size", json!("two"), "invalid vision_config"),
        ] {
            let mut config = raw();
            config[name] = value.clone();
            let error = VisionConfig::from_json(&config).unwrap_err().to_string();
            assert!(error.contains("vision_config") && error.contains(word), "{name} = {value}: {error}");
        }
        for config in [json!({}), json!({"depth": 12}), json!({"deepstack_visual_indexes": [], "depth": 12})]
        {
            assert!(VisionConfig::from_json(&config).is_err());
            assert!(VisionConfig::without_deepstack(&config).is_err());
        }
        assert!(VisionConfig::from_json(&json!([1])).is_err());
    }
}
