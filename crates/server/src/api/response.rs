//! The bodies of responses.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use specreel_record::{Speedup, StopReason, Timings, Verdict, VerdictCounts};

/// An answer.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Chat {
    pub id: String,
    pub object: &'static str,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub choices: [Choice; 1],
    pub usage: Usage,
    pub specreel: Report,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Choice {
    pub index: u32,
    pub message: MessageOut,
    pub logprobs: Option<Logprobs>,
    /// `stop` or `length`.
    pub finish_reason: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MessageOut {
    pub role: &'static str,
    pub content: String,
    /// What the model thought before its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    pub refusal: Option<String>,
}

/// A part of a streamed answer: what one decoding step wrote.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Chunk {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub model: String,
    /// Empty in the chunk with the usage.
    pub choices: Vec<ChunkChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The tokens of this step; in the last chunk the report of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specreel: Option<Report>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ChunkChoice {
    pub index: u32,
    pub delta: Delta,
    pub logprobs: Option<Logprobs>,
    pub finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Logprobs {
    pub content: Vec<Logprob>,
    pub refusal: Option<String>,
}

/// A token with its log-probability under the target.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Logprob {
    pub token: String,
    pub logprob: f32,
    pub bytes: Vec<u8>,
    pub top_logprobs: Vec<TopLogprob>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TopLogprob {
    pub token: String,
    pub logprob: f32,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Usage {
    /// Visual tokens included.
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    pub prompt_tokens_details: CachedTokens,
    pub completion_tokens_details: ReasoningTokens,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CachedTokens {
    /// Prompt tokens that an earlier request had read.
    pub cached_tokens: u64,
}

#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ReasoningTokens {
    /// What the model thought before its answer.
    pub reasoning_tokens: u64,
}

/// How an answer was made. What is not known yet is absent.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Report {
    /// The tokens in order, each with its verdict.
    pub tokens: Vec<TokenReport>,
    /// The step as the page shows it; only with `display`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<RowReport>,
    #[serde(flatten)]
    pub run: Option<RunReport>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TokenReport {
    pub text: String,
    /// Why it is in the answer: see docs/methods.md.
    #[schemars(with = "String")]
    pub verdict: Verdict,
    /// The class of its verdict, and the reason in words; only with `display`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thinking: bool,
}

/// A decoding step.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RowReport {
    /// Its number, from 1.
    pub number: usize,
    pub pieces: Vec<PieceReport>,
    /// Accepted of judged drafts.
    pub counts: String,
    /// Why the step ended where it did.
    pub reason: String,
    pub draft_ms: f64,
    pub verify_ms: f64,
}

/// A part of what was drafted and written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PieceReport {
    pub text: String,
    /// The class of a token's verdict, `struck`, `unused` or `between`.
    pub mark: &'static str,
}

/// A whole run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunReport {
    /// Name of the method.
    pub method: String,
    /// Whether the method writes what autoregressive decoding would.
    pub lossless: bool,
    /// Why the answer ended: `eos`, `length`, `stop`, or `loop` where it repeated itself without end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub reason: Option<StopReason>,
    /// Tokens by verdict.
    #[schemars(with = "std::collections::BTreeMap<String, u64>")]
    pub verdicts: VerdictCounts,
    /// Accepted drafts per step.
    pub tau: f64,
    pub emitted_per_step: f64,
    pub steps: u64,
    pub tokens_per_second: f64,
    /// The decode speedup with its interval; null unless enough passes of the target alone were timed between the steps.
    #[schemars(with = "Option<Value>")]
    pub speedup: Option<Speedup>,
    pub prompt: PromptReport,
    /// Times of the stages in milliseconds; 0 for what an earlier request had computed.
    #[schemars(with = "Value")]
    pub timings: Timings,
    /// What users should know about the video or the models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The figures in words, by name; only with `display`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<(&'static str, String)>,
}

/// What the models saw.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct PromptReport {
    /// Time stamps of the sampled frames in seconds.
    pub frames: Vec<f64>,
    /// Visual tokens as time × rows × columns.
    pub grid: [usize; 3],
    pub visual_tokens: usize,
    pub drafter_visual_tokens: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModelList {
    pub object: &'static str,
    pub data: Vec<ModelObject>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ModelObject {
    pub id: String,
    pub object: &'static str,
    pub created: u64,
    pub owned_by: &'static str,
    /// Whether an engine has it loaded; another one is loaded when a request names it.
    pub loaded: bool,
    /// Bytes of the server's memory that it takes while it is loaded, with its drafter, estimated; null if that is not known.
    pub memory_bytes: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileList {
    pub object: &'static str,
    pub data: Vec<FileObject>,
    pub has_more: bool,
}

/// An uploaded file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileObject {
    pub id: String,
    pub object: &'static str,
    pub bytes: u64,
    pub created_at: u64,
    pub filename: String,
    pub purpose: String,
    pub status: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FileDeleted {
    pub id: String,
    pub object: &'static str,
    pub deleted: bool,
}
