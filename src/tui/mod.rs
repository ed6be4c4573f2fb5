//! The terminal studio.
//!
//! All state is in the model. [`Studio::handle`] changes it by one [`Msg`] and returns what to do outside as [`Effect`]s;
//! drawing is a function of the model. [`run`] is the driver: it owns the terminal, the clock and the channels, and draws when
//! something changed: at once for keys and resizes, at most 30 times per second while a caption streams, never when idle.
//!
//! The driver knows no methods, models or videos: it reaches the engine through a [`Client`](specreel_client::Client) only, so that
//! tests can script the engine.

mod action;
mod app;
mod archive;
mod ascii;
mod batch_worker;
mod complete;
mod config;
mod effect;
mod error;
mod files;
mod frame_loader;
mod frames;
mod images;
mod inline;
mod keeper;
mod key;
mod keymap;
mod model;
mod model_store;
mod mouse;
mod painter;
mod past;
pub mod picture;
mod question;
mod recent;
mod recorder;
mod scan;
mod signals;
mod start;
mod studio;
mod terminal;
mod terminal_events;
mod terminal_writer;
#[cfg(test)]
mod testing;
mod text;
mod theme;
mod training;
mod turns;
mod update;
mod view;
mod window;
mod worker;

pub use crate::color_depth::ColorDepth;
pub use action::Action;
pub use app::run;
pub use archive::SessionEntry;
pub use batch_worker::BatchNews;
pub use complete::{Completion, Wanted};
pub use config::{Clip, ClipFacts, Cut, FrameReader, Listen, Probe, PromptPreset, StudioConfig};
pub use effect::{Effect, Msg, PullNews, SidecarsWritten, SpeechNews};
pub use error::StudioError;
pub use images::ImageProtocol;
pub use inline::Inline;
pub use key::{Key, KeyCode};
pub use keymap::{DEFAULT_KEYMAP, KeyContext, Keymap};
pub use model::{
    batch::{BatchJob, CaptionEdit},
    frame_strips::FrameRequest,
    library::VideoFile,
};
pub use model_store::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, Pulling, StoredFacts,
    StoredModel,
};
pub use mouse::{Mouse, MouseKind};
pub use start::start;
pub use studio::Studio;
pub use theme::Theme;
pub use training::{Look, TRAINING_SIZE, TrainingPicture};
pub use window::Notify;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use ratatui::{Terminal, buffer::Buffer, layout::Rect};

use tokio::sync::mpsc;

use specreel_batch::Sidecar;
use specreel_record::{Event, EventKind, Failure};
use specreel_speculate::Method;
