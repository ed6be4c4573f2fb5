//! The index of the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use specreel_client::{dirs::Dirs, moments::MomentFinder};
use specreel_library::IndexFile;
use specreel_record::Failure;

/// The file of the index. Fails if none is named, and there is no home directory (class usage).
pub fn file(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let default = || Dirs::find().map(|dirs| dirs.data.join("library.db"));
    named.map(Path::to_owned).or_else(default).ok_or_else(|| {
        Failure::usage("there is no home directory, so no place for the index", "name a file with --db")
    })
}

/// What looks for moments in it.
pub fn finder(named: Option<&Path>) -> Result<Arc<dyn MomentFinder>, Failure> {
    Ok(Arc::new(IndexFile(file(named)?)))
}
