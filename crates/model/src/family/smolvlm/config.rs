//! The vision settings of SmolVLM2's `config.json`.

use serde::Deserialize;
use serde_json::Value;

use crate::vision::{SiglipConfig, VisionError, values::within};

/// `model_type` of the tower's settings, by age.
const MODEL_TYPES: [&str; 2] = ["smolvlm_vision", "smolvlm"];

/// Sizes that published files leave out because they are the reference class's defaults.
const DEFAULTS: [(&str, usize); 6] = [
    ("hidden_size", 1152),
    ("image_size", 224),
    ("intermediate_size", 3072),
    ("num_attention_heads", 16),
    ("num_hidden_layers", 12),
    ("patch_size", 32),
];

/// The values of `config.json` outside of the tower.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawConfig {
    scale_factor: Option<usize>,
}

/// Dimensions of tower and projection.
#[derive(Clone, Debug, PartialEq)]
pub struct SmolVlmVisionConfig {
    pub tower: SiglipConfig,
    /// Side of the square of states that becomes one visual token; it divides the patches of a side.
    pub scale: usize,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
}

impl SmolVlmVisionConfig {
    /// Read the vision settings of a whole `config.json`, for a language model of width `out`. Fails with [`VisionError`] for
    /// values that are out of range, not supported, or inconsistent with each other.
    pub fn from_json(config: &Value, out: usize) -> Result<Self, VisionError> {
        let raw = RawConfig::deserialize(config)?;
        let mut vision = config.get("vision_config").cloned().unwrap_or_default();
        if let Some(values) = vision.as_object_mut() {
            for (name, default) in DEFAULTS {
                values.entry(name).or_insert_with(|| default.into());
            }
        }
        let tower = SiglipConfig::from_json(&vision, &MODEL_TYPES)?;
        let refuse = |problem| Err(VisionError::Setting { name: "scale_factor", problem });
        let (scale, side) = (raw.scale_factor.unwrap_or(2), tower.side());
        if within("scale_factor", scale, 256).is_err() || !side.is_multiple_of(scale) {
            return refuse(format!("is {scale}; it must divide the {side} patches along a picture's side"));
        }
        Ok(Self { tower, scale, out })
    }

    /// Visual tokens along one side of a picture.
    pub fn cells(&self) -> usize {
        self.tower.side() / self.scale
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn published_configs_resolve() {
        // 500M, which leaves out the class's defaults, and 2.2B.
        let small = json!({"scale_factor": 4, "vision_config": {
            "hidden_size": 768, "image_size": 512, "max_image_size": {"longest_edge": 512},
            "model_type": "smolvlm_vision", "num_attention_heads": 12, "patch_size": 16,
            "size": {"longest_edge": 2048}, "tie_word_embeddings": false, "use_base_siglip": true,
        }});
        let config = SmolVlmVisionConfig::from_json(&small, 960).unwrap();
        assert_eq!((config.tower.layers, config.tower.ffn, config.cells()), (12, 3072, 8));
        let large = json!({"scale_factor": 3, "vision_config": {
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "model_type": "smolvlm_vision",
            "num_hidden_layers": 27, "patch_size": 14,
        }});
        let config = SmolVlmVisionConfig::from_json(&large, 2048).unwrap();
        assert_eq!((config.tower.heads, config.tower.side(), config.cells()), (16, 27, 9));
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        let whole = json!({"scale_factor": 3, "vision_config": {
            "hidden_size": 32, "image_size": 90, "intermediate_size": 40, "num_attention_heads": 2, "patch_size": 14,
            "num_hidden_layers": 2,
        }});
        assert_eq!(SmolVlmVisionConfig::from_json(&whole, 64).unwrap().cells(), 2);
        for (name, value) in
            [("scale_factor", json!(4)), ("scale_factor", json!(0)), ("scale_factor", json!(-1))]
        {
            let mut config = whole.clone();
            config[name] = value.clone();
            let error = SmolVlmVisionConfig::from_json(&config, 64).unwrap_err().to_string();
            assert!(error.contains("config.json"), "{value}: {error}");
            assert!(value == json!(-1) || error.contains(name), "{value}: {error}");
        }
        for (name, value) in [("model_type", json!("clip_vision_model")), ("patch_size", json!(16))] {
            let mut config = whole.clone();
            config["vision_config"][name] = value;
            let error = SmolVlmVisionConfig::from_json(&config, 64).unwrap_err().to_string();
            let named = if name == "patch_size" { "scale_factor" } else { name };
            assert!(error.contains(named), "{error}");
        }
        assert!(SmolVlmVisionConfig::from_json(&json!({"vision_config": [1]}), 64).is_err());
    }
}
