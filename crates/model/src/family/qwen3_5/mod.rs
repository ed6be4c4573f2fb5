//! Qwen3.5, dense sizes and mixtures of experts.
//!
//! Frames, tower and time stamps of Qwen3-VL without DeepStack; a language model with linear attention (gated delta rule,
//! arXiv:2412.06464) in three of four layers, which may think before it answers.

pub(super) mod prompt;

use super::{
    Family,
    qwen3_vl::{self, VisionConfig},
};
use crate::config::{
    experts::ExpertSizes,
    hybrid::Hybrid,
    text::{Axes, LanguageModel, Sizes},
};
use specreel_tensor::LinearAttention;

/// Qwen3.5; the defaults are the 9B model's.
pub(super) const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "qwen3_5_text",
    bias: false,
    qk_norm: true,
    interleaved: Some([11, 11, 10]),
    axes: Axes::Three,
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
    experts: None,
    gemma: false,
    refused: &["use_sliding_window", "attention_bias", "language_model_only"],
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

pub(super) const FAMILY: Family = Family {
    name: "Qwen3.5",
    model_type: "qwen3_5",
    architecture: "Qwen3_5ForConditionalGeneration",
    language_model: LANGUAGE_MODEL,
    tower: |config| Ok(VisionConfig::without_deepstack(&config.raw["vision_config"])?.into()),
    template: prompt::TEMPLATE,
    tokens: prompt::TOKENS,
    // Files of the smaller sizes name only the end of the text.
    end_of_turn: Some(prompt::END_OF_TURN),
    ..qwen3_vl::FAMILY
};

/// The sizes with experts; the defaults are the 35B model's.
pub(super) const MOE: Family = Family {
    model_type: "qwen3_5_moe",
    architecture: "Qwen3_5MoeForConditionalGeneration",
    language_model: LanguageModel {
        model_type: "qwen3_5_moe_text",
        experts: Some(ExpertSizes { experts: 256, chosen: 8, width: 512, shared: Some(512) }),
        gemma: false,
        sizes: Some(Sizes {
            hidden: 2048,
            // No layer is dense.
            intermediate: 512,
            layers: 40,
            heads: 16,
            kv_heads: Some(2),
            head_dim: Some(256),
            vocab: 248_320,
        }),
        ..LANGUAGE_MODEL
    },
    ..FAMILY
};
