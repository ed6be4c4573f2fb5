//! The one event schema: engine message, `--json` line, session line, replay input.

use serde::{Deserialize, Serialize};

use super::{Estimate, Segment, Span, Speedup, Stats, Step, StopReason, Turn, Verification, speedup, step};

/// One event of one run. Serialises flat: `{"event":"step","run":1,…}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The run it belongs to; runs count from 1, 0 is the engine itself (loading models).
    pub run: u64,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A phase of work whose progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Reading model files.
    Load,
    /// Recognizing speech, in seconds of the video.
    Listen,
    Decode,
    Encode,
    Prefill,
    /// Choosing the drafter's visual tokens.
    Select,
    /// Timing a few autoregressive steps.
    Calibrate,
    Generate,
}

impl Stage {
    /// The stage as a present participle for a status line.
    pub fn doing(self) -> &'static str {
        match self {
            Stage::Load => "loading models",
            Stage::Listen => "listening",
            Stage::Decode => "decoding video",
            Stage::Encode => "encoding frames",
            Stage::Prefill => "reading the prompt",
            Stage::Select => "selecting visual tokens",
            Stage::Calibrate => "calibrating",
            Stage::Generate => "writing",
        }
    }
}

/// What kind of failure ended a run; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// An internal error (exit code 1).
    Internal,
    /// Invalid arguments (2).
    Usage,
    /// The video, the model or the method file cannot be used (3).
    Input,
    /// Not enough memory (4).
    Memory,
}

/// The message of a panic, if it is text.
pub fn panic_words(panic: &dyn std::any::Any) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

impl FailureClass {
    /// The documented process exit code.
    pub fn exit_code(self) -> i32 {
        match self {
            FailureClass::Internal => 1,
            FailureClass::Usage => 2,
            FailureClass::Input => 3,
            FailureClass::Memory => 4,
        }
    }
}

/// A failure in words: what happened to what, and what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Decides the exit code.
    pub class: FailureClass,
    /// Names the file or value and its problem.
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    /// A failure with what to do about it.
    pub fn new(class: FailureClass, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { class, error: error.into(), hint: Some(hint.into()) }
    }

    pub fn usage(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureClass::Usage, error, hint)
    }

    /// A file that cannot be used.
    pub fn input(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureClass::Input, error, hint)
    }

    pub fn internal(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureClass::Internal, error, hint)
    }
}

/// What the loaded models offer to methods, apart from the target itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadedParts {
    /// A draft model is loaded.
    pub drafter: bool,
    /// The recipes of the loaded draft heads.
    pub heads: Vec<String>,
    /// The target has a layer of its own for multi-token prediction.
    #[serde(rename = "own_head")]
    pub mtp: bool,
    /// The target has linear attention layers.
    pub linear_attention: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub target: String,
    /// Name of the drafter, if one is loaded.
    pub drafter: Option<String>,
    /// Human-readable name of the device.
    pub device: String,
    /// Weight type of the language models.
    pub dtype: String,
    /// Notes about the models: settings of theirs that have no effect here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What methods can draft with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<LoadedParts>,
    /// Bytes that were freed for these models: the weights and the contexts of those that they replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The method with all its keys, as in its TOML file.
    pub method: serde_json::Value,
    /// True if the method emits exactly what autoregressive decoding would.
    pub lossless: bool,
    /// What drops visual tokens while the target reads them, with its numbers; `None` for a target that reads everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruner: Option<serde_json::Value>,
    pub target: String,
    /// Name of the drafter; `None` for methods without a drafter.
    pub drafter: Option<String>,
    /// Human-readable name of the device.
    pub device: String,
    /// Weight type of the language models.
    pub dtype: String,
    pub video: String,
    pub prompt: String,
    /// The system message; `None` if the chat template's own was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The name of the preset that the prompt comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// Earlier questions about the same clip, and their answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Turn>,
    /// What the answer has to be: `kind` is `json_schema` (with `schema`), `json_object`, `regex` (`pattern`) or `lark` (`grammar`);
    /// `None` for any text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraint: Option<serde_json::Value>,
    /// How the text is sampled: the keys of the configuration file that have an effect; `None` for plain greedy decoding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Box<serde_json::Value>>,
    /// The part of the video that is captioned; `None` for the whole video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
    /// Which piece of the video that part is, if the video is captioned piece by piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Segment>,
    /// The number of the first piece's run, if this run sums up the captions of the pieces, which its prompt has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_of: Option<u64>,
}

impl Started {
    /// True if the target drafts for itself.
    pub fn is_self_drafting(&self) -> bool {
        self.method["drafter"]["kind"] == "self"
    }

    pub fn method_name(&self) -> &str {
        self.method["name"].as_str().unwrap_or("?")
    }

