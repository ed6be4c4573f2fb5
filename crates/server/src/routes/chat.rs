//! `POST /v1/chat/completions`.

use std::time::{Duration, Instant};
use std::{collections::VecDeque, future::Future, sync::Arc};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response, sse::Event as SseEvent};
use axum::{Json, body::Bytes};
use futures_util::{StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::sse::{self, data, named};
use crate::answer::{Added, Answer};
use crate::api::{self, Chat, Choice, Chunk, ChunkChoice, Delta, Logprobs, MessageOut, Report};
use crate::app::{App, BODY_UNIT, SharedApp, now};
use crate::ask::{self, Asked};
use crate::pool::{Refused, Ticket};
use crate::{error::ApiError, metrics::Finished, options::Listener};
use specreel_record::{Event, EventKind, units::bytes};

/// How long the head of a stream waits for the run to be checked, so that a refusal has a status.
const HEAD: Duration = Duration::from_secs(5);

pub async fn chat(State(app): State<SharedApp>, request: Request) -> Result<Response, ApiError> {
    let began = Instant::now();
    let deadline = app.options.timeout.map(|timeout| began + timeout);
    let head = async {
        let asked = asked(&app, request).await?;
        let id = format!("chatcmpl-{:x}-", app.created);
        let Asked { run, video, model, notes, logprobs, stream, include_usage, events, display } = asked;
        let ticket = app.pool.submit(run, video)?;
        let session = Session {
            id: format!("{id}{}", ticket.run()),
            created: now(),
            model,
            answer: Answer::new(ticket.run(), notes, logprobs, display),
            logprobs: logprobs.is_some(),
            ticket,
            app: app.clone(),
            began,
            deadline,
            run_began: None,
            first_token: None,
            counted: false,
            _answer: app.answers.clone(),
        };
        if stream {
            streamed(session, include_usage, events).await
        } else {
            whole(session).await.map(|chat| Json(chat).into_response())
        }
    };
    within(deadline, head).await.unwrap_or_else(|| Err(late(&app)))
}

/// Wait for something until a deadline; none if that comes first.
async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
        None => Some(work.await),
    }
}

fn late(app: &App) -> ApiError {
    let seconds = app.options.timeout.map_or(0, |timeout| timeout.as_secs());
    let message = format!(
        "the answer took longer than {seconds} s, the limit of this server; ask for fewer tokens or frames, or raise --timeout"
    );
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
}

async fn asked(app: &SharedApp, request: Request) -> Result<Asked, ApiError> {
    if app.pool.is_closed() {
        return Err(Refused::Closed.into());
    }
    if app.models.get().is_none() {
        return Err(Refused::Loading.into());
    }
    let (body, permit) = json_body(app, request).await?;
    let app = app.clone();
    // Dropped with the request: when the client is gone, or it took too long.
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    super::blocking(move || {
        let request = api::read(&body, app.defaults.request.text.temperature.unwrap_or_default())?;
        // The request has its own copy of what it needs.
        drop(body);
        let gone = || gone.is_cancelled() || app.pool.is_closed();
        let asked = ask::ask(&app, request, &Listener { gone: &gone, heard: &|_, _| {} });
        drop(permit);
        asked
    })
    .await
}

/// The body of a request of JSON, and the memory that it takes of what bodies may take together.
pub(super) async fn json_body(
    app: &App,
    request: Request,
) -> Result<(Bytes, OwnedSemaphorePermit), ApiError> {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.trim().to_ascii_lowercase().starts_with("application/json")) {
        let message = "expected the header `Content-Type: application/json`";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
    }
    let most = app.options.max_body;
    let too_large = || {
        let message = format!(
            "the request is larger than {}, the limit of this server; upload the video (POST /v1/files), or raise --max-body",
            bytes(most)
        );
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
    };
    let length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length: u64 = length.unwrap_or(most);
    if length > most {
        return Err(too_large());
    }
    let permits = u32::try_from(length.div_ceil(BODY_UNIT)).unwrap_or(u32::MAX);
    let permit = app.bodies.clone().try_acquire_many_owned(permits).map_err(|_| ApiError {
        retry_after: Some(Duration::from_secs(1)),
        ..ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_bodies",
            "too many large requests at once; try again later, or upload videos (POST /v1/files)",
        )
    })?;
    let body = axum::body::to_bytes(request.into_body(), most as usize).await.map_err(|error| {
        let mut source: Option<&dyn std::error::Error> = Some(&error);
        while let Some(cause) = source {
            if cause.to_string().contains("length limit") {
                return too_large();
            }
            source = cause.source();
        }
        ApiError::new(
            StatusCode::BAD_REQUEST,
            "incomplete_request",
            format!("cannot read the request: {error}"),
        )
    })?;
    Ok((body, permit))
}

