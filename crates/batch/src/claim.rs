//! A claim on a clip: a locked file, so that two processes never caption the same clip.
//!
//! The system releases the lock of a process that ends, however it ends, so a claim cannot be stale; the file that is left
//! behind is taken over by the next claim.

use std::fs::TryLockError;

use super::*;
use specreel_os::file::{is_at, try_lock};

/// So often a directory may vanish before a file in it is opened.
const ATTEMPTS: usize = 100;

#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    /// Claim a path; `None` if another process, or another claim of this one, has it. The directory is created.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = open_below(path, OpenOptions::new().create(true).truncate(false).write(true))?;
            match try_lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                // A file system without locks: one process at a time is up to the user.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    tracing::warn!(path = %path.display(), "this file system has no locks");
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Its owner may have removed it between opening and locking.
            if is_at(&file, path)? {
                return Ok(Some(Self { path: path.to_owned(), _file: file }));
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // While it is locked, so that it is not the file of another claim.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Open a file in a directory that is created. Another process may remove the directory in between, as it was empty.
pub(super) fn open_below(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    for _ in 0..ATTEMPTS {
        if let Some(folder) = folder {
            match std::fs::create_dir_all(folder) {
                // It was there, and then it was not.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_dir_or_gone(folder) => {
                    continue;
                }
                made => made?,
            }
        }
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    options.open(path)
}

/// True unless something else than a directory is there.
fn is_dir_or_gone(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |facts| facts.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_excludes_others_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("claims/a.lock");
        let claim = Claim::take(&path).unwrap().unwrap();
        assert!(Claim::take(&path).unwrap().is_none());
        drop(claim);
        assert!(!path.exists());
        // One that a killed process left behind.
        std::fs::write(&path, "").unwrap();
        assert!(Claim::take(&path).unwrap().is_some());
        assert!(!path.exists());
    }

    #[test]
    fn many_threads_share_clips_without_doing_one_twice() {
        let dir = tempfile::tempdir().unwrap();
        let work = || {
            for clip in 0..50 {
                let done = dir.path().join(format!("{clip}.txt"));
                // The directory of the claims is removed whenever it is empty.
                let _ = std::fs::remove_dir(dir.path().join("claims"));
                let Some(_claim) = Claim::take(&dir.path().join(format!("claims/{clip}.lock"))).unwrap()
                else {
                    continue;
                };
                if !done.exists() {
                    let mut file = OpenOptions::new().append(true).create(true).open(&done).unwrap();
                    io::Write::write_all(&mut file, b"x").unwrap();
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        work();
        std::fs::remove_dir(dir.path().join("claims")).unwrap();
        for clip in 0..50 {
            assert_eq!(std::fs::read(dir.path().join(format!("{clip}.txt"))).unwrap(), b"x");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 50);
    }
}
