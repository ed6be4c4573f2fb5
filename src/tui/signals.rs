//! The signals that the studio listens to.

use super::StudioError;

/// What a signal means here.
pub(crate) enum Signal {
    /// The program is to end.
    Leave,
    /// The process goes on after a stop.
    Continued,
}

#[cfg(unix)]
/// The listeners. They take the signals away from whoever listened before.
pub(crate) struct Signals {
    term: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    cont: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub fn new() -> Result<Self, StudioError> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|source| StudioError::Terminal { doing: "set up", source });
        Ok(Self {
            term: listen(SignalKind::terminate())?,
            hup: listen(SignalKind::hangup())?,
            int: listen(SignalKind::interrupt())?,
            cont: listen(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.term.recv() => Signal::Leave,
            _ = self.hup.recv() => Signal::Leave,
            _ = self.int.recv() => Signal::Leave,
            _ = self.cont.recv() => Signal::Continued,
        }
    }
}

#[cfg(not(unix))]
/// There are none here.
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub fn new() -> Result<Self, StudioError> {
        Ok(Self)
    }

    pub async fn next(&mut self) -> Signal {
        std::future::pending().await
    }
}
