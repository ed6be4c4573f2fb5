//! Checkpoints from anywhere: what loading allocates, long prompts, and directories that were damaged on purpose.
//!
//! Memory is counted by an allocator of this test program, so tests take turns.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod damage;
mod loading;

use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name)
}
