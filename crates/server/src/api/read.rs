//! From the bytes of a body to a [`ChatRequest`].

use std::ops::RangeInclusive;

use serde_json::{Map, Value};
use specreel_model::grammar::Constraint;
use specreel_record::ToolCall;

use super::fields::{self, Field, Fields, shown};
use super::ignored;
use super::request::{
    ChatRequest, Content, Extension, InputVideo, Limit, MediaUrl, Message, Part, Role, StreamOptions,
    TemplateOptions, TextFields,
};
use crate::error::ApiError;

/// Most new tokens of a request.
pub const MAX_NEW_TOKENS: usize = 65_536;
/// Most log-probabilities of a token.
pub(super) const MAX_LOGPROBS: i64 = 20;
/// Largest count of tokens.
const COUNT: i64 = 1 << 20;
/// What a repetition penalty may be, and what may be taken off a logit.
const PENALTY: RangeInclusive<f64> = 0.01..=100.0;
const SHIFT: RangeInclusive<f64> = -100.0..=100.0;
/// Most stop texts, and bytes of each.
const MAX_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;

/// Read a request. Fails for a field that is not what it may be, and for one that is not obeyed although clients rely on it.
pub fn read(bytes: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
    let mut fields = fields::parse(bytes)?;
    let mut notes = Vec::new();
    let messages = fields.need("messages", "an array of messages")?.array()?;
    let messages = messages.into_iter().map(|field| message(field, &mut notes)).collect::<Result<_, _>>()?;
    let request = ChatRequest {
        model: fields.string("model")?,
        messages,
        system: None,
        stream: fields.flag("stream")?,
        stream_options: fields
            .take("stream_options")
            .map(|field| stream_options(field, &mut notes))
            .transpose()?,
        max_completion_tokens: fields.take("max_completion_tokens").map(limit).transpose()?,
        max_tokens: fields.take("max_tokens").map(limit).transpose()?,
        text: text_fields(&mut fields)?,
        logprobs: fields.flag("logprobs")?,
        top_logprobs: fields.integer("top_logprobs", 0..=MAX_LOGPROBS)?.map(|count| count as u32),
        n: fields.integer("n", i64::MIN..=i64::MAX)?.map(one).transpose()?,
        response_format: fields.take("response_format").map(response_format).transpose()?.flatten(),
        reasoning_effort: fields.string("reasoning_effort")?,
        chat_template_kwargs: fields
            .take("chat_template_kwargs")
            .map(|field| template_options(field, &mut notes))
            .transpose()?,
        tools: tools(&mut fields, &mut notes)?,
        tool_choice: fields.take("tool_choice").map(tool_choice).transpose()?,
        specreel: fields.take("specreel").map(extension).transpose()?,
        notes: Vec::new(),
    };
    if fields.take("modalities").is_some_and(|field| field.value != serde_json::json!(["text"])) {
        return Err(unsupported("modalities", "answers are text; expected [\"text\"]"));
    }
    if let (Some(newer), Some(older)) = (request.max_completion_tokens, request.max_tokens)
        && newer != older
    {
        notes.push("`max_tokens` has no effect: `max_completion_tokens` takes precedence".into());
    }
    request.noted(fields, default_temperature, notes)
}

/// The tools that a model may call, which none here does.
pub(super) fn tools(fields: &mut Fields, notes: &mut Vec<String>) -> Result<Vec<Value>, ApiError> {
    let tools = fields.take("tools").map(Field::array).transpose()?.unwrap_or_default();
    if !tools.is_empty() {
        notes.push("the tools in the request are not used: no model here can call them".into());
    }
    Ok(tools.into_iter().map(|tool| tool.value).collect())
}

impl ChatRequest {
    /// The request with the notes on it, after everything that is obeyed was taken from its fields. Fails for what clients rely on.
    pub(super) fn noted(
        self,
        fields: Fields,
        default_temperature: f32,
        mut notes: Vec<String>,
    ) -> Result<Self, ApiError> {
        let is_greedy = self.text.temperature.unwrap_or(default_temperature) == 0.0;
        ignored::notes(fields, is_greedy, &mut notes)?;
        Ok(Self { notes, ..self })
    }
}

