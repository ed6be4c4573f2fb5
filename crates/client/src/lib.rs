//! The one way to use an engine: [`Client`] sends commands, cancels runs and receives events; [`Client::follow`] is the one loop
//! that watches a run. The command line and the studio both use it; it knows neither of them, nor an argument parser.
//!
//! * A [`Sink`] sees every event after the [`RunLog`](specreel_record::RunLog) has taken it in; printing, JSON lines and session
//!   files are sinks.
//! * [`Client::connect`] follows the runs of a server elsewhere.
//! * [`Settings`] merges the command line over the configuration file ([`Config`]); each value knows where it came from.
//! * [`catalog`] finds and pairs models, [`user_methods`] the user's methods; [`asked`] is what a run asks.
//! * [`Interrupt`] is the flag behind Ctrl-C. Signals are caught elsewhere; the follow loop only waits for the flag.
//!
//! ```
//! use specreel_client::Client;
//! use specreel_engine::{Command, RunRequest};
//! use specreel_model::ModelSpec;
//! use specreel_record::{Failure, RunLog};
//! use specreel_speculate::Method;
//!
//! let demo = specreel_demo::demo(None)?;
//! let models = ModelSpec { target: demo.target, drafter: Some(demo.drafter), ..ModelSpec::default() };
//! let mut client = Client::start()?;
//! client.load_blocking(models)?;
//! client.send(Command::Run(Box::new(RunRequest {
//!     run: 1,
//!     video: demo.clips[0].path.clone(),
//!     prompt: "Describe the video in detail.".into(),
//!     method: Method::preset("lvspec").map_err(Failure::from)?,
//!     max_new_tokens: 16,
//!     ..RunRequest::default()
//! })))?;
//! let mut log = RunLog::new(1);
//! while !log.is_over() {
//!     let Some(event) = client.next_blocking() else { break };
//!     log.apply(&event);
//! }
//! println!("{}, {} tokens per target pass", log.text(), log.stats().tau + 1.0);
//! assert!(!log.text().is_empty() && !log.is_lossless());
//! # Ok::<(), Failure>(())
//! ```

pub mod asked;
pub mod catalog;
pub mod chart;
mod connection;
pub mod dirs;
#[doc(hidden)]
pub mod fake;
mod follow;
mod interrupt;
pub mod moments;
pub mod present;
pub mod private;
mod prompts;
mod remote;
pub mod sampling;
pub mod scratch;
mod settings;
pub mod speech;
mod start;
mod transcript;
mod user_file;
pub mod user_methods;
pub mod weight_cache;

pub use connection::{Backend, Client, Remote, WeakRemote};
pub use follow::{Ending, GRACE, Sink, UNSEEN, cancelled};
pub use interrupt::Interrupt;
pub use prompts::PromptPreset;
pub use settings::{
    Charset, Config, DEFAULT_MAX_NEW_TOKENS, DEFAULT_PROMPT, Existing, ImageProtocol, Layer, Notify, Origin,
    Setting, Settings, SidecarChoice, parse_device, parse_tower_dtype,
};
pub use start::StudioStart;
pub use transcript::Transcript;
pub use user_file::{read_user_file, toml_files};
