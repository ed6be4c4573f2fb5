//! From a chat request to a run.

use crate::{
    api::{ChatRequest, Content, Extension, InputVideo, Message, Part, Role, Stop},
    app::App,
    error::ApiError,
    options::Listener,
    videos::{Source, Video, Videos},
};
use serde_json::Value;
use specreel_engine::{RunRequest, Turn};
use specreel_model::grammar::Constraint;
use specreel_record::Failure;
use specreel_speculate::Method;
use specreel_video::Sampling;

/// Most new tokens of a request.
const MAX_NEW_TOKENS: u32 = 65_536;
/// Most log-probabilities of a token.
const MAX_LOGPROBS: u32 = 20;
/// Most stop texts, and bytes of each.
const MAX_STOPS: usize = 16;
const LONGEST_STOP: usize = 1024;

/// A validated request: its run, and how the answer is returned.
pub struct Asked {
    pub run: RunRequest,
    pub video: Video,
    pub model: String,
    /// What of the request has no effect, or could not be read.
    pub notes: Vec<String>,
    pub logprobs: Option<usize>,
    pub stream: bool,
    pub include_usage: bool,
    pub events: bool,
    pub display: bool,
}

#[derive(Debug, PartialEq)]
struct Conversation {
    system: Option<String>,
    before: Vec<Turn>,
    prompt: String,
    /// The video, and where it is.
    video: Source,
    at: String,
}

/// Check a request, and find its video and what is said in it. Blocks while the listener is there.
pub fn ask(app: &App, request: ChatRequest, listener: &Listener<'_>) -> Result<Asked, ApiError> {
    refuse_unsupported(&request)?;
    let model = model(app, request.model.as_deref())?;
    let extension = request.specreel.as_ref();
    let method = method(app, extension)?;
    let stream = request.stream.unwrap_or(false);
    let [events, display] = [
        ("specreel.events", extension.is_some_and(|own| own.events)),
        ("specreel.display", extension.is_some_and(|own| own.display)),
    ]
    .map(|(param, is_on)| match is_on && !stream {
        true => Err(invalid(param, "sent in streams only; add \"stream\": true")),
        false => Ok(is_on),
    });
    let (events, display) = (events?, display?);
    let logprobs = logprobs(&request)?;
    let constraint = constraint(request.response_format.as_ref())?;
    let stops = stops(request.stop)?;
    let base = &app.defaults.request;
    let limit = request.max_completion_tokens.or(request.max_tokens);
    let named = if request.max_completion_tokens.is_some() { "max_completion_tokens" } else { "max_tokens" };
    if let Some(limit) = limit.filter(|limit| !(1..=MAX_NEW_TOKENS).contains(limit)) {
        return Err(invalid(named, format!("{limit} is out of range; expected 1 to {MAX_NEW_TOKENS}")));
    }
    let mut text = base.text;
    if let Some(temperature) = request.temperature {
        if !(0.0..=100.0).contains(&temperature) {
            return Err(invalid("temperature", format!("{temperature} is out of range; expected 0 to 100")));
        }
        text.temperature = temperature;
    }
    if let Some(top_p) = request.top_p {
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(invalid(
                "top_p",
                format!("{top_p} is out of range; expected a number above 0, up to 1"),
            ));
        }
        text.top_p = top_p;
    }
    if let Some(seed) = request.seed {
        text.seed = seed.cast_unsigned();
    }
    let (thinking, effort) = match request.reasoning_effort {
        Some(effort) if effort == "none" => (false, None),
        Some(effort) => (true, Some(effort)),
        None => (base.thinking, base.effort.clone()),
    };
    let thinking = request.chat_template_kwargs.and_then(|own| own.enable_thinking).unwrap_or(thinking);
    let said = conversation(request.messages, &base.prompt)?;
    let sampling = sampling(base.sampling, extension)?;
    // Last, since it may take long.
    let video = app.videos.resolve(&said.video, &said.at)?;
    let span = Videos::span(&video, extension.and_then(|own| own.start), extension.and_then(|own| own.end))
        .map_err(|failure| ApiError::failure(&failure, Some("specreel.start")))?;
    let heard = app.speech.of(extension, &app.videos, &video, span, listener)?;
    let pixels = |own: fn(&Extension) -> Option<u32>| extension.and_then(own).map(|n| n as usize);
    let mut run = RunRequest {
        constraint: constraint.or_else(|| base.constraint.clone()),
        video: video.path.clone(),
        span,
        before: said.before,
        prompt: said.prompt,
        system: said.system.or_else(|| base.system.clone()),
        thinking,
        effort: effort.filter(|_| thinking),
        method,
        sampling,
        max_pixels: pixels(|own| own.max_pixels).or(base.max_pixels),
        max_visual_tokens: pixels(|own| own.max_visual_tokens).or(base.max_visual_tokens),
        max_new_tokens: limit.map_or(base.max_new_tokens, |limit| limit as usize),
        text,
        stop: stops,
        logprobs: logprobs.map_or(0, |count| count.max(1)),
        ..base.clone()
    };
    let unused = "the tools in the request are not used: no model here can call them";
    let mut notes: Vec<String> = is_filled(&request.tools).then(|| unused.to_owned()).into_iter().collect();
    if let Some(heard) = heard {
        heard.precede(&mut run);
        notes.extend(heard.notes(f64::INFINITY));
    }
    let include_usage = request.stream_options.and_then(|own| own.include_usage).unwrap_or(false);
    Ok(Asked { run, video, model, notes, logprobs, stream, include_usage, events, display })
}

