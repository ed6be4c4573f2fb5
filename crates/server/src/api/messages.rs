//! The body of `POST /v1/messages`, in Anthropic's API.

use serde_json::Value;

use super::fields::{self, Field, Fields};
use super::ignored::note_rest;
use super::read::{called, constraint, extension, limit, media_url, stops, text_fields, tools, unsupported};
use super::request::{ChatRequest, Content, InputVideo, Message, Part, Role, TemplateOptions};
use crate::error::ApiError;
use specreel_model::grammar::Constraint;
use specreel_record::ToolCall;

/// Read a request. Fails for a field that is not what it may be, and for one that is not obeyed although clients rely on it.
pub fn read(bytes: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
    let mut fields = fields::parse(bytes)?;
    let mut notes = Vec::new();
    let mut messages = Vec::new();
    for field in fields.need("messages", "an array of messages")?.array()? {
        message(field, &mut messages, &mut notes)?;
    }
    let enable_thinking = fields.take("thinking").map(|field| thinking(field, &mut notes)).transpose()?;
    let mut config = fields.take("output_config").map(Field::object).transpose()?;
    let effort = config.as_mut().map(|own| own.string("effort")).transpose()?.flatten();
    let format = config.as_mut().and_then(|own| own.take("format")).or_else(|| fields.take("output_format"));
    if let Some(rest) = config {
        note_rest(rest, "", &mut notes);
    }
    let mut text = text_fields(&mut fields)?;
    text.stop.extend(fields.take("stop_sequences").map(stops).transpose()?.unwrap_or_default());
    tool_choice(&mut fields)?;
    for name in ["cache_control", "container", "context_management", "inference_geo"] {
        fields.take(name);
    }
    let request = ChatRequest {
        model: fields.string("model")?,
        messages,
        system: fields.take("system").map(|field| texts(field, &mut notes)).transpose()?,
        stream: fields.flag("stream")?,
        max_completion_tokens: fields.take("max_tokens").map(limit).transpose()?,
        text,
        response_format: format.map(schema).transpose()?,
        reasoning_effort: effort.filter(|_| enable_thinking != Some(false)),
        chat_template_kwargs: enable_thinking
            .map(|enable_thinking| TemplateOptions { enable_thinking: Some(enable_thinking) }),
        tools: tools(&mut fields, &mut notes)?,
        specreel: fields.take("specreel").map(extension).transpose()?,
        ..ChatRequest::default()
    };
    request.noted(fields, default_temperature, notes)
}

fn message(field: Field, messages: &mut Vec<Message>, notes: &mut Vec<String>) -> Result<(), ApiError> {
    let at = field.at.clone();
    let mut fields = field.object()?;
    let role = fields.need("role", "`user` or `assistant`")?;
    let role = match role.value.as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(role.refuse("`user` or `assistant`; instructions go into `system`")),
    };
    let content = fields.need("content", "a string or an array of blocks")?;
    note_rest(fields, "", notes);
    let lone = |content| Message { at: at.clone(), role, content: Some(content), tool_calls: Vec::new() };
    let blocks = match content.value {
        Value::String(text) => {
            messages.push(lone(Content::Text(text)));
            return Ok(());
        }
        Value::Array(_) => content.array()?,
        _ => return Err(content.refuse("a string or an array of blocks")),
    };
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    let mut results = Vec::new();
    for block in blocks {
        match self::block(block, notes)? {
            Block::Part(part) => parts.push(part),
            Block::Call(call) => calls.push(call),
            Block::Result(result) => results.push(result),
            Block::Thought => {}
        }
    }
    // Results of tools precede what the user says.
    let result = |content| Message { role: Role::Tool, ..lone(content) };
    let is_said = !parts.is_empty() || results.is_empty();
    messages.extend(results.into_iter().map(result));
    if is_said {
        messages.push(Message { tool_calls: calls, ..lone(Content::Parts(parts)) });
    }
    Ok(())
}

enum Block {
    Part(Part),
    Call(ToolCall),
    Result(Content),
    /// What the model thought belongs to an earlier answer.
    Thought,
}