/// Read how an answer is sampled, and where it ends. Fails for a field that is not what it may be.
pub fn text_fields(fields: &mut Fields) -> Result<TextFields, ApiError> {
    let above = |field: Field| match field.value.as_f64() {
        Some(value) if value > 0.0 && value <= 1.0 => Ok(value as f32),
        _ => Err(field.refuse("a number above 0, up to 1")),
    };
    // One control by two names.
    let repetition_penalty = fields.number("repetition_penalty", PENALTY)?;
    let repeat_penalty = fields.number("repeat_penalty", PENALTY)?;
    Ok(TextFields {
        temperature: fields.number("temperature", 0.0..=100.0)?.map(|value| value as f32),
        top_p: fields.take("top_p").map(above).transpose()?,
        top_k: fields.integer("top_k", -1..=COUNT)?,
        min_p: fields.number("min_p", 0.0..=1.0)?.map(|value| value as f32),
        repetition_penalty: repetition_penalty.or(repeat_penalty).map(|value| value as f32),
        repeat_last_n: fields.integer("repeat_last_n", -1..=COUNT)?,
        presence_penalty: fields.number("presence_penalty", SHIFT)?.map(|value| value as f32),
        frequency_penalty: fields.number("frequency_penalty", SHIFT)?.map(|value| value as f32),
        no_repeat_ngram_size: fields.integer("no_repeat_ngram_size", 0..=COUNT)?,
        dry_multiplier: fields.number("dry_multiplier", 0.0..=100.0)?.map(|value| value as f32),
        dry_base: fields.number("dry_base", 1.0..=100.0)?.map(|value| value as f32),
        dry_allowed_length: fields.integer("dry_allowed_length", 0..=COUNT)?,
        dry_penalty_last_n: fields.integer("dry_penalty_last_n", -1..=COUNT)?,
        dry_sequence_breakers: fields.take("dry_sequence_breakers").map(Field::strings).transpose()?,
        logit_bias: fields.take("logit_bias").map(biases).transpose()?.unwrap_or_default(),
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?,
        stop: fields.take("stop").map(stops).transpose()?.unwrap_or_default(),
    })
}

pub(super) fn unsupported(at: &str, message: &str) -> ApiError {
    ApiError::invalid(at, "unsupported_value", format!("{at}: {message}"))
}

pub(super) fn limit(field: Field) -> Result<Limit, ApiError> {
    match field.whole() {
        Some(-1) => Ok(Limit::Window),
        Some(tokens) if (1..=MAX_NEW_TOKENS as i64).contains(&tokens) => Ok(Limit::Tokens(tokens as usize)),
        _ => Err(field.refuse(format!(
            "an integer from 1 to {MAX_NEW_TOKENS}, or -1 for what the context window leaves"
        ))),
    }
}

fn one(n: i64) -> Result<u32, ApiError> {
    if n == 1 { Ok(1) } else { Err(unsupported("n", "only 1 answer per request; send several requests")) }
}

/// `{"id": bias, …}` as OpenAI has it, or `[[id, bias], …]` as llama-server does, where `false` bans an id.
fn biases(field: Field) -> Result<Vec<(u32, f32)>, ApiError> {
    const EXPECTED: &str = "an object of biases by token id, or an array of [id, bias]";
    let pairs: Option<Vec<(u32, f32)>> = match &field.value {
        Value::Object(biases) => {
            biases.iter().map(|(id, bias)| Some((id.parse().ok()?, bias_of(bias)?))).collect()
        }
        Value::Array(pairs) => {
            pairs.iter().map(|pair| Some((pair_id(pair)?, bias_of(pair.get(1)?)?))).collect()
        }
        _ => None,
    };
    pairs.ok_or_else(|| field.refuse(EXPECTED))
}

fn pair_id(pair: &Value) -> Option<u32> {
    pair.get(0)?.as_u64()?.try_into().ok()
}

fn bias_of(value: &Value) -> Option<f32> {
    match value {
        Value::Bool(false) => Some(f32::NEG_INFINITY),
        _ => value.as_f64().map(|bias| bias as f32),
    }
}

pub(super) fn stops(field: Field) -> Result<Vec<String>, ApiError> {
    let expected = format!("a string of 1 to {LONGEST_STOP} bytes, or up to {MAX_STOPS} of them");
    let stops = match field.value {
        Value::String(text) if text.is_empty() => return Ok(Vec::new()),
        Value::String(_) => vec![field],
        Value::Array(ref items) if items.len() <= MAX_STOPS => field.array()?,
        Value::Array(items) => {
            let count = items.len();
            let message = format!("{}: expected {expected}, got {count} of them", field.at);
            return Err(ApiError::invalid(field.at, "invalid_value", message));
        }
        _ => return Err(field.refuse(expected)),
    };
    let stop = |field: Field| match &field.value {
        Value::String(text) if (1..=LONGEST_STOP).contains(&text.len()) => Ok(text.clone()),
        _ => Err(field.refuse(format!("a string of 1 to {LONGEST_STOP} bytes"))),
    };
    stops.into_iter().map(stop).collect()
}

