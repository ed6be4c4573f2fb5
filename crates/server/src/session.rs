//! A request that is being answered: from its place in the queue to the end of its run.

use std::time::Instant;
use std::{future::Future, sync::Arc};

use axum::http::StatusCode;

use crate::answer::{Added, Answer};
use crate::api::Logprobs;
use crate::app::{App, SharedApp, now};
use crate::ask::Asked;
use crate::pool::{Refused, Ticket};
use crate::{error::ApiError, metrics::Finished};
use specreel_record::Event;

/// A request that is being answered. Dropping it ends its run.
pub struct Session {
    app: SharedApp,
    pub ticket: Ticket,
    pub answer: Answer,
    pub id: String,
    /// Seconds since 1970.
    pub created: u64,
    pub model: String,
    pub include_usage: bool,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    pub max_new_tokens: usize,
    /// Whether the events of the run are also sent.
    pub events: bool,
    logprobs: bool,
    began: Instant,
    deadline: Option<Instant>,
    run_began: Option<Instant>,
    first_token: Option<Instant>,
    /// Whether the metrics know how it ended.
    counted: bool,
    /// The end of the server waits for it.
    _answer: Arc<()>,
}

impl Session {
    /// Queue the run of a request that began then; its id begins with `id`. Fails if the run is not taken.
    pub fn begin(app: &SharedApp, asked: Asked, id: &str, began: Instant) -> Result<Self, ApiError> {
        let Asked { run, video, served, model, notes, logprobs, include_usage, events, display, .. } = asked;
        let (stop, max_new_tokens) = (run.stop.clone(), run.max_new_tokens);
        let ticket = app.pool.submit(run, video, served)?;
        Ok(Self {
            id: format!("{id}{:x}-{}", app.created, ticket.run()),
            created: now(),
            model,
            answer: Answer::new(ticket.run(), notes, logprobs, display),
            logprobs: logprobs.is_some(),
            include_usage,
            events,
            stop,
            max_new_tokens,
            ticket,
            app: app.clone(),
            began,
            deadline: deadline(app, began),
            run_began: None,
            first_token: None,
            counted: false,
            _answer: app.answers.clone(),
        })
    }

    /// The next event of the run, and what it added to the answer; none after the last one. Fails if the run does not come to its
    /// end.
    pub async fn next(&mut self) -> Result<Option<(Event, Added)>, ApiError> {
        if self.answer.is_over() {
            return Ok(None);
        }
        let event = match within(self.deadline, self.ticket.next()).await {
            Some(Some(event)) => event,
            Some(None) if self.app.pool.is_closed() => {
                return Err(self.fail("cancelled", Refused::Closed.into()));
            }
            Some(None) => return Err(self.fail("failed", Refused::Lost.into())),
            None => {
                self.ticket.cancel();
                return Err(self.fail("timeout", late(&self.app)));
            }
        };
        let added = self.answer.apply(&event);
        let seen = Instant::now();
        self.run_began.get_or_insert(seen);
        if !added.tokens.is_empty() {
            self.first_token.get_or_insert(seen);
        }
        if self.answer.is_over() {
            self.end()?;
        }
        Ok(Some((event, added)))
    }

    /// The run is over: count it. Fails if it has not come to its end.
    fn end(&mut self) -> Result<(), ApiError> {
        if let Some(failure) = self.answer.failure() {
            let error = ApiError::failure(failure, None);
            return Err(self.fail("failed", error));
        }
        let usage = self.answer.usage();
        let since = |instant: Option<Instant>| Some((instant? - self.began).as_secs_f64());
        self.app.metrics.wrote(&Finished {
            stats: self.answer.log().stats(),
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.prompt_tokens_details.cached_tokens,
            queue_s: since(self.run_began),
            first_token_s: since(self.first_token),
        });
        match self.answer.finish_reason() {
            Some(reason) => {
                self.count(reason);
                Ok(())
            }
            None => Err(self.fail("cancelled", Refused::Closed.into())),
        }
    }

    fn fail(&mut self, how: &'static str, error: ApiError) -> ApiError {
        self.count(how);
        error
    }

    fn count(&mut self, how: &'static str) {
        if !std::mem::replace(&mut self.counted, true) {
            self.app.metrics.ended(how);
        }
    }

    /// Take the log-probabilities of what was added, if they were asked for.
    pub fn logprobs(&self, added: &mut Added) -> Option<Logprobs> {
        self.logprobs.then(|| Logprobs { content: std::mem::take(&mut added.logprobs), refusal: None })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.count("cancelled");
    }
}

/// When a request that began then has taken too long, if ever.
pub fn deadline(app: &App, began: Instant) -> Option<Instant> {
    app.options.timeout.map(|timeout| began + timeout)
}

/// Wait for something until a deadline; none if that comes first.
pub async fn within<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), work).await.ok(),
        None => Some(work.await),
    }
}

pub fn late(app: &App) -> ApiError {
    let seconds = app.options.timeout.map_or(0, |timeout| timeout.as_secs());
    let message = format!(
        "the answer took longer than {seconds} s, the limit of this server; ask for fewer tokens or frames, or raise --timeout"
    );
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
}
