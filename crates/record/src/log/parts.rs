//! The parts of a log: state, what the run is about, what the models see, chunks of text.

use std::ops::Range;

use crate::{Failure, Segment, Span, Step, StopReason, Token, Turn, Verdict};

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RunState {
    /// No event of it has arrived.
    #[default]
    Waiting,
    /// It has started.
    Running,
    /// It ended normally, or was cancelled.
    Done(StopReason),
    /// It failed.
    Failed(Failure),
    /// Its recording ends before its last event ([`RunLog::cut_off`](super::RunLog::cut_off)).
    CutOff,
}

/// How far the measurement of a run's speed is, which goes on after its `done` event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speed {
    /// No `speed` event has arrived; in files of earlier versions there is none.
    #[default]
    Unmeasured,
    /// The engine is measuring; the figure may change.
    Measuring,
    /// The figure is final.
    Measured,
}

/// The fields of the `started` event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Started {
    /// The method with all its keys, as in its TOML file.
    pub method: serde_json::Value,
    /// True if the method emits exactly what autoregressive decoding would.
    pub lossless: bool,
    /// Name of the target.
    pub target: String,
    /// Name of the drafter; none for methods without one.
    pub drafter: Option<String>,
    /// Human-readable name of the device.
    pub device: String,
    /// Weight type of the language models.
    pub dtype: String,
    /// The video.
    pub video: String,
    /// The prompt.
    pub prompt: String,
    /// Earlier questions about the same clip, and their answers.
    pub before: Vec<Turn>,
    /// The part of the video that is captioned; none for the whole video.
    pub span: Option<Span>,
    /// Which piece of the video that part is, if the video is captioned piece by piece.
    pub segment: Option<Segment>,
}

impl Started {
    /// True if the target drafts for itself.
    pub fn is_self_drafting(&self) -> bool {
        self.method["drafter"]["kind"] == "self"
    }

    /// The name of the method.
    pub fn method_name(&self) -> &str {
        self.method["name"].as_str().unwrap_or("?")
    }

    /// Models, device and weight type in words: `big with small on cpu, q8_0`.
    pub fn models(&self) -> String {
        let with = self.drafter.as_ref().map(|drafter| format!(" with {drafter}")).unwrap_or_default();
        format!("{}{with} on {}, {}", self.target, self.device, self.dtype)
    }
}

/// What the models see of the video: the fields of the `prompt` event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptSeen {
    /// Time stamps of the sampled frames, in seconds.
    pub frames: Vec<f64>,
    /// Visual tokens as time × rows × columns.
    pub grid: [usize; 3],
    /// Number of visual tokens of the target.
    pub visual_tokens: usize,
    /// Number of tokens of the target's prompt, the visual ones included.
    pub prompt_tokens: usize,
    /// Indices of the visual tokens that the drafter sees; none if it sees all.
    pub kept: Option<Vec<u32>>,
    /// The score of every visual token, where the drafter's were chosen by score.
    pub scores: Option<Vec<f32>>,
    /// Positions on the grid's time axis whose time stamps the drafter does not read.
    pub dropped_stamps: Vec<usize>,
    /// True if the target's prefill was kept from an earlier run.
    pub reused: bool,
}

/// A piece of the caption's text, and the tokens that made it together.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// The text; never empty. The first chunk has no leading space: that space belongs to the end of the prompt.
    pub text: String,
    /// The least strict verdict of its tokens ([`Verdict::least_strict`]).
    pub verdict: Verdict,
    /// Numbers of its first token and of the one after its last, counted over the run.
    pub tokens: Range<usize>,
    /// Number of the token that has this verdict; none if the text came without a step (see [`RunLog::apply`](super::RunLog::apply)).
    pub deciding: Option<usize>,
}

/// A token and its position.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Its step.
    pub step: &'a Step,
    /// Its index among the step's tokens.
    pub at: usize,
    /// The token.
    pub token: &'a Token,
}

/// What one event added to a log: ranges of [`RunLog::chunks`](super::RunLog::chunks) and [`RunLog::notes`](super::RunLog::notes).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Added {
    /// New chunks.
    pub chunks: Range<usize>,
    /// New notes.
    pub notes: Range<usize>,
}

/// The drafts of a step before they are verified: the fields of the `draft` event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// Number of the step, from 0.
    pub index: usize,
    /// The drafted ids, in draft order.
    pub drafted: Vec<u32>,
    /// Their texts, one by one.
    pub drafted_text: Vec<String>,
    /// Of a tree, for each draft the place of the one before it, none = the root. Empty for a chain.
    pub parents: Vec<Option<usize>>,
}
