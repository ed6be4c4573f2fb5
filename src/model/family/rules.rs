//! What distinguishes the families.

use crate::model::{
    config::{
        VlConfig,
        text::{self, LanguageModel},
    },
    processor::VisualRope,
    vision::{TowerConfig, VisionError},
};

/// What a family is: its names, language model, tower, prompt and positions. Each has its own in its folder.
pub(in crate::model) trait FamilyRules: Sync {
    /// The display name.
    fn name(&self) -> &'static str;

    /// `model_type` in `config.json`.
    fn model_type(&self) -> &'static str;

    /// The entry of `architectures` in `config.json`.
    fn architecture(&self) -> &'static str;

    /// The chat template for checkpoints without one.
    fn template(&self) -> &'static str;

    /// What its language model fixes; Qwen2 unless it says otherwise.
    fn language_model(&self) -> &'static LanguageModel {
        &text::QWEN2
    }

    /// The vision tower.
    ///
    /// # Errors
    /// [`VisionError`] for values that are missing, out of range or not supported.
    fn tower(&self, config: &VlConfig) -> Result<TowerConfig, VisionError>;

    /// Positions of visual tokens on three axes, in models that have them.
    fn positions(&self, _: &TowerConfig, _seconds_per_grid: f32) -> VisualRope {
        VisualRope::GRIDS
    }
}
