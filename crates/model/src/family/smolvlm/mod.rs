//! SmolVLM2 (arXiv:2504.05299).
//!
//! Every frame is a picture of fixed size for SigLIP; squares of its states are joined and projected to visual tokens.

mod config;
mod prompt;
mod tower;

pub use config::VisionConfig;

use super::{ClipFacts, FamilyRules, VideoText};
use crate::{
    config::{
        VlConfig,
        text::{LanguageModel, Sizes},
    },
    vision::{TowerConfig, VisionError},
};

const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "llama",
    bias: false,
    qk_norm: false,
    interleaved: None,
    one_axis: true,
    deepstack: false,
    hybrid: None,
    refused: &["attention_bias", "mlp_bias"],
    video_token: &["image_token_id"],
    default_video_token: Some(128_257),
    rope_theta: 10_000.0,
    max_positions: 2048,
    sizes: Some(Sizes {
        hidden: 4096,
        intermediate: 11_008,
        layers: 32,
        heads: 32,
        kv_heads: None,
        head_dim: None,
        vocab: 32_000,
    }),
};

pub(crate) struct SmolVlm;

impl FamilyRules for SmolVlm {
    fn name(&self) -> &'static str {
        "SmolVLM2"
    }

    fn model_type(&self) -> &'static str {
        "smolvlm"
    }

    fn architecture(&self) -> &'static str {
        "SmolVLMForConditionalGeneration"
    }

    fn template(&self) -> &'static str {
        prompt::TEMPLATE
    }

    fn forces_template(&self) -> bool {
        true
    }

    fn tokens(&self) -> &'static [&'static str] {
        prompt::TOKENS
    }

    fn end_of_turn(&self) -> Option<&'static str> {
        Some(prompt::END_OF_TURN)
    }

    fn video_text(&self, clip: &ClipFacts, frames_per_grid: usize) -> Option<VideoText> {
        Some(prompt::video_text(clip, frames_per_grid))
    }

    fn language_model(&self) -> &'static LanguageModel {
        &LANGUAGE_MODEL
    }

    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError> {
        Ok(VisionConfig::from_json(&config.raw, config.text.hidden)?.into())
    }
}
