//! Reading the small files of a checkpoint, with a size limit: a downloaded directory is not trusted.

use std::{
    fs::File,
    io::{Error, ErrorKind, Read, Result},
    path::Path,
};

/// Size limit of a configuration file, in bytes.
pub const CONFIG: u64 = 16 << 20;

/// Size limit of a tokenizer or weight index, in bytes.
pub const TABLE: u64 = 256 << 20;

/// The bytes of a regular file of at most `limit` bytes. [`ErrorKind::InvalidInput`] if it is not a regular file (a directory, a
/// device, a pipe), [`ErrorKind::FileTooLarge`] if it is larger.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    // Asked of the path: opening a pipe would wait for its other end.
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let too_large =
        || Error::new(ErrorKind::FileTooLarge, format!("larger than the limit of {} MiB", limit >> 20));
    if about.len() > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok(bytes) }
}

/// The text of a regular file of at most `limit` bytes. [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn text(path: &Path, limit: u64) -> Result<String> {
    String::from_utf8(read(path, limit)?).map_err(|_| Error::new(ErrorKind::InvalidData, "not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
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
