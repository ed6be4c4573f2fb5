//! Requests to the hub. Redirects are followed here, so that only the hub receives the token.
//!
//! The hub redirects requests for large files to signed URLs on other hosts, which must not receive it.

use std::{io::Read, time::Duration};

use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri},
};

use super::{HubError, Settings};

const MAX_REDIRECTS: usize = 10;

pub(super) struct Http {
    agent: Agent,
    settings: Settings,
}

pub(super) struct HubResponse {
    pub status: u16,
    pub headers: HeaderMap,
    body: Body,
}

impl HubResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as a stream.
    pub fn reader(self) -> impl Read {
        self.body.into_reader()
    }

    /// The whole body; an error if it is longer than `limit` bytes.
    pub fn bytes(self, what: &str, limit: u64) -> Result<Vec<u8>, HubError> {
        let refuse = |problem: String| HubError::Response { what: what.into(), problem };
        let mut bytes = Vec::new();
        self.reader().take(limit + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
        if bytes.len() as u64 > limit {
            return Err(refuse(format!("longer than {limit} bytes")));
        }
        Ok(bytes)
    }
}

impl Http {
    /// A client with these settings. `timeout` limits how long a server may be silent.
    pub fn new(settings: Settings, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(timeout))
            .timeout_recv_response(Some(timeout))
            .timeout_per_read(Some(timeout))
            .user_agent(concat!("specreel/", env!("CARGO_PKG_VERSION")));
        Self { agent: config.build().new_agent(), settings }
    }

    /// True if requests carry a token.
    pub(crate) fn has_token(&self) -> bool {
        self.settings.token.is_some()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.settings.endpoint)
    }

    /// Request a path on the hub from byte `from` on, following redirects.
    pub fn get(&self, path: &str, from: u64) -> Result<HubResponse, HubError> {
        let hub = parse(&self.settings.endpoint)?;
        let mut address = parse(&self.url(path))?;
        for _ in 0..=MAX_REDIRECTS {
            let is_hub = origin(&address) == origin(&hub);
            let response = self.request(&address, is_hub, from)?;
            let status = response.status().as_u16();
            let (parts, body) = response.into_parts();
            let response = HubResponse { status, headers: parts.headers, body };
            // Commit and checksum headers of the redirect are not needed: the listing has them.
            let Some(to) =
                response.header("location").filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
            else {
                return Ok(response);
            };
            address = next(&address, to)?;
        }
        Err(network(&address, "too many redirects"))
    }

    fn request(&self, address: &Uri, is_hub: bool, from: u64) -> Result<Response<Body>, HubError> {
        // Sizes and checksums are of the uncompressed content.
        let mut request = self.agent.get(address).header("accept-encoding", "identity");
        if let (true, Some(token)) = (is_hub, &self.settings.token) {
            request = request.header("authorization", format!("Bearer {}", token.secret()));
        }
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        request.call().map_err(|e| network(address, &e.to_string()))
    }
}

pub(super) fn network(address: &Uri, problem: &str) -> HubError {
    HubError::Network { host: address.host().unwrap_or_default().to_owned(), problem: problem.to_owned() }
}

fn parse(address: &str) -> Result<Uri, HubError> {
    let refuse = || HubError::Endpoint(address.to_owned());
    let uri: Uri = address.parse().map_err(|_| refuse())?;
    let known = matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some();
    if known { Ok(uri) } else { Err(refuse()) }
}

/// Scheme, host and port: the token is for one origin.
fn origin(uri: &Uri) -> (String, String, u16) {
    let scheme = uri.scheme_str().unwrap_or_default().to_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    (scheme, uri.host().unwrap_or_default().to_lowercase(), port)
}

/// The target of a redirect; never from https to http.
fn next(from: &Uri, to: &str) -> Result<Uri, HubError> {
    let refuse = |problem: &str| network(from, &format!("it redirects to `{to}`, {problem}"));
    let whole = match to.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => {
            let (scheme, authority) = (from.scheme_str().unwrap_or("https"), from.authority());
            format!("{scheme}://{}{to}", authority.map_or("", |a| a.as_str()))
        }
        _ => to.to_owned(),
    };
    let uri = parse(&whole).map_err(|_| refuse("which is not a URL"))?;
    if from.scheme_str() == Some("https") && uri.scheme_str() != Some("https") {
        return Err(refuse("which is not https"));
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_resolved() {
        let from = parse("https://hub.example/a/b?c=d").unwrap();
        assert_eq!(next(&from, "/x/y?z").unwrap().to_string(), "https://hub.example/x/y?z");
        assert_eq!(next(&from, "https://cdn.example/x").unwrap().host(), Some("cdn.example"));
        for bad in ["http://hub.example/x", "ftp://x/y", "//x/y", "relative", ""] {
            assert!(next(&from, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_is_part_of_an_origin() {
        let of = |address: &str| origin(&parse(address).unwrap());
        assert_eq!(of("https://HF.co/x"), of("https://hf.co:443/y"));
        assert_ne!(of("https://hf.co"), of("http://hf.co"));
        assert_ne!(of("http://hf.co:8080"), of("http://hf.co"));
        assert!(parse("hf.co").is_err() && parse("file:///etc/passwd").is_err());
    }
}
