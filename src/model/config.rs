//! `config.json` of a checkpoint: a raw mirror of the file, resolved into a configuration without options.
//!
//! Both layouts are supported: the original flat one, and the newer one with the language model under `text_config`.

use std::path::Path;

use serde::Deserialize;

use super::{checkpoint::CheckpointError, family::Family, files};

/// The language model's configuration.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct TextConfig {
    /// Width of the states.
    pub hidden: usize,
    /// Decoder layers.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the feed-forward layers.
    pub intermediate: usize,
    /// Rows of the embedding table (padding included).
    pub vocab: usize,
    /// True if the LM head is the embedding table.
    pub tied: bool,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Frequencies for time, row and column; none = one axis.
    pub mrope_section: Option<[usize; 3]>,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Longest context that the checkpoint supports.
    pub max_positions: usize,
}

/// The `config.json` of a Video-LLM.
#[derive(Clone, Debug, PartialEq)]
pub struct VlConfig {
    /// The family.
    pub family: Family,
    /// The language model.
    pub text: TextConfig,
    /// The placeholder id of a visual token in a video.
    pub video_token: u32,
    /// The whole file, from which the vision tower reads its part.
    pub raw: serde_json::Value,
}

#[derive(Deserialize)]
struct RawText {
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default)]
    num_key_value_heads: Option<usize>,
    #[serde(default)]
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    #[serde(default)]
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    rope_scaling: Option<RawRope>,
    #[serde(default)]
    rope_parameters: Option<RawRope>,
    #[serde(default)]
    rms_norm_eps: Option<f64>,
    #[serde(default)]
    max_position_embeddings: Option<usize>,
    #[serde(default)]
    use_sliding_window: bool,
    #[serde(default)]
    hidden_act: Option<String>,
}

#[derive(Clone, Deserialize)]
struct RawRope {
    #[serde(default)]
    mrope_section: Option<Vec<usize>>,
    #[serde(default)]
    rope_theta: Option<f64>,
    #[serde(default)]
    rope_type: Option<String>,
    /// The older name of `rope_type`; re-saved files hold both.
    #[serde(default, rename = "type")]
    kind: Option<String>,
}

impl VlConfig {
    /// Read `DIR/config.json`.
    ///
    /// # Errors
    /// The file is missing or not JSON, the architecture is not supported, or sizes are impossible.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("config.json");
        let text =
            files::text(&path, files::CONFIG).map_err(|e| CheckpointError::file(&path, &e.to_string()))?;
        let raw: serde_json::Value = serde_json::from_str(&text)
            .map_err(|e| CheckpointError::file(&path, &format!("not valid JSON: {e}")))?;
        Self::resolve(raw).map_err(|problem| CheckpointError::file(&path, &problem))
    }

    /// The configuration in the JSON value of a `config.json`.
    ///
    /// # Errors
    /// A message: the architecture is not supported, or sizes are impossible.
    pub fn resolve(raw: serde_json::Value) -> Result<Self, String> {
        let family = Family::of(&raw)?;
        if let Some(other) = raw.pointer("/text_config/model_type").and_then(|v| v.as_str())
            && !other.starts_with("qwen2")
        {
            return Err(format!("unsupported language model `{other}`, expected qwen2"));
        }
        // Keys that text_config leaves out are at the top level.
        let mut merged = raw.clone();
        if let (Some(top), Some(text)) =
            (merged.as_object_mut(), raw.get("text_config").and_then(|t| t.as_object()))
        {
            for (key, value) in text {
                top.insert(key.clone(), value.clone());
            }
            // One of the two places may hold the default, the other the actual value.
            if raw.get("tie_word_embeddings").and_then(serde_json::Value::as_bool) == Some(true) {
                top.insert("tie_word_embeddings".into(), true.into());
            }
        }
        let text: RawText = serde_json::from_value(merged).map_err(|e| e.to_string())?;
        let text = text.resolve()?;
        let video_token =
            ["video_token_id", "video_token_index"].iter().find_map(|key| raw.get(key)?.as_u64());
        let video_token = video_token.ok_or("missing `video_token_id` (or `video_token_index`)")?;
        let video_token = u32::try_from(video_token).ok().filter(|id| (*id as usize) < text.vocab);
        let video_token = video_token.ok_or_else(|| {
            format!("`video_token_id` is out of range: the model has {} embeddings", text.vocab)
        })?;
        Ok(Self { family, text, video_token, raw })
    }
}

