//! An HTTP server for questions about videos, with OpenAI's and Anthropic's APIs and the Model Context Protocol.
//!
//! [`Server::bind`] opens the port; [`Server::run`] loads the models, answers requests and returns once it was interrupted and the
//! running answers are finished. docs/server.md is the reference of the routes.
//!
//! A request goes through these modules:
//!
//! 1. `guard` lets it in; `routes` has a function for every route.
//! 2. `ask` turns the body (`api`) into a run of the engine; `videos` finds the file that it is about, `speech` what is said in it.
//! 3. The `pool` queues the run, and gives it to an engine that has its model, or loads it (`models`). Its events come back on a channel that belongs to the request.
//! 4. A `session` waits for them, and an `answer` folds them into text, tokens and a report. A `feed` passes them on to studios that
//!    follow the server.
//!
//! What routes share is an `app`. A further group of routes is a file in `routes`.
//!
//! ```
//! use specreel_client::Interrupt;
//! use specreel_model::ModelSpec;
//! use specreel_server::{Defaults, Options, Served, Server};
//!
//! let demo = specreel_demo::demo(None)?;
//! let models = ModelSpec { target: demo.target, drafter: Some(demo.drafter), ..ModelSpec::default() };
//! let served = vec![Served { models, ..Served::default() }];
//! let defaults = Defaults { served, ..Defaults::default() };
//! let interrupt = Interrupt::default();
//! tokio::runtime::Runtime::new().expect("threads").block_on(async {
//!     let server = Server::bind(Options { port: 0, ..Options::default() }, defaults).await?;
//!     let url = format!("http://{}/v1/models", server.address()?);
//!     let mut ready = |_: &_| {
//!         let models = ureq::get(&url).call().and_then(|mut answer| answer.body_mut().read_to_string());
//!         assert!(models.is_ok_and(|models| models.contains("demo-target")));
//!         interrupt.ask();
//!     };
//!     server.run(&mut |_| {}, &mut ready, &interrupt).await
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
mod models;
mod options;
mod pool;
mod routes;
mod search;
mod session;
mod speech;
mod videos;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use self::app::{App, SharedApp};
use self::mcp::Loading;
pub use self::{
    mcp::McpServer,
    options::{Defaults, Listen, Listener, Options, Served},
};
use specreel_client::Interrupt;
use specreel_record::{EventKind, Failure, Ready};

/// The name that always means the first model.
pub const NAME: &str = "specreel";

/// How long cancelled runs and their connections may take to end.
const LAST: Duration = Duration::from_secs(2);

pub struct Server {
    app: SharedApp,
    listener: TcpListener,
    router: axum::Router,
    loading: watch::Sender<Loading>,
    /// Ends the sessions of the Model Context Protocol.
    sessions: CancellationToken,
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
        let (loading, state) = watch::channel(Loading::Running);
        let sessions = CancellationToken::new();
        let tools = mcp::service(app.clone(), state, sessions.clone());
        let router = routes::router(&app, tools)?;
        Ok(Self { app, listener, router, loading, sessions })
    }

    pub fn address(&self) -> Result<SocketAddr, Failure> {
        self.listener.local_addr().map_err(|e| Failure::internal(format!("no address: {e}"), "try again"))
    }

    /// Load the models and answer requests until `interrupt`. Until the models are loaded, requests are refused. `on` gets every
    /// event of loading, and `ready` is called once requests are answered. Needs a runtime of several threads.
    pub async fn run(
        self,
        on: &mut dyn FnMut(&EventKind),
        ready: &mut dyn FnMut(&Ready),
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let Self { app, listener, router, loading, sessions } = self;
        let (end, ended) = watch::channel(false);
        let signal = |mut ended: watch::Receiver<bool>| async move {
            let _ = ended.wait_for(|ended| *ended).await;
        };
        let serving =
            tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(signal(ended)).into_future());
        let outcome = app.load(on, interrupt).await;
        let _ = loading.send(Loading::ended(&outcome));
        if let Ok(Some(loaded)) = &outcome {
            ready(loaded);
            interrupt.waited(Duration::ZERO).await;
        }
        app.pool.close();
        let _ = end.send(true);
        let _ = tokio::time::timeout(app.options.grace, app.answered()).await;
        app.pool.cancel_all();
        sessions.cancel();
        app.pool.feed().close();
        let abort = serving.abort_handle();
        if tokio::time::timeout(LAST, serving).await.is_err() {
            abort.abort();
        }
        app.videos.store.clear();
        outcome.map(|_| ())
    }
}
