//! The page at `/`: a video in, a caption out, drawn as the studio draws it.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;
use sha2::{Digest, Sha256};
use specreel_client::present::{export::page_style, verdicts::Role};
use specreel_record::Verdict;

/// The page, and what it may load: nothing but its own script and the API.
static PAGE: LazyLock<(String, String)> = LazyLock::new(|| {
    let verdicts = Verdict::ALL.map(
        |verdict| json!({"name": verdict.name(), "role": Role::of(verdict).look().name, "why": verdict.why()}),
    );
    let script = format!("const VERDICTS = {};\n{}", json!(verdicts.to_vec()), include_str!("page/page.js"));
    let hash = STANDARD.encode(Sha256::digest(script.as_bytes()));
    let policy = format!(
        "default-src 'none'; connect-src 'self'; img-src blob: data:; media-src blob:; style-src 'unsafe-inline'; \
         script-src 'sha256-{hash}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    );
    let html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>specreel</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>\n{}{}</style>\n</head>\n<body>\n<h1>specreel</h1>\n{}<script>{script}</script>\n</body>\n</html>\n",
        page_style(),
        include_str!("page/page.css"),
        include_str!("page/page.html"),
    );
    (html, policy)
});

pub async fn page() -> impl IntoResponse {
    let (html, policy) = &*PAGE;
    let headers = [
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, Html(html.as_str()))
}