impl RawText {
    fn resolve(self) -> Result<TextConfig, String> {
        let rope = self.rope_scaling.or(self.rope_parameters);
        if let Some(kind) = rope.as_ref().and_then(|r| r.kind.as_deref().or(r.rope_type.as_deref()))
            && !matches!(kind, "mrope" | "default")
        {
            return Err(format!("unsupported rope type `{kind}`, expected mrope or default"));
        }
        if self.use_sliding_window {
            return Err("`use_sliding_window` is not supported".into());
        }
        if let Some(act) = self.hidden_act.filter(|act| act != "silu") {
            return Err(format!("unsupported `hidden_act` `{act}`, expected silu"));
        }
        let limits: [(&str, usize, usize); 6] = [
            ("hidden_size", self.hidden_size, 1 << 16),
            ("num_hidden_layers", self.num_hidden_layers, 1024),
            ("num_attention_heads", self.num_attention_heads, 1024),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("vocab_size", self.vocab_size, 1 << 22),
            ("head_dim", self.head_dim.unwrap_or(1), 1024),
        ];
        for (key, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(format!("`{key}` is {value}, expected 1 to {limit}"));
            }
        }
        let heads = self.num_attention_heads;
        let kv_heads = self.num_key_value_heads.unwrap_or(heads);
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return Err(format!(
                "`num_attention_heads` ({heads}) is not a multiple of `num_key_value_heads` ({kv_heads})"
            ));
        }
        let head_dim = match self.head_dim {
            Some(d) => d,
            None if self.hidden_size.is_multiple_of(heads) => self.hidden_size / heads,
            None => {
                return Err(format!(
                    "`hidden_size` ({}) is not a multiple of `num_attention_heads` ({heads})",
                    self.hidden_size
                ));
            }
        };
        if !head_dim.is_multiple_of(2) {
            return Err(format!("`head_dim` is {head_dim}, expected an even number"));
        }
        let mrope_section = match rope.as_ref().and_then(|r| r.mrope_section.as_deref()) {
            None => None,
            Some(&[t, h, w]) if t.checked_add(h).and_then(|s| s.checked_add(w)) == Some(head_dim / 2) => {
                Some([t, h, w])
            }
            Some(other) => {
                return Err(format!(
                    "`mrope_section` {other:?} does not add up to half of `head_dim` ({})",
                    head_dim / 2
                ));
            }
        };
        let rope_theta = self.rope_theta.or(rope.and_then(|r| r.rope_theta)).unwrap_or(1e6);
        if !(rope_theta.is_finite() && rope_theta > 0.0) {
            return Err(format!("`rope_theta` is {rope_theta}, expected a positive number"));
        }
        Ok(TextConfig {
            hidden: self.hidden_size,
            layers: self.num_hidden_layers,
            heads,
            kv_heads,
            head_dim,
            intermediate: self.intermediate_size,
            vocab: self.vocab_size,
            tied: self.tie_word_embeddings.unwrap_or(false),
            rope_theta,
            mrope_section,
            norm_eps: self.rms_norm_eps.unwrap_or(1e-6) as f32,
            max_positions: self.max_position_embeddings.unwrap_or(32_768),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flat() -> serde_json::Value {
        json!({
            "model_type": "qwen2_5_vl", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 320, "tie_word_embeddings": true,
            "rope_theta": 10000.0, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]},
            "video_token_id": 7
        })
    }

    #[test]
    fn flat_and_nested_layouts_are_equivalent() {
        let a = VlConfig::resolve(flat()).unwrap();
        let mut text = flat();
        let top = text.as_object_mut().unwrap();
        top.remove("model_type");
        let tied = top.remove("tie_word_embeddings").unwrap();
        let nested = json!({
            "model_type": "qwen2_5_vl", "video_token_id": 7, "tie_word_embeddings": tied, "text_config": text
        });
        assert_eq!(VlConfig::resolve(nested).unwrap().text, a.text);
        assert_eq!(a.text.head_dim, 16);
    }

    #[test]
    fn llava_spellings_are_read() {
        let mut text = flat();
        let top = text.as_object_mut().unwrap();
        top.remove("rope_scaling");
        top.insert("model_type".into(), json!("qwen2"));
        let mut raw = json!({
            "model_type": "llava_onevision", "video_token_index": 9, "tie_word_embeddings": false, "text_config": text
        });
        let config = VlConfig::resolve(raw.clone()).unwrap();
        assert_eq!((config.family, config.video_token), (Family::LlavaOnevision, 9));
        assert_eq!((config.text.tied, config.text.mrope_section), (true, None));
        raw["text_config"]["model_type"] = json!("llama");
        assert!(VlConfig::resolve(raw).unwrap_err().contains("llama"));
    }

    #[test]
    fn impossible_values_are_refused() {
        for (key, value, words) in [
            ("num_key_value_heads", json!(3), "not a multiple of `num_key_value_heads`"),
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("hidden_size", json!(66), "not a multiple of `num_attention_heads`"),
            ("vocab_size", json!(1u64 << 40), "vocab_size"),
            ("rope_scaling", json!({"type": "yarn"}), "yarn"),
            ("rope_scaling", json!({"mrope_section": [1, 1, 1]}), "half of `head_dim`"),
            ("model_type", json!("llama"), "LLaVA-OneVision"),
            ("video_token_id", json!(320), "out of range"),
            ("video_token_id", json!("video"), "missing `video_token_id`"),
            ("hidden_size", json!("wide"), "invalid type"),
            ("hidden_act", json!("relu"), "relu"),
            ("use_sliding_window", json!(true), "use_sliding_window"),
        ] {
            let mut raw = flat();
            raw[key] = value;
            let error = VlConfig::resolve(raw).unwrap_err();
            assert!(error.contains(words), "{key}: {error}");
        }
    }
}
