//! The supported model families.

use serde_json::Value;

use super::{
    ClipFacts, FamilyRules, llava_onevision::LlavaOnevision, qwen2_vl::Generation, qwen3_5::Qwen35,
    qwen3_vl::Qwen3Vl, smolvlm::SmolVlm,
};
use crate::processor::VisualGrid;

/// A family of Video-LLMs, with its tower, prompt layout and positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Qwen2-VL: a tower with full attention, M-RoPE with time in frame pairs.
    Qwen2Vl,
    /// Qwen2.5-VL: a tower with windowed attention, M-RoPE with time in seconds.
    Qwen25Vl,
    /// LLaVA-OneVision in the layout of `llava-hf`: SigLIP, pooled frames, 1-D positions.
    LlavaOnevision,
    /// Qwen3-VL: interpolated positions and DeepStack, a time stamp before each frame pair.
    Qwen3Vl,
    /// Qwen3.5: Qwen3-VL's tower without DeepStack, linear attention in most layers, thinking before an answer.
    Qwen35,
    /// SmolVLM2: SigLIP with pixel shuffle and Llama, a time stamp before each frame.
    SmolVlm,
}

impl Family {
    /// All families.
    pub const ALL: [Family; 6] = [
        Family::Qwen2Vl,
        Family::Qwen25Vl,
        Family::LlavaOnevision,
        Family::Qwen3Vl,
        Family::Qwen35,
        Family::SmolVlm,
    ];

    /// What the family is.
    pub fn rules(self) -> &'static dyn FamilyRules {
        match self {
            Family::Qwen2Vl => &Generation::Qwen2,
            Family::Qwen25Vl => &Generation::Qwen25,
            Family::LlavaOnevision => &LlavaOnevision,
            Family::Qwen3Vl => &Qwen3Vl,
            Family::Qwen35 => &Qwen35,
            Family::SmolVlm => &SmolVlm,
        }
    }

    /// The display name.
    pub fn name(self) -> &'static str {
        self.rules().name()
    }

    /// `model_type` in `config.json`.
    pub fn model_type(self) -> &'static str {
        self.rules().model_type()
    }

    /// The entry of `architectures` in `config.json`.
    fn architecture(self) -> &'static str {
        self.rules().architecture()
    }

    /// The chat template for checkpoints without one.
    pub fn template(self) -> &'static str {
        self.rules().template()
    }

    /// True if prompts have a time stamp before the visual tokens of every temporal grid.
    pub fn writes_stamps(self) -> bool {
        let one = ClipFacts::steady(VisualGrid { t: 1, h: 1, w: 1 }, 1, 1.0);
        self.rules().video_text(&one, 1).is_some()
    }

    /// All names, comma-separated.
    pub fn supported() -> String {
        Self::ALL.map(|family| format!("{} ({})", family.name(), family.model_type())).join(", ")
    }

    /// The family of a `config.json`, by `model_type` or else by `architectures`.
    ///
    /// # Errors
    /// A message with the supported families.
    pub fn of(config: &Value) -> Result<Self, String> {
        let model_type = config.get("model_type").and_then(Value::as_str);
        let architecture = || config.get("architectures")?.as_array()?.first()?.as_str();
        let known = |family: &&Self| {
            model_type == Some(family.model_type())
                || (model_type.is_none() && architecture() == Some(family.architecture()))
        };
        Self::ALL.iter().find(known).copied().ok_or_else(|| match model_type.or_else(architecture) {
            None => "missing `model_type`: not a Hugging Face model directory".into(),
            Some(other) => {
                format!("unsupported architecture `{other}`, expected one of: {}", Self::supported())
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn families_are_found_by_either_name() {
        for family in Family::ALL {
            assert_eq!(Family::of(&json!({"model_type": family.model_type()})), Ok(family));
            assert_eq!(Family::of(&json!({"architectures": [family.architecture()]})), Ok(family));
        }
    }

    #[test]
    fn newer_families_write_the_time() {
        let stamped: Vec<Family> = Family::ALL.into_iter().filter(|family| family.writes_stamps()).collect();
        assert_eq!(stamped, [Family::Qwen3Vl, Family::Qwen35, Family::SmolVlm]);
    }

    #[test]
    fn other_architectures_are_refused_with_the_list() {
        let both = json!({"model_type": "qwen9_vl", "architectures": ["Qwen2VLForConditionalGeneration"]});
        for (config, word) in [(both, "qwen9_vl"), (json!({"architectures": ["LlamaForCausalLM"]}), "Llama")]
        {
            let error = Family::of(&config).unwrap_err();
            assert!(error.contains(word), "{error}");
            assert!(Family::ALL.iter().all(|f| error.contains(f.name()) && error.contains(f.model_type())));
        }
        assert!(Family::of(&json!({})).unwrap_err().contains("missing `model_type`"));
        assert!(Family::of(&json!([1])).is_err());
    }
}
