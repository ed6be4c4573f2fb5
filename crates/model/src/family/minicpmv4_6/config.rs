//! The vision settings of MiniCPM-V 4.6's `config.json`.

use serde::Deserialize;
use serde_json::Value;

use crate::vision::{SiglipConfig, VisionError};

/// `model_type` of the tower's settings.
const MODEL_TYPES: [&str; 1] = ["minicpmv4_6_vision"];

/// The layer after which states are joined, where a file does not say.
const INSERT: usize = 6;

/// The only squares of states that become one.
const SQUARE: [usize; 2] = [2, 2];

/// The values of `config.json` about the tower that are outside of `vision_config`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawConfig {
    insert_layer_id: Option<i64>,
    drop_vision_last_layer: Option<bool>,
    downsample_mode: Option<String>,
    merge_kernel_size: Option<Vec<usize>>,
    merger_times: Option<usize>,
    vision_config: RawVision,
}

/// The values of `vision_config` that a plain SigLIP lacks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawVision {
    insert_layer_id: Option<i64>,
    window_kernel_size: Option<Vec<usize>>,
}

/// Dimensions of tower and projector.
#[derive(Clone, Debug, PartialEq)]
pub struct MiniCpmVisionConfig {
    pub tower: SiglipConfig,
    /// The layer after which four states become one, so that a visual token is made of 16 patches; `None` if they never do, and it
    /// is made of four.
    pub joins_after: Option<usize>,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
}

fn refuse<T>(name: &'static str, problem: String) -> Result<T, VisionError> {
    Err(VisionError::Setting { name, problem })
}

/// Refuse other squares than [`SQUARE`].
fn square(name: &'static str, size: Option<Vec<usize>>) -> Result<(), VisionError> {
    match size.filter(|size| *size != SQUARE) {
        None => Ok(()),
        Some(other) => refuse(name, format!("is {other:?}; only {SQUARE:?} is supported")),
    }
}

impl MiniCpmVisionConfig {
    /// Read the vision settings of a whole `config.json`, for a language model of width `out`. Fails with [`VisionError`] for
    /// values that are out of range, not supported, or inconsistent with each other.
    pub fn from_json(config: &Value, out: usize) -> Result<Self, VisionError> {
        let raw = RawConfig::deserialize(config)?;
        let tower = SiglipConfig::from_json(&config["vision_config"], &MODEL_TYPES)?;
        square("merge_kernel_size", raw.merge_kernel_size)?;
        square("vision_config.window_kernel_size", raw.vision_config.window_kernel_size)?;
        if let Some(times) = raw.merger_times.filter(|times| *times != 1) {
            return refuse("merger_times", format!("is {times}; only 1 is supported"));
        }
        if raw.drop_vision_last_layer == Some(true) {
            return refuse("drop_vision_last_layer", "is true; only false is supported".into());
        }
        let last = tower.layers - 1;
        let insert = raw.insert_layer_id.unwrap_or(INSERT as i64);
        if let Some(own) = raw.vision_config.insert_layer_id.filter(|own| *own != insert) {
            let problem = format!("is {own}, but insert_layer_id is {insert}; they must be the same");
            return refuse("vision_config.insert_layer_id", problem);
        }
        let joins_after = match raw.downsample_mode.as_deref() {
            Some("4x") => None,
            None | Some("16x") => match usize::try_from(insert) {
                Ok(layer) if layer <= last => Some(layer),
                _ => {
                    return refuse(
                        "insert_layer_id",
                        format!("is {insert}; expected a layer from 0 to {last}"),
                    );
                }
            },
            Some(other) => {
                return refuse("downsample_mode", format!("is {other:?}; expected \"4x\" or \"16x\""));
            }
        };
        Ok(Self { tower, joins_after, out })
    }

    /// Side of the square of patches that becomes one visual token.
    pub fn merge(&self) -> usize {
        if self.joins_after.is_some() { 4 } else { 2 }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn published() -> Value {
        json!({
            "drop_vision_last_layer": false, "image_size": 1120,
            "vision_config": {
                "hidden_act": "gelu_pytorch_tanh", "hidden_size": 1152, "image_size": 980, "intermediate_size": 4304,
                "layer_norm_eps": 1e-6, "model_type": "minicpmv4_6_vision", "num_attention_heads": 16, "num_channels": 3,
                "num_hidden_layers": 27, "patch_size": 14,
            },
        })
    }

    #[test]
    fn the_published_config_resolves() {
        let config = MiniCpmVisionConfig::from_json(&published(), 1024).unwrap();
        assert_eq!((config.joins_after, config.merge(), config.tower.side()), (Some(6), 4, 70));
        // As newer versions save it.
        let mut saved = published();
        for (key, value) in [
            ("downsample_mode", json!("16x")),
            ("insert_layer_id", json!(6)),
            ("merge_kernel_size", json!([2, 2])),
            ("merger_times", json!(1)),
        ] {
            saved[key] = value;
        }
        saved["vision_config"]["insert_layer_id"] = json!(6);
        saved["vision_config"]["window_kernel_size"] = json!([2, 2]);
        assert_eq!(MiniCpmVisionConfig::from_json(&saved, 1024).unwrap(), config);
        saved["downsample_mode"] = json!("4x");
        let four = MiniCpmVisionConfig::from_json(&saved, 1024).unwrap();
        assert_eq!((four.joins_after, four.merge()), (None, 2));
    }

    #[test]
    fn invalid_values_are_refused_by_name() {
        for (at, value, words) in [
            ("/insert_layer_id", json!(27), "insert_layer_id is 27; expected a layer from 0 to 26"),
            ("/insert_layer_id", json!(-1), "insert_layer_id is -1"),
            ("/vision_config/insert_layer_id", json!(5), "but insert_layer_id is 6"),
            (
                "/vision_config/window_kernel_size",
                json!([4, 4]),
                "vision_config.window_kernel_size is [4, 4]",
            ),
            ("/vision_config/num_attention_heads", json!(7), "num_attention_heads"),
            ("/vision_config/model_type", json!("siglip_vision_model"), "model_type"),
            ("/vision_config", json!([1]), "vision_config"),
            ("/merge_kernel_size", json!([2, 1]), "merge_kernel_size is [2, 1]"),
            ("/merger_times", json!(2), "merger_times is 2"),
            ("/drop_vision_last_layer", json!(true), "drop_vision_last_layer is true"),
            ("/downsample_mode", json!("8x"), "downsample_mode is \"8x\"; expected \"4x\" or \"16x\""),
        ] {
            let mut config = published();
            let (parent, key) = at.rsplit_once('/').unwrap();
            config.pointer_mut(parent).unwrap()[key] = value;
            let error = MiniCpmVisionConfig::from_json(&config, 1024).unwrap_err().to_string();
            assert!(error.contains(words), "{at}: {error}");
        }
    }
}
