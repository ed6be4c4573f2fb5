//! Files: what identifies them, reads at a position, locks, links, and what their errors mean.

use std::{
    fs::{File, Metadata, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// What identifies a file while it is open: its volume and its number there. Names and contents do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(u64, u64);

/// The identity of an open file.
pub fn identity(file: &File) -> io::Result<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        file.metadata().map(|facts| Identity(facts.dev(), facts.ino()))
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;
        use windows_sys::Win32::Storage::FileSystem::{
            BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle,
        };
        let mut facts = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the handle is open, and the pointer is to memory for the structure that the call fills.
        match unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut facts) } {
            0 => Err(io::Error::last_os_error()),
            _ => {
                let number = u64::from(facts.nFileIndexHigh) << 32 | u64::from(facts.nFileIndexLow);
                Ok(Identity(facts.dwVolumeSerialNumber.into(), number))
            }
        }
    }
}

/// The identity of what a path leads to.
pub fn identity_at(path: &Path) -> io::Result<Identity> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(path).map(|facts| Identity(facts.dev(), facts.ino()))
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        use windows_sys::Win32::Storage::FileSystem::FILE_FLAG_BACKUP_SEMANTICS;
        // Asks for no access, and may open a directory.
        let mut options = File::options();
        options.access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
        identity(&options.open(path)?)
    }
}

/// True if this path is still the opened file: it was neither removed nor replaced.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let opened = identity(file)?;
    Ok(identity_at(path).is_ok_and(|now| now == opened))
}

/// What changes with every change of a file besides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number on its volume; on Windows when it was made.
    pub number: u64,
    /// Seconds and nanoseconds since 1970 of the last change of its contents, as anybody may set it.
    pub modified: (i64, i64),
    /// The same of its contents or attributes, by the system's clock; on Windows as `modified`.
    pub changed: (i64, i64),
}

