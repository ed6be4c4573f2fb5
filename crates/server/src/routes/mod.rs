//! The routes, a file for each group.

mod chat;
mod dialect;
mod events;
mod files;
mod messages;
mod models;
mod openapi;
mod page;
mod responses;
mod search;
mod sse;
mod status;

use std::any::Any;

use axum::extract::{DefaultBodyLimit, Path, rejection::PathRejection};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Router, http::StatusCode};
use rmcp::transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager};
use tower_http::catch_panic::CatchPanicLayer;

use self::dialect::answer;
use crate::{app::SharedApp, error::ApiError, guard, linger, mcp::Tools};
use specreel_record::{Failure, panic_words};

/// The Model Context Protocol.
type Mcp = StreamableHttpService<Tools, LocalSessionManager>;

/// All routes of a server. Fails for an origin that cannot be one (class usage).
pub fn router(app: &SharedApp, tools: Mcp) -> Result<Router, Failure> {
    let cors = guard::cors(&app.options.cors).map_err(|origin| {
        Failure::usage(format!("--cors {origin}: not an origin"), "for example https://example.com")
    })?;
    let api = Router::new()
        .route("/", get(page::page))
        .route("/v1/chat/completions", post(answer::<chat::Completions>))
        .route("/v1/responses", post(answer::<responses::Responses>))
        .route("/v1/messages", post(answer::<messages::Messages>))
        .route("/v1/models", get(models::list))
        // An id of the Hub has a slash in it.
        .route("/v1/models/{*id}", get(models::get))
        .route("/v1/files", get(files::list).post(files::upload))
        .route("/v1/files/{id}", get(files::get).delete(files::delete))
        .route("/v1/search", post(search::search))
        .route_service("/mcp", tools)
        .route("/events", get(events::follow))
        .route("/health", get(status::health))
        .route("/metrics", get(status::metrics))
        .route("/props", get(status::props))
        .route("/openapi.json", get(openapi::document))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        // Routes limit their bodies themselves.
        .layer(DefaultBodyLimit::disable())
        .with_state(app.clone());
    Ok(api
        .layer(from_fn_with_state(app.clone(), guard::key))
        .layer(from_fn_with_state(app.clone(), guard::origin))
        .layer(cors)
        .layer(from_fn(linger::linger))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), guard::count)))
}

/// Run blocking work off the threads that answer connections. If the caller stops waiting, the work continues
/// and its result is dropped.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal(format!("internal error: {error}")))?
}

type IdPath = Result<Path<String>, PathRejection>;

/// The id at the end of a path.
fn id(path: IdPath) -> Result<String, ApiError> {
    let unreadable = "the id in the path is not valid UTF-8; use one of the list";
    path.map(|Path(id)| id).map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "invalid_value", unreadable))
}

async fn unknown(uri: axum::http::Uri) -> ApiError {
    let path: String = uri.path().chars().take(100).collect();
    let message = format!("no route {path}; GET /openapi.json lists all of them");
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message)
}

async fn not_allowed(method: axum::http::Method, uri: axum::http::Uri) -> ApiError {
    let message = format!("{} does not take {method}; GET /openapi.json lists what it takes", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
}

#[cfg(test)]
mod tests;

#[expect(clippy::needless_pass_by_value, reason = "the signature of the layer")]
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let words = panic_words(&*panic).unwrap_or("no message");
    ApiError::internal(format!("internal error: {words}; this is a bug in specreel, please report it"))
        .into_response()
}
