//! The engine thread: owns device, models and caches; commands in, events out.

pub mod command;
pub mod memory;
mod models;
mod prefix;
mod prepare;
mod run;
pub mod store;
pub mod thread;

pub use command::{Command, RunRequest, TextSampling, Turn};
pub use thread::{Engine, EngineHandle};