/// A request that is being answered. Dropping it ends its run.
struct Session {
    app: SharedApp,
    ticket: Ticket,
    answer: Answer,
    id: String,
    created: u64,
    model: String,
    logprobs: bool,
    began: Instant,
    deadline: Option<Instant>,
    run_began: Option<Instant>,
    first_token: Option<Instant>,
    /// Whether the metrics know how it ended.
    counted: bool,
    /// The end of the server waits for it.
    _answer: Arc<()>,
}

impl Session {
    /// The next event of the run, and what it added to the answer; none after the last one. Fails if the run does not come to its
    /// end.
    async fn next(&mut self) -> Result<Option<(Event, Added)>, ApiError> {
        if self.answer.is_over() {
            return Ok(None);
        }
        let event = match within(self.deadline, self.ticket.next()).await {
            Some(Some(event)) => event,
            Some(None) if self.app.pool.is_closed() => {
                return Err(self.fail("cancelled", Refused::Closed.into()));
            }
            Some(None) => return Err(self.fail("failed", Refused::Lost.into())),
            None => {
                self.ticket.cancel();
                return Err(self.fail("timeout", late(&self.app)));
            }
        };
        let added = self.answer.apply(&event);
        let seen = Instant::now();
        self.run_began.get_or_insert(seen);
        if !added.tokens.is_empty() {
            self.first_token.get_or_insert(seen);
        }
        if self.answer.is_over() {
            self.end()?;
        }
        Ok(Some((event, added)))
    }

    /// The run is over: count it. Fails if it has not come to its end.
    fn end(&mut self) -> Result<(), ApiError> {
        if let Some(failure) = self.answer.failure() {
            let error = ApiError::failure(failure, None);
            return Err(self.fail("failed", error));
        }
        let usage = self.answer.usage();
        let since = |instant: Option<Instant>| Some((instant? - self.began).as_secs_f64());
        self.app.metrics.wrote(&Finished {
            stats: self.answer.log().stats(),
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.prompt_tokens_details.cached_tokens,
            queue_s: since(self.run_began),
            first_token_s: since(self.first_token),
        });
        match self.answer.finish_reason() {
            Some(reason) => {
                self.count(reason);
                Ok(())
            }
            None => Err(self.fail("cancelled", Refused::Closed.into())),
        }
    }

    fn fail(&mut self, how: &'static str, error: ApiError) -> ApiError {
        self.count(how);
        error
    }

    fn count(&mut self, how: &'static str) {
        if !std::mem::replace(&mut self.counted, true) {
            self.app.metrics.ended(how);
        }
    }

    fn logprobs(&self, added: &mut Added) -> Option<Logprobs> {
        self.logprobs.then(|| Logprobs { content: std::mem::take(&mut added.logprobs), refusal: None })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.count("cancelled");
    }
}

/// The whole answer at once.
async fn whole(mut session: Session) -> Result<Chat, ApiError> {
    let mut all = Added::default();
    while let Some((event, added)) = session.next().await? {
        if matches!(event.kind, EventKind::Retry { .. }) {
            all = Added::default();
        }
        all.append(added);
    }
    let logprobs = session.logprobs(&mut all);
    let Added { thinking, tokens, .. } = all;
    // A text that repeated itself has lost its end.
    let text = session.answer.log().shown();
    let message = MessageOut {
        role: "assistant",
        content: text,
        reasoning_content: Some(thinking).filter(|thinking| !thinking.is_empty()),
        refusal: None,
    };
    let finish_reason = session.answer.finish_reason().unwrap_or("stop");
    Ok(Chat {
        id: session.id.clone(),
        object: "chat.completion",
        created: session.created,
        model: session.model.clone(),
        choices: [Choice { index: 0, message, logprobs, finish_reason }],
        usage: session.answer.usage(),
        specreel: session.answer.report(tokens),
    })
}

