//! Gemma 4: E2B and E4B.
//!
//! Every frame is a picture near its aspect ratio, with its time before it. The layers of the language model attend within a window and
//! over all slots in turn, the later ones to keys and values of earlier ones, and each adds embeddings of its own. The larger sizes, which
//! have attention in both directions within a picture, keys that serve as values, or experts, are refused by name, and so is what hears.

mod config;
mod prompt;
mod tower;

pub use config::GemmaVisionConfig;

use super::Family;
use crate::{
    config::text::{Axes, LanguageModel, Sizes},
    processor::VisualRope,
};
use specreel_record::sampling::Rule;

const LANGUAGE_MODEL: LanguageModel = LanguageModel {
    model_type: "gemma4",
    bias: false,
    qk_norm: true,
    interleaved: None,
    axes: Axes::One,
    deepstack: false,
    hybrid: None,
    experts: None,
    gemma: true,
    refused: &[],
    video_token: &["video_token_id"],
    default_video_token: Some(258_884),
    rope_theta: 1e6,
    max_positions: 131_072,
    sizes: Some(Sizes {
        hidden: 2304,
        intermediate: 9216,
        layers: 30,
        heads: 8,
        kv_heads: Some(4),
        head_dim: Some(256),
        vocab: 262_144,
    }),
};

pub(super) const FAMILY: Family = Family {
    name: "Gemma 4",
    model_type: "gemma4",
    architecture: "Gemma4ForConditionalGeneration",
    language_model: LANGUAGE_MODEL,
    tower: |config| Ok(GemmaVisionConfig::from_json(&config.raw["vision_config"], config.text.hidden)?.into()),
    sampling: Rule::GEMMA4,
    template: prompt::TEMPLATE,
    forces_template: false,
    tokens: prompt::TOKENS,
    end_of_turn: Some(prompt::END_OF_TURN),
    video_text: Some(prompt::video_text),
    positions: |_, _| VisualRope::Sequential,
};
