//! From a chat request to a run.

use crate::api::{
    ChatRequest, Content, Extension, InputVideo, Limit, MAX_NEW_TOKENS, Message, Part, Role, TextFields,
};
use crate::videos::{Source, Video, Videos};
use crate::{app::App, error::ApiError, options::Listener};
use specreel_engine::{RunRequest, Turn};
use specreel_record::{Failure, OnLoop, ToolCalls};
use specreel_speculate::{Method, SamplingControls};
use specreel_video::Sampling;

const LONE_RESULT: &str = "the result of a tool follows a message of the assistant with `tool_calls`";

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
    let base = &app.defaults.request;
    let limit = request.max_completion_tokens.or(request.max_tokens);
    let text = sampling_of(&request.text, &base.text);
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
        constraint: request.response_format.or_else(|| base.constraint.clone()),
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
        max_new_tokens: match limit {
            None => base.max_new_tokens,
            Some(Limit::Tokens(tokens)) => tokens,
            Some(Limit::Window) => MAX_NEW_TOKENS,
        },
        cut_to_window: limit == Some(Limit::Window),
        // Drafts are reported, and no client is to see what another one's answer said.
        reuse_texts: false,
        text,
        on_loop: match base.on_loop {
            // What was sent cannot be withdrawn.
            OnLoop::Retry if stream => OnLoop::Stop,
            on_loop => on_loop,
        },
        stop: if request.text.stop.is_empty() { base.stop.clone() } else { request.text.stop },
        logprobs: logprobs.map_or(0, |count| count.max(1)),
        ..base.clone()
    };
    let mut notes = request.notes;
    if let Some(heard) = heard {
        heard.precede(&mut run);
        notes.extend(heard.notes(f64::INFINITY));
    }
    let include_usage = request.stream_options.and_then(|own| own.include_usage).unwrap_or(false);
    Ok(Asked { run, video, model, notes, logprobs, stream, include_usage, events, display })
}

/// How the answer is sampled: as the request says, else as the server. At temperature 0, what only cuts off unlikely tokens has no effect:
/// clients send it all the same.
fn sampling_of(request: &TextFields, base: &SamplingControls) -> SamplingControls {
    let count = |value: Option<i64>| value.map(|value| usize::try_from(value).unwrap_or(0));
    let base = base.clone();
    let temperature = request.temperature.or(base.temperature);
    let is_greedy = temperature == Some(0.0);
    SamplingControls {
        temperature,
        top_k: count(request.top_k).or(base.top_k).filter(|_| !is_greedy),
        top_p: request.top_p.or(base.top_p).filter(|_| !is_greedy),
        min_p: request.min_p.or(base.min_p).filter(|_| !is_greedy),
        repetition_penalty: request.repetition_penalty.or(base.repetition_penalty),
        repetition_window: count(request.repeat_last_n).or(base.repetition_window),
        presence_penalty: request.presence_penalty.or(base.presence_penalty),
        frequency_penalty: request.frequency_penalty.or(base.frequency_penalty),
        no_repeat_ngram: count(request.no_repeat_ngram_size).or(base.no_repeat_ngram),
        dry_multiplier: request.dry_multiplier.or(base.dry_multiplier),
        dry_base: request.dry_base.or(base.dry_base),
        dry_allowed_length: count(request.dry_allowed_length).or(base.dry_allowed_length),
        dry_window: count(request.dry_penalty_last_n).or(base.dry_window),
        dry_breakers: request.dry_sequence_breakers.clone().or(base.dry_breakers),
        logit_bias: if request.logit_bias.is_empty() { base.logit_bias } else { request.logit_bias.clone() },
        seed: request.seed.map(i64::cast_unsigned).or(base.seed),
        base: base.base,
    }
}

fn invalid(param: &str, message: impl Into<String>) -> ApiError {
    ApiError::invalid(param, "invalid_value", format!("{param}: {}", message.into()))
}

/// The name under which the request knows the models.
fn model(app: &App, named: Option<&str>) -> Result<String, ApiError> {
    let Some(ready) = app.models.get() else { return Ok(crate::NAME.to_owned()) };
    match named {
        None => Ok(ready.target.clone()),
        Some(named) if app.is_model(named) => Ok(ready.target.clone()),
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
        (false, Some(1..)) => Err(invalid("top_logprobs", "needs \"logprobs\": true")),
        (true, count) => Ok(Some(count.unwrap_or(0) as usize)),
        (false, _) => Ok(None),
    }
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

/// A question that has no answer yet, and the calls of tools since.
#[derive(Default)]
struct Open {
    prompt: String,
    calls: Vec<ToolCalls>,
}

impl Open {
    fn answered(self, answer: String, default_prompt: &str) -> Turn {
        let Self { prompt, calls } = self;
        let prompt = if prompt.trim().is_empty() { default_prompt.to_owned() } else { prompt };
        Turn { prompt, calls, answer }
    }
}

/// Read the messages: system messages, then questions and answers in turn, with calls of tools in between. The video is in the
/// first question; later messages may repeat it.
fn conversation(messages: Vec<Message>, default_prompt: &str) -> Result<Conversation, ApiError> {
    let (mut system, mut turns) = (Vec::new(), Vec::<Turn>::new());
    let mut video: Option<(Source, String)> = None;
    let mut open: Option<Open> = None;
    let count = messages.len();
    for (i, Message { role, content, tool_calls }) in messages.into_iter().enumerate() {
        let at = format!("messages[{i}]");
        let refuse = |message: &str| Err(invalid(&format!("{at}.role"), message));
        let (text, media) = read(content, &at)?;
        if let Some((_, place)) = media.first().filter(|_| role != Role::User) {
            return Err(invalid(place, "videos belong to messages of the user"));
        }
        let is_first = turns.is_empty() && open.as_ref().is_none_or(|open| open.calls.is_empty());
        for (source, place) in media {
            match &video {
                None if !is_first => {
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
            (Role::System | Role::Developer, _) => return refuse("system messages come first"),
            (Role::User, None) => open = Some(Open { prompt: text, calls: Vec::new() }),
            // Some clients send the video and the question as two messages.
            (Role::User, Some(before)) if before.calls.is_empty() => {
                open = Some(Open { prompt: join(before.prompt, &text), ..before });
            }
            (Role::User, Some(before)) => {
                turns.push(before.answered(String::new(), default_prompt));
                open = Some(Open { prompt: text, calls: Vec::new() });
            }
            (Role::Assistant, Some(before)) if tool_calls.is_empty() => {
                turns.push(before.answered(text, default_prompt));
            }
            (Role::Assistant, Some(mut before)) => {
                before.calls.push(ToolCalls { text, calls: tool_calls, results: Vec::new() });
                open = Some(before);
            }
            (Role::Assistant, None) => return refuse("an answer follows a question of the user"),
            (Role::Tool, Some(mut before)) => match before.calls.last_mut() {
                Some(calls) => {
                    calls.results.push(text);
                    open = Some(before);
                }
                None => return refuse(LONE_RESULT),
            },
            (Role::Tool, None) => return refuse(LONE_RESULT),
        }
    }
    let last = if count == 0 { "messages".to_owned() } else { format!("messages[{}].role", count - 1) };
    let prompt = match open {
        Some(Open { prompt, calls }) if calls.is_empty() => prompt,
        Some(_) => {
            let message = "the last message is a question of the user; no model here answers to calls of tools: write what they \
                 returned into a question";
            return Err(invalid(&last, message));
        }
        None => return Err(invalid(&last, "the last message is a question of the user")),
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
