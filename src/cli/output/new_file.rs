//! Output files that a flag names; existing ones are only overwritten with `--force`.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use specreel_client::private;
use specreel_record::Failure;

/// A kind of output file, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The flag that names the file, such as `--save`.
    pub flag: &'static str,
    /// What is written, such as `the session to `; empty if the path says it.
    pub what: &'static str,
    /// What to do when a write fails: the hint of that error.
    pub on_failure: &'static str,
    /// The user alone reads a new file.
    pub private: bool,
}

/// The hint after a failed write of a file that is written as a whole.
pub const CHECK_DISK: &str = "check the free disk space";

impl Named {
    /// Open the file for writing: a new one, or with `force` an existing one, truncated if `empty`. Fails if it exists (class
    /// usage), or cannot be written (class input).
    pub fn open(self, path: &Path, force: bool, empty: bool) -> Result<File, Failure> {
        let mut options = if self.private { private::options() } else { OpenOptions::new() };
        if force {
            options.create(true).truncate(empty)
        } else {
            options.create_new(true)
        };
        let file = options.write(true).open(path).map_err(|e| match e.kind() {
            _ if path.is_dir() => self.directory(path),
            io::ErrorKind::AlreadyExists => self.exists(path),
            io::ErrorKind::NotFound => self.no_directory(path),
            _ => self.unwritable(path, &e),
        })?;
        // Says that the file is in use, see `OutputFile::drop`. Pipes and some file systems have no locks.
        let _ = specreel_os::file::try_lock_shared(&file);
        Ok(file)
    }

    /// The file exists, and `--force` is missing (class usage).
    pub fn exists(self, path: &Path) -> Failure {
        Failure::usage(
            format!("{} already exists", path.display()),
            format!("choose another path for {}, or add --force to overwrite it", self.flag),
        )
    }

    /// The path is a directory (class input).
    fn directory(self, path: &Path) -> Failure {
        Failure::input(
            format!("cannot write {}{}: it is a directory", self.what, path.display()),
            format!("give {} a file in that directory", self.flag),
        )
    }

    /// The file's directory does not exist (class input).
    fn no_directory(self, path: &Path) -> Failure {
        let folder = path.parent().unwrap_or(path).display();
        Failure::input(
            format!("cannot write {}{}: no directory {folder}", self.what, path.display()),
            format!("create it, or choose another path for {}", self.flag),
        )
    }

    /// The file cannot be written (class input).
    pub fn unwritable(self, path: &Path, why: &dyn std::fmt::Display) -> Failure {
        Failure::input(
            format!("cannot write {}{}: {why}", self.what, path.display()),
            format!("choose a writable path for {}", self.flag),
        )
    }

    /// Writing failed (class internal).
    pub fn broken(self, path: &Path, why: &io::Error) -> Failure {
        Failure::internal(format!("cannot write {}{}: {why}", self.what, path.display()), self.on_failure)
    }
}

/// An output file. A new one is removed if it stays empty.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    named: Named,
    path: PathBuf,
    /// It did not exist before.
    new: bool,
}

impl OutputFile {
    /// Create the file; with `force`, replace an existing one.
    pub fn create(named: Named, path: &Path, force: bool) -> Result<Self, Failure> {
        let new = !path.exists();
        Ok(Self { file: named.open(path, force, true)?, named, path: path.into(), new })
    }

    /// Append to an existing file after its first bytes; what follows them is cut off.
    pub fn resume(named: Named, path: &Path, bytes: u64) -> Result<Self, Failure> {
        let mut file = named.open(path, true, false)?;
        let cut = file.set_len(bytes).and_then(|()| file.seek(io::SeekFrom::End(0)));
        cut.map_err(|e| named.unwritable(path, &e))?;
        Ok(Self { file, named, path: path.into(), new: false })
    }

    /// Open the file. With `force`, an existing one is kept until [`OutputFile::replace`].
    pub fn claim(named: Named, path: &Path, force: bool) -> Result<Self, Failure> {
        let new = !path.exists();
        Ok(Self { file: named.open(path, force, false)?, named, path: path.into(), new })
    }

    /// Append in one write, so that a crash loses at most this.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file.write_all(bytes).map_err(|e| self.named.broken(&self.path, &e))
    }

    /// Replace the existing file. Fails if the file cannot be written (class internal).
    pub fn replace(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            // Pipes and devices have no length.
            if self.file.metadata()?.is_file() {
                self.file.set_len(0)?;
            }
            (&self.file).write_all(bytes)
        };
        write().map_err(|e| self.named.broken(&self.path, &e))
    }

    pub fn finish(&mut self) -> Result<(), Failure> {
        match self.file.sync_all() {
            // Pipes and devices cannot be synced and need not be.
            Err(e) if e.kind() != io::ErrorKind::InvalidInput && e.kind() != io::ErrorKind::Unsupported => {
                Err(self.named.broken(&self.path, &e))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        let is_empty = |path: &Path| std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() == 0);
        // Another process may have opened it meanwhile, with --force.
        if self.new && is_empty(&self.path) && specreel_os::file::try_lock(&self.file).is_ok() {
            // It would be refused as existing the next time. If this fails, an empty file stays: no harm.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    const NAMED: Named = Named { flag: "--save", what: "the run to ", on_failure: CHECK_DISK, private: true };

    #[test]
    fn lines_are_written_at_once_and_existing_files_need_force() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.jsonl");
        let mut file = OutputFile::create(NAMED, &path, false).unwrap();
        file.append(b"one\n").unwrap();
        file.append(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        file.finish().unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }

        let other = dir.path().join("other.jsonl");
        drop(OutputFile::create(NAMED, &other, false).unwrap());
        assert!(!other.exists());
        std::fs::write(&other, "").unwrap();
        drop(OutputFile::create(NAMED, &other, true).unwrap());
        assert!(other.exists());
        // What another one writes to stays.
        std::fs::remove_file(&other).unwrap();
        let [first, mut second] = [(); 2].map(|()| OutputFile::create(NAMED, &other, true).unwrap());
        drop(first);
        second.append(b"more").unwrap();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "more");

        let failure = OutputFile::create(NAMED, &path, false).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().contains("--save"));
        OutputFile::create(NAMED, &path, true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
        assert_eq!(OutputFile::create(NAMED, dir.path(), true).unwrap_err().class, FailureClass::Input);
    }

    #[test]
    fn claimed_files_need_force_and_are_kept_until_they_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.html");
        let claim = |path: &Path, force| OutputFile::claim(NAMED, path, force);
        drop(claim(&path, false).unwrap());
        assert!(!path.exists());

        claim(&path, false).unwrap().replace(b"a long old page").unwrap();
        assert_eq!(claim(&path, false).unwrap_err().class, FailureClass::Usage);
        drop(claim(&path, true).unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a long old page");
        claim(&path, true).unwrap().replace(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(claim(dir.path(), true).unwrap_err().class, FailureClass::Input);
    }
}