fn invalid(param: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid(param, "invalid_value", format!("{param}: {}", message.into()))
}

fn is_filled(value: &Option<Value>) -> bool {
    match value {
        None | Some(Value::Null) => false,
        Some(Value::Array(all)) => !all.is_empty(),
        Some(Value::Object(all)) => !all.is_empty(),
        Some(_) => true,
    }
}

/// Refuse what would change the answer, and is not there.
fn refuse_unsupported(request: &ChatRequest) -> Result<(), ApiError> {
    let unsupported = |param: &str, message: &str| {
        Err(ApiError::invalid(param, "unsupported_value", format!("{param}: {message}")))
    };
    if request.n.is_some_and(|n| n != 1) {
        return unsupported("n", "only 1 answer per request; send several requests");
    }
    for (param, value) in [("functions", &request.functions), ("logit_bias", &request.logit_bias)] {
        if is_filled(value) {
            return unsupported(param, "not supported; leave it out");
        }
    }
    // Without a demand, an answer that calls no tool is a right one: some clients offer theirs with every question.
    let is_demand = |choice: &Value| !choice.is_null() && choice != "none" && choice != "auto";
    if request.tool_choice.as_ref().is_some_and(is_demand) {
        return unsupported("tool_choice", "tools are not supported; expected `none` or `auto`");
    }
    for (param, value) in
        [("frequency_penalty", request.frequency_penalty), ("presence_penalty", request.presence_penalty)]
    {
        if value.is_some_and(|value| value != 0.0) {
            return unsupported(param, "penalties are not supported; leave it out, or set it to 0");
        }
    }
    if request.modalities.iter().flatten().any(|modality| modality != "text") {
        return unsupported("modalities", "answers are text; expected [\"text\"]");
    }
    Ok(())
}

/// What the answer has to be; `None` for any text.
fn constraint(format: Option<&Value>) -> Result<Option<Constraint>, ApiError> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    let constraint = match format.get("type").and_then(Value::as_str) {
        Some("text") => return Ok(None),
        Some("json_object") => Constraint::JsonObject,
        Some("json_schema") => {
            let schema = format.pointer("/json_schema/schema").filter(|schema| schema.is_object());
            let missing = || invalid("response_format.json_schema.schema", "expected a JSON schema");
            Constraint::JsonSchema { schema: schema.ok_or_else(missing)?.clone() }
        }
        _ => {
            return Err(invalid("response_format.type", "expected `text`, `json_object` or `json_schema`"));
        }
    };
    constraint.check().map_err(|error| invalid("response_format.json_schema.schema", error.to_string()))?;
    Ok(Some(constraint))
}

