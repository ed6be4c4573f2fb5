//! The index of the library.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use specreel_client::{dirs::Dirs, moments::MomentFinder};
use specreel_library::IndexFile;
use specreel_record::{Failure, Started};

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

/// What an index keeps about the run that wrote a caption.
pub fn made(started: &Started) -> Map<String, Value> {
    let made = [("target", started.target.clone().into()), ("method", started.method["name"].clone())];
    made.map(|(key, value): (&str, Value)| (key.to_owned(), value)).into_iter().collect()
}
