//! Where the videos of requests come from: bytes in the request, uploaded files, allowed directories, URLs, embedded clips.
//!
//! Every video that a request names is resolved to the path of a file that the request may read, and to
//! nothing else.

mod allowed;
mod fetch;
mod store;

#[cfg(test)]
mod tests;

use std::{any::Any, path::PathBuf, sync::Arc};

use base64::Engine as _;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

pub use self::store::{Incoming, Store, StoredFile};
use self::{allowed::AllowedDirs, fetch::Fetcher};
use crate::{error::ApiError, options::Options};
use specreel_record::{Event, EventKind, Failure, Span, Started, clock};
use specreel_video::{Probe, probe, segments};

/// Standard base64, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Longest name of a video in messages, in characters.
const LONGEST_NAME: usize = 100;

/// What a request names.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// `data:`, `http:`, `https:` or `file:` URL, id of an uploaded file, path, or embedded clip.
    Url(String),
    /// Base64.
    Data(String),
}

/// What keeps a stored file from being removed.
pub type Hold = Arc<dyn Any + Send + Sync>;

/// A file that a run may read.
#[derive(Clone)]
pub struct Video {
    pub path: PathBuf,
    /// How the request named it.
    pub name: String,
    pub _hold: Option<Hold>,
}

/// The videos that requests may name.
pub struct Videos {
    pub store: Store,
    allowed: AllowedDirs,
    fetcher: Option<Fetcher>,
    cache: Option<PathBuf>,
    max_duration: Option<f64>,
}

impl Videos {
    /// Fails if an allowed directory cannot be read, or the temporary directory cannot be created.
    pub fn new(options: &Options, cache: Option<PathBuf>) -> Result<Self, Failure> {
        Ok(Self {
            store: Store::new(options.max_file, options.max_storage)?,
            allowed: AllowedDirs::new(&options.allow_dirs)?,
            fetcher: options.allow_url.then(|| Fetcher::new(options.timeout)),
            cache,
            max_duration: options.max_duration,
        })
    }

    /// Find or store a video, and check that it can be read. Blocks. `param` names the field of the request.
    pub fn resolve(&self, source: &Source, param: &str) -> Result<Video, ApiError> {
        let found = match source {
            Source::Data(data) => self.inline(data, "the video in the request"),
            Source::Url(url) => self.url(url),
        };
        let video = found.map_err(|error| ApiError { param: Some(param.into()), ..error })?;
        self.check(&video).map_err(|error| ApiError { param: Some(param.into()), ..error })?;
        Ok(video)
    }

    fn url(&self, url: &str) -> Result<Video, ApiError> {
        let refuse =
            |code, message: String| Err(ApiError::new(axum::http::StatusCode::BAD_REQUEST, code, message));
        if let Some(rest) = strip(url, "data:") {
            let Some((kind, data)) = rest.split_once(',') else {
                return refuse(
                    "invalid_data_url",
                    "the data URL has no comma; expected data:video/mp4;base64,…".into(),
                );
            };
            if !kind.to_ascii_lowercase().ends_with(";base64") {
                return refuse(
                    "invalid_data_url",
                    "expected a data URL in base64: data:video/mp4;base64,…".into(),
                );
            }
            return self.inline(data, "the video in the request");
        }
        let name = short(url);
        if strip(url, "http:").or(strip(url, "https:")).is_some() {
            let Some(fetcher) = &self.fetcher else {
                return refuse(
                    "url_not_allowed",
                    format!(
                        "{name}: this server does not fetch URLs; upload the file, or start it with --allow-url"
                    ),
                );
            };
            let mut incoming = self.store.incoming()?;
            fetcher.fetch(url, &mut incoming)?;
            return Ok(self.stored(self.store.keep_recent(incoming)?, name));
        }
        if url.starts_with(store::PREFIX) {
            let file = self.store.get(url)?;
            return Ok(self.stored(file.blob, url.into()));
        }
        if let Some(index) = specreel_demo::clip_index(url) {
            let clip = index.and_then(|index| {
                let demo = specreel_demo::demo(self.cache.as_deref())?;
                demo.clips.get(index).map(|clip| clip.path.clone()).ok_or(specreel_demo::AssetError::Absent)
            });
            let path = clip.map_err(|error| ApiError::failure(&error.into(), None))?;
            return Ok(Video { path, name, _hold: None });
        }
        self.file(url)
    }

    /// A file below an allowed directory.
    pub fn file(&self, named: &str) -> Result<Video, ApiError> {
        Ok(Video { path: self.allowed.find(named)?, name: short(named), _hold: None })
    }

    fn inline(&self, data: &str, name: &str) -> Result<Video, ApiError> {
        let mut incoming = self.store.incoming()?;
        // Line breaks are common; a part of a multiple of four characters decodes by itself.
        let mut clean = Vec::with_capacity(1 << 20);
        let flush = |clean: &mut Vec<u8>, incoming: &mut Incoming| {
            let bytes = BASE64.decode(&*clean).map_err(|e| {
                ApiError::new(
                    axum::http::StatusCode::BAD_REQUEST,
                    "invalid_base64",
                    format!("{name} is not valid base64: {e}"),
                )
            })?;
            clean.clear();
            incoming.write(&bytes)
        };
        for byte in data.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            clean.push(byte);
            if clean.len() == 1 << 20 {
                flush(&mut clean, &mut incoming)?;
            }
        }
        flush(&mut clean, &mut incoming)?;
        Ok(self.stored(self.store.keep_recent(incoming)?, name.into()))
    }

    fn stored(&self, blob: std::sync::Arc<store::Blob>, name: String) -> Video {
        Video { path: blob.path().to_owned(), name, _hold: Some(blob) }
    }

    /// Refuse what is not a video, or too long.
    fn check(&self, video: &Video) -> Result<(), ApiError> {
        let Probe { duration_s, .. } =
            probe(&video.path).map_err(|error| ApiError::failure(&video.named(error.into()), None))?;
        match self.max_duration {
            Some(most) if duration_s > most => Err(ApiError::new(
                axum::http::StatusCode::PAYLOAD_TOO_LARGE,
                "video_too_long",
                format!(
                    "{} is {} long, longer than {}, the limit of this server; cut it, or raise --max-duration",
                    video.name,
                    clock(duration_s),
                    clock(most)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// The part of a video; none is all of it. Blocks.
    pub fn span(video: &Video, start: Option<f64>, end: Option<f64>) -> Result<Option<Span>, Failure> {
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        let parts = segments(&video.path, start, end, None).map_err(|error| video.named(error.into()))?;
        Ok(parts.first().copied())
    }
}

impl Video {
    /// A failure that names the video as the request did.
    pub fn named(&self, failure: Failure) -> Failure {
        Failure { error: failure.error.replace(&self.path.display().to_string(), &self.name), ..failure }
    }

    /// An event that names the video as the request did.
    pub fn shown(&self, event: &Event) -> Event {
        let mut event = event.clone();
        match &mut event.kind {
            EventKind::Started(Started { video, .. }) => video.clone_from(&self.name),
            EventKind::Failed(failure) => *failure = self.named(failure.clone()),
            _ => {}
        }
        event
    }
}

/// The rest after a prefix, whose case does not matter.
fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// What a request named, cut to fit a message.
fn short(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.to_owned(),
    }
}
