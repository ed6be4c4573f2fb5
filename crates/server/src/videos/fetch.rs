//! Videos at http and https URLs. Only public addresses are connected to: the names of URLs and of redirects are resolved here,
//! and what was checked is what is connected to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::{io::Read, time::Duration};

use axum::http::StatusCode;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, config::Config, http::Uri};

use super::{short, store::Incoming};
use crate::error::ApiError;

const MAX_REDIRECTS: u32 = 5;
/// How long a server may be silent, and the whole transfer take without a limit for requests.
const SILENCE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

pub(super) struct Fetcher {
    agent: Agent,
}

impl Fetcher {
    pub fn new(timeout: Option<Duration>) -> Self {
        Self::within(timeout, is_public)
    }

    /// A fetcher that connects to the addresses that `allows`.
    pub(super) fn within(timeout: Option<Duration>, allows: fn(IpAddr) -> bool) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(MAX_REDIRECTS)
            // A proxy would resolve names itself.
            .proxy(None)
            .timeout_global(Some(timeout.unwrap_or(LONGEST)))
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("specreel/", env!("CARGO_PKG_VERSION")))
            .build();
        let resolver = Checked { inner: DefaultResolver::default(), allows };
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), resolver) }
    }

    /// Write what is at a URL.
    pub fn fetch(&self, url: &str, to: &mut Incoming) -> Result<(), ApiError> {
        let refuse = |problem: String| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                "url_failed",
                format!("cannot fetch {}: {problem}; check the URL, or upload the file", short(url)),
            )
        };
        let response = self.agent.get(url).call().map_err(|e| {
            // The resolver has no other way to say it.
            refuse(match e {
                ureq::Error::HostNotFound => "its host is unknown, or has no public address".into(),
                other => other.to_string(),
            })
        })?;
        if !response.status().is_success() {
            return Err(refuse(format!("the server answers {}", response.status())));
        }
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match body.read(&mut buffer).map_err(|e| refuse(e.to_string()))? {
                0 => return Ok(()),
                read => to.write(&buffer[..read])?,
            }
        }
    }
}

/// Resolves names to the addresses that are allowed.
#[derive(Debug)]
struct Checked {
    inner: DefaultResolver,
    allows: fn(IpAddr) -> bool,
}

impl Resolver for Checked {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut allowed = self.empty();
        for address in self.inner.resolve(uri, config, timeout)?.iter() {
            if (self.allows)(address.ip()) {
                allowed.push(*address);
            }
        }
        if allowed.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(allowed) }
    }
}

/// False for addresses of this machine, of private and local networks, and for those that lead to such ones.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(v4: Ipv4Addr) -> bool {
    let [a, b, c, _] = v4.octets();
    let is_special = match (a, b, c) {
        // This network; shared address space; protocol assignments; 6to4 relays; benchmarks; multicast and reserved.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) | (224.., ..) => true,
        _ => false,
    };
    !(is_special || v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_documentation())
}

fn is_public_v6(v6: Ipv6Addr) -> bool {
    let embedded = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        // IPv4-mapped and NAT64.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(embedded(high, low))
        }
        // 6to4.
        [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Teredo, ORCHID and other assignments; documentation.
        [0x2001, ..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, ..=0xfff, ..] => false,
        // Only global unicast is public: this leaves out loopback, unique local, link-local and multicast addresses.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}