/// The name under which the request knows the models.
fn model(app: &App, named: Option<&str>) -> Result<String, ApiError> {
    let Some(ready) = app.models.get() else { return Ok(crate::NAME.to_owned()) };
    match named {
        None | Some(crate::NAME) => Ok(ready.target.clone()),
        Some(named) if named == ready.target => Ok(ready.target.clone()),
        Some(other) => {
            let other: String = other.chars().take(100).collect();
            let message = format!(
                "no model `{other}`; this server has `{}`, which `{}` also means",
                ready.target,
                crate::NAME
            );
            Err(ApiError {
                param: Some("model".into()),
                ..ApiError::new(axum::http::StatusCode::NOT_FOUND, "model_not_found", message)
            })
        }
    }
}

/// The method with the request's changes, if the loaded models have what it needs.
fn method(app: &App, extension: Option<&Extension>) -> Result<Method, ApiError> {
    let base = match extension.and_then(|own| own.method.as_deref()) {
        None => app.defaults.request.method.clone(),
        Some(name) => {
            let found = app.defaults.methods.iter().find(|method| method.name == name);
            found.cloned().ok_or_else(|| {
                let names: Vec<&str> = app.defaults.methods.iter().map(|method| &*method.name).collect();
                let name: String = name.chars().take(100).collect();
                invalid(
                    "specreel.method",
                    format!("no method `{name}`; expected one of: {}", names.join(", ")),
                )
            })?
        }
    };
    let sets = extension.map(|own| &own.set[..]).unwrap_or_default();
    let refuse = |failure: Failure, param: &str| ApiError::failure(&failure, Some(param));
    let method = base
        .with_sets(sets.iter().map(String::as_str))
        .map_err(|error| refuse(error.into(), "specreel.set"))?;
    if let Some(ready) = app.models.get() {
        let parts = ready.parts.clone().unwrap_or_default();
        method.check_parts(&parts, &ready.target).map_err(|failure| refuse(failure, "specreel.method"))?;
    }
    Ok(method)
}

fn logprobs(request: &ChatRequest) -> Result<Option<usize>, ApiError> {
    match (request.logprobs.unwrap_or(false), request.top_logprobs) {
        (_, Some(count)) if count > MAX_LOGPROBS => {
            Err(invalid("top_logprobs", format!("{count} is out of range; expected 0 to {MAX_LOGPROBS}")))
        }
        (false, Some(1..)) => Err(invalid("top_logprobs", "needs \"logprobs\": true")),
        (true, count) => Ok(Some(count.unwrap_or(0) as usize)),
        (false, _) => Ok(None),
    }
}

fn stops(stop: Option<Stop>) -> Result<Vec<String>, ApiError> {
    let stops = match stop {
        None => Vec::new(),
        Some(Stop::One(stop)) => vec![stop],
        Some(Stop::Several(stops)) => stops,
    };
    if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.is_empty() || stop.len() > LONGEST_STOP) {
        let message = format!("expected up to {MAX_STOPS} texts of 1 to {LONGEST_STOP} bytes");
        return Err(invalid("stop", message));
    }
    Ok(stops)
}

fn sampling(base: Sampling, extension: Option<&Extension>) -> Result<Sampling, ApiError> {
    let (frames, fps) = extension.map_or((None, None), |own| (own.frames, own.fps));
    let sampling = match (frames, fps) {
        (Some(_), Some(_)) => return Err(invalid("specreel.fps", "choose either `frames` or `fps`")),
        (Some(frames), None) => Sampling::Frames(frames as usize),
        (None, Some(fps)) => Sampling::Fps(fps),
        (None, None) => base,
    };
    let param = if frames.is_some() { "specreel.frames" } else { "specreel.fps" };
    specreel_video::sampling::check(sampling)
        .map_err(|error| ApiError::invalid(param, "invalid_value", error.to_string()))?;
    Ok(sampling)
}

