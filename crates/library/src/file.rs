//! Identifies videos: by a stamp at a path, and by contents after a file was moved or copied.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use twox_hash::XxHash3_128;

/// Bytes read at each sampled place of a file.
const BLOCK: usize = 64 << 10;
/// Number of sampled places: the beginning, the end, and between them.
const PLACES: u64 = 16;

/// An absolute path without `..`, so that it does not leave a directory that it begins with.
pub fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match absolute.components().any(|part| part == Component::ParentDir) {
        true => std::fs::canonicalize(&absolute).unwrap_or(absolute),
        false => absolute,
    }
}

/// Size and modification time of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// In bytes.
    pub size: u64,
    /// In milliseconds since 1970.
    pub modified_ms: i64,
}

impl Stamp {
    pub fn of(path: &Path) -> io::Result<Self> {
        let facts = std::fs::metadata(path)?;
        let modified = facts.modified()?;
        let ms = match modified.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        };
        Ok(Self { size: facts.len(), modified_ms: ms })
    }
}

/// A hash of a file's size and of evenly spread parts of its contents. Files of up to 1 MiB are read
/// completely.
pub fn fingerprint(path: &Path) -> io::Result<[u8; 16]> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = size.to_le_bytes().to_vec();
    let block = BLOCK as u64;
    if size <= PLACES * block {
        file.read_to_end(&mut bytes)?;
    } else {
        for place in 0..PLACES {
            file.seek(SeekFrom::Start((size - block) * place / (PLACES - 1)))?;
            (&mut file).take(block).read_to_end(&mut bytes)?;
        }
    }
    Ok(XxHash3_128::oneshot(&bytes).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_apart_and_found_again_elsewhere() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            fingerprint(&path).unwrap()
        };
        let small = write("a", b"one");
        assert_eq!(small, write("b", b"one"));
        assert_ne!(small, write("c", b"two"));
        let mut large: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let first = write("d", &large);
        assert_eq!(first, write("e", &large));
        *large.last_mut().unwrap() ^= 1;
        assert_ne!(first, write("f", &large));
        large.push(0);
        assert_ne!(first, write("g", &large));
    }
}
