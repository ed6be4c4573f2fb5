//! The one way to use an engine: [`Client`] sends commands, cancels runs and receives events; [`Client::follow`] is the one loop
//! that watches a run. The command line and the studio both use it; it knows neither of them, nor an argument parser.
//!
//! * A [`Sink`] sees every event after the [`RunLog`](specreel_record::RunLog) has taken it in; printing, JSON lines and session
//!   files are sinks.
//! * [`Settings`] merges the command line over the configuration file ([`Config`]); each value knows where it came from.
//! * [`Interrupt`] is the flag behind Ctrl-C. Signals are caught elsewhere; the follow loop only waits for the flag.
//!
//! ```no_run
//! use specreel_client::Client;
//! use specreel_engine::{Command, RunRequest};
//! use specreel_record::RunLog;
//! # fn request() -> RunRequest { unimplemented!() }
//! # fn models() -> specreel_model::ModelSpec { unimplemented!() }
//!
//! let mut client = Client::start()?;
//! client.load_blocking(models())?;
//! let mut log = RunLog::new(1);
//! client.send(Command::Run(Box::new(request())))?;
//! while let (false, Some(event)) = (log.is_over(), client.next_blocking()) {
//!     log.apply(&event);
//! }
//! println!("{}", log.text());
//! # Ok::<(), specreel_record::Failure>(())
//! ```

pub mod chart;
mod connection;
#[doc(hidden)]
pub mod fake;
mod follow;
mod interrupt;
pub mod present;
mod settings;
mod written;

pub use connection::{Backend, Client, Remote};
pub use follow::{Ending, GRACE, Loaded, Sink, cancelled};
pub use interrupt::Interrupt;
pub use settings::{
    Charset, Config, DEFAULT_MAX_NEW_TOKENS, DEFAULT_PROMPT, ImageProtocol, Layer, Origin, Setting, Settings,
    parse_device, parse_tower_dtype,
};
pub use written::{Existing, SidecarChoice};
