//! The Model Context Protocol: the tools of `specreel mcp`, and of the HTTP server at `/mcp`, over the pool of engines.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rmcp::handler::server::{router::tool::ToolRouter, wrapper::Parameters};
use rmcp::model::{
    CallToolResult, ContentBlock, Implementation, ProgressNotificationParam, ProgressToken,
    ServerCapabilities, ServerConfig,
};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler, ServiceExt as _, service::RequestContext, tool, tool_handler,
    tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::api::{
    ChatRequest, Content, Extension, Fields, Limit, MAX_NEW_TOKENS, MediaUrl, Message, Part, Role,
    TextFields, text_fields,
};
use crate::app::{App, SharedApp};
use crate::ask::{self, Asked};
use crate::search::{self, AskLibrary, FindMoments};
use crate::{Defaults, Listener, NAME, Options, error::ApiError, session::Session};
use specreel_client::Interrupt;
use specreel_client::moments::{LibraryQuestion, Moment, question};
use specreel_record::{Event, EventKind, Failure, Ready, Stage};

/// Introduces the tools to clients.
const INSTRUCTIONS: &str = "Describes videos and pictures with a local Video-LLM. `caption_video` describes a file, `ask_video` answers a \
     question about it; a second question about the same file starts sooner. Both can be told what is said in it. Long videos take \
     minutes: watch the progress. `find_moments` looks for words in what was captioned before, and `ask_library` \
     answers questions from that.";

/// How long a client of the HTTP server may be silent before its session ends.
const SESSION: Duration = Duration::from_secs(60 * 60);

/// How long a notification waits for a client that reads slowly.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server that speaks over stdin and stdout.
pub struct McpServer {
    app: SharedApp,
}

impl McpServer {
    /// Fails for an allowed directory that cannot be read (class usage).
    pub fn new(options: Options, defaults: Defaults) -> Result<Self, Failure> {
        Ok(Self { app: Arc::new(App::new(options, defaults)?) })
    }

    /// Answer requests until stdin is closed, or `interrupt`. The models are loaded meanwhile; calls wait for them. `on` gets every
    /// event of loading. Needs a runtime of several threads.
    pub async fn run(self, on: &mut dyn FnMut(&EventKind), interrupt: &Interrupt) -> Result<(), Failure> {
        let (loaded, loading) = watch::channel(Loading::Running);
        let tools = Tools::new(self.app.clone(), loading, false);
        let end = CancellationToken::new();
        let serving = tokio::spawn(serve(tools, end.clone()));
        let outcome = self.app.load(on, interrupt).await;
        let _ = loaded.send(Loading::ended(&outcome));
        let interrupted = async {
            match &outcome {
                Ok(Some(_)) => interrupt.waited(Duration::ZERO).await,
                // The call that waits for the models gets its answer, and the client ends the server.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = serving => {}
            () = interrupted => end.cancel(),
        }
        self.app.pool.close();
        self.app.pool.cancel_all();
        self.app.videos.store.clear();
        outcome.map(|_| ())
    }
}

/// Serve until the client leaves. What is wrong with the connection ends it.
async fn serve(tools: Tools, end: CancellationToken) {
    if let Ok(service) = tools.serve_with_ct(rmcp::transport::stdio(), end).await {
        let _ = service.waiting().await;
    }
}

/// The service of a server that speaks over HTTP.
pub fn service(
    app: SharedApp,
    loading: watch::Receiver<Loading>,
    end: CancellationToken,
) -> StreamableHttpService<Tools, LocalSessionManager> {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION);
    let config = StreamableHttpServerConfig::default().with_cancellation_token(end);
    // Requests of web pages are checked for all routes alike.
    let config = config.disable_allowed_hosts();
    let tools = Tools::new(app, loading, true);
    StreamableHttpService::new(move || Ok(tools.clone()), Arc::new(sessions), config)
}

/// How far the models are.
#[derive(Clone, Debug)]
pub enum Loading {
    Running,
    Done,
    Failed(String),
}

impl Loading {
    pub fn ended(outcome: &Result<Option<Ready>, Failure>) -> Self {
        match outcome {
            Ok(Some(_)) => Self::Done,
            Ok(None) => Self::Failed("interrupted".into()),
            Err(failure) => Self::Failed(ApiError::failure(failure, None).message),
        }
    }
}

/// What to describe, and how.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CaptionVideo {
    /// Path of a video or picture, or `demo` for an embedded clip.
    path: String,
    /// What to write about; by default a detailed description.
    prompt: Option<String>,
    /// Decoding method, such as naive or autoregressive.
    method: Option<String>,
    /// Longest answer in tokens.
    max_new_tokens: Option<u32>,
    #[schemars(flatten)]
    text: TextFields,
    /// First second of the video to look at.
    start: Option<f64>,
    /// Last second of the video to look at.
    end: Option<f64>,
    /// File of what is said in the video: SubRip, WebVTT, or Whisper's JSON.
    transcript: Option<String>,
    /// Have the server's speech model listen to the video first.
    transcribe: Option<bool>,
}

