//! Qwen3-VL (arXiv:2511.21631), dense sizes.
//!
//! Frames in pairs near their aspect ratio; a tower with learned, interpolated positions beside rotary ones, whose states after
//! some blocks become further embeddings of each visual token (DeepStack).

mod config;
pub(super) mod prompt;
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

/// Qwen3.
const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "qwen3_vl_text",
    bias: false,
    qk_norm: true,
    interleaved: Some([24, 20, 20]),
    one_axis: false,
    deepstack: true,
    hybrid: None,
    refused: &["use_sliding_window", "attention_bias"],
    video_token: &["video_token_id"],
    default_video_token: Some(151_656),
    rope_theta: 500_000.0,
    max_positions: 128_000,
    sizes: Some(Sizes {
        hidden: 4096,
        intermediate: 22_016,
        layers: 32,
        heads: 32,
        kv_heads: Some(32),
        head_dim: Some(128),
        vocab: 151_936,
    }),
};

pub(crate) struct Qwen3Vl;

impl FamilyRules for Qwen3Vl {
    fn name(&self) -> &'static str {
        "Qwen3-VL"
    }

    fn model_type(&self) -> &'static str {
        "qwen3_vl"
    }

    fn architecture(&self) -> &'static str {
        "Qwen3VLForConditionalGeneration"
    }

    fn template(&self) -> &'static str {
        prompt::TEMPLATE
    }

    fn tokens(&self) -> &'static [&'static str] {
        prompt::TOKENS
    }

    fn video_text(&self, clip: &ClipFacts, frames_per_grid: usize) -> Option<VideoText> {
        Some(prompt::video_text(clip, frames_per_grid))
    }

    fn language_model(&self) -> &'static LanguageModel {
        &LANGUAGE_MODEL
    }

    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError> {
        Ok(VisionConfig::from_json(&config.raw["vision_config"])?.into())
    }
}
