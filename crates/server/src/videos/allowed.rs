//! Files below the allowed directories.

use std::path::{Path, PathBuf};

use axum::http::StatusCode;
use percent_encoding::percent_decode_str;

use super::{short, strip};
use crate::error::ApiError;
use specreel_os::names::path_of_url;
use specreel_record::Failure;

/// Directories whose files requests may name, without symbolic links in their paths.
pub(super) struct AllowedDirs(Vec<PathBuf>);

impl AllowedDirs {
    /// Fails for a path that is not a directory (class usage).
    pub fn new(dirs: &[PathBuf]) -> Result<Self, Failure> {
        let real = |dir: &PathBuf| {
            let found = std::fs::canonicalize(dir).and_then(|real| real.read_dir().map(|_| real));
            found.map_err(|e| {
                let error = format!("--allow-dir {}: {e}", dir.display());
                Failure::usage(error, "pass a directory that can be read")
            })
        };
        dirs.iter().map(real).collect::<Result<_, _>>().map(Self)
    }

    /// The file of a path or `file:` URL, absolute or relative to an allowed directory. What is missing and what is elsewhere is
    /// refused with the same words, so that nobody learns which files exist.
    pub fn find(&self, named: &str) -> Result<PathBuf, ApiError> {
        let refuse = |message: String| ApiError::new(StatusCode::BAD_REQUEST, "video_not_found", message);
        if self.0.is_empty() {
            return Err(refuse(format!(
                "{}: this server reads no files by path; upload the file, or start the server with --allow-dir DIR",
                short(named)
            )));
        }
        let path = match strip(named, "file://") {
            Some(rest) => path_of_url(&percent_decode_str(rest).decode_utf8_lossy()),
            None => named.into(),
        };
        self.0.iter().find_map(|dir| below(dir, &path)).ok_or_else(|| {
            refuse(format!("{}: no such file below the directories that this server allows", short(named)))
        })
    }
}

/// The real path of a file, if it is below a directory once all links are resolved.
fn below(dir: &Path, path: &Path) -> Option<PathBuf> {
    let real = std::fs::canonicalize(dir.join(path)).ok()?;
    (real.starts_with(dir) && real.is_file()).then_some(real)
}
