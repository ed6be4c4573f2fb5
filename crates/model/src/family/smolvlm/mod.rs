//! SmolVLM2 (arXiv:2504.05299).
//!
//! Every frame is a picture of fixed size for SigLIP; squares of its states are joined and projected to visual tokens.

mod config;
mod prompt;
mod tower;

pub use config::SmolVlmVisionConfig;

use super::Family;
use crate::{
    config::text::{Axes, LanguageModel, Sizes},
    processor::VisualRope,
};
use specreel_record::sampling::Rule;

const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "llama",
    bias: false,
    qk_norm: false,
    interleaved: None,
    axes: Axes::One,
    deepstack: false,
    hybrid: None,
    experts: None,
    gemma: false,
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

pub(super) const FAMILY: Family = Family {
    name: "SmolVLM2",
    model_type: "smolvlm",
    architecture: "SmolVLMForConditionalGeneration",
    language_model: LANGUAGE_MODEL,
    tower: |config| Ok(SmolVlmVisionConfig::from_json(&config.raw, config.text.hidden)?.into()),
    sampling: Rule::SMOLVLM,
    template: prompt::TEMPLATE,
    forces_template: true,
    tokens: prompt::TOKENS,
    end_of_turn: Some(prompt::END_OF_TURN),
    video_text: Some(prompt::video_text),
    positions: |_, _| VisualRope::GRIDS,
};
