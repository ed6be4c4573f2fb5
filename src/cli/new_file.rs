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
