//! What is said in a video: as a request says it, or as the speech model hears it.

use std::path::PathBuf;
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::sync::Semaphore;

use crate::options::{Listen, Listener, Options};
use crate::videos::{Video, Videos};
use crate::{api::Extension, error::ApiError, pool::Refused};
use specreel_client::Transcript;
use specreel_record::Span;

/// How often a request that waits for the speech model looks whether it still has to.
const POLL: Duration = Duration::from_millis(50);

/// When to try again where too many requests wait.
const LATER: Duration = Duration::from_secs(10);

/// The speech model, which hears one video at a time.
pub struct Speech {
    listen: Option<Listen>,
    /// What was heard last: another question about a video does not wait for it again.
    last: Mutex<Option<(Part, Transcript)>>,
    /// Requests that may wait.
    room: Semaphore,
}

/// A part of a file, with size and time of that.
type Part = (PathBuf, Option<(u64, SystemTime)>, Option<Span>);

impl Speech {
    pub fn new(options: &Options, listen: Option<Listen>) -> Self {
        Self { listen, last: Mutex::default(), room: Semaphore::new(options.queue + 1) }
    }

    /// What is said in a part of a video; `None` if the request is not about that. Blocks while the listener is there. `videos` finds
    /// the file of a transcript.
    pub fn of(
        &self,
        extension: Option<&Extension>,
        videos: &Videos,
        video: &Video,
        span: Option<Span>,
        listener: &Listener<'_>,
    ) -> Result<Option<Transcript>, ApiError> {
        let invalid = |param: &str, message: String| {
            ApiError::invalid(param, "invalid_value", format!("{param}: {message}"))
        };
        let written = extension.and_then(|own| own.transcript.as_ref()).filter(|value| !value.is_null());
        match (written, extension.is_some_and(|own| own.transcribe)) {
            (Some(_), true) => {
                Err(invalid("specreel.transcribe", "choose either `transcript` or `transcribe`".into()))
            }
            (Some(written), false) => {
                if let Some(named) = written.get("path").and_then(Value::as_str) {
                    return read(videos, named).map(Some);
                }
                let text = match written {
                    Value::String(text) => text.clone(),
                    lines => lines.to_string(),
                };
                let read = Transcript::parse(text.as_bytes());
                read.map(Some).map_err(|error| {
                    let expected =
                        "expected a list of {\"start\", \"end\", \"text\"}, the text of SubRip or WebVTT, or the {\"path\"} of a file";
                    invalid("specreel.transcript", format!("{error}; {expected}"))
                })
            }
            (None, true) => {
                let listen = self.listen.as_ref().ok_or_else(|| {
                    let message =
                        "this server has no speech model; send a `transcript`, or start it with --transcribe";
                    invalid("specreel.transcribe", message.into())
                })?;
                self.heard(listen, video, span, listener).map(Some)
            }
            (None, false) => Ok(None),
        }
    }

    fn heard(
        &self,
        listen: &Listen,
        video: &Video,
        span: Option<Span>,
        listener: &Listener<'_>,
    ) -> Result<Transcript, ApiError> {
        let Ok(_waits) = self.room.try_acquire() else { return Err(Refused::Full(LATER).into()) };
        let facts = std::fs::metadata(&video.path).ok();
        let stamp = facts.and_then(|facts| Some((facts.len(), facts.modified().ok()?)));
        let part: Part = (video.path.clone(), stamp, span);
        let mut last = loop {
            match self.last.try_lock() {
                Ok(last) => break last,
                Err(TryLockError::Poisoned(last)) => break last.into_inner(),
                Err(TryLockError::WouldBlock) if (listener.gone)() => return Err(Refused::Closed.into()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(POLL),
            }
        };
        if let Some((_, said)) = last.as_ref().filter(|(known, _)| *known == part) {
            return Ok(said.clone());
        }
        let said = listen(&video.path, span, listener)
            .map_err(|failure| ApiError::failure(&video.named(failure), Some("specreel.transcribe")))?;
        *last = Some((part, said.clone()));
        Ok(said)
    }
}

/// The transcript in a file below an allowed directory.
fn read(videos: &Videos, named: &str) -> Result<Transcript, ApiError> {
    let param = "specreel.transcript";
    let missing = |error: ApiError| ApiError::invalid(param, "transcript_not_found", error.message);
    let file = videos.file(named).map_err(missing)?;
    Transcript::read(&file.path).map_err(|failure| ApiError::failure(&file.named(failure), Some(param)))
}
