//! Room on disks.

use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

/// Bytes that an ordinary user may still write below `dir`, which need not be there yet; none where the system does not tell.
pub fn free_space(dir: &Path) -> Option<u64> {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let path = CString::new(there.as_os_str().as_bytes()).ok()?;
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
    fn a_directory_that_is_not_there_yet_has_its_parents_room() {
        let dir = tempfile::tempdir().unwrap();
        let free = free_space(dir.path()).unwrap();
        assert!(free > 0);
        assert!(free_space(&dir.path().join("a/b/c")).is_some());
    }
}
