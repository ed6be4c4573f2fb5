//! The laboratory's program from outside: tables, files, trainings, scenes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/support/program.rs"]
#[expect(dead_code, reason = "the product's tests use all of it")]
mod program;
#[macro_use]
#[path = "../../../tests/support/transcript.rs"]
#[expect(dead_code, reason = "the product's tests use all of it")]
mod transcript;

mod bench;
mod devices;
mod outputs;
mod quality;
#[path = "../../../tests/support/real_weights.rs"]
#[expect(dead_code, reason = "the product's tests use all of it")]
mod real_weights;
mod scenes;
#[path = "../../../tests/pty/terminal.rs"]
#[expect(dead_code, reason = "the product's tests use all of it")]
mod terminal;
mod train;
mod training;

/// The program under test, and the root of the workspace.
const BINARY: &str = "specreel-lab";
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A model of the parity tests.
fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(REPOSITORY).join("tests/parity/fixtures").join(name)
}
