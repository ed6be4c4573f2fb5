//! Files that a flag names, and that are not overwritten unasked.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use crate::record::{Failure, FailureClass};

/// What is to be written, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The flag that names the file, such as `--save`.
    pub flag: &'static str,
    /// What is written there, such as `the session to `; empty where the path says it.
    pub what: &'static str,
}

impl Named {
    /// Open the file for writing: a new one, or with `force` also one that is there, emptied if `empty`.
    ///
    /// # Errors
    /// It exists (class usage), or cannot be written (class input).
    pub fn open(self, path: &Path, force: bool, empty: bool) -> Result<File, Failure> {
        let mut options = OpenOptions::new();
        match force {
            true => options.create(true).truncate(empty),
            false => options.create_new(true),
        };
        options.write(true).open(path).map_err(|e| match e.kind() {
            _ if path.is_dir() => self.directory(path),
            io::ErrorKind::AlreadyExists => self.exists(path),
            _ => self.unwritable(path, &e),
        })
    }

    /// It is there, and nobody said that it may go (class usage).
    pub fn exists(self, path: &Path) -> Failure {
        Failure {
            class: FailureClass::Usage,
            error: format!("{} exists", path.display()),
            hint: Some(format!("choose another name for {}, or add --force to overwrite it", self.flag)),
        }
    }

    /// A directory is in the way: no `--force` helps (class input).
    fn directory(self, path: &Path) -> Failure {
        Failure {
            class: FailureClass::Input,
            error: format!("cannot write {}{}: it is a directory", self.what, path.display()),
            hint: Some(format!("name a file in it for {}", self.flag)),
        }
    }

    /// Nothing can be written there (class input).
    pub fn unwritable(self, path: &Path, why: &dyn std::fmt::Display) -> Failure {
        Failure {
            class: FailureClass::Input,
            error: format!("cannot write {}{}: {why}", self.what, path.display()),
            hint: Some(format!("choose a writable place for {}", self.flag)),
        }
    }

    /// Writing broke off (class internal).
    pub fn broken(self, path: &Path, why: &io::Error, hint: &str) -> Failure {
        Failure {
            class: FailureClass::Internal,
            error: format!("cannot write {}{}: {why}", self.what, path.display()),
            hint: Some(hint.into()),
        }
    }
}

/// True if the disk is full, or somebody's share of it is.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// A file that was made for nothing goes again: an empty one would be in the way of the next try.
pub fn discard_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0) {
        // What cannot be removed is an empty file.
        let _ = std::fs::remove_file(path);
    }
}
