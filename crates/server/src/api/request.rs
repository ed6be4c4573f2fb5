//! The body of `POST /v1/chat/completions`.

use schemars::JsonSchema;
use serde_json::Value;
use specreel_model::grammar::Constraint;
use specreel_record::ToolCall;

/// A request for an answer about a video. Fields that are not listed have no effect: those that clients rely on are refused, all
/// others are noted in the answer.
#[derive(Debug, Default, JsonSchema)]
pub struct ChatRequest {
    /// `specreel`, an id of `/v1/models`, or the name under which the server was given its target.
    pub model: Option<String>,
    /// System messages first, then questions and answers in turn; the last one is a question. The first question has the video.
    pub messages: Vec<Message>,
    /// What precedes system messages, in APIs that have a field for it.
    #[schemars(skip)]
    pub system: Option<String>,
    /// Send the answer in parts, as server-sent events.
    pub stream: Option<bool>,
    pub stream_options: Option<StreamOptions>,
    /// Maximum number of new tokens, from 1 to 65536; `--max-new-tokens` by default. -1 ends with the context window.
    #[schemars(with = "Option<i64>")]
    pub max_completion_tokens: Option<Limit>,
    /// Older name of `max_completion_tokens`, which takes precedence.
    #[schemars(with = "Option<i64>")]
    pub max_tokens: Option<Limit>,
    #[schemars(flatten)]
    pub text: TextFields,
    /// Report the log-probability of each token.
    pub logprobs: Option<bool>,
    /// Report so many of the most likely tokens, up to 20; needs `logprobs`.
    pub top_logprobs: Option<u32>,
    /// 1.
    #[expect(dead_code, reason = "for the schema")]
    pub n: Option<u32>,
    /// `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "json_schema": {"schema": …}}`: only such answers
    /// can be written then.
    #[schemars(with = "Option<Value>")]
    pub response_format: Option<Constraint>,
    /// How much to think, in the words of the model's chat template; `none` does not think.
    pub reasoning_effort: Option<String>,
    pub chat_template_kwargs: Option<TemplateOptions>,
    /// Tools that may be called. They are not passed to the model, which calls none.
    #[schemars(with = "Option<Vec<Value>>")]
    #[expect(dead_code, reason = "for the schema")]
    pub tools: Vec<Value>,
    /// `none` or `auto`: a call cannot be demanded.
    #[expect(dead_code, reason = "for the schema")]
    pub tool_choice: Option<Value>,
    /// specreel's own options.
    pub specreel: Option<Extension>,
    /// What of the request has no effect.
    #[schemars(skip)]
    pub notes: Vec<String>,
}

/// How an answer is sampled, and where it ends.
#[derive(Clone, Debug, Default, JsonSchema)]
pub struct TextFields {
    /// 0 always takes the most likely token; the default of this and of all other sampling is the server's.
    pub temperature: Option<f32>,
    /// Nucleus sampling, above 0, up to 1.
    pub top_p: Option<f32>,
    /// Keep so many of the most likely tokens; 0 or -1 keeps all.
    pub top_k: Option<i64>,
    /// Keep the tokens of at least this share of the most likely one's probability.
    pub min_p: Option<f32>,
    /// Penalty on tokens that occur in the prompt or answer; 1 is none. llama-server's `repeat_penalty` is the same.
    pub repetition_penalty: Option<f32>,
    /// The repetition penalty counts so many of the last tokens; 0 or -1 counts all.
    pub repeat_last_n: Option<i64>,
    /// Subtracted from the logits of tokens that occur in the answer.
    pub presence_penalty: Option<f32>,
    /// Subtracted from the logit of a token for each time it occurs in the answer.
    pub frequency_penalty: Option<f32>,
    /// No sequence of so many tokens is written twice.
    pub no_repeat_ngram_size: Option<i64>,
    /// Penalty on a token that would extend a repetition; 0 is none.
    pub dry_multiplier: Option<f32>,
    pub dry_base: Option<f32>,
    pub dry_allowed_length: Option<i64>,
    /// DRY looks at so many of the last tokens; 0 or -1 looks at all.
    pub dry_penalty_last_n: Option<i64>,
    pub dry_sequence_breakers: Option<Vec<String>>,
    /// Added to the logits of token ids: an object, or an array of pairs.
    #[schemars(with = "Option<Value>")]
    pub logit_bias: Vec<(u32, f32)>,
    /// Random seed; `--seed` by default.
    pub seed: Option<i64>,
    /// The answer ends before the first of these texts: a string, or up to 16 of them.
    #[schemars(with = "Option<Stop>")]
    pub stop: Vec<String>,
}

