//! The `config.json` of a Video-LLM, read by the rules of its family.

use std::path::Path;

use super::Family;
use crate::{
    config::TextConfig,
    vision::{TowerConfig, VisionError},
};
use specreel_checkpoint::files;
use specreel_tensor::CheckpointError;

/// The `config.json` of a Video-LLM.
#[derive(Clone, Debug, PartialEq)]
pub struct VlConfig {
    pub family: &'static Family,
    /// The language model.
    pub text: TextConfig,
    /// The placeholder id of a visual token in a video.
    pub video_token: u32,
    /// The whole file, from which the vision tower reads its part.
    pub raw: serde_json::Value,
}

impl VlConfig {
    /// Read `DIR/config.json`. Fails if the file is missing or not JSON, the architecture is not supported, or sizes are
    /// impossible.
    pub fn read(dir: &Path) -> Result<Self, CheckpointError> {
        let path = dir.join("config.json");
        let refuse = |problem: String| Self::refuse(&path, problem);
        let text = files::text(&path, files::CONFIG).map_err(|e| refuse(e.to_string()))?;
        let raw = serde_json::from_str(&text).map_err(|e| refuse(format!("not valid JSON: {e}")))?;
        Self::resolve(raw).map_err(refuse)
    }

    /// The error of a configuration file that cannot be used.
    pub(crate) fn refuse(path: &Path, problem: String) -> CheckpointError {
        if !path.ends_with("config.json") {
            return CheckpointError::file(path, &problem);
        }
        let hint = format!(
            "pass a checkpoint directory as downloaded from the Hugging Face hub; supported: {}",
            Family::names().join(", ")
        );
        CheckpointError::file_hint(path, problem, hint)
    }

    /// The configuration in the JSON value of a `config.json`. Fails if the architecture is not supported, or sizes are
    /// impossible.
    pub fn resolve(raw: serde_json::Value) -> Result<Self, String> {
        let family = Family::of(&raw)?;
        let model = &family.language_model;
        let text = model.config(&raw)?;
        let video_token = model.video_token(&raw)?;
        let video_token = u32::try_from(video_token).ok().filter(|id| (*id as usize) < text.vocab);
        let video_token = video_token.ok_or_else(|| {
            format!(
                "`{}` is out of range: the model has {} embeddings",
                model.video_token_key(&raw),
                text.vocab
            )
        })?;
        Ok(Self { family, text, video_token, raw })
    }

    /// The vision tower's dimensions. Fails with [`VisionError`] for values that are missing, out of range or not supported.
    pub fn tower(&self) -> Result<TowerConfig, VisionError> {
        if self.raw.get("vision_config").is_none() {
            return Err(VisionError::Setting { name: "vision_config", problem: "is missing".into() });
        }
        (self.family.tower)(self)
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
        assert_eq!((config.family.name, config.video_token), ("LLaVA-OneVision", 9));
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
