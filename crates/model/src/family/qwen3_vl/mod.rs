//! Qwen3-VL (arXiv:2511.21631), dense sizes and mixtures of experts.
//!
//! Frames in pairs near their aspect ratio; a tower with learned, interpolated positions and rotary ones, whose states after
//! some blocks become further embeddings of each visual token (DeepStack).

mod config;
pub(super) mod prompt;
mod tower;

pub use config::VisionConfig;

use super::Family;
use crate::{
    config::{
        experts::ExpertSizes,
        text::{Axes, LanguageModel, Sizes},
    },
    processor::VisualRope,
};
use specreel_record::sampling::Rule;

const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "qwen3_vl_text",
    bias: false,
    qk_norm: true,
    interleaved: Some([24, 20, 20]),
    axes: Axes::Three,
    deepstack: true,
    hybrid: None,
    experts: None,
    gemma: false,
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

pub(super) const FAMILY: Family = Family {
    name: "Qwen3-VL",
    model_type: "qwen3_vl",
    architecture: "Qwen3VLForConditionalGeneration",
    language_model: LANGUAGE_MODEL,
    tower: |config| Ok(VisionConfig::from_json(&config.raw["vision_config"])?.into()),
    sampling: Rule::QWEN3_VL,
    template: prompt::TEMPLATE,
    forces_template: false,
    tokens: prompt::TOKENS,
    end_of_turn: None,
    video_text: Some(prompt::video_text),
    positions: |_, _| VisualRope::GRIDS,
};

/// The sizes with experts.
pub(super) const MOE: Family = Family {
    model_type: "qwen3_vl_moe",
    architecture: "Qwen3VLMoeForConditionalGeneration",
    language_model: LanguageModel {
        model_type: "qwen3_vl_moe_text",
        experts: Some(ExpertSizes { experts: 60, chosen: 4, width: 1408, shared: None }),
        gemma: false,
        sizes: Some(Sizes {
            hidden: 2048,
            intermediate: 5632,
            layers: 24,
            heads: 16,
            kv_heads: Some(16),
            head_dim: None,
            vocab: 151_936,
        }),
        ..LANGUAGE_MODEL
    },
    ..FAMILY
};
