//! An HTTP server for questions about videos, with OpenAI's API.
//!
//! [`Server::bind`] opens the port; [`Server::run`] loads the models, answers requests and returns once it was interrupted and the
//! running answers are finished. docs/server.md is the reference of the routes.
//!
//! A request goes through these modules:
//!
//! 1. `guard` lets it in; `routes` has a function for every route.
//! 2. `ask` turns the body (`api`) into a run of the engine; `videos` finds the file that it is about, `speech` what is said in it.
//! 3. The `pool` queues the run, and gives it to an engine. Its events come back on a channel that belongs to the request.
//! 4. An `answer` folds them into text, tokens and a report. A `feed` passes them on to studios that follow the server.
//!
//! What routes share is an `app`. A further group of routes is a file in `routes`.
//!
//! ```
//! use specreel_client::Interrupt;
//! use specreel_model::ModelSpec;
//! use specreel_server::{Defaults, Load, Options, Server};
//!
//! let demo = specreel_demo::demo(None)?;
//! let models = ModelSpec { target: demo.target, drafter: Some(demo.drafter), ..ModelSpec::default() };
//! let load = Load { models, ignore_memory: false, speeds: None };
//! let interrupt = Interrupt::default();
//! tokio::runtime::Runtime::new().expect("threads").block_on(async {
//!     let server = Server::bind(Options { port: 0, ..Options::default() }, Defaults::default()).await?;
//!     let url = format!("http://{}/v1/models", server.address()?);
//!     let mut ready = |_: &_| {
//!         let models = ureq::get(&url).call().and_then(|mut answer| answer.body_mut().read_to_string());
//!         assert!(models.is_ok_and(|models| models.contains("demo-target")));
//!         interrupt.ask();
//!     };
//!     server.run(load, &mut |_| {}, &mut ready, &interrupt).await
//! })?;
//! # Ok::<(), specreel_record::Failure>(())
//! ```

mod answer;
mod api;
mod app;
mod ask;
mod error;
mod feed;
mod guard;
mod linger;
mod mcp;
mod metrics;
mod options;
mod pool;
mod routes;
mod search;
mod speech;
mod videos;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};

use self::app::{App, SharedApp};
pub use self::{
    mcp::McpServer,
    options::{Defaults, Listen, Listener, Options},
};
use specreel_client::{Client, Interrupt};
use specreel_model::ModelSpec;
use specreel_record::{EventKind, Failure, Ready};

/// The name that always means the loaded models.
pub const NAME: &str = "specreel";

/// How long cancelled runs and their connections may take to end.
const LAST: Duration = Duration::from_secs(2);

pub struct Server {
    app: SharedApp,
    listener: TcpListener,
    router: axum::Router,
}

impl Server {
    /// Open the port. Fails if it cannot be opened, for an allowed directory that cannot be read, and for an origin that cannot be
    /// one (class usage).
    pub async fn bind(options: Options, defaults: Defaults) -> Result<Self, Failure> {
        let address = (options.host.as_str(), options.port);
        let listener = TcpListener::bind(address).await.map_err(|e| {
            let error = format!("cannot listen on {}:{}: {e}", options.host, options.port);
            Failure::usage(error, "choose another --port or --host; --port 0 takes a free port")
        })?;
        let app = Arc::new(App::new(options, defaults)?);
        let router = routes::router(&app)?;
        Ok(Self { app, listener, router })
    }

    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|e| Failure::internal(format!("no address: {e}"), "try again"))
    }

    /// Load the models and answer requests until `interrupt`. Until the models are loaded, requests are refused. `on` gets every
    /// event of loading, and `ready` is called once requests are answered. Needs a runtime of several threads.
    pub async fn run(
        self,
        load: Load,
        on: &mut dyn FnMut(&EventKind),
        ready: &mut dyn FnMut(&Ready),
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let Self { app, listener, router } = self;
        let (end, ended) = watch::channel(false);
        let signal = |mut ended: watch::Receiver<bool>| async move {
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let serving =
            tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(signal(ended)).into_future());
        let outcome = load.engines(&app, on, interrupt).await;
        if let Ok(Some(loaded)) = &outcome {
            ready(loaded);
            interrupt.waited(Duration::ZERO).await;
        }
        app.pool.close();
        let _ = end.send(true);
        let _ = tokio::time::timeout(app.options.grace, app.answered()).await;
        app.pool.cancel_all();
        app.pool.feed().close();
        let abort = serving.abort_handle();
        if tokio::time::timeout(LAST, serving).await.is_err() {
            abort.abort();
        }
        app.videos.store.clear();
        outcome.map(|_| ())
    }
}

/// Which models to load, and how.
pub struct Load {
    pub models: ModelSpec,
    pub ignore_memory: bool,
    /// Where measured speeds are kept.
    pub speeds: Option<std::path::PathBuf>,
}

impl Load {
    /// Load the models once for each engine. None if interrupted.
    async fn engines(
        &self,
        app: &SharedApp,
        on: &mut dyn FnMut(&EventKind),
        interrupt: &Interrupt,
    ) -> Result<Option<Ready>, Failure> {
        let mut first = None;
        for _ in 0..app.options.parallel.max(1) {
            // Connections are answered promptly, however busy the processors are.
            let mut client = Client::start_in_background()?;
            client.keep_speeds(self.speeds.clone())?;
            let loaded = client.load_and_wait(self.models.clone(), self.ignore_memory, on, interrupt).await?;
            let Some(loaded) = loaded else { return Ok(None) };
            first.get_or_insert_with(|| app.models.get_or_init(|| loaded).clone());
            app.pool.add(client);
        }
        Ok(first)
    }
}
