//! Free disk space.

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

/// Bytes that an unprivileged user can still write below `dir`, which need not exist yet; none if unknown.
pub fn free_space(dir: &Path) -> Option<u64> {
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let path = CString::new(existing.as_os_str().as_bytes()).ok()?;
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: the path is a C string, and the pointer is to memory for one `statvfs`, which the call fills.
    if unsafe { libc::statvfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded.
    let about = unsafe { about.assume_init() };
    #[expect(clippy::unnecessary_cast, reason = "the fields are narrower on macOS")]
    Some((about.f_bavail as u64).saturating_mul(about.f_frsize as u64))
}

#[cfg(test)]
mod tests {
    use super::free_space;

    #[test]
    fn a_missing_directory_has_the_space_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let free = free_space(dir.path()).unwrap();
        assert!(free > 0);
        assert!(free_space(&dir.path().join("a/b/c")).is_some());
    }
}
