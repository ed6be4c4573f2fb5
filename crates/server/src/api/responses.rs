//! The body of `POST /v1/responses`.

use serde_json::Value;

use super::fields::{self, Field, Fields};
use super::ignored::note_rest;
use super::read::{
    MAX_LOGPROBS, called, constraint, content, extension, input_video, limit, media_url, text_fields,
    tool_choice, tools, unsupported,
};
use super::request::{ChatRequest, Content, InputVideo, Message, Part, Role};
use crate::error::ApiError;
use specreel_model::grammar::Constraint;
use specreel_record::ToolCall;

/// What clients ask for with `include` to get the log-probabilities.
const LOGPROBS: &str = "message.output_text.logprobs";

/// Fields that mean something which the server would have to keep, and what to do instead.
const STORED: [(&str, &str); 3] = [
    ("previous_response_id", "responses are not stored; send the whole conversation in `input`"),
    ("conversation", "conversations are not stored; send it in `input`"),
    ("prompt", "prompts are not stored; write it into `input`"),
];

/// Read a request. Fails for a field that is not what it may be, and for one that is not obeyed although clients rely on it.
pub fn read(bytes: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError> {
    let mut fields = fields::parse(bytes)?;
    let mut notes = Vec::new();
    for (name, instead) in STORED {
        if fields.take(name).is_some() {
            return Err(unsupported(name, instead));
        }
    }
    if fields.flag("background")? == Some(true) {
        return Err(unsupported("background", "the answer is sent on this connection; leave it out"));
    }
    let input = fields.need("input", "a string or an array of items")?;
    let messages = messages(input, &mut notes)?;
    let format = fields.take("text").map(|field| format(field, &mut notes)).transpose()?.flatten();
    let effort = fields.take("reasoning").map(|field| effort(field, &mut notes)).transpose()?.flatten();
    let included = fields.take("include").map(Field::strings).transpose()?.unwrap_or_default();
    let top_logprobs = fields.integer("top_logprobs", 0..=MAX_LOGPROBS)?.map(|count| count as u32);
    for name in ["truncation", "max_tool_calls"] {
        if let Some(field) = fields.take(name).filter(|field| field.value != "disabled") {
            notes.push(format!("`{}` has no effect", field.at));
        }
    }
    let request = ChatRequest {
        model: fields.string("model")?,
        messages,
        system: fields.string("instructions")?,
        stream: fields.flag("stream")?,
        max_completion_tokens: fields.take("max_output_tokens").map(limit).transpose()?,
        text: text_fields(&mut fields)?,
        logprobs: Some(included.iter().any(|name| name == LOGPROBS) || top_logprobs.is_some_and(|n| n > 0)),
        top_logprobs,
        response_format: format,
        reasoning_effort: effort,
        tools: tools(&mut fields, &mut notes)?,
        tool_choice: fields.take("tool_choice").map(tool_choice).transpose()?,
        specreel: fields.take("specreel").map(extension).transpose()?,
        ..ChatRequest::default()
    };
    fields.take("stream_options");
    request.noted(fields, default_temperature, notes)
}

fn messages(input: Field, notes: &mut Vec<String>) -> Result<Vec<Message>, ApiError> {
    let at = input.at.clone();
    let user =
        |content| Message { at: format!("{at}[0]"), role: Role::User, content, tool_calls: Vec::new() };
    match input.value {
        Value::String(text) => Ok(vec![user(Some(Content::Text(text)))]),
        Value::Array(_) => {
            let mut messages = Vec::new();
            for field in input.array()? {
                item(field, &mut messages, notes)?;
            }
            Ok(messages)
        }
        _ => Err(input.refuse("a string or an array of items")),
    }
}

fn item(field: Field, messages: &mut Vec<Message>, notes: &mut Vec<String>) -> Result<(), ApiError> {
    const KINDS: &str = "one of: message, reasoning, function_call, function_call_output";
    let at = field.at.clone();
    let mut fields = field.object()?;
    let kind = fields.take("type");
    let kind = kind.map(|kind| kind.value.as_str().map(str::to_owned).ok_or_else(|| kind.refuse(KINDS)));
    let lone = |role, content| Message { at: at.clone(), role, content, tool_calls: Vec::new() };
    match kind.transpose()?.as_deref() {
        None | Some("message") => {
            let content = fields.take("content").map(|field| content(field, notes, part)).transpose()?;
            messages.push(lone(role(&mut fields)?, content));
            note_rest(fields, "id phase status", notes);
        }
        // What the model thought belongs to an earlier answer.
        Some("reasoning") => {}
        Some("function_call") => {
            let call = called(&mut fields, "arguments")?;
            note_rest(fields, "call_id id status", notes);
            // Of the same answer as the text before it.
            match messages.last_mut().filter(|last| last.role == Role::Assistant) {
                Some(last) => last.tool_calls.push(call),
                None => messages.push(calls(at, call)),
            }
        }
        Some("function_call_output") => {
            let output = fields.take("output").map(|field| content(field, notes, part)).transpose()?;
            messages.push(lone(Role::Tool, output));
            note_rest(fields, "call_id id status", notes);
        }
        Some(other) => {
            let at = fields.at("type");
            return Err(unsupported(&at, &format!("expected {KINDS}, got `{other}`")));
        }
    }
    Ok(())
}

fn calls(at: String, call: ToolCall) -> Message {
    Message { at, role: Role::Assistant, content: None, tool_calls: vec![call] }
}

fn role(fields: &mut Fields) -> Result<Role, ApiError> {
    let roles = "one of: system, developer, user, assistant";
    let role = fields.need("role", roles)?;
    match role.value.as_str() {
        Some("system" | "developer") => Ok(Role::System),
        Some("user") => Ok(Role::User),
        Some("assistant") => Ok(Role::Assistant),
        _ => Err(role.refuse(roles)),
    }
}

fn part(field: Field, notes: &mut Vec<String>) -> Result<Part, ApiError> {
    const KINDS: &str =
        "one of: input_text, output_text, refusal, input_image, input_file, input_video, video_url";
    let at = field.at.clone();
    let mut fields = field.object()?;
    let kind = fields.need("type", KINDS)?;
    let named = |video: InputVideo| Part::InputVideo { input_video: video };
    let part = match kind.value.as_str() {
        Some("input_text" | "output_text" | "text") => {
            Part::Text { text: fields.need("text", "a string")?.string()? }
        }
        Some("refusal") => Part::Text { text: fields.need("refusal", "a string")?.string()? },
        Some("input_image") => {
            if let Some(detail) = fields.string("detail")?.filter(|detail| detail != "auto") {
                let at = fields.at("detail");
                notes.push(format!("`{at}` has no effect ({detail}): use `specreel.max_pixels`"));
            }
            named(InputVideo {
                data: None,
                url: fields.string("image_url")?,
                file_id: fields.string("file_id")?,
                at,
            })
        }
        Some("input_file") => named(InputVideo {
            data: fields.string("file_data")?,
            url: fields.string("file_url")?,
            file_id: fields.string("file_id")?,
            at,
        }),
        Some("input_video") => match fields.take("input_video") {
            Some(field) => named(input_video(field, notes)?),
            None => named(InputVideo {
                data: fields.string("video_data")?,
                url: fields.string("video_url")?,
                file_id: fields.string("file_id")?,
                at,
            }),
        },
        Some("video_url") => {
            let video_url = media_url(fields.need("video_url", "a URL or an object with a `url`")?, notes)?;
            Part::VideoUrl { video_url }
        }
        _ => return Err(kind.refuse(KINDS)),
    };
    note_rest(fields, "annotations detail filename logprobs", notes);
    Ok(part)
}

/// What the answer has to be.
fn format(field: Field, notes: &mut Vec<String>) -> Result<Option<Constraint>, ApiError> {
    let mut text = field.object()?;
    let Some(format) = text.take("format") else {
        note_rest(text, "verbosity", notes);
        return Ok(None);
    };
    note_rest(text, "verbosity", notes);
    let mut format = format.object()?;
    let kind = format.need("type", "`text`, `json_object` or `json_schema`")?;
    match kind.value.as_str() {
        Some("text") => Ok(None),
        Some("json_object") => constraint(&format.at("type"), None).map(Some),
        Some("json_schema") => {
            let at = format.at("schema");
            constraint(&at, Some(format.need("schema", "a JSON schema")?)).map(Some)
        }
        _ => Err(kind.refuse("`text`, `json_object` or `json_schema`")),
    }
}

fn effort(field: Field, notes: &mut Vec<String>) -> Result<Option<String>, ApiError> {
    let mut reasoning = field.object()?;
    let effort = reasoning.string("effort")?;
    note_rest(reasoning, "generate_summary summary", notes);
    Ok(effort)
}