fn block(field: Field, notes: &mut Vec<String>) -> Result<Block, ApiError> {
    const KINDS: &str = "one of: text, image, document, video, video_url, thinking, tool_use, tool_result";
    let mut fields = field.object()?;
    let kind = fields.need("type", KINDS)?;
    let block = match kind.value.as_str() {
        Some("text") => Block::Part(Part::Text { text: fields.need("text", "a string")?.string()? }),
        Some("image" | "document" | "video") => {
            let source = fields.need("source", "an object with a `type`")?;
            Block::Part(self::source(source, notes)?)
        }
        Some("video_url") => {
            let video_url = media_url(fields.need("video_url", "a URL or an object with a `url`")?, notes)?;
            Block::Part(Part::VideoUrl { video_url })
        }
        Some("thinking" | "redacted_thinking") => return Ok(Block::Thought),
        Some("tool_use") => Block::Call(called(&mut fields, "input")?),
        Some("tool_result") => {
            let texts = fields.take("content").map(|field| texts(field, notes)).transpose()?;
            Block::Result(Content::Text(texts.unwrap_or_default()))
        }
        _ => return Err(kind.refuse(KINDS)),
    };
    let harmless = "cache_control citations context id is_error title tool_use_id";
    note_rest(fields, harmless, notes);
    Ok(block)
}

/// Where a video or picture is: in base64, at a URL, or in an uploaded file.
fn source(field: Field, notes: &mut Vec<String>) -> Result<Part, ApiError> {
    const KINDS: &str = "`base64`, `url`, `file` or `text`";
    let at = field.at.clone();
    let mut fields = field.object()?;
    let kind = fields.need("type", KINDS)?;
    let mut video = InputVideo { at, ..InputVideo::default() };
    match kind.value.as_str() {
        Some("base64") => video.data = Some(fields.need("data", "the file in base64")?.string()?),
        Some("url") => video.url = Some(fields.need("url", "a URL")?.string()?),
        Some("file") => video.file_id = Some(fields.need("file_id", "the id of an uploaded file")?.string()?),
        Some("text") => return Ok(Part::Text { text: fields.need("data", "a string")?.string()? }),
        _ => return Err(kind.refuse(KINDS)),
    }
    note_rest(fields, "media_type", notes);
    Ok(Part::InputVideo { input_video: video })
}

/// A text, or blocks of text.
fn texts(field: Field, notes: &mut Vec<String>) -> Result<String, ApiError> {
    match field.value {
        Value::String(text) => Ok(text),
        Value::Array(_) => {
            let text = |field: Field| {
                let at = field.at.clone();
                match block(field, notes)? {
                    Block::Part(Part::Text { text }) => Ok(text),
                    _ => Err(unsupported(&at, "expected a block of type `text`")),
                }
            };
            let texts: Vec<String> = field.array()?.into_iter().map(text).collect::<Result<_, ApiError>>()?;
            Ok(texts.join("\n"))
        }
        _ => Err(field.refuse("a string or an array of blocks of text")),
    }
}

fn thinking(field: Field, notes: &mut Vec<String>) -> Result<bool, ApiError> {
    const KINDS: &str = "`enabled`, `adaptive` or `disabled`";
    let mut fields = field.object()?;
    let kind = fields.need("type", KINDS)?;
    let thinks = match kind.value.as_str() {
        Some("enabled" | "adaptive") => true,
        Some("disabled") => false,
        _ => return Err(kind.refuse(KINDS)),
    };
    if let Some(budget) = fields.take("budget_tokens") {
        notes.push(format!("`{}` has no effect: use `output_config.effort` or `max_tokens`", budget.at));
    }
    note_rest(fields, "display", notes);
    Ok(thinks)
}

/// Without a demand, an answer that calls no tool is a right one.
fn tool_choice(fields: &mut Fields) -> Result<(), ApiError> {
    let Some(choice) = fields.take("tool_choice") else { return Ok(()) };
    let mut choice = choice.object()?;
    match choice.need("type", "`auto` or `none`")?.value.as_str() {
        Some("auto" | "none") => Ok(()),
        _ => Err(unsupported("tool_choice", "no model here calls tools; expected `auto` or `none`")),
    }
}

fn schema(field: Field) -> Result<Constraint, ApiError> {
    let mut fields = field.object()?;
    let kind = fields.need("type", "`json_schema`")?;
    if kind.value != "json_schema" {
        return Err(kind.refuse("`json_schema`"));
    }
    let at = fields.at("schema");
    constraint(&at, Some(fields.need("schema", "a JSON schema")?))
}
