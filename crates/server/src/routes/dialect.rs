//! Answers to requests of every API: from the body of a request to the last part of its answer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response, sse::Event as SseEvent};
use axum::{Json, body::Bytes};
use futures_util::{StreamExt, stream};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::sse::{self, named};
use crate::api::ChatRequest;
use crate::app::{App, BODY_UNIT, SharedApp};
use crate::ask::{self, Asked};
use crate::session::{Session, deadline, late, within};
use crate::{answer::Added, error::ApiError, options::Listener, pool::Refused};
use specreel_record::{Event, EventKind, units::bytes};

/// How long the head of a stream waits for the run to be checked, so that a refusal has a status.
const HEAD: Duration = Duration::from_secs(5);

/// How an API asks for an answer, and how it writes one.
pub trait Dialect: Default + Send + 'static {
    /// What the ids of its answers begin with.
    const ID: &'static str;

    /// Read a request. Fails for a field that is not what it may be, and for one that is not obeyed although clients rely on it.
    fn read(body: &[u8], default_temperature: f32) -> Result<ChatRequest, ApiError>;

    /// The whole answer: its text without what followed a repetition, and all that was added meanwhile.
    fn whole(session: &Session, text: String, all: Added) -> impl Serialize;

    /// The first parts of a stream.
    fn begin(&mut self, session: &Session, sent: &mut Vec<SseEvent>);

    /// What a step added, if anything.
    fn part(&mut self, session: &Session, added: Added, sent: &mut Vec<SseEvent>);

    /// The end of a run that has come to its end.
    fn end(&mut self, session: &Session, sent: &mut Vec<SseEvent>);

    /// The end of any other one.
    fn failed(&mut self, session: &Session, error: &ApiError, sent: &mut Vec<SseEvent>);
}

/// Answer a request.
pub async fn answer<D: Dialect>(
    State(app): State<SharedApp>,
    request: Request,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let deadline = deadline(&app, began);
    let head = async {
        let asked = asked::<D>(&app, request).await?;
        let stream = asked.stream;
        let session = Session::begin(&app, asked, D::ID, began)?;
        if stream { streamed::<D>(session).await } else { whole::<D>(session).await }
    };
    within(deadline, head).await.unwrap_or_else(|| Err(late(&app)))
}

async fn asked<D: Dialect>(app: &SharedApp, request: Request) -> Result<Asked, ApiError> {
    if app.pool.is_closed() {
        return Err(Refused::Closed.into());
    }
    if app.models.ready().is_none() {
        return Err(Refused::Loading.into());
    }
    let (body, permit) = json_body(app, request).await?;
    let app = app.clone();
    // Dropped with the request: when the client is gone, or it took too long.
    let gone = CancellationToken::new();
    let _guard = gone.clone().drop_guard();
    super::blocking(move || {
        let temperature = app.models.first().served.request.text.temperature;
        let request = D::read(&body, temperature.unwrap_or_default())?;
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

/// The whole answer at once.
async fn whole<D: Dialect>(mut session: Session) -> Result<Response, ApiError> {
    let mut all = Added::default();
    while let Some((event, added)) = session.next().await? {
        if matches!(event.kind, EventKind::Retry { .. }) {
            all = Added::default();
        }
        all.append(added);
    }
    // A text that repeated itself has lost its end.
    let text = session.answer.log().shown();
    Ok(Json(D::whole(&session, text, all)).into_response())
}

struct Parts<D> {
    session: Session,
    dialect: D,
    /// Events that came before the head was sent.
    early: VecDeque<(Event, Added)>,
    has_begun: bool,
    is_over: bool,
}

/// The answer as server-sent events. A run that is refused soon fails with a status.
async fn streamed<D: Dialect>(session: Session) -> Result<Response, ApiError> {
    let early = VecDeque::new();
    let mut parts = Parts { session, dialect: D::default(), early, has_begun: false, is_over: false };
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

impl<D: Dialect> Parts<D> {
    /// What is sent next; none after the end.
    async fn next(&mut self) -> Option<Vec<SseEvent>> {
        if self.is_over {
            return None;
        }
        let mut sent = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.dialect.begin(&self.session, &mut sent);
        }
        let next = match self.early.pop_front() {
            Some(early) => Ok(Some(early)),
            None => self.session.next().await,
        };
        self.is_over = !matches!(next, Ok(Some(_)));
        let Self { session, dialect, .. } = self;
        match next {
            Ok(Some((event, added))) => {
                if session.events {
                    sent.extend(named(&event));
                }
                if !added.is_empty() {
                    dialect.part(session, added, &mut sent);
                }
            }
            Ok(None) => dialect.end(session, &mut sent),
            Err(error) => {
                if session.events
                    && let Some(failure) = session.answer.failure()
                {
                    let failed = Event::new(session.ticket.run(), EventKind::Failed(failure.clone()));
                    sent.extend(named(&failed));
                }
                dialect.failed(session, &error, &mut sent);
            }
        }
        Some(sent)
    }
}
