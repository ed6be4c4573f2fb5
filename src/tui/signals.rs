//! The signals that the studio handles.

use specreel_os::signals::{Endings, Notice};

use crate::look::StudioError;

pub(crate) enum Signal {
    Leave,
    /// Redraw, after a stop.
    Continued,
}

pub(crate) struct Signals {
    endings: Endings,
    continued: Notice,
}

impl Signals {
    pub fn new() -> Result<Self, StudioError> {
        let failed = |source| StudioError::Terminal { doing: "set up", source };
        Ok(Self {
            endings: Endings::listen().map_err(failed)?,
            continued: Notice::continued().map_err(failed)?,
        })
    }

    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.endings.next() => Signal::Leave,
            () = self.continued.next() => Signal::Continued,
        }
    }
}
