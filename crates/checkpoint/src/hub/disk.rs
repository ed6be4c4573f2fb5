//! Directories of a disk, and its free space.

use std::{fs, path::Path};

/// Bytes that an ordinary user may still write below `dir`, which need not exist yet; `None` if the system does not report it.
pub fn free_space(dir: &Path) -> Option<u64> {
    let existing = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    specreel_os::file::free_space(existing)
}

/// Names of a directory's entries, sorted; empty if it cannot be read.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
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
