//! Qwen2-VL (arXiv:2409.12191) and Qwen2.5-VL (arXiv:2502.13923).
//!
//! Frames in pairs near their aspect ratio; a tower with rotary positions whose states are merged two by two; the Qwen2
//! language model with M-RoPE. Qwen2-VL attends to whole grids and counts grids on the time axis, Qwen2.5-VL attends within
//! windows and counts seconds.

mod config;
mod tower;
mod windows;

pub use config::{Generation, RawVisionConfig, VisionConfig};

use super::FamilyRules;
use crate::{
    config::VlConfig,
    processor::VisualRope,
    vision::{TowerConfig, VisionError},
};

/// The template for checkpoints without one.
pub const TEMPLATE: &str = "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}\
<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}\
{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

impl FamilyRules for Generation {
    fn name(&self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2-VL",
            Self::Qwen25 => "Qwen2.5-VL",
        }
    }

    fn model_type(&self) -> &'static str {
        match self {
            Self::Qwen2 => "qwen2_vl",
            Self::Qwen25 => "qwen2_5_vl",
        }
    }

    fn architecture(&self) -> &'static str {
        match self {
            Self::Qwen2 => "Qwen2VLForConditionalGeneration",
            Self::Qwen25 => "Qwen2_5_VLForConditionalGeneration",
        }
    }

    fn template(&self) -> &'static str {
        TEMPLATE
    }

    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError> {
        Ok(VisionConfig::from_json(&config.raw["vision_config"], *self)?.into())
    }

    fn positions(&self, tower: &TowerConfig, seconds_per_grid: f32) -> VisualRope {
        match tower.rules().tokens_per_second() {
            None => VisualRope::GRIDS,
            Some(tokens_per_second) => VisualRope::Multimodal { seconds_per_grid, tokens_per_second },
        }
    }
}
