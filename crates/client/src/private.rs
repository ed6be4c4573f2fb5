//! Files that hold prompts, captions and paths: the user alone reads them.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

pub use specreel_os::private::{create_dir_all, options};

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
