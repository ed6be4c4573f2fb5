//! What distinguishes the families.

use super::{ClipFacts, VlConfig};
use crate::{
    config::text::{self, LanguageModel},
    processor::VisualRope,
    vision::{TowerConfig, VisionError},
};
use specreel_record::sampling::Rule;

/// A clip as the text of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoText {
    /// What it replaces in the rendered template: the first of these that is in it.
    pub replaces: &'static [&'static str],
    /// The text, with one placeholder for each temporal grid.
    pub text: String,
    /// The stamp before the first placeholder, at the end of what precedes it.
    pub opening: String,
    /// Tokens after each placeholder that belong to its grid.
    pub closing: usize,
}

impl VideoText {
    /// Put the text in place of the template's own. A template without a place for a video stays as it is.
    pub fn replace(&self, rendered: &str) -> String {
        match self.replaces.iter().find(|place| rendered.contains(**place)) {
            Some(place) => rendered.replacen(place, &self.text, 1),
            None => rendered.to_owned(),
        }
    }
}

/// What a family is: its names, language model, tower, prompt and positions. Each has its own in its folder.
pub trait FamilyRules: Sync {
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

    /// How its frames are sampled, where a checkpoint's files say nothing else.
    fn sampling(&self) -> Rule;

    /// True if prompts take that template whatever the checkpoint's own.
    fn forces_template(&self) -> bool {
        false
    }

    /// The special tokens of a prompt, the video's placeholder first.
    fn tokens(&self) -> &'static [&'static str] {
        &[]
    }

    /// The token that ends a turn, whether or not the checkpoint's files say so.
    fn end_of_turn(&self) -> Option<&'static str> {
        None
    }

    /// How prompts write a clip of so many frames in a temporal grid; none for one placeholder where the template has it.
    fn video_text(&self, _: &ClipFacts, _frames_per_grid: usize) -> Option<VideoText> {
        None
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
