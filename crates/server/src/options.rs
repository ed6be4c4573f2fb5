//! What a server is started with.

use std::path::{Path, PathBuf};
use std::{sync::Arc, time::Duration};

use specreel_client::{Transcript, moments::MomentFinder};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{Failure, Span};
use specreel_speculate::Method;

/// Recognizes the speech in a part of a video. May block.
pub type Listen =
    Arc<dyn Fn(&Path, Option<Span>, &Listener<'_>) -> Result<Transcript, Failure> + Send + Sync>;

/// Who waits for what is said in a video.
pub struct Listener<'a> {
    /// True once nobody waits any more.
    pub gone: &'a dyn Fn() -> bool,
    /// Gets the seconds of the video that were heard, and the end of the part.
    pub heard: &'a dyn Fn(f64, f64),
}

#[derive(Clone, Debug)]
pub struct Options {
    pub host: String,
    /// 0 takes a free port.
    pub port: u16,
    /// The key that requests must have; none lets everyone in.
    pub api_key: Option<String>,
    /// Directories whose files requests may name.
    pub allow_dirs: Vec<PathBuf>,
    /// Whether requests may name http and https URLs.
    pub allow_url: bool,
    /// Whether the runs of all requests may be followed.
    pub allow_follow: bool,
    /// Requests that may wait.
    pub queue: usize,
    /// Engines.
    pub parallel: usize,
    /// How long a request may take, waiting included; none is no limit.
    pub timeout: Option<Duration>,
    /// How long running answers may take to finish once the server is to end.
    pub grace: Duration,
    /// Largest body of a request that is not an upload, in bytes.
    pub max_body: u64,
    /// Largest video, uploaded, inline or fetched, in bytes.
    pub max_file: u64,
    /// Most bytes of all uploaded, inline and fetched videos together.
    pub max_storage: u64,
    /// Longest video in seconds; none is no limit.
    pub max_duration: Option<f64>,
    /// Origins of web pages that may use the server.
    pub cors: Vec<String>,
}

impl Default for Options {
    /// As `specreel serve` without options.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".into(),
            port: 8713,
            api_key: None,
            allow_dirs: Vec::new(),
            allow_url: false,
            allow_follow: false,
            queue: 32,
            parallel: 1,
            timeout: Some(Duration::from_secs(600)),
            grace: Duration::from_secs(30),
            max_body: 64_000_000,
            max_file: 1_000_000_000,
            max_storage: 4_000_000_000,
            max_duration: None,
            cors: Vec::new(),
        }
    }
}

/// A model that requests may name, and what these do not say themselves.
#[derive(Clone, Default)]
pub struct Served {
    /// The name by which requests select it; the target's name if there is none.
    pub name: Option<String>,
    pub models: ModelSpec,
    pub ignore_memory: bool,
    /// Method, sampling, limits, prompt and system message; its video is ignored.
    pub request: RunRequest,
    /// The methods that requests may name.
    pub methods: Vec<Method>,
    /// The name that the target was given by: an id, a directory or a file. Requests may use it, but answers
    /// do not reveal it.
    pub target: Option<String>,
    /// The context window of the target in tokens, if it is known.
    pub context_window: Option<usize>,
    /// Bytes of this machine's memory that the models take when they are loaded, estimated; if that is known.
    pub memory_bytes: Option<u64>,
}

/// What a server answers with.
#[derive(Clone, Default)]
pub struct Defaults {
    /// The models; the first is that of requests that name none.
    pub served: Vec<Served>,
    /// Where measured speeds are kept.
    pub speeds: Option<PathBuf>,
    /// Where the embedded clips are unpacked.
    pub cache: Option<PathBuf>,
    /// The speech model; none refuses requests to transcribe.
    pub listen: Option<Listen>,
    /// The index of a library; none refuses to look for moments.
    pub find: Option<Arc<dyn MomentFinder>>,
}
