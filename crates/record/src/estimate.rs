//! What a run takes, known before it starts.

use serde::{Deserialize, Serialize};

/// Where the times of an [`Estimate`] come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Speeds measured in earlier runs of the same models.
    Measured,
    /// Short passes of parts of the models, timed just before. Less accurate.
    Probed,
}

/// Frames, tokens, time and memory of a run, before its first slow stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Estimate {
    pub frames: usize,
    /// Width of a frame as the models see it, in pixels.
    pub width: usize,
    pub height: usize,
    /// Number of visual tokens (of the target).
    pub visual_tokens: usize,
    /// Number of prompt tokens, visual ones included.
    pub prompt_tokens: usize,
    /// The longest caption, in tokens.
    pub max_new_tokens: usize,
    /// Time of the vision towers in milliseconds, without what earlier runs have left; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tower_ms: Option<f64>,
    /// Time in which target and drafter prefill the prompt, in milliseconds; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_ms: Option<f64>,
    /// Time to write `max_new_tokens` tokens, in milliseconds; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing_ms: Option<f64>,
    /// Where these times come from; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Peak memory of models and run in bytes; `None` if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// What a limit of visual tokens changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Estimate {
    /// Time from the first frame to the last token in milliseconds, if all parts are known.
    pub fn total_ms(&self) -> Option<f64> {
        Some(self.tower_ms? + self.prompt_ms? + self.writing_ms?)
    }
}
