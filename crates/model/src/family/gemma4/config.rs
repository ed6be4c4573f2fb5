//! The `vision_config` of Gemma 4.

use serde::Deserialize;
use serde_json::Value;

use crate::vision::{
    VisionError,
    values::{LARGEST, within},
};

/// The keys of a `vision_config`. The reference's defaults stand for those that are missing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Raw {
    model_type: Option<String>,
    hidden_activation: Option<String>,
    hidden_size: Option<usize>,
    intermediate_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    rms_norm_eps: Option<f64>,
    rope_parameters: Option<RawRope>,
    attention_bias: Option<bool>,
    pooling_kernel_size: Option<usize>,
    patch_size: Option<usize>,
    position_embedding_size: Option<usize>,
    use_clipped_linears: Option<bool>,
    standardize: Option<bool>,
    /// Of GGUF files.
    colors_apart: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawRope {
    rope_theta: Option<f64>,
}

/// Dimensions of tower and projection.
#[derive(Clone, Debug, PartialEq)]
pub struct GemmaVisionConfig {
    /// Width of the states.
    pub hidden: usize,
    /// Attention heads, which divide the width.
    pub heads: usize,
    /// Width of the feed-forward layers.
    pub ffn: usize,
    pub layers: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Side of the square of states that is pooled to one visual token.
    pub pool: usize,
    /// Rows of the tables of learned positions, one for columns and one for rows.
    pub table: usize,
    /// Added to the mean square in norms.
    pub eps: f64,
    /// Base of the rotary frequencies.
    pub theta: f64,
    /// The pixels of a patch enter color by color, not with their colors together.
    pub colors_apart: bool,
    /// Inputs and outputs of matrices are bounded, by values of the checkpoint.
    pub bounded: bool,
    /// Width of the visual embeddings, which is the decoder's.
    pub out: usize,
}

impl GemmaVisionConfig {
    /// Read a `vision_config`, for a language model of width `out`. Fails with [`VisionError`] for values that are out of range, not
    /// supported, or inconsistent with each other.
    pub fn from_json(config: &Value, out: usize) -> Result<Self, VisionError> {
        if config.is_null() {
            return Err(VisionError::Setting { name: "vision_config", problem: "is missing".into() });
        }
        let raw = Raw::deserialize(config)?;
        let refuse = |name, problem: String| Err(VisionError::Config { name, problem });
        if let Some(other) = raw.model_type.filter(|kind| kind != "gemma4_vision") {
            return refuse("model_type", format!("is {other:?}; only \"gemma4_vision\" is supported"));
        }
        if let Some(act) = raw.hidden_activation.filter(|act| act != "gelu_pytorch_tanh") {
            return refuse(
                "hidden_activation",
                format!("is {act:?}; only \"gelu_pytorch_tanh\" is supported"),
            );
        }
        for (name, value) in [("standardize", raw.standardize), ("attention_bias", raw.attention_bias)] {
            if value == Some(true) {
                return refuse(name, "is true; only false is supported".into());
            }
        }
        let hidden = within("hidden_size", raw.hidden_size.unwrap_or(768), LARGEST)?;
        let heads = within("num_attention_heads", raw.num_attention_heads.unwrap_or(12), LARGEST)?;
        let head = within("head_dim", raw.head_dim.unwrap_or(64), 1024)?;
        if heads * head != hidden || !head.is_multiple_of(4) {
            let problem =
                format!("is {head}; {heads} heads must be {hidden} values wide, and a head a multiple of 4");
            return refuse("head_dim", problem);
        }
        if let Some(other) = raw.num_key_value_heads.filter(|other| *other != heads) {
            return refuse(
                "num_key_value_heads",
                format!("is {other}; only num_attention_heads is supported"),
            );
        }
        let eps = raw.rms_norm_eps.unwrap_or(1e-6);
        if !(eps.is_finite() && eps > 0.0) {
            return refuse("rms_norm_eps", format!("is {eps}; it must be positive"));
        }
        let theta = raw.rope_parameters.unwrap_or_default().rope_theta.unwrap_or(100.0);
        if !(theta.is_finite() && theta > 0.0) {
            return refuse("rope_parameters", format!("has a base of {theta}; it must be positive"));
        }
        Ok(Self {
            hidden,
            heads,
            ffn: within("intermediate_size", raw.intermediate_size.unwrap_or(3072), LARGEST)?,
            layers: within("num_hidden_layers", raw.num_hidden_layers.unwrap_or(16), 4096)?,
            patch: within("patch_size", raw.patch_size.unwrap_or(16), 256)?,
            pool: within("pooling_kernel_size", raw.pooling_kernel_size.unwrap_or(3), 16)?,
            table: within("position_embedding_size", raw.position_embedding_size.unwrap_or(10_240), 1 << 16)?,
            eps,
            theta,
            colors_apart: raw.colors_apart.unwrap_or(false),
            bounded: raw.use_clipped_linears.unwrap_or(false),
            out,
        })
    }

    /// Values of a head.
    pub fn head_dim(&self) -> usize {
        self.hidden / self.heads
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_values_are_refused_by_name() {
        let config = GemmaVisionConfig::from_json(&json!({"model_type": "gemma4_vision"}), 1536).unwrap();
        assert_eq!((config.hidden, config.layers, config.patch, config.pool), (768, 16, 16, 3));
        for (name, value) in [
            ("model_type", json!("siglip_vision_model")),
            ("hidden_activation", json!("gelu")),
            ("standardize", json!(true)),
            ("attention_bias", json!(true)),
            ("hidden_size", json!(0)),
            ("head_dim", json!(48)),
            ("num_key_value_heads", json!(3)),
            ("rms_norm_eps", json!(-1.0)),
            ("rope_parameters", json!({"rope_theta": 0.0})),
            ("pooling_kernel_size", json!(99)),
            ("position_embedding_size", json!(1u64 << 40)),
        ] {
            let config = json!({ name: value });
            let error = GemmaVisionConfig::from_json(&config, 64).unwrap_err().to_string();
            assert!(error.contains(name), "{name}: {error}");
        }
        assert!(GemmaVisionConfig::from_json(&Value::Null, 64).is_err());
    }
}
