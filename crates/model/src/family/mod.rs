//! Whole Video-LLMs: which tower, prompt layout and positions a checkpoint uses.
//!
//! [`VideoLlm`] is a loaded model of any family. A family is a folder with a [`Family`] and an implementation of its tower's
//! rules, and a line in [`Family::ALL`]. No other code depends on the family.

mod clip;
mod config;
mod error;
pub mod gemma4;
#[cfg(test)]
mod layout_tests;
pub mod llava_onevision;
mod meaning;
pub mod minicpmv4_6;
mod prompt;
mod prompt_ids;
pub mod qwen2_vl;
pub mod qwen3_5;
pub mod qwen3_vl;
mod rules;
mod self_draft;
pub mod smolvlm;
mod source;
mod video_llm;

use std::fmt;

use serde_json::Value;

use crate::processor::ProcessorConfig;
use specreel_record::sampling::Rule;

pub use clip::ClipFacts;
pub use config::VlConfig;
pub use error::ModelError;
pub use prompt::{Prompt, Rope};
pub(crate) use prompt_ids::prompt_ids;
pub use rules::{Family, VideoText};
pub use source::ReadModel;
pub use video_llm::VideoLlm;

impl Family {
    pub const ALL: [&'static Family; 10] = [
        &qwen2_vl::QWEN2_VL,
        &qwen2_vl::QWEN25_VL,
        &llava_onevision::FAMILY,
        &qwen3_vl::FAMILY,
        &qwen3_vl::MOE,
        &qwen3_5::FAMILY,
        &qwen3_5::MOE,
        &minicpmv4_6::FAMILY,
        &smolvlm::FAMILY,
        &gemma4::FAMILY,
    ];

    /// True if prompts have text around the visual tokens of every temporal grid: its time, or marks alone.
    pub fn writes_stamps(&self) -> bool {
        self.video_text.is_some()
    }

    /// How a model with this frame processor samples frames.
    pub fn rule(&self, processor: &ProcessorConfig) -> Rule {
        let own = processor.sampling.unwrap_or_default();
        self.sampling.with(own.fps, own.min_frames, own.max_frames)
    }

    /// The name of each, once.
    pub fn names() -> Vec<&'static str> {
        let mut names = Self::ALL.map(|family| family.name).to_vec();
        names.dedup();
        names
    }

    /// All names, comma-separated.
    pub fn supported() -> String {
        Self::ALL.map(|family| format!("{} ({})", family.name, family.model_type)).join(", ")
    }

    /// The family of a `config.json`, by `model_type` or else by `architectures`.
    pub fn of(config: &Value) -> Result<&'static Self, String> {
        let model_type = config.get("model_type").and_then(Value::as_str);
        let architecture = || config.get("architectures")?.as_array()?.first()?.as_str();
        let known = |family: &&&Self| {
            model_type == Some(family.model_type)
                || (model_type.is_none() && architecture() == Some(family.architecture))
        };
        Self::ALL.iter().find(known).copied().ok_or_else(|| match model_type.or_else(architecture) {
            None => "missing `model_type`: not a Hugging Face model directory".into(),
            Some(other) => {
                format!("unsupported architecture `{other}`, expected one of: {}", Self::supported())
            }
        })
    }
}

/// Models with and without experts are one family: they have the same prompts, tokens and frames, and draft for each other.
impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Family {}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn families_are_found_by_either_name() {
        for family in Family::ALL {
            for config in
                [json!({"model_type": family.model_type}), json!({"architectures": [family.architecture]})]
            {
                assert_eq!(Family::of(&config).map(|found| found.model_type), Ok(family.model_type));
            }
        }
    }

    #[test]
    fn newer_families_write_around_every_grid() {
        let stamped = Family::ALL.into_iter().filter(|family| family.writes_stamps());
        let mut names: Vec<&str> = stamped.map(|family| family.name).collect();
        names.dedup();
        assert_eq!(names, ["Qwen3-VL", "Qwen3.5", "MiniCPM-V 4.6", "SmolVLM2", "Gemma 4"]);
    }

    /// Sections for three axes have no effect where all axes hold the same positions, in any form.
    #[test]
    fn minicpmv_has_the_language_model_of_qwen_with_one_axis() {
        let published =
            include_str!("../../../../tests/parity/fixtures/published/configs/minicpm-v-4.6.json");
        let mut raw: Value = serde_json::from_str(published).unwrap();
        let config = VlConfig::resolve(raw.clone()).unwrap();
        assert_eq!((config.family.name, config.text.mrope_section), ("MiniCPM-V 4.6", None));
        assert!(config.text.linear.is_some() && config.text.qk_norm && config.text.tied);
        assert_eq!((config.text.rotary_dim, config.text.rope_theta), (64, 1e7));
        let rope = &mut raw["text_config"]["rope_parameters"];
        rope["mrope_section"] = json!([11, 11, 10]);
        rope["mrope_interleaved"] = true.into();
        assert_eq!(VlConfig::resolve(raw.clone()).unwrap().text, config.text);
        raw["text_config"]["model_type"] = json!("llama");
        assert!(VlConfig::resolve(raw).unwrap_err().contains("expected qwen3_5_text"));
    }

    #[test]
    fn other_architectures_are_refused_with_the_list() {
        let both = json!({"model_type": "qwen9_vl", "architectures": ["Qwen2VLForConditionalGeneration"]});
        for (config, word) in [(both, "qwen9_vl"), (json!({"architectures": ["LlamaForCausalLM"]}), "Llama")]
        {
            let error = Family::of(&config).unwrap_err();
            assert!(error.contains(word), "{error}");
            assert!(Family::ALL.iter().all(|f| error.contains(f.name) && error.contains(f.model_type)));
        }
        assert!(Family::of(&json!({})).unwrap_err().contains("missing `model_type`"));
        assert!(Family::of(&json!([1])).is_err());
    }
}