/// A question about a video.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct AskVideo {
    /// Path of a video or picture, or `demo` for an embedded clip.
    path: String,
    /// The question.
    question: String,
    /// Longest answer in tokens.
    max_new_tokens: Option<u32>,
    #[schemars(flatten)]
    text: TextFields,
    /// File of what is said in the video: SubRip, WebVTT, or Whisper's JSON.
    transcript: Option<String>,
    /// Have the server's speech model listen to the video first.
    transcribe: Option<bool>,
}

/// A video, and the methods to compare on it.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct CompareMethods {
    /// Path of a video or picture, or `demo` for an embedded clip.
    path: String,
    /// Names of methods, such as ["autoregressive", "naive", "lenient"].
    methods: Vec<String>,
    /// What to write about; by default a detailed description.
    prompt: Option<String>,
    /// Longest answer in tokens.
    max_new_tokens: Option<u32>,
}

/// Read the arguments of a call as the fields of a request are read.
fn arguments<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    read: impl FnOnce(&mut Fields) -> Result<T, ApiError>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let call = Fields::of(value).and_then(|mut fields| {
        let call = read(&mut fields)?;
        fields.end().map(|()| call)
    });
    call.map_err(|error| D::Error::custom(error.message))
}

impl<'de> Deserialize<'de> for CaptionVideo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        arguments(deserializer, |fields| {
            Ok(Self {
                path: fields.need("path", "a string")?.string()?,
                prompt: fields.string("prompt")?,
                method: fields.string("method")?,
                max_new_tokens: fields.count("max_new_tokens", MAX_NEW_TOKENS)?,
                text: text_fields(fields)?,
                start: fields.number("start", f64::MIN..=f64::MAX)?,
                end: fields.number("end", f64::MIN..=f64::MAX)?,
                transcript: fields.string("transcript")?,
                transcribe: fields.flag("transcribe")?,
            })
        })
    }
}

impl<'de> Deserialize<'de> for AskVideo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        arguments(deserializer, |fields| {
            Ok(Self {
                path: fields.need("path", "a string")?.string()?,
                question: fields.need("question", "a string")?.string()?,
                max_new_tokens: fields.count("max_new_tokens", MAX_NEW_TOKENS)?,
                text: text_fields(fields)?,
                transcript: fields.string("transcript")?,
                transcribe: fields.flag("transcribe")?,
            })
        })
    }
}

impl<'de> Deserialize<'de> for CompareMethods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        arguments(deserializer, |fields| {
            Ok(Self {
                path: fields.need("path", "a string")?.string()?,
                methods: fields.need("methods", "an array of names")?.strings()?,
                prompt: fields.string("prompt")?,
                max_new_tokens: fields.count("max_new_tokens", MAX_NEW_TOKENS)?,
            })
        })
    }
}

impl<'de> Deserialize<'de> for FindMoments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        arguments(deserializer, Self::read)
    }
}

impl<'de> Deserialize<'de> for AskLibrary {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        arguments(deserializer, |fields| Self::read(fields, MAX_NEW_TOKENS))
    }
}

