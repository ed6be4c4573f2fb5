//! Messages into the studio and effects out of it: both are data, so that tests can play either side.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::SystemTime};

use crate::look::Key;
use crate::tui::config::{ClipFacts, FrameRequest};
use crate::tui::{archive::SessionEntry, mouse::Mouse};
use specreel_batch::{self as batch, Outcome, Progress, Sidecar, Summary, rows::Caption};
use specreel_client::Transcript;
use specreel_client::catalog::{ModelList, ModelPair, OpenedPair, Pulling};
use specreel_client::moments::{LibraryQuestion, Moment};
use specreel_engine::RunRequest;
use specreel_model::ModelSpec;
use specreel_record::{Cues, Event, Failure, Session, Span};
use specreel_speculate::Method;
use specreel_video::{Division, Frame};

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "the largest, an event of the engine, is also the most frequent"
)]
pub enum Msg {
    Key(Key),
    Mouse(Mouse),
    /// The terminal got the focus, or lost it.
    Focus(bool),
    Paste(String),
    Resize(u16, u16),
    Engine(Event),
    EngineGone,
    Scanned {
        folder: PathBuf,
        found: Result<Vec<VideoFile>, String>,
        note: Option<String>,
    },
    Opened(Result<VideoFile, String>),
    Completed(Result<Completion, String>),
    Recent(Result<Vec<VideoFile>, String>),
    /// The prompts of earlier sessions, oldest first.
    EarlierPrompts(Vec<String>),
    Trouble(String),
    Probed {
        path: PathBuf,
        facts: Result<ClipFacts, String>,
    },
    FrameRead(FrameRequest, Arc<Frame>),
    /// A request for frames is complete, or failed.
    FramesRead(FrameRequest, Result<(), String>),
    Listed(Result<Vec<SessionEntry>, String>),
    Loaded(Result<Session, String>),
    /// The moments with these words.
    Moments(String, Result<Vec<Moment>, String>),
    /// The same, with those whose meanings are near.
    Near(String, Vec<Moment>),
    /// A question with its moments and the part of the first one's video; `None` if there are none.
    Asked(Result<Option<(LibraryQuestion, Option<Span>)>, String>),
    Edited(Result<String, String>),
    Written(Result<PathBuf, String>),
    /// Captions were written next to their clips, or the work was lost.
    Sidecars(Result<SidecarsWritten, String>),
    Batch(BatchNews),
    CaptionSaved {
        video: PathBuf,
        caption: Box<Caption>,
        /// The file; `None` if none is written.
        outcome: Result<Option<PathBuf>, String>,
    },
    MethodSaved(Result<(PathBuf, Method), String>),
    Cut(Result<Vec<Span>, String>),
    /// About what is said in this clip.
    Speech(PathBuf, SpeechNews),
    Models(Result<ModelList, String>),
    PairOpened(Result<Box<OpenedPair>, Failure>),
    Pull(PullNews),
    /// A model was removed: its name, and the bytes freed.
    ModelRemoved(Result<(String, u64), String>),
    Unrecorded(String),
    Tick,
    Advance(f64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct VideoFile {
    pub path: PathBuf,
    pub bytes: Option<u64>,
    pub modified: Option<SystemTime>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BatchJob {
    pub clips: Vec<batch::Clip>,
    pub options: batch::Options,
    /// What is said in clips, as far as it is known.
    pub said: BTreeMap<PathBuf, Arc<Transcript>>,
    /// The request of each caption; its number is the first run's.
    pub request: RunRequest,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CaptionEdit {
    pub clip: batch::Clip,
    pub sidecar: Sidecar,
    pub cues: Cues,
    pub caption: Caption,
}

#[derive(Clone, Debug)]
pub enum BatchNews {
    Clip {
        video: PathBuf,
        /// The run of its caption; 0 if there was none.
        run: u64,
        outcome: Outcome,
        /// The caption that it had before, if it was skipped for that.
        existing: Option<String>,
        progress: Box<Progress>,
    },
    /// The batch is over, or cannot continue for this reason.
    Ended(Result<Box<Summary>, String>),
}

#[derive(Clone, Debug)]
pub enum SpeechNews {
    /// The share that a speech model has heard.
    Progress(f64),
    Heard(Result<Arc<Transcript>, String>),
    /// Another request took its place.
    Cancelled,
}

/// Which files a typed path means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    #[default]
    Videos,
    Transcripts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub typed: String,
    pub line: String,
    pub found: Vec<String>,
}

/// Progress and end of a download.
#[derive(Clone, Debug)]
pub enum PullNews {
    Progress(Pulling),
    /// With the model's directory or GGUF file.
    Ended(Result<PathBuf, Failure>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SidecarsWritten {
    pub written: usize,
    /// Files that existed and were left alone, or that another process writes.
    pub kept: usize,
    /// Why the others could not be written, one reason each.
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Run(Box<RunRequest>),
    Cancel(u64),
    /// Caption clips together; answered by [`Msg::Batch`].
    Batch(Box<BatchJob>),
    CancelBatch,
    /// Save an edited caption; answered by [`Msg::CaptionSaved`].
    SaveCaption(Box<CaptionEdit>),
    /// Save a changed caption with its run: in this file of runs, or else where the run is recorded.
    SaveEdit(Box<Event>, Option<PathBuf>),
    /// List models for the loaded pair and a run; answered by [`Msg::Models`].
    ListModels(Box<(ModelPair, RunRequest)>),
    /// Find the files of a pair; answered by [`Msg::PairOpened`].
    OpenPair(ModelPair),
    /// Load models and use them in place of the loaded ones; the engine answers.
    Switch(Box<ModelSpec>),
    /// Write the pair to this file, which remembers it.
    RememberPair(PathBuf, Box<ModelPair>),
    /// Download a model; answered by [`Msg::Pull`].
    Pull(String),
    CancelPull,
    /// Remove a model of this name and path from the cache; answered by [`Msg::ModelRemoved`].
    RemoveModel(String, PathBuf),
    /// Read a directory; answered by [`Msg::Scanned`].
    Scan(PathBuf),
    /// Open a path, of a file or a directory; answered by [`Msg::Opened`] or [`Msg::Scanned`].
    Open(String),
    /// Complete a typed path; answered by [`Msg::Completed`].
    Complete(String, Wanted),
    /// Read the list of recent files; answered by [`Msg::Recent`].
    Recent(PathBuf),
    /// Add a file (the second path) to the list of recent files (the first).
    Remember(PathBuf, PathBuf),
    /// Write the name of a theme to this file, which remembers it.
    RememberTheme(PathBuf, String),
    /// Probe a clip; only the newest request counts. Answered by [`Msg::Probed`].
    Probe(PathBuf),
    /// Divide a clip into segments; answered by [`Msg::Cut`].
    Cut(PathBuf, Division),
    /// Find out what is said in a clip, and nothing else meanwhile: from a transcript, or by a speech model of this name, perhaps with
    /// `--language CODE`. An empty name only ends what is in progress. Answered by [`Msg::Speech`].
    Listen(PathBuf, String),
    /// Read frames of a clip, or no longer; only the newest request counts. Answered by [`Msg::FrameRead`] and [`Msg::FramesRead`].
    Frames(Option<FrameRequest>),
    /// Find moments of the library by these words; answered by [`Msg::Moments`].
    Find(String),
    /// Find those whose meanings are near as well, unless more is typed first or the index has no meanings; answered by [`Msg::Near`].
    FindNear(String),
    /// Find the moments of a question about the library, also by its meaning if the engine is idle; answered by [`Msg::Asked`].
    AskLibrary(String, bool),
    /// List the saved runs of a directory; answered by [`Msg::Listed`].
    List(PathBuf),
    /// Read a saved run; answered by [`Msg::Loaded`].
    Load(PathBuf),
    /// Delete a saved run and list its directory again; answered by [`Msg::Listed`].
    Delete(PathBuf),
    Editor(String),
    /// Write a text to a new file of this name in the working directory; answered by [`Msg::Written`].
    Write(String, String),
    /// Write captions next to their clips; answered by [`Msg::Sidecars`].
    Sidecars(Vec<(PathBuf, String)>),
    /// Save a method as a new file; answered by [`Msg::MethodSaved`].
    SaveMethod(PathBuf, Box<Method>),
    Copy(String),
    /// Notify the user, who is in another window.
    Notify(String),
    /// Open a video in the system's player; a failure is answered by [`Msg::Trouble`].
    Play(PathBuf),
    Suspend,
    Redraw,
    Quit,
}
