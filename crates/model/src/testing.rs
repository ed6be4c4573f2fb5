//! Files of the repository, for tests.

use std::{fs, path::PathBuf};

/// A path in the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

pub fn fixture(name: &str) -> PathBuf {
    repository("tests/parity/fixtures").join(name)
}

/// A copy of a fixture's files.
pub fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(fixture(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}