#[derive(Clone)]
pub struct Tools {
    app: SharedApp,
    loading: watch::Receiver<Loading>,
    /// Clients may be on other machines: paths of this one do not concern them.
    over_http: bool,
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Tools {
    /// Describe a video or a picture.
    #[tool]
    async fn caption_video(
        &self,
        Parameters(call): Parameters<CaptionVideo>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let CaptionVideo { path, prompt, method, max_new_tokens, text, start, end, transcript, transcribe } =
            call;
        let extension = Extension { method, start, end, ..said(transcript, transcribe) };
        let chat = ChatRequest { text, ..chat(path, prompt.unwrap_or_default(), max_new_tokens, extension) };
        Ok(result(self.answer(chat, &mut Progress::new(&context), &context.ct).await))
    }

    /// Answer a question about a video or a picture.
    #[tool]
    async fn ask_video(
        &self,
        Parameters(call): Parameters<AskVideo>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let AskVideo { path, question, max_new_tokens, text, transcript, transcribe } = call;
        let chat = ChatRequest { text, ..chat(path, question, max_new_tokens, said(transcript, transcribe)) };
        Ok(result(self.answer(chat, &mut Progress::new(&context), &context.ct).await))
    }

    /// Find moments in the videos that `specreel index` has captioned, by the words of their captions and of what is said in them.
    #[tool]
    async fn find_moments(
        &self,
        Parameters(call): Parameters<FindMoments>,
    ) -> Result<CallToolResult, ErrorData> {
        let (app, over_http) = (self.app.clone(), self.over_http);
        let moments = found(move || if over_http { call.find_named(&app) } else { call.find(&app) }).await;
        let mut shown = result(moments.map(|moments| {
            let lines: Vec<String> =
                moments.iter().map(|moment| moment.line(|part| part.text.clone())).collect();
            let text = if lines.is_empty() { "nothing found".to_owned() } else { lines.join("\n") };
            let moments: Vec<Value> = moments.iter().map(Moment::json).collect();
            json!({ "text": text, "moments": moments })
        }));
        if let Some(Value::Object(fields)) = &mut shown.structured_content {
            fields.remove("text");
        }
        Ok(shown)
    }

    /// Answer a question from what `specreel index` has of a library of videos. The answer cites moments by number, as in [2]; these
    /// follow it with the paths and times of their videos.
    #[tool]
    async fn ask_library(
        &self,
        Parameters(call): Parameters<AskLibrary>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        if let Err(error) = self.loaded().await {
            return Ok(result(Err(error)));
        }
        let (app, max_new_tokens, over_http) = (self.app.clone(), call.max_new_tokens, self.over_http);
        let asked = found(move || {
            let asked = call.about(&app);
            let asked = if over_http { asked.map_err(search::without_path) } else { asked };
            let with_file = |question: LibraryQuestion| {
                let part = question.part();
                let question = if over_http { question.named(search::named(&app)) } else { question };
                let file = &question.shown().path;
                // A bare name such as `demo` would mean something else.
                let file = if file.is_relative() { Path::new(".").join(file) } else { file.clone() };
                (part, file.to_string_lossy().into_owned(), question)
            };
            Ok(asked?.map(with_file))
        });
        let (part, path, question) = match asked.await {
            Ok(Some(asked)) => asked,
            Ok(None) => return Ok(result(Ok(json!({ "text": "nothing found", "moments": [] })))),
            Err(error) => return Ok(result(Err(error))),
        };
        let (start, end) = part.map(|part| (part.start, part.end)).unzip();
        let extension = Extension { start, end, frames: Some(question::FRAMES), ..Extension::default() };
        let chat = chat(path, question.prompt(), max_new_tokens, extension);
        let chat = ChatRequest { response_format: question.constraint(), ..chat };
        let answer = self.answer(chat, &mut Progress::new(&context), &context.ct).await;
        Ok(result(answer.map(|mut answer| {
            let text = answer["text"].as_str().unwrap_or_default().to_owned();
            answer["moments"] = question.json(&text);
            answer["text"] = format!("{text}\n{}", question.sources(&text)).into();
            answer
        })))
    }

    /// Describe a video with several decoding methods, and compare their texts and speeds.
    #[tool]
    async fn compare_methods(
        &self,
        Parameters(call): Parameters<CompareMethods>,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let CompareMethods { path, methods, prompt, max_new_tokens } = call;
        if methods.is_empty() {
            return Ok(result(Err("methods: expected at least one name".into())));
        }
        let mut progress = Progress::new(&context);
        let mut rows = Vec::new();
        for method in methods {
            let extension = Extension { method: Some(method), ..Extension::default() };
            let chat = chat(path.clone(), prompt.clone().unwrap_or_default(), max_new_tokens, extension);
            match self.answer(chat, &mut progress, &context.ct).await {
                Ok(row) => rows.push(row),
                Err(error) => return Ok(result(Err(error))),
            }
        }
        let first = rows.first().map(|row| row["text"].clone());
        for row in &mut rows {
            row["same_text_as_first"] = json!(first.as_ref() == Some(&row["text"]));
        }
        Ok(CallToolResult::structured(json!({ "methods": rows })))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }
}

impl Tools {
    fn new(app: SharedApp, loading: watch::Receiver<Loading>, over_http: bool) -> Self {
        Self { app, loading, over_http, tool_router: Self::tool_router() }
    }

    /// The answer and how it was made.
    async fn answer(
        &self,
        chat: ChatRequest,
        progress: &mut Progress,
        cancelled: &CancellationToken,
    ) -> Result<Value, String> {
        let began = Instant::now();
        let run = async {
            self.loaded().await?;
            let asked = self.asked(chat, progress, cancelled).await?;
            let message = |error: ApiError| error.message;
            let mut session = Session::begin(&self.app, asked, "mcp-", began).map_err(message)?;
            while let Some((event, _)) = session.next().await.map_err(message)? {
                progress.tell(&event, session.answer.tokens(), session.max_new_tokens).await;
            }
            let answer = &session.answer;
            let mut value = serde_json::to_value(answer.report(Vec::new()).run).map_err(|e| e.to_string())?;
            value["text"] = answer.log().shown().trim().into();
            value["finish_reason"] = answer.finish_reason().into();
            Ok(value)
        };
        // Dropping the session cancels its run.
        tokio::select! {
            outcome = run => outcome,
            () = cancelled.cancelled() => Err("cancelled".into()),
        }
    }

