//! `config.json` of a checkpoint: a raw mirror of the file, resolved into a configuration without options.
//!
//! Both layouts are supported: the original flat one, and the newer one with the language model under `text_config`.

pub(crate) mod hybrid;
pub(crate) mod text;

use specreel_tensor::{KvType, LinearAttention, WeightType};
use std::path::Path;

use self::text::LanguageModel;
use super::family::Family;
use specreel_checkpoint::files;
use specreel_tensor::CheckpointError;

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
    /// True if the three axes alternate over the frequencies (time, row, column, time, …); else they are blocks.
    pub interleaved: bool,
    /// True if queries, keys and values have biases.
    pub bias: bool,
    /// True if queries and keys are normed in each head before they are rotated.
    pub qk_norm: bool,
    /// True if attention's output is multiplied by the logistic function of a gate, whose rows follow those of the query in each
    /// head of `q_proj`.
    pub output_gate: bool,
    /// Values of a head that are rotated, the first ones; all others keep their value at any position.
    pub rotary_dim: usize,
    /// True if the weights of norms are stored as their difference from 1.
    pub norm_offset: bool,
    /// The layers with linear attention; none if all have full attention.
    pub linear: Option<LinearAttention>,
    /// DeepStack levels n: a visual token has 1 + n embeddings, of which one is added after each of the first n layers. 0 for
    /// none.
    pub deepstack: usize,
    /// Added to the mean square in norms.
    pub norm_eps: f32,
    /// Longest context that the checkpoint supports.
    pub max_positions: usize,
}

impl TextConfig {
    /// True if a layer has linear attention.
    pub fn is_linear(&self, layer: usize) -> bool {
        self.linear.is_some_and(|linear| !(layer + 1).is_multiple_of(linear.every))
    }

    /// Number of layers with full attention: those that have keys and values in the cache.
    pub fn attention_layers(&self) -> usize {
        self.linear.map_or(self.layers, |linear| self.layers / linear.every)
    }

    /// Key heads and value heads of all layers.
    fn cached_heads(&self) -> usize {
        self.attention_layers() * 2 * self.kv_heads
    }

    /// Bytes of the keys and values of one token in all layers.
    pub fn kv_bytes(&self, kind: KvType) -> usize {
        kind.token_bytes(self.cached_heads(), self.head_dim)
    }

    /// The type of keys and values on the CPU if this one was requested, see [`KvType::fitting`].
    pub fn kv_type(&self, requested: KvType, dtype: WeightType) -> KvType {
        requested.fitting(self.cached_heads(), self.head_dim, dtype)
    }

    /// Bytes of the states of all layers with linear attention, as a sequence keeps them to be rolled back.
    pub fn recurrent_bytes(&self) -> usize {
        /// The settled and the current state, and two marks.
        const STATES: usize = 4;
        /// Rows of a step and of the drafts before it.
        const LOGGED: usize = 16;
        let layer = self.linear.map_or(0, |l| {
            let row = l.channels() + l.keys() + l.values() + l.value_heads;
            STATES * (l.state() + (l.kernel - 1) * l.channels()) + LOGGED * row
        });
        (self.layers - self.attention_layers()) * layer * size_of::<f32>()
    }

    /// Number of a layer among those of its kind, full or linear attention.
    pub fn index_in_kind(&self, layer: usize) -> usize {
        (0..layer).filter(|other| self.is_linear(*other) == self.is_linear(layer)).count()
    }

    /// Width of a prompt's rows: the embedding, and one more for each DeepStack level. Text rows hold zeros there.
    pub fn input_width(&self) -> usize {
        (1 + self.deepstack) * self.hidden
    }
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
        LanguageModel::refuse_experts(&raw)?;
        let family = Family::of(&raw)?;
        let model = family.rules().language_model();
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
    fn value_heads_find_their_key_head() {
        let shape = |tiled| LinearAttention {
            every: 4,
            key_heads: 2,
            value_heads: 6,
            key_dim: 8,
            value_dim: 8,
            kernel: 4,
            tiled,
        };
        let heads = |tiled| (0..6).map(|head| shape(tiled).key_head(head)).collect::<Vec<_>>();
        assert_eq!(heads(false), [0, 0, 0, 1, 1, 1]);
        assert_eq!(heads(true), [0, 1, 0, 1, 0, 1]);
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
