//! Converted weights, kept on disk: a safetensors checkpoint is quantized at its first use, and mapped from then on.
//!
//! One file for each checkpoint, weight types and layout of this processor, named by an id: a hash of those, of the headers and
//! of samples of the data. The id finds a file cheaply, but does not prove that it is of these weights. So a file records a hash of
//! every tensor that it was made from, and a list next to it names the sources that it is known to agree with: length, inode, and
//! times of modification and of change of each weight file. Weights are used without reading the checkpoint only if the system
//! reports a source of that list. Otherwise, for example after the checkpoint was moved or touched, all tensors are read and
//! their hashes compared. The time of change is set by the system alone, so a copy that restores the time of modification is
//! noticed; a file that changed in the last seconds is not listed, as the next change might get the same time.
//!
//! A file is written under another name, completely, and then renamed. It begins with its length and a hash of its index, which
//! are written last. So readers never see a part, and processes that write the same file do not disturb each other: one holds a
//! lock, the others continue without. A file is mapped, and may be removed while it is.

mod entry;
pub(crate) mod file;
mod kernels;
pub(crate) mod source;
pub(crate) mod writer;

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

pub use entry::{CacheEntry, EntryState};
pub use kernels::KernelLimits;
pub use source::Standing;
pub use writer::wait_for_writers;

/// Version of the files, and of the conversion of weights: others are ignored and replaced.
pub const FORMAT: u32 = 2;

/// Checkpoints below this size, in bytes, are converted in no time.
pub(crate) const LEAST_CHECKPOINT: u64 = 64 << 20;

/// The default limit of all files, in bytes.
pub const DEFAULT_LIMIT: u64 = 32_000_000_000;

/// Ending of complete files.
pub(crate) const ENDING: &str = "weights";
/// Ending of files that are being written.
const PARTIAL: &str = "partial";
pub(crate) const SOURCES: &str = "sources.json";

/// A directory of kept weights, and its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightCache {
    /// The directory; it is created when needed.
    pub dir: PathBuf,
    /// Limit of the size of all files, in bytes; the least recently used are removed.
    pub limit: u64,
}

impl WeightCache {
    pub(crate) fn path(&self, id: &str, ending: &str) -> PathBuf {
        self.dir.join(format!("{id}.{ending}"))
    }

    /// All files, the most recently used first.
    pub fn entries(&self) -> Vec<CacheEntry> {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut entries: Vec<CacheEntry> = files.filter_map(|file| CacheEntry::read(&file.path())).collect();
        entries.sort_by(|a, b| b.last_used.cmp(&a.last_used).then_with(|| a.id.cmp(&b.id)));
        entries
    }

    /// Remove a file and what belongs to it. Processes that use it are not disturbed.
    pub fn remove(&self, entry: &CacheEntry) -> std::io::Result<()> {
        std::fs::remove_file(&entry.path)?;
        // Without it, the other file is only slower to open.
        let _ = std::fs::remove_file(self.path(&entry.id, SOURCES));
        Ok(())
    }

    /// Remove parts of files that nobody writes any more. Returns their number of bytes.
    pub fn remove_partial(&self) -> u64 {
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|file| file.path());
        let parts = files.filter(|path| path.extension().is_some_and(|ending| ending == PARTIAL));
        parts.filter_map(|path| writer::remove_abandoned(&path)).sum()
    }

    /// Remove the least recently used files until the limit is kept, but never the one of `id`.
    fn enforce_limit(&self, id: &str) {
        let mut entries = self.entries();
        let mut total: u64 = entries.iter().map(|entry| entry.bytes).sum();
        while total > self.limit
            && let Some(entry) = entries.pop()
        {
            if entry.id != id && self.remove(&entry).is_ok() {
                total -= entry.bytes;
                tracing::info!("weight cache: removed {}, the least recently used", entry.path.display());
            }
        }
    }
}

/// Note that a file is used now.
pub(crate) fn touch(path: &Path) {
    // Without the right to do so, the file only looks older than it is.
    let _ = std::fs::File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
}

#[cfg(test)]
mod tests;
