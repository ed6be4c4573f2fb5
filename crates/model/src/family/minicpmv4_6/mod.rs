//! MiniCPM-V 4.6.
//!
//! Every frame is a picture near its aspect ratio for SigLIP, between whose layers squares of four states become one; four
//! of what remains are projected to a visual token. The language model is Qwen3.5's with positions on one axis.

mod config;
mod prompt;
mod tower;

pub use config::MiniCpmVisionConfig;

use super::{Family, qwen3_5};
use crate::{
    config::text::{Axes, LanguageModel},
    processor::VisualRope,
};
use specreel_record::sampling::Rule;

const LANGUAGE_MODEL: LanguageModel =
    LanguageModel { interleaved: None, axes: Axes::Equal, ..qwen3_5::LANGUAGE_MODEL };

pub(super) const FAMILY: Family = Family {
    name: "MiniCPM-V 4.6",
    model_type: "minicpmv4_6",
    architecture: "MiniCPMV4_6ForConditionalGeneration",
    language_model: LANGUAGE_MODEL,
    tower: |config| Ok(MiniCpmVisionConfig::from_json(&config.raw, config.text.hidden)?.into()),
    sampling: Rule::MINICPM_V,
    template: prompt::TEMPLATE,
    forces_template: false,
    tokens: prompt::TOKENS,
    end_of_turn: Some(prompt::END_OF_TURN),
    video_text: Some(prompt::video_text),
    positions: |_, _| VisualRope::Sequential,
};
