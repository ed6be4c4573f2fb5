//! The program and its crates from outside: commands, events, screens, files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod architecture;
mod cli;
mod docs;
mod engine;
#[path = "../support/gguf_parts.rs"]
mod gguf_parts;
#[path = "../support/gpu.rs"]
mod gpu;
mod hub;
mod lossless;
mod train;
mod tui;
mod video;
