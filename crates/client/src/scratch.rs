//! Temporary directories that do not outlive their process for long.
//!
//! A directory is removed with its [`Scratch`], or by [`remove_all`] if the process exits immediately.
//! Directories that a killed process leaves behind are removed by the next process that creates one. A lock
//! shows whether their process is alive, because the system releases it however a process ends. A process id
//! would not: another process may have it by now.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::{io, time::Duration};

use specreel_os as os;

/// How the names of all these directories begin.
const PREFIX: &str = "specreel-";
/// The locked file in each of them.
const LOCK: &str = ".specreel-lock";

/// The directories of this process.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary directory that only the user can read.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The lock is held as long as this is open.
    _lock: File,
}

impl Scratch {
    /// Make a directory for this purpose, and remove those whose processes have ended without doing so.
    pub fn new(purpose: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), purpose)
    }

    fn new_in(parent: &Path, purpose: &str) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix(&format!("{PREFIX}{purpose}-")).tempdir_in(parent)?;
        // Under another name until it is locked: nobody finds the lock of a living process free.
        let unlocked = dir.path().join(".unlocked");
        let lock = File::create_new(&unlocked)?;
        // Where files cannot be locked, no directory is taken for a dead process's.
        let _ = os::file::try_lock(&lock);
        fs::rename(&unlocked, dir.path().join(LOCK))?;
        remove_dead(parent, dir.path());
        let path = dir.keep();
        own().push(path.clone());
        Ok(Self { path, _lock: lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn remove(&self) -> io::Result<()> {
        own().retain(|path| *path != self.path);
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

/// Remove all directories of this process, which ends at once. A stalled disk is waited for no longer than this; the next process
/// then does it.
pub fn remove_all(most: Duration) {
    let paths = std::mem::take(&mut *own());
    if paths.is_empty() {
        return;
    }
    let (done, wait) = mpsc::sync_channel(1);
    let work = move || {
        for path in paths {
            let _ = fs::remove_dir_all(path);
        }
        let _ = done.send(());
    };
    if std::thread::Builder::new().name("scratch".into()).spawn(work).is_ok() {
        let _ = wait.recv_timeout(most);
    }
}

fn own() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Remove the directories in `parent` whose processes have ended, of the user who owns `own`.
fn remove_dead(parent: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path != own) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(PREFIX) || !os::private::is_same_user(&path, own) {
            continue;
        }
        // One without a lock is no scratch directory, or not yet.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if os::file::try_lock(&lock).is_ok()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(%error, dir = %path.display(), "cannot remove the directory of an earlier process");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let new = || Scratch::new_in(parent.path(), "test").unwrap();
        let living = new();
        fs::write(living.path().join("video"), "x").unwrap();
        // A killed process leaves its directory, and its lock is free.
        let dead = new();
        fs::write(dead.path().join("video"), "x").unwrap();
        let left = dead.path().to_owned();
        let Scratch { _lock: lock, .. } = &dead;
        os::file::unlock(lock).unwrap();
        // Others that look like it.
        let [plain, elsewhere] = ["specreel-plain", "elsewhere"].map(|name| parent.path().join(name));
        for dir in [&plain, &elsewhere] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(elsewhere.join(LOCK), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&elsewhere, parent.path().join("specreel-link")).unwrap();
        let next = new();
        assert!(!left.exists(), "the dead one's");
        for kept in [living.path(), next.path(), &plain, &elsewhere] {
            assert!(kept.exists(), "{}", kept.display());
        }
        assert_eq!(fs::read(living.path().join("video")).unwrap(), b"x");
        let path = next.path().to_owned();
        drop(next);
        assert!(!path.exists());
        living.remove().unwrap();
        assert!(!living.path().exists());
        living.remove().unwrap();
    }
}
