//! Who may use the server: key, web pages; and what is counted about it.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::{app::SharedApp, error::ApiError};

/// Routes that need no key: they have no secrets, and the page asks for the key itself.
const OPEN: [&str; 2] = ["/", "/health"];

/// Let a request in that has the key, or needs none.
pub async fn key(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    match &app.options.api_key {
        Some(key) if !OPEN.contains(&request.uri().path()) && !has_key(request.headers(), key) => {
            let message = "missing or wrong API key; send the header `Authorization: Bearer KEY`";
            let mut response =
                ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message).into_response();
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            response
        }
        _ => next.run(request).await,
    }
}

/// The header that names a session of the Model Context Protocol.
const MCP_SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// Anthropic's header for a key.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Compares hashes, so that neither the length of the key nor its beginning can be measured.
fn has_key(headers: &HeaderMap, key: &str) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let given = match (given.split_first_chunk::<7>(), headers.get(X_API_KEY)) {
        (Some((scheme, rest)), _) if scheme.eq_ignore_ascii_case(b"bearer ") => rest,
        (_, Some(key)) => key.as_bytes(),
        _ => return false,
    };
    Sha256::digest(given).ct_eq(&Sha256::digest(key.as_bytes())).into()
}

/// Refuse requests that a foreign web page makes in the browser of somebody who can reach the server. Other programs send no
/// `Origin`.
pub async fn origin(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN);
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let is_known = origin.is_none_or(|origin| {
        origin.to_str().is_ok_and(|origin| {
            app.options.cors.iter().any(|own| own == origin || own == "*") || is_own(origin, host)
        })
    });
    if is_known {
        return next.run(request).await;
    }
    let message = "requests of this web page are not allowed; start the server with --cors ORIGIN";
    ApiError::new(StatusCode::FORBIDDEN, "origin_not_allowed", message).into_response()
}

/// True for the server's own page. Host names other than localhost do not count: their owners may have
/// pointed them at this machine.
fn is_own(origin: &str, host: Option<&str>) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let (Some(authority), Some(name)) = (uri.authority(), uri.host()) else { return false };
    let is_address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    Some(authority.as_str()) == host && (name == "localhost" || is_address)
}

/// Answers for browsers whose pages may use the server. Fails for an origin that is no header value.
pub fn cors(origins: &[String]) -> Result<CorsLayer, String> {
    let allowed = match origins {
        [] => return Ok(CorsLayer::new()),
        all if all.iter().any(|origin| origin == "*") => AllowOrigin::any(),
        some => {
            let values = some.iter().map(|origin| HeaderValue::from_str(origin).map_err(|_| origin.clone()));
            AllowOrigin::list(values.collect::<Result<Vec<_>, _>>()?)
        }
    };
    Ok(CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST, Method::DELETE])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([MCP_SESSION, header::RETRY_AFTER, header::WWW_AUTHENTICATE]))
}

pub async fn count(State(app): State<SharedApp>, request: Request, next: Next) -> Response {
    let (route, began) = (route(&request), Instant::now());
    let response = next.run(request).await;
    app.metrics.answered(route, response.status().as_u16(), began.elapsed().as_secs_f64());
    response
}

/// The route that answers: a path without what changes from request to request, the wildcard of a model's id included.
fn route(request: &Request) -> String {
    let matched = request.extensions().get::<MatchedPath>();
    matched.map_or_else(|| "other".into(), |path| path.as_str().replace("{*", "{"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_server_has_its_address() {
        for (origin, host) in [
            ("http://127.0.0.1:8713", "127.0.0.1:8713"),
            ("http://localhost:8713", "localhost:8713"),
            ("http://[::1]:8713", "[::1]:8713"),
        ] {
            assert!(is_own(origin, Some(host)), "{origin}");
        }
        for (origin, host) in [
            ("http://evil.example", "127.0.0.1:8713"),
            // A name that leads here.
            ("http://evil.example:8713", "evil.example:8713"),
            ("http://127.0.0.1:3000", "127.0.0.1:8713"),
            ("null", "127.0.0.1:8713"),
        ] {
            assert!(!is_own(origin, Some(host)), "{origin}");
        }
        assert!(!is_own("http://localhost", None));
    }

    #[test]
    fn only_the_whole_key_is_the_key() {
        let has = |value: &str| {
            let headers =
                HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
            has_key(&headers, "secret")
        };
        assert!(has("Bearer secret") && has("bearer secret"));
        for wrong in ["Bearer secre", "Bearer secret2", "Bearer ", "Basic secret", "secret", ""] {
            assert!(!has(wrong), "{wrong}");
        }
        assert!(!has_key(&HeaderMap::new(), "secret"));
        let as_anthropic = |value| HeaderMap::from_iter([(X_API_KEY, HeaderValue::from_static(value))]);
        assert!(has_key(&as_anthropic("secret"), "secret") && !has_key(&as_anthropic("secre"), "secret"));
    }
}
