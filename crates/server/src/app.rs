//! What all routes share.

use std::{
    sync::{Arc, OnceLock},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tokio::sync::Semaphore;

use crate::{
    metrics::Metrics,
    options::{Defaults, Options},
    pool::Pool,
    videos::Videos,
};
use specreel_record::{Failure, Ready};

/// Bodies of the largest size that may be in memory at once.
const BODIES: u64 = 4;
/// Bytes of a permit for a body.
pub const BODY_UNIT: u64 = 1 << 10;

/// What all routes share.
pub type SharedApp = Arc<App>;

pub struct App {
    pub options: Options,
    pub defaults: Defaults,
    pub pool: Arc<Pool>,
    pub videos: Videos,
    pub metrics: Metrics,
    /// Permits for the bytes of bodies.
    pub bodies: Arc<Semaphore>,
    /// The models, once they are loaded.
    pub models: OnceLock<Ready>,
    /// When the server was started, in seconds since 1970.
    pub created: u64,
    pub began: Instant,
}

impl App {
    pub fn new(options: Options, defaults: Defaults) -> Result<Self, Failure> {
        let bodies = (options.max_body * BODIES).div_ceil(BODY_UNIT) as usize;
        Ok(Self {
            pool: Pool::new(options.queue),
            videos: Videos::new(&options, defaults.cache.clone())?,
            metrics: Metrics::default(),
            bodies: Arc::new(Semaphore::new(bodies.min(Semaphore::MAX_PERMITS))),
            models: OnceLock::new(),
            created: now(),
            began: Instant::now(),
            options,
            defaults,
        })
    }
}

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
