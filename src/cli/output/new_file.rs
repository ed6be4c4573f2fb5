//! Output files that a flag names; existing ones are only overwritten with `--force`.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
};

use specreel_record::{Failure, FailureClass};

/// A kind of output file, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The flag that names the file, such as `--save`.
    pub flag: &'static str,
    /// What is written, such as `the session to `; empty if the path says it.
    pub what: &'static str,
}

impl Named {
    /// Open the file for writing: a new one, or with `force` an existing one, truncated if `empty`.
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

    /// The file exists, and `--force` is missing (class usage).
    pub fn exists(self, path: &Path) -> Failure {
        Failure {
            class: FailureClass::Usage,
            error: format!("{} already exists", path.display()),
            hint: Some(format!("choose another path for {}, or add --force to overwrite it", self.flag)),
        }
    }

    /// The path is a directory (class input).
    fn directory(self, path: &Path) -> Failure {
        Failure {
            class: FailureClass::Input,
            error: format!("cannot write {}{}: it is a directory", self.what, path.display()),
            hint: Some(format!("give {} a file in that directory", self.flag)),
        }
    }

    /// The file cannot be written (class input).
    pub fn unwritable(self, path: &Path, why: &dyn std::fmt::Display) -> Failure {
        Failure {
            class: FailureClass::Input,
            error: format!("cannot write {}{}: {why}", self.what, path.display()),
            hint: Some(format!("choose a writable path for {}", self.flag)),
        }
    }

    /// Writing failed (class internal).
    pub fn broken(self, path: &Path, why: &io::Error, hint: &str) -> Failure {
        Failure {
            class: FailureClass::Internal,
            error: format!("cannot write {}{}: {why}", self.what, path.display()),
            hint: Some(hint.into()),
        }
    }
}

/// True if the disk, or the user's quota of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Remove an output file that stayed empty: it would be refused as existing the next time.
pub fn discard_empty(path: &Path) {
    if std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() == 0) {
        // If that fails, an empty file stays: no harm.
        let _ = std::fs::remove_file(path);
    }
}
