//! The output file of `--png`: checked before anything runs, and written atomically.

use std::fs;

use tempfile::NamedTempFile;

use super::*;

const PICTURE: Named = Named { flag: "--png", what: "the picture to ", on_failure: CHECK_DISK };

/// Extensions of other picture formats.
const OTHERS: [&str; 9] = ["jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "svg", "avif"];

/// A path for a picture; nothing is there until [`PngFile::write`].
#[derive(Debug)]
pub struct PngFile {
    path: PathBuf,
    force: bool,
}

impl PngFile {
    /// Check that a picture can be written there; with `force`, also over an existing file. Fails if it exists (class usage),
    /// is not a file that can be replaced, or its directory is not writable (class input).
    pub fn claim(path: &Path, force: bool) -> Result<PngFile, Failure> {
        let refuse = |what: &str| Err(PICTURE.unwritable(path, &what));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
        if OTHERS.contains(&extension.as_str()) {
            return Err(Failure::usage(
                format!("--png writes PNG, but the extension of {} is of another format", path.display()),
                format!("use --png {}", path.with_extension("png").display()),
            ));
        }
        // A symbolic link is followed: its target is replaced, not the link.
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&whole) {
            Ok(m) if m.is_dir() => return refuse("it is a directory"),
            Ok(m) if !m.is_file() => return refuse("it is a pipe or device, not a file"),
            Ok(_) if !force => return Err(PICTURE.exists(path)),
            Ok(m) if m.permissions().readonly() => return refuse("it is write-protected"),
            _ => {}
        }
        let Some(folder) = whole.parent().filter(|_| whole.file_name().is_some()) else {
            return refuse("it has no file name");
        };
        let file = PngFile { path: whole.clone(), force };
        file.temporary(folder).map_err(|e| PICTURE.unwritable(path, &e))?;
        Ok(file)
    }

    /// A file in this directory that is removed unless it is persisted.
    fn temporary(&self, folder: &Path) -> io::Result<NamedTempFile> {
        // An empty parent is the current directory.
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        tempfile::Builder::new()
            .prefix(".specreel")
            .suffix(".part")
            .permissions(permissions())
            .tempfile_in(folder)
            // The crate adds the path of the temporary file, which means nothing to a user.
            .map_err(|e| {
                io::Error::new(e.kind(), e.to_string().split(" at path ").next().unwrap_or_default())
            })
    }

    /// Write a temporary file in the same directory, then rename it. Fails if the disk is full or fails (class internal), or
    /// another program has created the file meanwhile (class usage).
    pub fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let mut file = self.temporary(self.path.parent().unwrap_or(Path::new(".")))?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            let persisted = match self.force {
                true => file.persist(&self.path),
                false => file.persist_noclobber(&self.path),
            };
            persisted.map(drop).map_err(|e| e.error)
        };
        write().map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => PICTURE.exists(&self.path),
            _ => PICTURE.broken(&self.path, &e),
        })
    }
}

/// Those of an ordinary new file, which the umask restricts.
fn permissions() -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_record::FailureClass;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn existing_pictures_need_force_and_nothing_else_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        drop(PngFile::claim(&path, false).unwrap());
        assert!(names(dir.path()).is_empty());
        PngFile::claim(&path, false).unwrap().write(b"old").unwrap();
        assert_eq!(PngFile::claim(&path, false).unwrap_err().class, FailureClass::Usage);
        drop(PngFile::claim(&path, true).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        PngFile::claim(&path, true).unwrap().write(b"new").unwrap();
        assert_eq!((fs::read(&path).unwrap(), names(dir.path())), (b"new".to_vec(), vec!["a.png".into()]));
    }

    #[test]
    fn a_file_created_meanwhile_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let file = PngFile::claim(&path, false).unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert_eq!(file.write(b"ours").unwrap_err().class, FailureClass::Usage);
        assert_eq!((fs::read(&path).unwrap(), names(dir.path()).len()), (b"theirs".to_vec(), 1));
    }

    #[test]
    fn paths_that_are_not_writable_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (path, part) in [
            (dir.path().to_owned(), "it is a directory"),
            (dir.path().join("no/a.png"), "No such file"),
            ("/dev/null".into(), "it is a pipe or device"),
            ("..".into(), "it is a directory"),
        ] {
            let failure = PngFile::claim(&path, true).unwrap_err();
            assert_eq!(failure.class, FailureClass::Input);
            assert!(failure.error.contains(part), "{}", failure.error);
        }
    }

    #[test]
    fn other_picture_formats_are_refused() {
        let failure = PngFile::claim(Path::new("seen.JPG"), true).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(failure.hint.unwrap().contains("--png seen.png"));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("a.png"), dir.path().join("b.png"));
        fs::write(&path, b"old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        PngFile::claim(&link, true).unwrap().write(b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
