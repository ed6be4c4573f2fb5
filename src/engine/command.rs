//! What the faces ask of the engine.

use std::path::PathBuf;

pub use crate::model::template::Turn;
use crate::{model::ModelSpec, speculate::Method, video::Sampling};

/// One generation to run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRequest {
    /// Number of the run, chosen by the caller, from 1; every event carries it.
    pub run: u64,
    /// The video file.
    pub video: PathBuf,
    /// Earlier questions about the same clip, and their answers.
    pub before: Vec<Turn>,
    /// The user's prompt, without template.
    pub prompt: String,
    /// How to decode.
    pub method: Method,
    /// Which frames to look at.
    pub sampling: Sampling,
    /// Upper limit of pixels per frame; none = the checkpoint's own.
    pub max_pixels: Option<usize>,
    /// Stop after this many tokens.
    pub max_new_tokens: usize,
    /// Sampling of the text; temperature 0 is greedy.
    pub text: TextSampling,
    /// How many of the target's most likely tokens to report with each token.
    pub logprobs: usize,
}

impl RunRequest {
    /// The whole conversation as one name for what is kept of it.
    pub(super) fn asked(&self) -> String {
        let before = self.before.iter().flat_map(|turn| [turn.prompt.as_str(), turn.answer.as_str()]);
        before.chain([self.prompt.as_str()]).collect::<Vec<_>>().join("\0")
    }
}

/// How the target's distribution becomes a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextSampling {
    /// 0 = greedy.
    pub temperature: f32,
    /// Nucleus mass, (0, 1].
    pub top_p: f32,
    /// Seed of all randomness of the run.
    pub seed: u64,
}

impl Default for TextSampling {
    fn default() -> Self {
        Self { temperature: 0.0, top_p: 1.0, seed: 0 }
    }
}

/// A command to the engine thread.
#[derive(Clone, Debug)]
pub enum Command {
    /// From now on load and run even if memory seems not to suffice.
    IgnoreMemory,
    /// Load (or change) the models; answered by `Ready` or `Failed` with run 0.
    Load(ModelSpec),
    /// Run one generation.
    Run(Box<RunRequest>),
}
