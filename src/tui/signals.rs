//! The signals that the studio handles.

use crate::look::StudioError;

pub(crate) enum Signal {
    Leave,
    /// Redraw, after a stop.
    Continued,
}

pub(crate) struct Signals {
    term: tokio::signal::unix::Signal,
    hup: tokio::signal::unix::Signal,
    int: tokio::signal::unix::Signal,
    cont: tokio::signal::unix::Signal,
}

impl Signals {
    pub fn new() -> Result<Self, StudioError> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).map_err(|source| StudioError::Terminal { doing: "set up", source });
        Ok(Self {
            term: listen(SignalKind::terminate())?,
            hup: listen(SignalKind::hangup())?,
            int: listen(SignalKind::interrupt())?,
            cont: listen(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
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
