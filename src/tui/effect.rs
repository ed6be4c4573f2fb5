//! What the studio hears and what it wants done: both are data, so that tests can play either side.

use std::{path::PathBuf, sync::Arc};

use super::{
    ClipFacts, Key, Mouse,
    archive::SessionEntry,
    complete::Completion,
    model::{frame_strips::FrameRequest, library::Found},
};
use crate::{
    engine::RunRequest,
    record::{Event, Session, Span},
    speculate::Method,
    video::Frame,
};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Msg {
    /// A key was pressed.
    Key(Key),
    /// The mouse did something.
    Mouse(Mouse),
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
        /// What to tell of it besides.
        note: Option<String>,
    },
    /// A path was opened: the file or what is wrong with it.
    Opened(Result<Found, String>),
    /// How a typed path goes on, or why it does not.
    Completed(Result<Completion, String>),
    /// The files that were used last, or their list cannot be read.
    Recent(Result<Vec<Found>, String>),
    /// Something off the studio's thread did not work.
    Trouble(String),
    /// A clip was looked at.
    Probed {
        /// The clip.
        path: PathBuf,
        /// What is known of it now, or why it cannot be read.
        facts: Result<ClipFacts, String>,
    },
    /// A frame of a clip was read.
    FrameRead(FrameRequest, Arc<Frame>),
    /// A wish for frames is over: all were read, or this is wrong.
    FramesRead(FrameRequest, Result<(), String>),
    /// The saved sessions were listed, the newest first, or the folder cannot be read.
    Listed(Result<Vec<SessionEntry>, String>),
    /// A saved session was read, or cannot be.
    Loaded(Result<Session, String>),
    /// The prompt comes back from the user's editor, or it could not be run.
    Edited(Result<String, String>),
    /// A run was written to this file, or could not be.
    Written(Result<PathBuf, String>),
    /// A method was kept as this file, or cannot be.
    MethodSaved(Result<(PathBuf, Method), String>),
    /// The pieces of a clip, or why it cannot be cut.
    Cut(Result<Vec<Span>, String>),
    /// Runs cannot be kept as files, for this reason.
    Unrecorded(String),
    /// Time passed while something goes on.
    Tick,
    /// So many milliseconds passed while a replay plays.
    Advance(f64),
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
    /// Look how a typed path goes on; answered by [`Msg::Completed`].
    Complete(String),
    /// Read the list of recent files; answered by [`Msg::Recent`].
    Recent(PathBuf),
    /// Put a file at the head of the list of recent files (the first path).
    Remember(PathBuf, PathBuf),
    /// Look at a clip; only the newest wish counts. Answered by [`Msg::Probed`].
    Probe(PathBuf),
    /// Cut a clip into pieces of so many seconds; answered by [`Msg::Cut`].
    Cut(PathBuf, f64),
    /// Read frames of a clip, or no longer; only the newest wish counts. Answered by [`Msg::FrameRead`] and [`Msg::FramesRead`].
    Frames(Option<FrameRequest>),
    /// List the sessions of a folder; answered by [`Msg::Listed`].
    List(PathBuf),
    /// Read a session; answered by [`Msg::Loaded`].
    Load(PathBuf),
    /// Delete a session and list its folder again; answered by [`Msg::Listed`].
    Delete(PathBuf),
    /// Let the user edit a text in an editor of their own; answered by [`Msg::Edited`].
    Editor(String),
    /// Write a text to a new file of this name in the working directory; answered by [`Msg::Written`].
    Write(String, String),
    /// Keep a method as a file that is not there yet; answered by [`Msg::MethodSaved`].
    SaveMethod(PathBuf, Box<Method>),
    /// Put a text on the clipboard.
    Copy(String),
    /// Stop the process until the shell continues it.
    Suspend,
    /// Draw the whole screen afresh.
    Redraw,
    /// Leave.
    Quit,
}