/// The version of a file with these facts.
pub fn version(facts: &Metadata) -> Version {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        Version {
            number: facts.ino(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }
    #[cfg(windows)]
    {
        use std::os::windows::fs::MetadataExt;
        // Counts of 100 nanoseconds since 1601.
        const TICKS: u64 = 10_000_000;
        const FROM_1601_TO_1970: i64 = 11_644_473_600;
        let ticks = facts.last_write_time();
        let written =
            ((ticks / TICKS).cast_signed() - FROM_1601_TO_1970, (ticks % TICKS * 100).cast_signed());
        Version { number: facts.creation_time(), modified: written, changed: written }
    }
}

/// Fill a buffer from this byte of a file on. [`io::ErrorKind::UnexpectedEof`] if the file ends before. The position of the file is
/// undefined afterwards.
pub fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, buffer, at);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < buffer.len() {
            let read = std::os::windows::fs::FileExt::seek_read(file, &mut buffer[done..], at + done as u64);
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Write all bytes from this byte of a file on. The position of the file is undefined afterwards.
pub fn write_all_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, at);
    #[cfg(windows)]
    {
        let mut done = 0;
        while done < bytes.len() {
            match std::os::windows::fs::FileExt::seek_write(file, &bytes[done..], at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Advise the system that a file will be read in random order, so that it does not read ahead. Does nothing on systems that take no
/// such advice.
pub fn expect_no_order(file: &File) {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    let _ = file;
}

/// Advise the system that these bytes of a file will be read soon. Does nothing on systems that take no such advice.
pub fn read_ahead(file: &File, at: u64, bytes: u64) {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        let bytes = std::num::NonZeroU64::new(bytes);
        let _ = rustix::fs::fadvise(file, at, bytes, rustix::fs::Advice::WillNeed);
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    let _ = (file, at, bytes);
}

/// Lock a file for this handle alone, until it is unlocked or closed. Other handles may still read and write it: Windows refuses that
/// within what is locked, so there the lock is of one byte that no file reaches.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    #[cfg(unix)]
    return file.try_lock();
    #[cfg(windows)]
    return windows::lock(file, windows::EXCLUSIVE | windows::AT_ONCE);
}

/// [`try_lock`] for a shared lock, which others may hold at the same time.
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    #[cfg(unix)]
    return file.try_lock_shared();
    #[cfg(windows)]
    return windows::lock(file, windows::AT_ONCE);
}

/// [`try_lock`], as soon as no other handle has it locked.
pub fn lock(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    return file.lock();
    #[cfg(windows)]
    return windows::lock(file, windows::EXCLUSIVE).map_err(io::Error::from);
}

/// [`try_lock_shared`], as soon as no other handle has it locked for itself alone.
pub fn lock_shared(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    return file.lock_shared();
    #[cfg(windows)]
    return windows::lock(file, 0).map_err(io::Error::from);
}

/// End the lock of this handle.
pub fn unlock(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    return file.unlock();
    #[cfg(windows)]
    return windows::unlock(file);
}

#[cfg(windows)]
mod windows {
    use std::{fs::File, fs::TryLockError, io, os::windows::io::AsRawHandle};

    use windows_sys::Win32::{
        Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION},
        Storage::FileSystem::{LOCKFILE_EXCLUSIVE_LOCK, LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, UnlockFileEx},
        System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0},
    };

    pub(super) const EXCLUSIVE: u32 = LOCKFILE_EXCLUSIVE_LOCK;
    pub(super) const AT_ONCE: u32 = LOCKFILE_FAIL_IMMEDIATELY;

    /// Beyond the end of every file.
    fn place() -> OVERLAPPED {
        let at = OVERLAPPED_0_0 { Offset: u32::MAX - 1, OffsetHigh: i32::MAX.cast_unsigned() };
        OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: at }, ..OVERLAPPED::default() }
    }

    pub(super) fn lock(file: &File, how: u32) -> Result<(), TryLockError> {
        let mut place = place();
        // SAFETY: the handle is open, and was not opened for overlapped use: the call has ended when it returns.
        if unsafe { LockFileEx(file.as_raw_handle(), how, 0, 1, 0, &raw mut place) } != 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error().map(i32::cast_unsigned) {
            Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Err(TryLockError::WouldBlock),
            _ => Err(TryLockError::Error(error)),
        }
    }

    pub(super) fn unlock(file: &File) -> io::Result<()> {
        let mut place = place();
        // SAFETY: as in `lock`.
        match unsafe { UnlockFileEx(file.as_raw_handle(), 0, 1, 0, &raw mut place) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

/// Make `path` another name of a file: a symbolic link to `target`, which is relative to the directory of `path`. On Windows, where
/// only administrators may make these, a second name of the same file, or a copy where the file system has no second names.
pub fn link(target: &Path, path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(target, path);
    #[cfg(windows)]
    {
        let file = path.parent().unwrap_or(Path::new("")).join(target);
        std::fs::hard_link(&file, path).or_else(|_| std::fs::copy(&file, path).map(drop))
    }
}

/// A path to an open file that needs no name in a directory; `None` where the system has none.
pub fn path_of_open(file: &File) -> Option<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        let open = Path::new("/proc/self/fd");
        open.is_dir().then(|| open.join(file.as_raw_fd().to_string()))
    }
    #[cfg(windows)]
    {
        let _ = file;
        None
    }
}

/// The permissions of a file that is not temporary: everybody may read and write it whom the user's mask allows to. `None` on Windows,
/// where files have the rights of their directory.
pub fn ordinary_permissions() -> Option<std::fs::Permissions> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(windows)]
    return None;
}

