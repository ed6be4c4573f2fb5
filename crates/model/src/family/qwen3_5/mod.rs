//! Qwen3.5, dense sizes.
//!
//! Frames, tower and time stamps of Qwen3-VL without DeepStack; a language model with linear attention (gated delta rule,
//! arXiv:2412.06464) in three of four layers, which may think before it answers.

mod prompt;

use super::{
    ClipFacts, FamilyRules, VideoText,
    qwen3_vl::{self, VisionConfig},
};
use crate::{
    config::{
        VlConfig,
        hybrid::Hybrid,
        text::{LanguageModel, Sizes},
    },
    vision::{TowerConfig, VisionError},
};
use specreel_tensor::LinearAttention;

/// Qwen3.5; the defaults are those of the 9B model.
const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "qwen3_5_text",
    bias: false,
    qk_norm: true,
    interleaved: Some([11, 11, 10]),
    one_axis: false,
    deepstack: false,
    hybrid: Some(Hybrid {
        linear: LinearAttention {
            every: 4,
            key_heads: 16,
            value_heads: 32,
            key_dim: 128,
            value_dim: 128,
            kernel: 4,
            tiled: false,
        },
        rotated: 0.25,
    }),
    refused: &["use_sliding_window", "attention_bias"],
    video_token: &["video_token_id"],
    default_video_token: Some(248_057),
    rope_theta: 10_000.0,
    max_positions: 32_768,
    sizes: Some(Sizes {
        hidden: 4096,
        intermediate: 12_288,
        layers: 32,
        heads: 16,
        kv_heads: Some(4),
        head_dim: Some(256),
        vocab: 248_320,
    }),
};

pub(crate) struct Qwen35;

impl FamilyRules for Qwen35 {
    fn name(&self) -> &'static str {
        "Qwen3.5"
    }

    fn model_type(&self) -> &'static str {
        "qwen3_5"
    }

    fn architecture(&self) -> &'static str {
        "Qwen3_5ForConditionalGeneration"
    }

    fn template(&self) -> &'static str {
        prompt::TEMPLATE
    }

    fn tokens(&self) -> &'static [&'static str] {
        prompt::TOKENS
    }

    /// Files of the smaller sizes name only the end of the text.
    fn end_of_turn(&self) -> Option<&'static str> {
        Some(prompt::END_OF_TURN)
    }

    fn video_text(&self, clip: &ClipFacts, frames_per_grid: usize) -> Option<VideoText> {
        Some(qwen3_vl::prompt::video_text(clip, frames_per_grid))
    }

    fn language_model(&self) -> &'static LanguageModel {
        &LANGUAGE_MODEL
    }

    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError> {
        Ok(VisionConfig::without_deepstack(&config.raw["vision_config"])?.into())
    }
}
