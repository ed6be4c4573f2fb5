//! The runs of a server elsewhere, as the events of an engine that takes no commands.

use std::io::{BufRead, BufReader, Read};
use std::{collections::BTreeMap, thread, time::Duration};

use tokio::sync::mpsc;
use ureq::{Agent, Body, http::Uri};

use super::{Backend, Client};
use specreel_engine::Command;
use specreel_record::{Event, EventKind, Failure, FailureClass};

/// How long a server may be silent; it gives a sign of life every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// Time between attempts to reconnect.
const AGAIN: Duration = Duration::from_secs(2);
/// Longest event in bytes.
const LONGEST: u64 = 64 << 20;
/// Longest message of an error in bytes.
const LONGEST_ERROR: u64 = 64 << 10;
/// Events that may wait before the server does.
const EVENTS: usize = 1024;
/// Runs of a server have numbers from here on, apart from those that a client numbers itself.
const FIRST: u64 = 1 << 32;

impl Client {
    /// Follow the runs of `specreel serve --allow-follow` at this URL. Its models arrive as `ready`, then the events of every run
    /// from its start. When the connection is lost, the runs in progress and run 0 fail, and the client reconnects. Commands are
    /// refused, and nothing is cancelled.
    ///
    /// Fails if the URL is none, or nobody answers there, or the server refuses.
    pub fn connect(url: &str, key: Option<&str>) -> Result<Self, Failure> {
        let server = Server::new(url, key)?;
        let body = server.open()?;
        let (sender, events) = mpsc::channel(EVENTS);
        let url = server.url.clone();
        let spawned =
            thread::Builder::new().name("follow".into()).spawn(move || server.follow(body, &sender));
        spawned.map_err(|e| Failure::internal(format!("cannot start a thread: {e}"), "see ulimit -u"))?;
        Ok(Self::new(Followed { url }, events))
    }
}

struct Followed {
    url: String,
}

impl Backend for Followed {
    fn send(&self, _: Command) -> Result<(), Failure> {
        Err(Failure::usage(format!("the runs of {} are only followed", self.url), "start runs there"))
    }

    fn cancel(&self, _: u64) {}
}

struct Server {
    url: String,
    key: Option<String>,
    agent: Agent,
}

impl Server {
    fn new(url: &str, key: Option<&str>) -> Result<Self, Failure> {
        let whole = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
        let usable = |uri: &Uri| {
            let is_http = uri.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
            is_http && uri.host().is_some_and(|host| !host.is_empty())
        };
        if !whole.parse::<Uri>().as_ref().is_ok_and(usable) {
            let error = format!("{url}: not the URL of a server");
            return Err(Failure::usage(error, "for example http://workstation:8713"));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(SILENCE))
            .timeout_recv_response(Some(SILENCE))
            .timeout_per_read(Some(SILENCE))
            .user_agent(concat!("specreel/", env!("CARGO_PKG_VERSION")));
        let url = whole.trim_end_matches('/').to_owned();
        Ok(Self { url, key: key.map(str::to_owned), agent: config.build().new_agent() })
    }

    fn failure(&self, error: impl std::fmt::Display, hint: Option<&str>) -> Failure {
        let error = format!("{}: {error}", self.url);
        Failure { class: FailureClass::Input, error, hint: hint.map(str::to_owned) }
    }

    fn open(&self) -> Result<Body, Failure> {
        let mut request = self.agent.get(format!("{}/events", self.url));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let unreached = "is `specreel serve --allow-follow` running there, and can it be reached (--host)?";
        let response = request.call().map_err(|e| self.failure(e, Some(unreached)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let mut text = String::new();
        let _ = response.into_body().into_reader().take(LONGEST_ERROR).read_to_string(&mut text);
        let body: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let said =
            body["error"]["message"].as_str().map_or_else(|| format!("status {status}"), str::to_owned);
        let hint = match status.as_u16() {
            401 => Some("give the key of the server with --api-key, or as SPECREEL_API_KEY"),
            // The server says what to do.
            403 | 503 => None,
            _ => Some("is this a `specreel serve` of this version?"),
        };
        Err(self.failure(said, hint))
    }

    /// Pass events on until their receiver has gone.
    fn follow(&self, mut body: Body, sender: &mpsc::Sender<Event>) {
        let mut numbers = Numbers { next: FIRST, running: BTreeMap::new() };
        loop {
            pass_on(body, &mut numbers, sender);
            let hint = "specreel reconnects once the server answers; quit with q";
            let lost = self.failure("the connection is lost", Some(hint));
            let running = std::mem::take(&mut numbers.running);
            for run in running.into_values().chain([0]) {
                if sender.blocking_send(Event::new(run, EventKind::Failed(lost.clone()))).is_err() {
                    return;
                }
            }
            body = loop {
                thread::sleep(AGAIN);
                match self.open() {
                    _ if sender.is_closed() => return,
                    Ok(body) => break body,
                    Err(failure) => tracing::debug!(error = failure.error, "no connection yet"),
                }
            };
        }
    }
}

/// Pass on the events of a stream, until it ends or nobody receives them.
fn pass_on(body: Body, numbers: &mut Numbers, sender: &mpsc::Sender<Event>) {
    let mut lines = BufReader::new(body.into_reader());
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {}
            _ => return,
        }
        // An event is one line; names, comments and empty lines say nothing more. A newer server may send events of other kinds.
        let Some(data) = line.strip_prefix(b"data:") else { continue };
        let Ok(event) = serde_json::from_slice(data) else { continue };
        if let Some(event) = numbers.apply(event)
            && sender.blocking_send(event).is_err()
        {
            return;
        }
    }
}

/// The numbers that runs of the server have here.
struct Numbers {
    next: u64,
    running: BTreeMap<u64, u64>,
}

impl Numbers {
    /// The event under its run's number here; none of a run whose start was not seen.
    fn apply(&mut self, event: Event) -> Option<Event> {
        if event.run == 0 {
            return Some(event);
        }
        if matches!(event.kind, EventKind::Started(_)) {
            self.running.insert(event.run, self.next);
            self.next += 1;
        }
        let run = if event.ends_run() {
            self.running.remove(&event.run)?
        } else {
            *self.running.get(&event.run)?
        };
        Some(Event { run, ..event })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{done, started};
    use specreel_record::StopReason;

    #[test]
    fn a_url_may_leave_out_its_scheme() {
        for (given, url) in [
            ("box:8713", "http://box:8713"),
            ("https://box/", "https://box"),
            ("http://[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(Server::new(given, None).map(|server| server.url).unwrap(), url);
        }
        for wrong in ["", "ftp://box", "http://", "a b", "file:///etc"] {
            let failure = Server::new(wrong, None).err().unwrap();
            assert_eq!(failure.class, FailureClass::Usage, "{wrong}");
        }
    }

    #[test]
    fn runs_are_numbered_anew_from_their_start() {
        let mut numbers = Numbers { next: FIRST, running: BTreeMap::new() };
        let mut seen = |run, kind| numbers.apply(Event::new(run, kind)).map(|event| event.run);
        assert_eq!(seen(7, done(StopReason::Eos, "a")), None, "its start was missed");
        assert_eq!(seen(8, started("naive")), Some(FIRST));
        assert_eq!(seen(9, started("naive")), Some(FIRST + 1));
        assert_eq!(seen(8, done(StopReason::Eos, "a")), Some(FIRST));
        assert_eq!(seen(8, done(StopReason::Eos, "a")), None);
        assert_eq!(seen(9, done(StopReason::Eos, "a")), Some(FIRST + 1));
    }
}
