//! What is in the cache, for people.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    ENDING, SOURCES,
    file::CacheFile,
    source::{Sources, Standing},
};

/// A file of kept weights.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheEntry {
    pub id: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub last_used: SystemTime,
    /// What it contains.
    pub state: EntryState,
    /// What became of the checkpoint.
    pub checkpoint: Standing,
}

/// What a file of kept weights contains.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryState {
    /// Weights of a model, in these types.
    Usable { model: String, variant: String },
    /// It is replaced when it is needed.
    Unusable(String),
}

impl CacheEntry {
    /// Read the index of a file; `None` if it is not one of kept weights.
    pub(super) fn read(path: &Path) -> Option<Self> {
        if path.extension()? != ENDING {
            return None;
        }
        let about = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        let (state, checkpoint) = match CacheFile::open(path) {
            Ok(CacheFile { index, hash, .. }) => {
                let sources = Sources::read(&path.with_extension(SOURCES), hash);
                (EntryState::Usable { model: index.model, variant: index.variant }, sources.standing())
            }
            Err(problem) => (EntryState::Unusable(problem), Standing::Unknown),
        };
        Some(Self {
            id: path.file_stem()?.to_string_lossy().into_owned(),
            path: path.to_owned(),
            bytes: about.len(),
            last_used: about.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            state,
            checkpoint,
        })
    }

    /// True if this is its model, or the beginning of its id.
    pub fn is_named(&self, name: &str) -> bool {
        let model = match &self.state {
            EntryState::Usable { model, .. } => model.as_str(),
            EntryState::Unusable(_) => "",
        };
        !name.is_empty() && (model == name || self.id.starts_with(name))
    }

    /// Read all weights and compare them with their hashes.
    pub fn verify(&self) -> Result<(), String> {
        CacheFile::open(&self.path)?.verify()
    }
}
