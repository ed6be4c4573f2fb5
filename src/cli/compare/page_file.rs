//! The file of `--html`: claimed before anything runs, written when all is known.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::record::{Failure, FailureClass};

/// A file that will hold the page. Dropped unwritten, it leaves nothing behind that was not there before.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    path: PathBuf,
    /// Made by us, and empty still.
    bare: bool,
}

impl PageFile {
    /// Claim the file. With `force` an existing one is kept until it is written.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be written (class input).
    pub fn claim(path: &Path, force: bool) -> Result<PageFile, Failure> {
        let (path, existed) = (path.to_owned(), path.exists());
        let mut options = File::options();
        options.write(true);
        if force {
            options.create(true).truncate(false)
        } else {
            options.create_new(true)
        };
        match options.open(&path) {
            Ok(file) => Ok(PageFile { file, path, bare: !existed }),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(Failure {
                class: FailureClass::Usage,
                error: format!("{} exists", path.display()),
                hint: Some("choose another name for --html, or add --force to overwrite it".into()),
            }),
            Err(e) => Err(Failure {
                class: FailureClass::Input,
                error: format!("cannot write the page to {}: {e}", path.display()),
                hint: Some("choose a writable place for --html".into()),
            }),
        }
    }

    /// Write the page.
    ///
    /// # Errors
    /// The file cannot be written (class internal).
    pub fn write(&mut self, page: &str) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            // Pipes and devices have no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            (&self.file).write_all(page.as_bytes())
        };
        write().map_err(|e| Failure {
            class: FailureClass::Internal,
            error: format!("cannot write the page to {}: {e}", self.path.display()),
            hint: Some("is the disk full?".into()),
        })?;
        self.bare = false;
        Ok(())
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if self.bare {
            // What cannot be removed is an empty file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_overwritten_unasked_or_left_behind_empty() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        drop(PageFile::claim(&path, false).unwrap());
        assert!(!path.exists());

        PageFile::claim(&path, false).unwrap().write("a long old page").unwrap();
        assert_eq!(PageFile::claim(&path, false).unwrap_err().class, FailureClass::Usage);
        drop(PageFile::claim(&path, true).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a long old page");
        PageFile::claim(&path, true).unwrap().write("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(PageFile::claim(dir.path(), true).unwrap_err().class, FailureClass::Input);
    }
}