struct Parts {
    session: Session,
    include_usage: bool,
    events: bool,
    /// Events that came before the head was sent.
    early: VecDeque<(Event, Added)>,
    has_begun: bool,
    is_over: bool,
}

/// The answer as server-sent events. A run that is refused soon fails with a status.
async fn streamed(session: Session, include_usage: bool, events: bool) -> Result<Response, ApiError> {
    let early = VecDeque::new();
    let mut parts = Parts { session, include_usage, events, early, has_begun: false, is_over: false };
    let checked = async {
        while let Some((event, added)) = parts.session.next().await? {
            let is_checked = matches!(
                event.kind,
                EventKind::Estimate(_) | EventKind::Prompt(_) | EventKind::Step(_) | EventKind::Done { .. }
            );
            parts.early.push_back((event, added));
            if is_checked {
                break;
            }
        }
        Ok::<_, ApiError>(())
    };
    if let Ok(outcome) = tokio::time::timeout(HEAD, checked).await {
        outcome?;
    }
    let stream = stream::unfold(parts, |mut parts| async move {
        let sent = parts.next().await?;
        Some((stream::iter(sent), parts))
    });
    Ok(sse::response(stream.flatten()))
}

impl Parts {
    /// What is sent next; none after the end.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        if self.is_over {
            return None;
        }
        let mut sent = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            let delta = Delta { role: Some("assistant"), content: Some(String::new()), ..Delta::default() };
            sent.extend(self.chunk(delta, None, None, None));
        }
        let next = match self.early.pop_front() {
            Some(early) => Ok(Some(early)),
            None => self.session.next().await,
        };
        match next {
            Ok(Some((event, added))) => self.part(&event, added, &mut sent),
            Ok(None) => self.end(&mut sent),
            Err(error) => {
                self.is_over = true;
                if self.events
                    && let Some(failure) = self.session.answer.failure()
                {
                    let failed = Event::new(self.session.ticket.run(), EventKind::Failed(failure.clone()));
                    sent.extend(named(&failed));
                }
                sent.extend(data(&error.body()));
                sent.push(SseEvent::default().data("[DONE]"));
            }
        }
        Some(sent)
    }

    fn part(&self, event: &Event, mut added: Added, sent: &mut Vec<SseEvent>) {
        if self.events {
            sent.extend(named(event));
        }
        if added.is_empty() {
            return;
        }
        let logprobs = self.session.logprobs(&mut added);
        let Added { text, thinking, tokens, row, .. } = added;
        let delta = Delta {
            role: None,
            content: Some(text).filter(|text| !text.is_empty()),
            reasoning_content: Some(thinking).filter(|thinking| !thinking.is_empty()),
        };
        sent.extend(self.chunk(delta, logprobs, None, Some(Report { tokens, row, run: None })));
    }

    /// The end of a run that has come to its end.
    fn end(&mut self, sent: &mut Vec<SseEvent>) {
        self.is_over = true;
        let answer = &self.session.answer;
        let report = answer.report(Vec::new());
        sent.extend(self.chunk(Delta::default(), None, answer.finish_reason(), Some(report)));
        if self.include_usage {
            let usage = Some(answer.usage());
            sent.extend(data(&Chunk { choices: Vec::new(), usage, specreel: None, ..self.empty() }));
        }
        sent.push(SseEvent::default().data("[DONE]"));
    }

    fn empty(&self) -> Chunk {
        let Session { id, created, model, .. } = &self.session;
        Chunk {
            id: id.clone(),
            object: "chat.completion.chunk",
            created: *created,
            model: model.clone(),
            choices: Vec::new(),
            usage: None,
            specreel: None,
        }
    }

    fn chunk(
        &self,
        delta: Delta,
        logprobs: Option<Logprobs>,
        finish_reason: Option<&'static str>,
        specreel: Option<Report>,
    ) -> Option<SseEvent> {
        let choices = vec![ChunkChoice { index: 0, delta, logprobs, finish_reason }];
        data(&Chunk { choices, specreel, ..self.empty() })
    }
}
