//! LLaVA-OneVision (arXiv:2408.03326) in the layout of `llava-hf`.
//!
//! Every frame is a picture of fixed size for SigLIP, projected and pooled to 196 visual tokens; a learned newline ends the
//! video. The language model is Qwen2 with positions on one axis.

mod config;
mod tower;

pub use config::{LlavaConfig, POOL};

use super::FamilyRules;
use crate::{
    config::VlConfig,
    vision::{TowerConfig, VisionError},
};

/// The template for checkpoints without one.
pub const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<video>\n{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}\
{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub(crate) struct LlavaOnevision;

impl FamilyRules for LlavaOnevision {
    fn name(&self) -> &'static str {
        "LLaVA-OneVision"
    }

    fn model_type(&self) -> &'static str {
        "llava_onevision"
    }

    fn architecture(&self) -> &'static str {
        "LlavaOnevisionForConditionalGeneration"
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError> {
        Ok(LlavaConfig::from_json(&config.raw, config.text.hidden)?.into())
    }
}
