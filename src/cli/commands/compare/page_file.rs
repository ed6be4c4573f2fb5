//! The output file of `--html`: opened before anything runs, written at the end.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::cli::output::new_file::{Named, discard_empty};
use specreel_record::Failure;

const PAGE: Named = Named { flag: "--html", what: "the page to " };

/// The file for the page. If dropped unwritten, a new file is removed and an existing one unchanged.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    path: PathBuf,
    /// It is new and still empty.
    bare: bool,
}

impl PageFile {
    /// Open the file. With `force`, an existing one is kept until it is written.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be written (class input).
    pub fn claim(path: &Path, force: bool) -> Result<PageFile, Failure> {
        let existed = path.exists();
        Ok(PageFile { file: PAGE.open(path, force, false)?, path: path.to_owned(), bare: !existed })
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
        write().map_err(|e| PAGE.broken(&self.path, &e, "check the free disk space"))?;
        self.bare = false;
        Ok(())
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if self.bare {
            discard_empty(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    #[test]
    fn existing_pages_need_force_and_no_empty_page_is_left() {
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