fn stream_options(field: Field, notes: &mut Vec<String>) -> Result<StreamOptions, ApiError> {
    let mut fields = field.object()?;
    let options = StreamOptions { include_usage: fields.flag("include_usage")? };
    ignored::note_rest(fields, "include_obfuscation", notes);
    Ok(options)
}

fn template_options(field: Field, notes: &mut Vec<String>) -> Result<TemplateOptions, ApiError> {
    let mut fields = field.object()?;
    let options = TemplateOptions { enable_thinking: fields.flag("enable_thinking")? };
    ignored::note_rest(fields, "", notes);
    Ok(options)
}

/// Without a demand, an answer that calls no tool is a right one: some clients offer theirs with every question.
pub(super) fn tool_choice(field: Field) -> Result<Value, ApiError> {
    if field.value == "none" || field.value == "auto" {
        return Ok(field.value);
    }
    let got = shown(&field.value);
    Err(unsupported(
        "tool_choice",
        &format!("no model here calls tools; expected `none` or `auto`, got {got}"),
    ))
}

/// What the answer has to be; `None` for any text.
fn response_format(field: Field) -> Result<Option<Constraint>, ApiError> {
    let mut format = field.object()?;
    let kind = format.need("type", "`text`, `json_object` or `json_schema`")?;
    let (at, schema) = match kind.value.as_str() {
        Some("text") => return Ok(None),
        // As llama-server has it.
        Some("json_object") => (format.at("schema"), format.take("schema")),
        Some("json_schema") => {
            let mut named = format.need("json_schema", "an object with a `schema`")?.object()?;
            (named.at("schema"), Some(named.need("schema", "a JSON schema")?))
        }
        _ => return Err(kind.refuse("`text`, `json_object` or `json_schema`")),
    };
    constraint(&at, schema).map(Some)
}

/// An answer by a JSON schema at this place, or without one any JSON object.
pub(super) fn constraint(at: &str, schema: Option<Field>) -> Result<Constraint, ApiError> {
    let constraint = match schema {
        None => Constraint::JsonObject,
        Some(schema) if schema.value.is_object() => Constraint::JsonSchema { schema: schema.value },
        Some(other) => return Err(other.refuse("a JSON schema, which is an object")),
    };
    let check = constraint.check();
    check.map_err(|error| ApiError::invalid(at, "invalid_value", format!("{at}: {error}")))?;
    Ok(constraint)
}

fn message(field: Field, notes: &mut Vec<String>) -> Result<Message, ApiError> {
    let at = field.at.clone();
    let mut fields = field.object()?;
    let roles = "one of: system, developer, user, assistant, tool";
    let role = fields.need("role", roles)?;
    let role = match role.value.as_str() {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        _ => return Err(role.refuse(roles)),
    };
    let content = fields.take("content").map(|field| content(field, notes, part)).transpose()?;
    let refusal = fields.string("refusal")?.map(Content::Text);
    if let Some(call) = fields.take("function_call") {
        return Err(unsupported(&call.at, "not supported; send `tool_calls`"));
    }
    let calls = fields.take("tool_calls").map(Field::array).transpose()?.unwrap_or_default();
    if let Some(call) = calls.first().filter(|_| role != Role::Assistant) {
        return Err(unsupported(&call.at, "only messages of the assistant call tools; leave it out"));
    }
    let tool_calls = calls.into_iter().map(tool_call).collect::<Result<_, _>>()?;
    ignored::note_rest(fields, "annotations id reasoning reasoning_content tool_call_id", notes);
    Ok(Message { at, role, content: content.or(refusal), tool_calls })
}

fn tool_call(field: Field) -> Result<ToolCall, ApiError> {
    let mut fields = field.object()?;
    if let Some(kind) = fields.take("type").filter(|kind| kind.value != "function") {
        return Err(kind.refuse("`function`"));
    }
    let mut function = fields.need("function", "an object with `name` and `arguments`")?.object()?;
    called(&mut function, "arguments")
}

