//! Requests to the hub: redirects followed by hand, so that the token is sent to the hub alone.
//!
//! Large files lie on other hosts, to which the hub redirects with an address that is signed. Those hosts never get the token.

use std::{io::Read, time::Duration};

use ureq::{
    Agent, Body,
    http::{HeaderMap, Response, Uri},
};

use super::{HubError, Settings};

/// Redirects that are followed.
const REDIRECTS: usize = 10;

/// The hub over HTTP.
pub(super) struct Http {
    agent: Agent,
    settings: Settings,
}

/// An answer with its status still to be judged.
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    body: Body,
}

impl Answer {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as it comes.
    pub fn reader(self) -> impl Read {
        self.body.into_reader()
    }

    /// The whole body, refused where it is longer than `most` bytes.
    pub fn bytes(self, what: &str, most: u64) -> Result<Vec<u8>, HubError> {
        let refuse = |problem: String| HubError::Answer { what: what.into(), problem };
        let mut bytes = Vec::new();
        self.reader().take(most + 1).read_to_end(&mut bytes).map_err(|e| refuse(e.to_string()))?;
        if bytes.len() as u64 > most {
            return Err(refuse(format!("it is longer than {most} bytes")));
        }
        Ok(bytes)
    }
}

impl Http {
    /// A connection with these settings. `patience` is how long the other side may be silent.
    pub fn new(settings: Settings, patience: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience))
            .user_agent(concat!("specreel/", env!("CARGO_PKG_VERSION")));
        Self { agent: config.build().new_agent(), settings }
    }

    /// True if a token is sent.
    pub fn has_token(&self) -> bool {
        self.settings.token.is_some()
    }

    /// Address of a page of the hub.
    pub fn page(&self, path: &str) -> String {
        format!("{}/{path}", self.settings.endpoint)
    }

    /// Ask for a page of the hub, from byte `from` on, following redirects.
    pub fn get(&self, path: &str, from: u64) -> Result<Answer, HubError> {
        let hub = parse(&self.settings.endpoint)?;
        let mut address = parse(&self.page(path))?;
        for _ in 0..=REDIRECTS {
            let home = origin(&address) == origin(&hub);
            let response = self.ask(&address, home, from)?;
            let status = response.status().as_u16();
            let (parts, body) = response.into_parts();
            let answer = Answer { status, headers: parts.headers, body };
            // The hub says what it knows of a file (its commit, its checksum) before it sends us elsewhere; we know already.
            let Some(to) =
                answer.header("location").filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308))
            else {
                return Ok(answer);
            };
            address = next(&address, to)?;
        }
        Err(network(&address, "it redirects in circles"))
    }

    fn ask(&self, address: &Uri, home: bool, from: u64) -> Result<Response<Body>, HubError> {
        // Compressed bytes would be other bytes than those that are counted.
        let mut request = self.agent.get(address).header("accept-encoding", "identity");
        if let (true, Some(token)) = (home, &self.settings.token) {
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

/// Scheme, host and port: what a secret belongs to.
fn origin(uri: &Uri) -> (String, String, u16) {
    let scheme = uri.scheme_str().unwrap_or_default().to_lowercase();
    let port = uri.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    (scheme, uri.host().unwrap_or_default().to_lowercase(), port)
}

/// Where a redirect leads; never from https to http.
fn next(from: &Uri, to: &str) -> Result<Uri, HubError> {
    let refuse = |problem: &str| network(from, &format!("it redirects to `{to}`, {problem}"));
    let whole = match to.strip_prefix('/') {
        Some(rest) if !rest.starts_with('/') => {
            let (scheme, authority) = (from.scheme_str().unwrap_or("https"), from.authority());
            format!("{scheme}://{}{to}", authority.map_or("", |a| a.as_str()))
        }
        _ => to.to_owned(),
    };
    let uri = parse(&whole).map_err(|_| refuse("which is no address"))?;
    if from.scheme_str() == Some("https") && uri.scheme_str() != Some("https") {
        return Err(refuse("which is not encrypted"));
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