/// The most tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Tokens(usize),
    /// What the context window leaves.
    Window,
}

#[derive(Debug, Default, JsonSchema)]
pub struct StreamOptions {
    /// End the stream with a chunk that has the usage.
    pub include_usage: Option<bool>,
}

#[derive(Debug, Default, JsonSchema)]
pub struct TemplateOptions {
    /// Think before the answer, where the model can.
    pub enable_thinking: Option<bool>,
}

/// Where a generation ends.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "for the schema")]
enum Stop {
    One(String),
    Several(Vec<String>),
}

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum Role {
    System,
    /// The same as `system`.
    Developer,
    User,
    Assistant,
    /// What a tool returned.
    Tool,
}

#[derive(Debug, JsonSchema)]
pub struct Message {
    /// Where it is in the request.
    #[schemars(skip)]
    pub at: String,
    pub role: Role,
    pub content: Option<Content>,
    /// Calls of tools in an earlier answer.
    #[schemars(with = "Option<Vec<Call>>")]
    pub tool_calls: Vec<ToolCall>,
}

/// A call of a tool, with its arguments as JSON in a string.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "for the schema")]
struct Call {
    function: Function,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "for the schema")]
struct Function {
    name: String,
    arguments: String,
}

/// Text, or parts.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message.
#[derive(Debug, JsonSchema)]
#[schemars(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: String,
    },
    VideoUrl {
        video_url: MediaUrl,
    },
    /// A picture is a video of one frame.
    ImageUrl {
        image_url: MediaUrl,
    },
    InputVideo {
        input_video: InputVideo,
    },
    File {
        file: InputVideo,
    },
}

/// A data URL, the id of an uploaded file, a path or `file:` URL below `--allow-dir`, an http(s) URL with `--allow-url`, or an
/// embedded clip (`demo`, `demo:2`).
#[derive(Debug, JsonSchema)]
pub struct MediaUrl {
    pub url: String,
    /// Where it is in the request.
    #[schemars(skip)]
    pub at: String,
}

/// One of its fields names the video.
#[derive(Debug, Default, JsonSchema)]
pub struct InputVideo {
    /// The file in base64; in a part `file` its name may be `file_data`.
    pub data: Option<String>,
    /// As in `video_url`.
    pub url: Option<String>,
    /// The id of an uploaded file.
    pub file_id: Option<String>,
    /// Where it is in the request.
    #[schemars(skip)]
    pub at: String,
}

/// specreel's own options.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Extension {
    /// Decoding method, by name.
    pub method: Option<String>,
    /// Changes of the method's values, each as `axis.key=value`.
    #[schemars(default)]
    pub set: Vec<String>,
    /// Also send the events of `specreel caption --json`; needs `stream`.
    #[schemars(default)]
    pub events: bool,
    /// Also send what the page at `/` shows: the reason for each token, a row for each step, and the figures of the run in words;
    /// needs `stream`.
    #[schemars(default)]
    pub display: bool,
    /// Sample this many frames.
    pub frames: Option<u32>,
    /// Sample this many frames per second.
    pub fps: Option<f64>,
    /// Maximum number of pixels per frame.
    pub max_pixels: Option<u32>,
    /// Maximum number of visual tokens.
    pub max_visual_tokens: Option<u32>,
    /// The part of the video, in seconds from its first frame.
    pub start: Option<f64>,
    pub end: Option<f64>,
    /// What is said in the video: a list of `{"start": …, "end": …, "text": …}`, in seconds from its first frame, a text of SubRip,
    /// WebVTT or Whisper's JSON, or the `{"path": …}` of such a file. It precedes the first question.
    pub transcript: Option<Value>,
    /// Have the server's speech model (`--transcribe`) listen to the video instead.
    #[schemars(default)]
    pub transcribe: bool,
}