    /// Start the run of a request, reporting the speech model's progress if it listens.
    async fn asked(
        &self,
        chat: ChatRequest,
        progress: &mut Progress,
        cancelled: &CancellationToken,
    ) -> Result<Asked, String> {
        let (heard, mut hearing) = watch::channel((0.0, 0.0));
        let (app, cancelled) = (self.app.clone(), cancelled.clone());
        let asking = tokio::task::spawn_blocking(move || {
            let heard = |done: f64, total: f64| {
                let _ = heard.send((done, total));
            };
            let gone = || cancelled.is_cancelled() || app.pool.is_closed();
            ask::ask(&app, chat, &Listener { gone: &gone, heard: &heard })
        });
        // Ends with the task, which has the sender.
        while hearing.changed().await.is_ok() {
            let (done, total) = *hearing.borrow_and_update();
            progress.stage(Stage::Listen, done as u64, total as u64).await;
        }
        asking.await.map_err(|e| e.to_string())?.map_err(|error| error.message)
    }

    /// Wait until the models are loaded.
    async fn loaded(&self) -> Result<(), String> {
        let mut loading = self.loading.clone();
        let state = loading.wait_for(|state| !matches!(state, Loading::Running)).await;
        match state.as_deref() {
            Ok(Loading::Done) => Ok(()),
            // Where their files are concerns no client of another machine.
            Ok(Loading::Failed(_)) if self.over_http => {
                Err("the models cannot be loaded; the log of the server says why".into())
            }
            Ok(Loading::Failed(error)) => Err(error.clone()),
            _ => Err("the server is shutting down".into()),
        }
    }
}

/// Notifications of progress, if the client wants them.
struct Progress {
    token: Option<ProgressToken>,
    client: Peer<RoleServer>,
    /// It may never fall.
    sent: f64,
}

impl Progress {
    fn new(context: &RequestContext<RoleServer>) -> Self {
        Self { token: context.meta.get_progress_token(), client: context.peer.clone(), sent: 0.0 }
    }

    async fn tell(&mut self, event: &Event, tokens: usize, most: usize) {
        match &event.kind {
            EventKind::Stage { stage, done, total, .. } if *total > 0 => {
                self.stage(*stage, *done, *total).await;
            }
            EventKind::Step(_) => self.send(format!("{tokens} of at most {most} tokens")).await,
            _ => {}
        }
    }

    async fn stage(&mut self, stage: Stage, done: u64, total: u64) {
        self.send(format!("{} {done}/{total}", stage.doing())).await;
    }

    async fn send(&mut self, message: String) {
        let Some(token) = &self.token else { return };
        self.sent += 1.0;
        let progress = ProgressNotificationParam::new(token.clone(), self.sent).with_message(message);
        // A client that does not read keeps no engine waiting.
        let _ = tokio::time::timeout(PATIENCE, self.client.notify_progress(progress)).await;
    }
}

/// Look for moments on a thread of their own: it blocks.
async fn found<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, String> {
    let found = tokio::task::spawn_blocking(look).await;
    found.map_err(|e| e.to_string())?.map_err(|error| error.message)
}

/// A request with what is said in the video.
fn said(transcript: Option<String>, transcribe: Option<bool>) -> Extension {
    let transcript = transcript.map(|path| json!({ "path": path }));
    Extension { transcript, transcribe: transcribe.unwrap_or_default(), ..Extension::default() }
}

fn chat(path: String, prompt: String, max_new_tokens: Option<u32>, extension: Extension) -> ChatRequest {
    let video_url = MediaUrl { url: path, at: "path".to_owned() };
    let parts = vec![Part::VideoUrl { video_url }, Part::Text { text: prompt }];
    ChatRequest {
        messages: vec![Message {
            at: "messages[0]".to_owned(),
            role: Role::User,
            content: Some(Content::Parts(parts)),
            tool_calls: Vec::new(),
        }],
        max_completion_tokens: max_new_tokens.map(|tokens| Limit::Tokens(tokens as usize)),
        specreel: Some(extension),
        ..ChatRequest::default()
    }
}

/// The text for the calling model, with the figures as structured content. Errors are results, so that the model can react to them.
fn result(answered: Result<Value, String>) -> CallToolResult {
    match answered {
        Ok(value) => {
            let text = value["text"].as_str().unwrap_or_default().to_owned();
            let mut result = CallToolResult::structured(value);
            result.content = vec![ContentBlock::text(text)];
            result
        }
        Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
    }
}
