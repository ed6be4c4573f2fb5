//! Small files that a user names.

use std::path::{Path, PathBuf};

use specreel_record::Failure;

/// The bytes of a file of at most `most` bytes. `what` names it in messages, such as `transcript talk.srt`; `hint` says which file is
/// meant. Fails (class input) if it cannot be read, or is larger.
pub fn read_user_file(file: &Path, what: &str, most: u64, hint: &str) -> Result<Vec<u8>, Failure> {
    let failed = |error: String| Failure::input(format!("{what}: {error}"), hint);
    let facts = std::fs::metadata(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed("no such file".into()),
        _ => failed(error.to_string()),
    })?;
    if facts.is_dir() {
        return Err(failed("it is a directory".into()));
    }
    if facts.len() > most {
        return Err(failed(format!("it is longer than {} MiB", most >> 20)));
    }
    std::fs::read(file).map_err(|error| failed(error.to_string()))
}

/// The TOML files of a directory, by name; none if it cannot be read.
pub fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    files.sort();
    files
}