/// The name of a called tool, and its arguments: an object, or one in a string.
pub(super) fn called(fields: &mut Fields, arguments: &'static str) -> Result<ToolCall, ApiError> {
    let name = fields.need("name", "a string")?.string()?;
    let arguments = match fields.take(arguments) {
        None => Map::new(),
        Some(Field { value: Value::Object(arguments), .. }) => arguments,
        Some(field) => {
            let expected = "a JSON object in a string";
            let text = field.value.as_str().ok_or_else(|| field.refuse(expected))?;
            match text.trim() {
                "" => Map::new(),
                text => serde_json::from_str(text).map_err(|_| field.refuse(expected))?,
            }
        }
    };
    Ok(ToolCall { name, arguments })
}

/// A text, or parts that `part` reads.
pub(super) fn content(
    field: Field,
    notes: &mut Vec<String>,
    part: impl Fn(Field, &mut Vec<String>) -> Result<Part, ApiError>,
) -> Result<Content, ApiError> {
    match field.value {
        Value::String(text) => Ok(Content::Text(text)),
        Value::Array(_) => {
            let parts = field.array()?.into_iter().map(|field| part(field, notes));
            parts.collect::<Result<_, _>>().map(Content::Parts)
        }
        _ => Err(field.refuse("a string or an array of parts")),
    }
}

fn part(field: Field, notes: &mut Vec<String>) -> Result<Part, ApiError> {
    let mut fields = field.object()?;
    let kinds = "one of: text, video_url, image_url, input_video, file";
    let kind = fields.need("type", kinds)?;
    let part = match kind.value.as_str() {
        Some("text") => Part::Text { text: fields.need("text", "a string")?.string()? },
        Some("video_url") => {
            let video_url = media_url(fields.need("video_url", "a URL or an object with a `url`")?, notes)?;
            Part::VideoUrl { video_url }
        }
        Some("image_url") => {
            let image_url = media_url(fields.need("image_url", "a URL or an object with a `url`")?, notes)?;
            Part::ImageUrl { image_url }
        }
        Some("input_video") => {
            let video = fields.need("input_video", "an object with one of: data, url, file_id")?;
            Part::InputVideo { input_video: input_video(video, notes)? }
        }
        Some("file") => {
            let video = fields.need("file", "an object with one of: file_data, url, file_id")?;
            Part::File { file: input_video(video, notes)? }
        }
        _ => return Err(kind.refuse(kinds)),
    };
    ignored::note_rest(fields, "cache_control id uuid", notes);
    Ok(part)
}

pub(super) fn media_url(field: Field, notes: &mut Vec<String>) -> Result<MediaUrl, ApiError> {
    let at = field.at.clone();
    match field.value {
        Value::String(url) => Ok(MediaUrl { url, at }),
        Value::Object(_) => {
            let mut fields = field.object()?;
            let url = fields.need("url", "a URL")?.string()?;
            if let Some(detail) = fields.string("detail")?.filter(|detail| detail != "auto") {
                let at = fields.at("detail");
                notes.push(format!("`{at}` has no effect ({detail}): use `specreel.max_pixels`"));
            }
            ignored::note_rest(fields, "format uuid", notes);
            Ok(MediaUrl { url, at })
        }
        _ => Err(field.refuse("a URL or an object with a `url`")),
    }
}

pub(super) fn input_video(field: Field, notes: &mut Vec<String>) -> Result<InputVideo, ApiError> {
    let at = field.at.clone();
    let mut fields = field.object()?;
    let data = match fields.string("data")? {
        None => fields.string("file_data")?,
        data => data,
    };
    let video = InputVideo { data, url: fields.string("url")?, file_id: fields.string("file_id")?, at };
    ignored::note_rest(fields, "filename format mime_type", notes);
    Ok(video)
}

pub(super) fn extension(field: Field) -> Result<Extension, ApiError> {
    let mut fields = field.object()?;
    let any = f64::MIN..=f64::MAX;
    let extension = Extension {
        method: fields.string("method")?,
        set: fields.take("set").map(Field::strings).transpose()?.unwrap_or_default(),
        events: fields.flag("events")?.unwrap_or_default(),
        display: fields.flag("display")?.unwrap_or_default(),
        frames: fields.count("frames", usize::MAX)?,
        fps: fields.number("fps", any.clone())?,
        max_pixels: fields.count("max_pixels", usize::MAX)?,
        max_visual_tokens: fields.count("max_visual_tokens", usize::MAX)?,
        start: fields.number("start", any.clone())?,
        end: fields.number("end", any)?,
        transcript: fields.take("transcript").map(|field| field.value),
        transcribe: fields.flag("transcribe")?.unwrap_or_default(),
    };
    fields.end().map(|()| extension)
}
