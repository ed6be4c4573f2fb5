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
use crate::{config::GEMMA4, processor::VisualRope};
use specreel_record::sampling::Rule;

pub(super) const FAMILY: Family = Family {
    name: "Gemma 4",
    model_type: "gemma4",
    architecture: "Gemma4ForConditionalGeneration",
    language_model: GEMMA4,
    tower: |config| Ok(GemmaVisionConfig::from_json(&config.raw["vision_config"], config.text.hidden)?.into()),
    sampling: Rule::GEMMA4,
    template: prompt::TEMPLATE,
    forces_template: false,
    tokens: prompt::TOKENS,
    end_of_turn: Some(prompt::END_OF_TURN),
    video_text: Some(prompt::video_text),
    positions: |_, _| VisualRope::Sequential,
};
