//! Directories and files that only this user can read, or change.
//!
//! Prompts, captions and paths are read by the user alone: mode 0600 in directories that are made with 0700. Where a file is checked
//! first and opened later by its path, nobody else may be able to change it in between; the superuser's count as the user's own, since an
//! image of a container may bring them. Windows gives files the rights of their directory, which is the user's own there.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io,
    path::Path,
};

/// Options whose new files are private. A file that exists keeps its mode.
pub fn options() -> OpenOptions {
    #[cfg_attr(windows, expect(unused_mut, reason = "files have no modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn builder() -> DirBuilder {
    #[cfg_attr(windows, expect(unused_mut, reason = "directories have no modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Make a private directory, and those above it, where they are missing.
pub fn create_dir_all(folder: &Path) -> io::Result<()> {
    builder().recursive(true).create(folder)
}

/// True if a directory belongs to the owner of another one; not through links.
pub fn is_same_user(path: &Path, own: &Path) -> bool {
    let facts = |path: &Path| fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        facts(path).is_some_and(|found| facts(own).is_some_and(|own| found.uid() == own.uid()))
    }
    #[cfg(windows)]
    return facts(path).is_some() && facts(own).is_some();
}

/// Make a directory that only this user can write, in a directory that exists. Fails if there is another user's, a link or a file
/// of this name, or others could rename what is in the parent.
pub fn directory(path: &Path) -> io::Result<()> {
    // One that is there may be on a read-only file system.
    if let Err(error) = builder().create(path)
        && fs::symlink_metadata(path).is_err()
    {
        return Err(error);
    }
    check(path)
}

#[cfg(unix)]
fn check(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    let refuse = |why: &str| {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{}: {why}", path.display())))
    };
    // Not what a link leads to.
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return refuse("not a directory");
    }
    if !is_trusted(found.uid()) {
        return refuse("it belongs to another user");
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if is_open(fs::metadata(parent)?.mode()) {
        return refuse("everybody can replace it");
    }
    // Of an earlier version, or made by the user.
    if found.mode() & OTHERS_WRITE != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(found.mode() & 0o777 & !OTHERS_WRITE))?;
    }
    Ok(())
}

#[cfg(windows)]
fn check(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)?.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// True for a regular file that only this user can change.
pub fn is_file(path: &Path) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        if !is_trusted(found.uid()) || found.mode() & OTHERS_WRITE != 0 {
            return false;
        }
    }
    found.is_file()
}

/// The name of this user's directory in the temporary directory, which may be everybody's.
pub fn user_directory() -> String {
    #[cfg(unix)]
    return format!("specreel-{}", rustix::process::geteuid().as_raw());
    #[cfg(windows)]
    return "specreel".into();
}

#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o022;

#[cfg(unix)]
fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// True for a directory in which everybody can rename everything.
#[cfg(unix)]
fn is_open(mode: u32) -> bool {
    const STICKY: u32 = 0o1000;
    mode & 0o002 != 0 && mode & STICKY == 0
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_directory_is_made_for_this_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        for _ in 0..2 {
            directory(&own).unwrap();
            assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
            // Open to a group, as of an earlier version.
            chmod(&own, 0o720);
        }
    }

    #[test]
    fn what_others_may_have_made_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [theirs, link, file] = ["theirs", "link", "file"].map(|name| dir.path().join(name));
        fs::create_dir(&theirs).unwrap();
        symlink(&theirs, &link).unwrap();
        fs::write(&file, b"").unwrap();
        assert!(directory(&link).is_err() && directory(&file).is_err());
        assert!(directory(&dir.path().join("none/own")).is_err());
        // Only the superuser can give a directory away.
        if rustix::process::geteuid().is_root() {
            chown(&theirs, Some(12345), None).unwrap();
            let error = directory(&theirs).unwrap_err().to_string();
            assert!(error.ends_with("theirs: it belongs to another user"), "{error}");
        }
        assert!(is_trusted(0) && is_trusted(rustix::process::geteuid().as_raw()) && !is_trusted(12345));
        // As /tmp, but without its sticky bit.
        chmod(dir.path(), 0o1777);
        directory(&dir.path().join("own")).unwrap();
        chmod(dir.path(), 0o777);
        assert!(directory(&dir.path().join("own")).is_err());
    }

    #[test]
    fn files_of_others_and_links_are_no_files() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&file, b"").unwrap();
        symlink(&file, &link).unwrap();
        chmod(&file, 0o644);
        assert!(
            is_file(&file) && !is_file(&link) && !is_file(dir.path()) && !is_file(&dir.path().join("none"))
        );
        chmod(&file, 0o664);
        assert!(!is_file(&file));
    }
}
