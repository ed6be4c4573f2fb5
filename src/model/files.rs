//! Small files of a checkpoint, read with a limit: what is in a directory came from anywhere.

use std::{
    fs::File,
    io::{Error, ErrorKind, Read, Result},
    path::Path,
};

/// Largest configuration file that is read, in bytes.
pub const CONFIG: u64 = 16 << 20;

/// Largest tokenizer or weight index that is read, in bytes.
pub const TABLE: u64 = 256 << 20;

/// The bytes of an ordinary file of at most `most` bytes.
///
/// # Errors
/// Those of reading; [`ErrorKind::InvalidInput`] for what is no file (a directory, a device, a pipe),
/// [`ErrorKind::FileTooLarge`] for what is larger.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>> {
    // Asked of the path: opening a pipe would wait for its other end.
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a file"));
    }
    let too_large = || {
        Error::new(ErrorKind::FileTooLarge, format!("larger than {} MiB, which no such file is", most >> 20))
    };
    if about.len() > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// As [`read`], as text.
///
/// # Errors
/// As of [`read`]; [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_a_sensible_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!((text(&path, 5).unwrap().as_str(), read(&path, 4).is_err()), ("12345", true));
        assert!(read(dir.path(), 9).is_err() && read(&dir.path().join("no"), 9).is_err());
        std::fs::write(&path, [0xff]).unwrap();
        assert!(text(&path, 9).is_err());
        #[cfg(target_os = "linux")]
        assert!(read(Path::new("/dev/zero"), 9).is_err());
    }
}
