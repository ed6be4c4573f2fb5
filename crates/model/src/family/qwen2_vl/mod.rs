//! Qwen2-VL (arXiv:2409.12191) and Qwen2.5-VL (arXiv:2502.13923).
//!
//! Frames in pairs near their aspect ratio; a tower with rotary positions whose states are merged two by two; the Qwen2
//! language model with M-RoPE. Qwen2-VL attends to whole grids and counts grids on the time axis, Qwen2.5-VL attends within
//! windows and counts seconds.

mod config;
mod tower;
mod windows;

pub use config::{Generation, RawVisionConfig, VisionConfig};

use super::Family;
use crate::{config::text::QWEN2, processor::VisualRope};
use specreel_record::sampling::Rule;

/// The template for checkpoints without one.
pub const TEMPLATE: &str = "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}\
<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}\
{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

pub(super) const QWEN2_VL: Family = Family {
    name: "Qwen2-VL",
    model_type: "qwen2_vl",
    architecture: "Qwen2VLForConditionalGeneration",
    language_model: QWEN2,
    tower: |config| Ok(VisionConfig::from_json(&config.raw["vision_config"], Generation::Qwen2)?.into()),
    sampling: Rule::QWEN_VL,
    template: TEMPLATE,
    forces_template: false,
    tokens: &[],
    end_of_turn: None,
    video_text: None,
    positions: |tower, seconds_per_grid| match tower.rules().tokens_per_second() {
        None => VisualRope::GRIDS,
        Some(tokens_per_second) => VisualRope::Multimodal { seconds_per_grid, tokens_per_second },
    },
};

pub(super) const QWEN25_VL: Family = Family {
    name: "Qwen2.5-VL",
    model_type: "qwen2_5_vl",
    architecture: "Qwen2_5_VLForConditionalGeneration",
    tower: |config| Ok(VisionConfig::from_json(&config.raw["vision_config"], Generation::Qwen25)?.into()),
    ..QWEN2_VL
};
