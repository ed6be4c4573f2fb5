//! The engine thread: owns device, models and caches; commands in, events out.

pub mod command;

pub use command::{Command, RunRequest, TextSampling};
