//! Files that hold prompts, captions and paths: the user alone reads them, as mode 0600 in directories that are made with 0700.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

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

/// Replace a file as a whole, on the disk too; its directories are made. A killed program leaves the old file or the new one.
pub fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    persist(file, bytes, File::sync_all)
}

/// [`replace`] without waiting for the disk.
pub fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    persist(file, bytes, |_| Ok(()))
}

fn persist(file: &Path, bytes: &[u8], sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    sync(new.as_file())?;
    new.persist(file)?;
    Ok(())
}
