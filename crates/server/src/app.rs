//! What all routes share.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;

use crate::options::{Defaults, Options};
use crate::{feed::Feed, metrics::Metrics, models::Models, pool::Pool, speech::Speech, videos::Videos};
use specreel_client::{Client, Interrupt};
use specreel_record::{EventKind, Failure, Ready};

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
    pub models: Arc<Models>,
    /// When the server was started, in seconds since 1970.
    pub created: u64,
    pub began: Instant,
}

impl App {
    pub fn new(options: Options, mut defaults: Defaults) -> Result<Self, Failure> {
        let models = Arc::new(Models::new(std::mem::take(&mut defaults.served)));
        let bodies = (options.max_body * BODIES).div_ceil(BODY_UNIT) as usize;
        Ok(Self {
            pool: Pool::new(options.queue, Feed::new(options.allow_follow), models.clone()),
            models,
            videos: Videos::new(&options, defaults.cache.clone())?,
            speech: Speech::new(&options, defaults.listen.clone()),
            metrics: Metrics::default(),
            answers: Arc::default(),
            bodies: Arc::new(Semaphore::new(bodies.min(Semaphore::MAX_PERMITS))),
            reading: Mutex::default(),
            created: now(),
            began: Instant::now(),
            options,
            defaults,
        })
    }

    /// Load the first models, one into each engine. `None` if interrupted. `on` gets every event of loading.
    pub async fn load(
        &self,
        on: &mut dyn FnMut(&EventKind),
        interrupt: &Interrupt,
    ) -> Result<Option<Ready>, Failure> {
        let mut first = None;
        // Connections are answered promptly, however busy the processors are.
        let clients = Client::start_together(self.options.parallel, true)?;
        for (engine, mut client) in clients.into_iter().enumerate() {
            client.keep_speeds(self.defaults.speeds.clone())?;
            let model = engine % self.models.all().len();
            let loaded = self.models.load(model, &mut client, on, interrupt).await?;
            let Some(loaded) = loaded else { return Ok(None) };
            first.get_or_insert(loaded);
            self.pool.add(client, model);
        }
        self.pool.begin();
        Ok(first)
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
