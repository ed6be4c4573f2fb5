//! The one way to use an engine: [`Client`] sends commands, cancels runs and receives events; [`Client::follow`] is the one loop
//! that watches a run. The command line and the studio both stand on it; it knows neither of them, and no argument parser.
//!
//! * A [`Sink`] sees every event after the [`RunLog`](crate::record::RunLog) has taken it in; printing, JSON lines and session
//!   files are sinks.
//! * [`Interrupt`] is the flag behind Ctrl-C. Signals are caught elsewhere; the follow loop only waits for the flag.

mod connection;
#[cfg(test)]
pub(crate) mod fake;
mod follow;
mod interrupt;

pub use connection::{Backend, Client, Remote};
pub use follow::{Ending, GRACE, Loaded, Sink, cancelled};
pub use interrupt::Interrupt;
