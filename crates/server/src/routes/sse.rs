//! Server-sent events.

use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use serde_json::Value;

use specreel_record::Event;

/// Time between signs of life in a stream.
const ALIVE: Duration = Duration::from_secs(15);

pub fn response(events: impl Stream<Item = SseEvent> + Send + 'static) -> Response {
    let alive = KeepAlive::new().interval(ALIVE);
    let mut response = Sse::new(events.map(Ok::<_, axum::Error>)).keep_alive(alive).into_response();
    // Or nginx collects the stream.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Data without a name.
pub fn data(body: &impl Serialize) -> Option<SseEvent> {
    SseEvent::default().json_data(body).ok()
}

/// An event under its type, which its data repeat.
pub fn typed(kind: &str, mut event: Value) -> Option<SseEvent> {
    event["type"] = kind.into();
    SseEvent::default().event(kind).json_data(event).ok()
}

/// An event of a run under its name.
pub fn named(event: &Event) -> Option<SseEvent> {
    let json = serde_json::to_value(event).ok()?;
    let name = json["event"].as_str()?.to_owned();
    SseEvent::default().event(name).json_data(json).ok()
}
