//! The program and its crates from outside: commands, events, screens, files.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod architecture;
mod cli;
mod docs;
mod engine;
#[path = "../support/gguf_parts.rs"]
mod gguf_parts;
#[path = "../support/gpu.rs"]
mod gpu;
#[path = "../support/hollow.rs"]
mod hollow;
mod hub;
mod lossless;
#[path = "../support/real_weights.rs"]
mod real_weights;
mod serve;
mod tui;
mod video;

/// The program under test, and the root of the workspace.
const BINARY: &str = "specreel";
const REPOSITORY: &str = env!("CARGO_MANIFEST_DIR");

/// A model of the parity tests.
fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name)
}
