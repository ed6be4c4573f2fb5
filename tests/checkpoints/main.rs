//! Untrusted checkpoints: memory while loading, long prompts, and deliberately damaged directories.
//!
//! This test program's allocator counts memory, so the tests run one at a time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod damage;
mod gguf;
#[path = "../support/gguf_parts.rs"]
mod gguf_parts;
mod loading;

use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity/fixtures").join(name)
}
