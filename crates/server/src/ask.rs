//! From a chat request to a run.

use crate::api::{
    ChatRequest, Content, Extension, InputVideo, Limit, MAX_NEW_TOKENS, MediaUrl, Message, Part, Role,
    TextFields,
};
use crate::videos::{Source, Video, Videos};
use crate::{app::App, error::ApiError, models::Model, options::Listener};
use specreel_engine::{RunRequest, Turn};
use specreel_record::{Failure, OnLoop, ToolCalls};
use specreel_speculate::{Method, SamplingControls};
use specreel_video::Sampling;

const LONE_RESULT: &str = "the result of a tool follows a message of the assistant with `tool_calls`";

/// A validated request: its run, and how the answer is returned.
pub struct Asked {
    pub run: RunRequest,
    pub video: Video,
    /// The number of the model.
    pub served: usize,
    /// Its id.
    pub model: String,
    /// What of the request has no effect, or could not be read.
    pub notes: Vec<String>,
    pub logprobs: Option<usize>,
    pub stream: bool,
    pub include_usage: bool,
    pub events: bool,
    pub display: bool,
}

#[derive(Clone, Debug, PartialEq)]
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
    let served = model(app, request.model.as_deref())?;
    let model = &app.models.all()[served];
    let extension = request.specreel.as_ref();
    let method = method(model, extension)?;
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
    let base = &model.served.request;
    let limit = request.max_completion_tokens.or(request.max_tokens);
    let text = sampling_of(&request.text, &base.text);
    let (thinking, effort) = match request.reasoning_effort {
        Some(effort) if effort == "none" => (false, None),
        Some(effort) => (true, Some(effort)),
        None => (base.thinking, base.effort.clone()),
    };
    let thinking = request.chat_template_kwargs.and_then(|own| own.enable_thinking).unwrap_or(thinking);
    let said = conversation(request.system, request.messages, &base.prompt)?;
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
    let model = model.id().to_owned();
    Ok(Asked { run, video, served, model, notes, logprobs, stream, include_usage, events, display })
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

/// The number of the model that a request names, or of the first one.
fn model(app: &App, named: Option<&str>) -> Result<usize, ApiError> {
    app.models.find(named).ok_or_else(|| {
        let other: String = named.unwrap_or_default().chars().take(100).collect();
        let ids: Vec<String> = app.models.all().iter().map(|model| format!("`{}`", model.id())).collect();
        let (ids, first) = (ids.join(", "), crate::NAME);
        let message = match app.models.all().len() {
            1 => format!("no model `{other}`; this server has {ids}, which `{first}` also means"),
            _ => format!("no model `{other}`; this server has {ids}; `{first}` means the first of them"),
        };
        ApiError {
            param: Some("model".into()),
            ..ApiError::new(axum::http::StatusCode::NOT_FOUND, "model_not_found", message)
        }
    })
}

/// The method with the request's changes, if the models have what it needs, as far as that is known.
fn method(model: &Model, extension: Option<&Extension>) -> Result<Method, ApiError> {
    let base = match extension.and_then(|own| own.method.as_deref()) {
        None => model.served.request.method.clone(),
        Some(name) => {
            let found = model.served.methods.iter().find(|method| method.name == name);
            found.cloned().ok_or_else(|| {
                let names: Vec<&str> = model.served.methods.iter().map(|method| &*method.name).collect();
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
    if let Some(ready) = model.ready() {
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
fn conversation(
    system: Option<String>,
    messages: Vec<Message>,
    default_prompt: &str,
) -> Result<Conversation, ApiError> {
    let (mut system, mut turns) = (Vec::from_iter(system), Vec::<Turn>::new());
    let mut video: Option<(Source, String)> = None;
    let mut open: Option<Open> = None;
    let field = messages.first().and_then(|first| Some(first.at.split_once('[')?.0.to_owned()));
    let field = field.unwrap_or_else(|| "messages".to_owned());
    let last = messages.last().map_or_else(|| field.clone(), |last| format!("{}.role", last.at));
    for Message { at, role, content, tool_calls } in messages {
        let refuse = |message: &str| Err(invalid(&format!("{at}.role"), message));
        let (text, media) = read(content)?;
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
        let message = format!(
            "{field}: there is no video; specreel answers questions about a video: add a part such as {{\"type\": \
             \"video_url\", \"video_url\": {{\"url\": \"data:video/mp4;base64,…\"}}}} to the first question"
        );
        return Err(ApiError::invalid(field, "missing_video", message));
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
fn read(content: Option<Content>) -> Result<(String, Vec<(Source, String)>), ApiError> {
    let parts = match content {
        None => return Ok((String::new(), Vec::new())),
        Some(Content::Text(text)) => return Ok((text, Vec::new())),
        Some(Content::Parts(parts)) => parts,
    };
    let (mut text, mut media) = (String::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text { text: more } => text = join(text, &more),
            Part::VideoUrl { video_url: MediaUrl { url, at } }
            | Part::ImageUrl { image_url: MediaUrl { url, at } } => media.push((Source::Url(url), at)),
            Part::InputVideo { input_video: named } | Part::File { file: named } => media.push(input(named)?),
        }
    }
    Ok((text, media))
}

fn input(named: InputVideo) -> Result<(Source, String), ApiError> {
    let source = match named {
        InputVideo { data: Some(data), url: None, file_id: None, at } if data.starts_with("data:") => {
            (Source::Url(data), at)
        }
        InputVideo { data: Some(data), url: None, file_id: None, at } => (Source::Data(data), at),
        InputVideo { data: None, url: Some(url), file_id: None, at }
        | InputVideo { data: None, url: None, file_id: Some(url), at } => (Source::Url(url), at),
        InputVideo { at, .. } => return Err(invalid(&at, "expected one of: data, url, file_id")),
    };
    Ok(source)
}

#[cfg(test)]
mod tests;
