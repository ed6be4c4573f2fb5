//! The terminal studio.
//!
//! All state is in the model. [`Studio::handle`] changes it by one [`Msg`] and returns what to do outside as [`Effect`]s;
//! drawing is a function of the model. [`run`] is the driver: it owns the terminal, the clock and the channels, and draws when
//! something changed: at once for keys and resizes, at most 30 times per second while a caption streams, never when idle.
//!
//! The driver knows no methods, models or videos: it reaches the engine through a [`Client`](specreel_client::Client) only, so that
//! tests can script the engine.

mod app;
mod archive;
mod ascii;
mod batch_worker;
mod clock;
mod complete;
mod config;
mod effect;
mod files;
mod frame_loader;
mod frames;
mod images;
mod keeper;
mod knobs;
mod line;
mod model;
mod mouse;
mod painter;
mod pane;
mod past;
mod picker;
mod question;
mod recent;
mod recorder;
mod scan;
mod screens;
mod signals;
mod start;
mod studio;
mod terminal;
mod terminal_events;
mod terminal_writer;
#[cfg(test)]
mod testing;
mod text;
mod update;
mod view;
pub mod widgets;
mod window;
mod worker;

pub use crate::look::{
    Action, ColorDepth, DEFAULT_KEYMAP, Key, KeyCode, KeyContext, Keymap, StudioError, Theme,
};
pub use app::run;
pub use archive::SessionEntry;
pub use ascii::reduce as to_ascii;
pub use config::{
    Clip, ClipFacts, Cut, FrameReader, FrameRequest, Listen, Probe, PromptPreset, StudioConfig,
};
pub use effect::{
    BatchJob, BatchNews, CaptionEdit, Completion, Effect, Msg, PullNews, SidecarsWritten, SpeechNews,
    VideoFile, Wanted,
};
pub use images::ImageProtocol;
pub use mouse::{Mouse, MouseKind};
pub use specreel_client::catalog::{
    DrafterChoice, ModelList, ModelPair, ModelStore, OpenedPair, PublishedModel, Pulling, StoredFacts,
    StoredModel,
};
pub use start::start;
pub use studio::Studio;
pub use window::Notify;
