//! What identifies a checkpoint: a cheap id, and the state of its files.

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::FORMAT;
use crate::{files, shard::Shard};
use specreel_os::file::{Version, version};
use specreel_tensor::{CheckpointError, cpu::kernels::Weights8};

/// Age from which a file's times distinguish it from a later change: more than the resolution of any file system.
const SETTLED: Duration = Duration::from_secs(2);
/// Sources that are remembered: copies of one checkpoint.
const REMEMBERED: usize = 8;

/// The id of converted weights: the same for copies of a checkpoint.
pub fn id(shards: &[Shard], variant: &str) -> Result<String, CheckpointError> {
    let mut hash = Sha256::new();
    hash.update(format!("{FORMAT}\0{variant}\0{}\0{}\0", Weights8::layout(), shards.len()));
    for shard in shards {
        hash.update(shard.sample()?);
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileState {
    /// Its name in the checkpoint's directory; the whole path of an adapter's file.
    file: String,
    bytes: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    /// When contents or attributes changed last, by the system's clock.
    changed: (i64, i64),
}

/// The state of a checkpoint's weight files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointState(Vec<FileState>);

impl FileState {
    fn new(file: String, about: &Metadata) -> Self {
        let Version { number: inode, modified, changed } = version(about);
        Self { file, bytes: about.len(), inode, modified, changed }
    }
}

impl CheckpointState {
    /// The state of the open files of a checkpoint in `dir`; `None` if the system does not report it.
    pub fn of(shards: &[Shard], dir: &Path) -> Option<Self> {
        let state = |shard: &Shard| {
            let file = shard.path.strip_prefix(dir).unwrap_or(&shard.path).to_string_lossy().into_owned();
            Some(FileState::new(file, &shard.metadata().ok()?))
        };
        shards.iter().map(state).collect::<Option<_>>().map(Self)
    }

    /// True if these files are in a directory, unchanged; `None` if one of them is not there.
    fn is_in(&self, dir: &Path) -> Option<bool> {
        let same = |state: &FileState| {
            let about = std::fs::metadata(dir.join(&state.file)).ok()?;
            Some(FileState::new(state.file.clone(), &about) == *state)
        };
        self.0.iter().map(same).try_fold(true, |all, same| Some(all && same?))
    }

    /// True if every later change will have later times.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.iter().all(|file| {
            let (seconds, nanoseconds) = file.changed.max(file.modified);
            let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds as u32);
            changed + SETTLED <= now
        })
    }
}

/// The sources that a file of kept weights is known to agree with.
#[derive(Default, Serialize, Deserialize)]
pub struct Sources {
    /// Hash of the file's index, which has the hashes of all tensors: the list of another file is not valid.
    index: u64,
    sources: Vec<CheckpointState>,
    /// The directories in which they were, the last first.
    #[serde(default)]
    places: Vec<PathBuf>,
}

/// A checkpoint and the weights that were kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Where it is, nobody knows.
    Unknown,
    /// It is in this directory as it was.
    Current(PathBuf),
    /// It has changed in this directory.
    Changed(PathBuf),
    /// It is not in this directory any more.
    Missing(PathBuf),
}

impl Sources {
    /// The list for a file with this hash of its index; empty if there is no valid one.
    pub fn read(path: &Path, index: u64) -> Self {
        let text = files::read(path, files::CONFIG).ok();
        let list: Option<Self> = text.and_then(|text| serde_json::from_slice(&text).ok());
        list.filter(|list| list.index == index).unwrap_or(Self { index, ..Self::default() })
    }

    /// True if the file is known to be made from these weights.
    pub fn contains(&self, source: &CheckpointState) -> bool {
        self.sources.contains(source)
    }

    /// True if a source is known to be in this directory.
    pub(crate) fn knows(&self, place: &Path) -> bool {
        self.places.iter().any(|known| known == place)
    }

    /// What became of the checkpoint.
    pub fn standing(self) -> Standing {
        let mut standing = Standing::Unknown;
        for place in self.places {
            let found = self.sources.iter().filter_map(|source| source.is_in(&place)).reduce(|a, b| a || b);
            standing = match (found, standing) {
                (Some(true), _) => return Standing::Current(place),
                (Some(false), Standing::Unknown | Standing::Missing(_)) => Standing::Changed(place),
                (None, Standing::Unknown) => Standing::Missing(place),
                (_, known) => known,
            };
        }
        standing
    }

    /// Add a source in a directory and replace the list at `path`. Without it, hashes are compared at the next start.
    pub fn add(mut self, source: CheckpointState, place: PathBuf, path: &Path) {
        self.places.retain(|other| *other != place);
        self.places.insert(0, place);
        self.places.truncate(REMEMBERED);
        self.sources.retain(|other| *other != source);
        self.sources.insert(0, source);
        self.sources.truncate(REMEMBERED);
        let write = || -> std::io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
            serde_json::to_writer(&mut file, &self)?;
            file.persist(path)?;
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!("weight cache: cannot write {}: {error}", path.display());
        }
    }
}
