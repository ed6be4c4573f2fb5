//! How the server is: `/health`, `/metrics`, and `/props` for clients of llama-server.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, extract::State};
use serde_json::{Value, json};

use crate::app::{App, SharedApp};
use crate::metrics::Load;

pub async fn health(State(app): State<SharedApp>) -> (StatusCode, Json<Value>) {
    let status = match app.pool.engines() {
        _ if app.pool.is_closed() => "ending",
        _ if app.models.ready().is_none() => "loading",
        0 => "stopped",
        _ => "ok",
    };
    let code = if status == "ok" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({"status": status})))
}

pub async fn metrics(State(app): State<SharedApp>) -> Response {
    let (waiting, running) = app.pool.load();
    let load = Load { waiting, running, engines: app.pool.engines(), stored: app.videos.store.used() };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text(&load)).into_response()
}

pub async fn props(State(app): State<SharedApp>) -> Json<Value> {
    let App { options, models, .. } = &*app;
    let (served, ready) = (&models.first().served, models.ready());
    let request = &served.request;
    Json(json!({
        "default_generation_settings": {
            "n_ctx": served.context_window,
            "params": {
                "n_predict": request.max_new_tokens,
                "temperature": request.text.temperature,
                "top_k": request.text.top_k,
                "top_p": request.text.top_p,
                "min_p": request.text.min_p,
                "seed": request.text.seed,
            },
        },
        "total_slots": options.parallel,
        "model_alias": ready.map(|_| models.first().id()),
        "modalities": {"vision": true, "video": true, "audio": false},
        "build_info": concat!("specreel ", env!("CARGO_PKG_VERSION")),
        "specreel": {
            "drafter": ready.and_then(|ready| ready.drafter.as_ref()),
            "device": ready.map(|ready| &ready.device),
            "dtype": ready.map(|ready| &ready.dtype),
            "parts": ready.and_then(|ready| ready.parts.as_ref()),
            "method": request.method.name,
            "methods": served
                .methods
                .iter()
                .map(|method| json!({"name": method.name, "lossless": method.lossless()}))
                .collect::<Vec<_>>(),
            "uptime_s": app.began.elapsed().as_secs(),
        },
    }))
}