/// Read the messages: system messages, then questions and answers in turn. The video is in the first question; later messages may
/// repeat it.
fn conversation(messages: Vec<Message>, default_prompt: &str) -> Result<Conversation, ApiError> {
    let (mut system, mut turns) = (Vec::new(), Vec::<Turn>::new());
    let mut video: Option<(Source, String)> = None;
    let mut open = None;
    let count = messages.len();
    for (i, Message { role, content }) in messages.into_iter().enumerate() {
        let at = format!("messages[{i}]");
        let (text, media) = read(content, &at)?;
        if let Some((_, place)) = media.first().filter(|_| role != Role::User) {
            return Err(invalid(place, "videos belong to messages of the user"));
        }
        for (source, place) in media {
            match &video {
                None if !turns.is_empty() => {
                    return Err(invalid(&place, "the video comes with the first question; move it there"));
                }
                None => video = Some((source, place)),
                Some((first, _)) if *first == source => {}
                Some(_) => {
                    return Err(ApiError::invalid(
                        &place,
                        "unsupported_value",
                        format!(
                            "{place}: a conversation is about one video; send another request for the other one"
                        ),
                    ));
                }
            }
        }
        match (role, open.take()) {
            (Role::System | Role::Developer, None) if turns.is_empty() => system.push(text),
            (Role::System | Role::Developer, _) => {
                return Err(invalid(&format!("{at}.role"), "system messages come first"));
            }
            (Role::User, None) => open = Some(text),
            // Some clients send the video and the question as two messages.
            (Role::User, Some(before)) => open = Some(join(before, &text)),
            (Role::Assistant, Some(prompt)) => {
                let prompt = if prompt.trim().is_empty() { default_prompt.to_owned() } else { prompt };
                turns.push(Turn { prompt, answer: text, ..Turn::default() });
            }
            (Role::Assistant, None) => {
                return Err(invalid(&format!("{at}.role"), "an answer follows a question of the user"));
            }
        }
    }
    let Some(prompt) = open else {
        let at = if count == 0 { "messages".to_owned() } else { format!("messages[{}].role", count - 1) };
        return Err(invalid(&at, "the last message is a question of the user"));
    };
    let prompt = if prompt.trim().is_empty() { default_prompt.to_owned() } else { prompt.trim().to_owned() };
    let Some((video, at)) = video else {
        return Err(ApiError::invalid(
            "messages",
            "missing_video",
            "messages: there is no video; specreel answers questions about a video: add a part such as {\"type\": \
             \"video_url\", \"video_url\": {\"url\": \"data:video/mp4;base64,…\"}} to the first question",
        ));
    };
    let system = (!system.is_empty()).then(|| system.join("\n\n")).filter(|text| !text.trim().is_empty());
    Ok(Conversation { system, before: turns, prompt, video, at })
}

fn join(mut text: String, more: &str) -> String {
    if !text.is_empty() && !more.is_empty() {
        text.push('\n');
    }
    text.push_str(more);
    text
}

/// The text of a message, and its videos with their places.
fn read(content: Option<Content>, at: &str) -> Result<(String, Vec<(Source, String)>), ApiError> {
    let parts = match content {
        None => return Ok((String::new(), Vec::new())),
        Some(Content::Text(text)) => return Ok((text, Vec::new())),
        Some(Content::Parts(parts)) => parts,
    };
    let (mut text, mut media) = (String::new(), Vec::new());
    for (i, part) in parts.into_iter().enumerate() {
        let at = |field: &str| format!("{at}.content[{i}].{field}");
        match part {
            Part::Text { text: more } => text = join(text, &more),
            Part::VideoUrl { video_url } => media.push((Source::Url(video_url.url), at("video_url"))),
            Part::ImageUrl { image_url } => media.push((Source::Url(image_url.url), at("image_url"))),
            Part::InputVideo { input_video } => {
                let place = at("input_video");
                media.push((input(input_video, &place)?, place));
            }
            Part::File { file } => {
                let place = at("file");
                media.push((input(file, &place)?, place));
            }
        }
    }
    Ok((text, media))
}

fn input(named: InputVideo, at: &str) -> Result<Source, ApiError> {
    match named {
        InputVideo { data: Some(data), url: None, file_id: None } if data.starts_with("data:") => {
            Ok(Source::Url(data))
        }
        InputVideo { data: Some(data), url: None, file_id: None } => Ok(Source::Data(data)),
        InputVideo { data: None, url: Some(url), file_id: None }
        | InputVideo { data: None, url: None, file_id: Some(url) } => Ok(Source::Url(url)),
        _ => Err(invalid(at, "expected one of: data, url, file_id")),
    }
}

#[cfg(test)]
mod tests;
