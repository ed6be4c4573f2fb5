//! What the studio hears and what it wants done: both are data, so that tests can play either side.

use std::path::PathBuf;

use super::{ClipFacts, Key, model::library::Found};
use crate::{engine::RunRequest, record::Event};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(Key),
    /// Text was pasted.
    Paste(String),
    /// The terminal has this many columns and rows.
    Resize(u16, u16),
    /// The engine said something.
    Engine(Event),
    /// The engine will say nothing more.
    EngineGone,
    /// A folder was read: its videos, or what is wrong with it.
    Scanned {
        /// The folder.
        folder: PathBuf,
        /// Its videos in order, or what is wrong.
        found: Result<Vec<Found>, String>,
    },
    /// A path was opened: the file or what is wrong with it.
    Opened(Result<Found, String>),
    /// A clip was looked at.
    Probed {
        /// The clip.
        path: PathBuf,
        /// What is known of it now.
        facts: ClipFacts,
    },
    /// Time passed while something goes on.
    Tick,
}

/// Something to be done outside the model.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Begin a run.
    Run(Box<RunRequest>),
    /// End a run.
    Cancel(u64),
    /// Read a folder; answered by [`Msg::Scanned`].
    Scan(PathBuf),
    /// Look whether a typed or pasted path is a file or a folder; answered by [`Msg::Opened`] or [`Msg::Scanned`].
    Open(String),
    /// Look at a clip; only the newest wish counts. Answered by [`Msg::Probed`].
    Probe(PathBuf),
    /// Put a text on the clipboard.
    Copy(String),
    /// Stop the process until the shell continues it.
    Suspend,
    /// Draw the whole screen afresh.
    Redraw,
    /// Leave.
    Quit,
}
