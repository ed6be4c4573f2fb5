//! Files that hold prompts, captions and paths: the user alone reads them, as mode 0600 in directories that are made with 0700.

use std::{
    fs::{DirBuilder, OpenOptions},
    io,
    path::Path,
};

#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// Options whose new files are private. A file that exists keeps its mode.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    options.mode(0o600);
    options
}

/// Make a directory, and those above it, where they are missing.
pub fn create_dir_all(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    builder.mode(0o700);
    builder.recursive(true).create(folder)
}
