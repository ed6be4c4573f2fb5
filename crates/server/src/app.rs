//! What all routes share.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;

use crate::options::{Defaults, Options};
use crate::{NAME, feed::Feed, metrics::Metrics, pool::Pool, speech::Speech, videos::Videos};
use specreel_record::{Failure, Ready};

/// Bodies of the largest size that may be in memory at once.
const BODIES: u64 = 4;
/// Bytes of a permit for a body.
pub const BODY_UNIT: u64 = 1 << 10;

/// How often is looked whether all answers were read.
const POLL: Duration = Duration::from_millis(20);

/// What all routes share.
pub type SharedApp = Arc<App>;

pub struct App {
    pub options: Options,
    pub defaults: Defaults,
    pub pool: Arc<Pool>,
    pub videos: Videos,
    pub speech: Speech,
    pub metrics: Metrics,
    /// Answers that are being written or read each have a clone.
    pub answers: Arc<()>,
    pub bodies: Arc<Semaphore>,
    /// Held by the search that asks an engine what it is about.
    pub reading: Mutex<()>,
    pub models: OnceLock<Ready>,
    /// When the server was started, in seconds since 1970.
    pub created: u64,
    pub began: Instant,
}

impl App {
    pub fn new(options: Options, defaults: Defaults) -> Result<Self, Failure> {
        let bodies = (options.max_body * BODIES).div_ceil(BODY_UNIT) as usize;
        Ok(Self {
            pool: Pool::new(options.queue, Feed::new(options.allow_follow)),
            videos: Videos::new(&options, defaults.cache.clone())?,
            speech: Speech::new(&options, defaults.listen.clone()),
            metrics: Metrics::default(),
            answers: Arc::default(),
            bodies: Arc::new(Semaphore::new(bodies.min(Semaphore::MAX_PERMITS))),
            reading: Mutex::default(),
            models: OnceLock::new(),
            created: now(),
            began: Instant::now(),
            options,
            defaults,
        })
    }

    /// Whether a name means the loaded models: the target's own, the one under which it was given, and the one that always does.
    pub fn is_model(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        let given = self.defaults.target.as_deref().map(|given| given.trim_end_matches('/'));
        name == NAME || given == Some(name) || self.models.get().is_some_and(|ready| ready.target == name)
    }

    /// Wait until every answer was read to its end.
    pub async fn answered(&self) {
        while Arc::strong_count(&self.answers) > 1 {
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