    /// Models, device and weight type in words: `big with small on cpu, q8_0`.
    pub fn models(&self) -> String {
        let with = self.drafter.as_ref().map(|drafter| format!(" with {drafter}")).unwrap_or_default();
        format!("{}{with} on {}, {}", self.target, self.device, self.dtype)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptSeen {
    /// Time stamps of the sampled frames, in seconds.
    pub frames: Vec<f64>,
    /// Visual tokens as time × rows × columns.
    pub grid: [usize; 3],
    /// Number of visual tokens (of the target).
    pub visual_tokens: usize,
    pub prompt_ids: Vec<u32>,
    /// Indices of the visual tokens that the drafter sees; `None` if it sees all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Vec<u32>>,
    /// The score of every visual token, if the drafter's were chosen by score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scores: Option<Vec<f32>>,
    /// The rows of `prompt_ids` with the visual tokens, from the first to the one after the last of each span.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub visual_spans: Vec<[usize; 2]>,
    /// Positions on the grid's time axis whose time stamps in the prompt the drafter does not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped_stamps: Vec<usize>,
    /// True if the target's prefill, or its video part, comes from an earlier run.
    #[serde(default)]
    pub reused: bool,
    /// Tokens of the prompt that the target had read in earlier runs.
    #[serde(default, skip_serializing_if = "step::is_zero")]
    pub cached_tokens: usize,
    /// Notes about the video: that it is damaged or truncated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What an automatic method stands for in this run; `None` where the method leaves nothing open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// The choices that an automatic method made for a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chosen {
    /// The method without open choices, as in [`Started`].
    pub method: serde_json::Value,
    /// The drafter's name, as in [`Started`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafter: Option<String>,
    /// What each drafter was expected to take, the fastest first; empty where the speeds were not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
}

/// What a drafter was expected to take.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// The drafter and what it sees, in words.
    pub drafter: String,
    /// From the target's prefill to the last token, in milliseconds.
    pub ms: f64,
}

/// The drafts of a step before they are verified.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// Number of the step, from 0.
    pub index: usize,
    /// The drafted ids, in draft order.
    pub drafted: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drafted_text: Vec<String>,
    /// In a tree, for each drafted id the place of the one before it, `None` for the root. Empty for a chain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<Option<usize>>,
}

/// The body of an [`Event`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// The models are loaded; the engine waits for commands (run 0).
    Ready(Ready),
    Started(Started),
    Stage {
        stage: Stage,
        done: u64,
        /// Units in total, 0 if unknown.
        total: u64,
        /// Time left of the stage in milliseconds; `None` if it is not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        left_ms: Option<f64>,
    },
    /// What the run takes, before its first slow stage.
    Estimate(Estimate),
    /// The prompt as the models see it.
    Prompt(PromptSeen),
    /// The drafts of the step that follows, while the target verifies them: sent where a step takes long enough to be seen.
    Draft(Draft),
    Step(Step),
    /// The text so far is withdrawn, since it repeated itself without end: steps of a new one follow ([`OnLoop::Retry`](crate::OnLoop::Retry)).
    Retry {
        /// Tokens that were written in vain.
        tokens: u64,
        /// How the new text is sampled, as in [`Started`].
        sampling: Box<serde_json::Value>,
        /// Both in words.
        note: String,
    },
    /// The run ended normally or was cancelled.
    Done {
        reason: StopReason,
        /// The whole caption, without the thoughts before it.
        text: String,
        /// All emitted ids, without the end token.
        ids: Vec<u32>,
        stats: Box<Stats>,
    },
    /// The run failed; the engine accepts further commands.
    Failed(Failure),
    /// The speed of a run, measured while the engine was idle. It replaces the speed of `done`, and of earlier events of this kind.
    Speed {
        /// The speedup; `None` if nothing could be measured; the last known figure still applies.
        #[serde(
            default,
            deserialize_with = "speedup::with_interval",
            skip_serializing_if = "Option::is_none"
        )]
        speedup: Option<Speedup>,
        /// True while the engine continues to measure: another event follows.
        #[serde(default)]
        measuring: bool,
    },
    /// A finished run was compared with autoregressive decoding.
    Verified(Verification),
    /// A person has changed the caption of a finished run. It replaces earlier events of this kind.
    Edited {
        text: String,
    },
}

impl Event {
    pub fn new(run: u64, kind: EventKind) -> Self {
        Self { run, kind }
    }

    /// True for an event that may follow the last one of its run.
    pub fn is_late(&self) -> bool {
        matches!(self.kind, EventKind::Speed { .. } | EventKind::Verified(_) | EventKind::Edited { .. })
    }

    /// True for the last event of its run; only a late [`EventKind::Speed`], [`EventKind::Verified`] or
    /// [`EventKind::Edited`] may follow.
    pub fn ends_run(&self) -> bool {
        matches!(self.kind, EventKind::Done { .. } | EventKind::Failed(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_flat_json_and_come_back() {
        let event =
            Event::new(3, EventKind::Stage { stage: Stage::Encode, done: 1, total: 8, left_ms: None });
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(json, r#"{"run":3,"event":"stage","stage":"encode","done":1,"total":8}"#);
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);

        let failed = Event::new(
            1,
            EventKind::Failed(Failure { class: FailureClass::Input, error: "x".into(), hint: None }),
        );
        let json = serde_json::to_string(&failed).unwrap();
        assert!(json.contains(r#""event":"failed""#), "{json}");
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), failed);
    }

    #[test]
    fn unknown_fields_may_appear() {
        let event: Event = serde_json::from_str(
            r#"{"event":"stage","run":1,"stage":"decode","done":0,"total":2,"new":true}"#,
        )
        .unwrap();
        assert_eq!(event.kind, EventKind::Stage { stage: Stage::Decode, done: 0, total: 2, left_ms: None });
    }
}