/// Bytes that an ordinary user may still write below a directory that exists; `None` if the system does not report it.
pub fn free_space(dir: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let volume = rustix::fs::statvfs(dir).ok()?;
        Some(volume.f_bavail.saturating_mul(volume.f_frsize))
    }
    #[cfg(windows)]
    {
        use std::os::windows::ffi::OsStrExt;
        use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
        let dir: Vec<u16> = std::path::absolute(dir).ok()?.as_os_str().encode_wide().chain([0]).collect();
        let mut free = 0;
        let null = std::ptr::null_mut();
        // SAFETY: the name ends with a zero; the pointer is to memory for the number that the call writes.
        let told = unsafe { GetDiskFreeSpaceExW(dir.as_ptr(), &raw mut free, null, null) };
        (told != 0).then_some(free)
    }
}

/// True for the error of symbolic links that lead back to themselves.
pub fn is_link_loop(error: &io::Error) -> bool {
    #[cfg(unix)]
    return error.raw_os_error() == Some(libc::ELOOP);
    #[cfg(windows)]
    {
        use windows_sys::Win32::Foundation::ERROR_CANT_RESOLVE_FILENAME;
        error.raw_os_error().map(i32::cast_unsigned) == Some(ERROR_CANT_RESOLVE_FILENAME)
    }
}

/// True for the error of a process, or a system, with too many open files.
pub fn is_too_many_open(error: &io::Error) -> bool {
    #[cfg(unix)]
    return matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    #[cfg(windows)]
    {
        use windows_sys::Win32::Foundation::ERROR_TOO_MANY_OPEN_FILES;
        error.raw_os_error().map(i32::cast_unsigned) == Some(ERROR_TOO_MANY_OPEN_FILES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_identity() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b] = ["a", "b"].map(|name| dir.path().join(name));
        std::fs::write(&a, "one").unwrap();
        let file = File::open(&a).unwrap();
        assert!(is_at(&file, &a).unwrap());
        std::fs::rename(&a, &b).unwrap();
        assert!(!is_at(&file, &a).unwrap(), "it has another name");
        std::fs::write(&a, "one").unwrap();
        assert!(!is_at(&file, &a).unwrap(), "another file has its name");
        assert!(identity_at(dir.path()).is_ok() && identity_at(&dir.path().join("no")).is_err());
        let [one, other] = [&a, &b].map(|path| version(&std::fs::metadata(path).unwrap()));
        assert_ne!(one, other);
    }

    #[test]
    fn bytes_are_read_and_written_where_they_are() {
        let file = tempfile::tempfile().unwrap();
        write_all_at(&file, b"abcdef", 0).unwrap();
        write_all_at(&file, b"XY", 2).unwrap();
        let mut bytes = [0; 4];
        read_exact_at(&file, &mut bytes, 1).unwrap();
        assert_eq!(&bytes, b"bXYe");
        let error = read_exact_at(&file, &mut bytes, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_lock_excludes_locks_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "one").unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        let would_block = |locked| matches!(locked, Err(TryLockError::WouldBlock));
        try_lock(&one).unwrap();
        assert!(would_block(try_lock(&other)) && would_block(try_lock_shared(&other)));
        assert_eq!(std::fs::read(&path).unwrap(), b"one", "others read it");
        write_all_at(&other, b"two", 0).unwrap();
        unlock(&one).unwrap();
        lock_shared(&one).unwrap();
        try_lock_shared(&other).unwrap();
        write_all_at(&one, b"six", 0).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"six");
        drop(other);
        unlock(&one).unwrap();
        lock(&open()).unwrap();
        try_lock(&one).unwrap();
    }

    #[test]
    fn a_link_is_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("a"), "one").unwrap();
        let link_path = dir.path().join("sub/b");
        link(&Path::new("..").join("a"), &link_path).unwrap();
        assert_eq!(std::fs::read(&link_path).unwrap(), b"one");
        assert_eq!(identity_at(&link_path).unwrap(), identity_at(&dir.path().join("a")).unwrap());
    }

    #[test]
    fn the_disk_has_space() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_space(dir.path()).is_some_and(|free| free > 0));
    }
}
