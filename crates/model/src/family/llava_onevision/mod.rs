//! LLaVA-OneVision (arXiv:2408.03326) in the layout of `llava-hf`.
//!
//! Every frame is a picture of fixed size for SigLIP, projected and pooled to 196 visual tokens; a learned newline ends the
//! video. The language model is Qwen2 with positions on one axis.

mod config;
mod tower;

pub use config::{LlavaConfig, POOL};

use super::Family;
use crate::{config::text::QWEN2, processor::VisualRope};
use specreel_record::sampling::Rule;

/// The template for checkpoints without one.
pub const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<video>\n{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}\
{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub(super) const FAMILY: Family = Family {
    name: "LLaVA-OneVision",
    model_type: "llava_onevision",
    architecture: "LlavaOnevisionForConditionalGeneration",
    language_model: QWEN2,
    tower: |config| Ok(LlavaConfig::from_json(&config.raw, config.text.hidden)?.into()),
    sampling: Rule::LLAVA_ONEVISION,
    template: TEMPLATE,
    forces_template: false,
    tokens: &[],
    end_of_turn: None,
    video_text: None,
    positions: |_, _| VisualRope::GRIDS,
};
