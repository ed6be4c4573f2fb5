//! `GET /events`: the events of all runs, for a studio elsewhere.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use futures_util::{StreamExt, stream};

use super::sse;
use crate::{app::SharedApp, error::ApiError, pool::Refused};
use specreel_record::{Event, EventKind};

/// The loaded models, then what has happened in the runs in progress, then every event. The stream ends for a reader that is too
/// far behind.
pub async fn follow(State(app): State<SharedApp>) -> Result<Response, ApiError> {
    if !app.options.allow_follow {
        let message = "this server does not let its runs be followed; start it with --allow-follow";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "follow_not_allowed", message));
    }
    let ready = app.models.ready().ok_or(Refused::Loading)?;
    let (past, live) = app.pool.feed().follow().ok_or(Refused::Closed)?;
    let first = Arc::new(Event::new(0, EventKind::Ready(ready.clone())));
    let live = stream::unfold(live, |mut live| async { Some((live.recv().await.ok()?, live)) });
    let events = stream::iter([first]).chain(stream::iter(past)).chain(live);
    Ok(sse::response(events.filter_map(|event| async move { sse::named(&event) })))
}
