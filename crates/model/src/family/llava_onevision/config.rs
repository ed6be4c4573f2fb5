//! From frames to visual embeddings in LLaVA-OneVision (arXiv:2408.03326): SigLIP, a projector, pooling.
//!
//! Every frame is encoded on its own. Its 27 × 27 states are projected to the language model's width and pooled to 14 × 14
//! visual tokens. A learned vector, the newline, ends the video; it belongs to no frame.
//!
//! [`super::tower`] lists the weights.

use serde::Deserialize;

use crate::vision::{SiglipConfig, VisionError};
use specreel_tensor::tower::Tap;

/// Side of the square of states that is pooled to one visual token; fixed in the reference implementation.
pub const POOL: usize = 2;

/// The values of `config.json` about the projector.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawProjectorConfig {
    projector_hidden_act: Option<String>,
    vision_feature_layer: Option<serde_json::Value>,
    vision_feature_select_strategy: Option<String>,
    multimodal_projector_bias: Option<bool>,
}

/// Dimensions of tower and projector.
#[derive(Clone, Debug, PartialEq)]
pub struct LlavaConfig {
    pub tower: SiglipConfig,
    /// Whether the projector's layers have biases.
    pub bias: bool,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
}

impl LlavaConfig {
    /// Read the vision settings of a whole `config.json`, for a language model of width `out`. Fails with [`VisionError`] for
    /// values that are missing, out of range, or not supported.
    pub fn from_json(config: &serde_json::Value, out: usize) -> Result<Self, VisionError> {
        let raw = RawProjectorConfig::deserialize(config)?;
        let only =
            |name, value: Option<String>, supported: &str| match value.filter(|value| value != supported) {
                None => Ok(()),
                Some(other) => {
                    let problem = format!("is {other:?}; only {supported:?} is supported");
                    Err(VisionError::Setting { name, problem })
                }
            };
        only("projector_hidden_act", raw.projector_hidden_act, "gelu")?;
        only("vision_feature_select_strategy", raw.vision_feature_select_strategy, "full")?;
        only("vision_feature_layer", raw.vision_feature_layer.map(|v| v.to_string()), "-1")?;
        Ok(Self {
            tower: SiglipConfig::from_json(
                config.get("vision_config").unwrap_or(&serde_json::Value::Null),
                &["siglip_vision_model"],
            )?,
            bias: raw.multimodal_projector_bias.unwrap_or(true),
            out,
        })
    }
}

/// For each of `to` outputs along one axis: the input before it, the input after it, the weight of the latter.
fn neighbors(from: usize, to: usize) -> Vec<(usize, usize, f32)> {
    let scale = from as f32 / to as f32;
    let position = |i: usize| ((i as f32 + 0.5) * scale - 0.5).max(0.0);
    (0..to)
        .map(|i| {
            let before = (position(i) as usize).min(from - 1);
            (before, (before + 1).min(from - 1), position(i) - before as f32)
        })
        .collect()
}

/// Bilinear pooling of a square of `from × from` states to `to × to`, each output the weighted mean of up to four inputs: torch's
/// `interpolate` with `align_corners=False`. For each of the four neighbors, its tap in every output.
pub(super) fn taps(from: usize, to: usize) -> Vec<Vec<Tap>> {
    let axis = neighbors(from, to);
    let four = [(false, false), (false, true), (true, false), (true, true)].map(|(below, right)| {
        let choose = |(before, after, share): (usize, usize, f32), later| match later {
            false => (before, 1.0 - share),
            true => (after, share),
        };
        let cells = axis.iter().flat_map(|row| axis.iter().map(move |column| (*row, *column)));
        let tap = |(row, column)| {
            let ((y, down), (x, across)) = (choose(row, below), choose(column, right));
            Tap { row: (y * from + x) as u32, weight: down * across }
        };
        cells.map(tap).collect()
    });
    four.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_match_the_reference() {
        // 27 to 14: positions 13/28 + i · 27/14
        let axis = neighbors(27, 14);
        assert_eq!((axis[0].0, axis[0].1), (0, 1));
        assert!((axis[0].2 - 13.0 / 28.0).abs() < 1e-6);
        assert_eq!((axis[13].0, axis[13].1), (25, 26));
        assert!((axis[13].2 - 15.0 / 28.0).abs() < 1e-5);
        assert_eq!(neighbors(1, 1), [(0, 0, 0.0)]);
        assert_eq!(neighbors(4, 2), [(0, 1, 0.5), (2, 3, 0.5)]);
    }

    #[test]
    fn pooling_keeps_constants_and_ramps() {
        let taps = taps(5, 3);
        let ramp: Vec<f32> = (0..25).map(|i| (i % 5) as f32).collect();
        let pooled = |x: &[f32]| -> Vec<f32> {
            (0..9).map(|i| taps.iter().map(|taps| x[taps[i].row as usize] * taps[i].weight).sum()).collect()
        };
        assert!(pooled(&[7.0; 25]).iter().all(|v| (v - 7.0).abs() < 1e-6));
        for (got, want) in pooled(&ramp).iter().zip([1.0 / 3.0, 2.0, 11.0 / 3.0].iter().cycle()) {
            assert!((got - want).abs() < 1e-6, "{got} {want}");
        }
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        let whole = serde_json::json!({"vision_config": {
            "hidden_size": 32, "image_size": 76, "intermediate_size": 40, "num_attention_heads": 2, "patch_size": 14,
        }});
        assert_eq!(LlavaConfig::from_json(&whole, 64).unwrap().tower.side(), 5);
        for (name, value) in [
            ("projector_hidden_act", serde_json::json!("relu")),
            ("vision_feature_layer", serde_json::json!([-2, -5])),
            ("vision_feature_layer", serde_json::json!(-2)),
            ("vision_feature_select_strategy", serde_json::json!("default")),
        ] {
            let mut config = whole.clone();
            config[name] = value;
            let error = LlavaConfig::from_json(&config, 64).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
        assert!(LlavaConfig::from_json(&serde_json::json!({}), 64).is_err());
    }
}
