//! The file of `--png`: tried before anything runs, and put in its place whole or not at all.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use crate::{
    cli::new_file::Named,
    record::{Failure, FailureClass},
};

const PICTURE: Named = Named { flag: "--png", what: "the picture to " };

/// Names of other kinds of pictures.
const OTHERS: [&str; 9] = ["jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "svg", "avif"];

/// A place for a picture. Until [`PngFile::write`] nothing is there that was not there before.
#[derive(Debug)]
pub struct PngFile {
    path: PathBuf,
    beside: PathBuf,
    force: bool,
}

impl PngFile {
    /// Make sure that a picture can be written there; with `force` also over what is there.
    ///
    /// # Errors
    /// It exists (class usage), is no file that can be replaced, or its folder cannot be written (class input).
    pub fn claim(path: &Path, force: bool) -> Result<PngFile, Failure> {
        let refuse = |what: &str| Err(PICTURE.unwritable(path, &what));
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
        if OTHERS.contains(&extension.as_str()) {
            return Err(Failure {
                class: FailureClass::Usage,
                error: format!("--png writes a PNG file, and {} is named as another kind", path.display()),
                hint: Some(format!("write for example --png {}", path.with_extension("png").display())),
            });
        }
        // A link is followed: what it points to is replaced, not the link.
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&whole) {
            Ok(m) if m.is_dir() => return refuse("it is a directory"),
            Ok(m) if !m.is_file() => return refuse("it is a pipe or device, not a file"),
            Ok(_) if !force => return Err(PICTURE.exists(path)),
            Ok(m) if m.permissions().readonly() => return refuse("it is write-protected"),
            _ => {}
        }
        let Some(name) = whole.file_name() else { return refuse("it has no file name") };
        let mut beside = std::ffi::OsString::from(".");
        beside.push(name);
        beside.push(format!(".{}.part", std::process::id()));
        let file = PngFile { beside: whole.with_file_name(beside), path: whole, force };
        let tried = File::create_new(&file.beside).and_then(|_| fs::remove_file(&file.beside));
        tried.map_err(|e| PICTURE.unwritable(path, &e))?;
        Ok(file)
    }

    /// Write the picture beside its place, then put it there.
    ///
    /// # Errors
    /// The disk is full or fails (class internal), or somebody else has written there meanwhile (class usage).
    pub fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            let mut file = File::create_new(&self.beside)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        let place = || match self.force {
            true => fs::rename(&self.beside, &self.path),
            // A hard link is only made where nothing is; not every file system has them.
            false => match fs::hard_link(&self.beside, &self.path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists && !self.path.exists() => {
                    fs::rename(&self.beside, &self.path)
                }
                linked => linked,
            },
        };
        let outcome = write().and_then(|()| place());
        // Gone already where it was renamed.
        let _ = fs::remove_file(&self.beside);
        outcome.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => PICTURE.exists(&self.path),
            _ => PICTURE.broken(&self.path, &e, "is the disk full?"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_is_overwritten_unasked_or_left_behind() {
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
    fn somebody_who_was_faster_keeps_their_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.png");
        let file = PngFile::claim(&path, false).unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert_eq!(file.write(b"ours").unwrap_err().class, FailureClass::Usage);
        assert_eq!((fs::read(&path).unwrap(), names(dir.path()).len()), (b"theirs".to_vec(), 1));
    }

    #[test]
    fn places_that_cannot_be_are_named() {
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
    fn another_kind_of_picture_is_refused() {
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
