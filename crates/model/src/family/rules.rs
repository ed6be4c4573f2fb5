//! What distinguishes the families.

use super::{ClipFacts, VlConfig};
use crate::{
    config::text::LanguageModel,
    processor::VisualRope,
    vision::{TowerConfig, VisionError},
};
use specreel_record::sampling::Rule;

/// A clip as the text of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoText {
    /// What it replaces in the rendered template: the first of these that is in it.
    pub(crate) replaces: &'static [&'static str],
    /// The text, with one placeholder for each temporal grid.
    pub text: String,
    /// The stamp before the first placeholder, at the end of what precedes it.
    pub opening: String,
    /// Tokens after each placeholder that belong to its grid.
    pub(crate) closing: usize,
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

/// A family of Video-LLMs: its names, language model, tower, prompt and positions. Each has its own in its folder.
pub struct Family {
    /// The display name.
    pub name: &'static str,
    /// `model_type` in `config.json`.
    pub model_type: &'static str,
    /// The entry of `architectures` in `config.json`.
    pub architecture: &'static str,
    /// What its language model fixes.
    pub language_model: LanguageModel,
    pub tower: fn(&VlConfig) -> Result<TowerConfig, VisionError>,
    /// How its frames are sampled, where a checkpoint's files say nothing else.
    pub sampling: Rule,
    /// The chat template for checkpoints without one.
    pub template: &'static str,
    /// True if prompts use that template instead of the checkpoint's own.
    pub(crate) forces_template: bool,
    /// The special tokens of a prompt, the video's placeholder first.
    pub tokens: &'static [&'static str],
    /// The token that ends a turn, whether or not the checkpoint's files say so.
    pub(crate) end_of_turn: Option<&'static str>,
    /// How prompts write a clip of so many frames in a temporal grid; `None` for one placeholder where the template has it.
    pub video_text: Option<fn(&ClipFacts, usize) -> VideoText>,
    /// Positions of visual tokens on three axes, in models that have them, of temporal grids of so many seconds.
    pub positions: fn(&TowerConfig, f32) -> VisualRope,
}
