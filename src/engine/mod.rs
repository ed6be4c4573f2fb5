//! The engine thread: owns device, models and caches; commands in, events out.

pub mod command;
pub mod memory;
pub mod memory_check;
mod models;
mod prefix;
mod prepare;
mod run;
pub mod store;
pub mod thread;
mod tie;

pub use command::{Command, RunRequest, TextSampling, Turn};
pub use models::frames;
pub use thread::{Engine, EngineHandle};
