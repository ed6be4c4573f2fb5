//! Writing a file on a thread of its own, while the checkpoint is still being read.

use std::{
    fs::File,
    hash::Hasher as _,
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use twox_hash::XxHash3_64;

use super::{
    ENDING, PARTIAL, SOURCES,
    file::{ALIGN, CachedMatrix, Index, prefix},
    source::{CheckpointState, Sources},
};
use crate::WeightCache;
use specreel_os::file as os;
use specreel_tensor::kept::Keep;

/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;

/// Threads that still write.
static WRITING: (Mutex<usize>, Condvar) = (Mutex::new(0), Condvar::new());

/// Wait until all files are written, but not longer than this. A file that is not complete by then is written at the next start.
pub fn wait_for_writers(longest: Duration) {
    let (count, ended) = &WRITING;
    let count = count.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = ended.wait_timeout_while(count, longest, |count| *count > 0);
}

struct Counted;

impl Counted {
    fn new() -> Self {
        *WRITING.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *WRITING.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        WRITING.1.notify_all();
    }
}

/// A source, and where its checkpoint is.
type Listed = (CheckpointState, PathBuf);

enum WriterMessage {
    Matrix(Box<CachedMatrix>, Box<dyn Keep>),
    /// All matrices were sent; the source, in this directory, is listed if there is one.
    End(Option<Listed>),
}

/// The sending half; without [`CacheWriter::end`] nothing is kept.
pub struct CacheWriter(SyncSender<WriterMessage>);

impl CacheWriter {
    /// Begin a file. So many matrices may wait for the disk; another one waits until it is written.
    /// Fails if it cannot be created; [`io::ErrorKind::WouldBlock`] if another process is writing it.
    pub fn start(cache: WeightCache, id: String, index: Index, waiting: usize) -> io::Result<Self> {
        std::fs::create_dir_all(&cache.dir)?;
        let partial = cache.path(&id, PARTIAL);
        let file = create_locked(&partial)?;
        let (sender, inbox) = sync_channel(waiting);
        let counted = Counted::new();
        std::thread::Builder::new().name("weight-cache".into()).spawn(move || {
            let _counted = counted;
            match write(&file, &inbox, index) {
                Ok(Some((hash, source))) => match finish(&cache, &id, &partial, hash, source) {
                    Ok(path) => tracing::info!("weight cache: wrote {}", path.display()),
                    Err(error) => give_up(&partial, &error),
                },
                Ok(None) => {
                    let _ = std::fs::remove_file(&partial);
                }
                Err(error) => give_up(&partial, &error),
            }
        })?;
        Ok(Self(sender))
    }

    pub fn matrix(&self, matrix: CachedMatrix, arrays: Box<dyn Keep>) {
        // A thread that gave up has logged why.
        let _ = self.0.send(WriterMessage::Matrix(Box::new(matrix), arrays));
    }

    /// Complete the file, and list the source it was made from.
    pub fn end(self, source: Option<Listed>) {
        let _ = self.0.send(WriterMessage::End(source));
    }
}

fn give_up(partial: &Path, error: &io::Error) {
    tracing::warn!("weight cache: cannot write {}: {error}", partial.display());
    let _ = std::fs::remove_file(partial);
}

/// Create or take over a file that no other process is writing.
fn create_locked(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
    os::try_lock(&file).map_err(io::Error::from)?;
    // The last writer may have renamed the file between the two calls.
    if !os::is_at(&file, path).unwrap_or(false) {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    file.set_len(0)?;
    Ok(file)
}

/// Remove a part of a file if no process is writing it. Returns its size.
pub(crate) fn remove_abandoned(path: &Path) -> Option<u64> {
    let file = File::open(path).ok()?;
    os::try_lock(&file).ok()?;
    let bytes = file.metadata().ok()?.len();
    std::fs::remove_file(path).ok().map(|()| bytes)
}

/// Write what arrives. `None` if the sender gave up; else the hash of the index, and the source to be listed if there is one.
fn write(
    file: &File,
    inbox: &Receiver<WriterMessage>,
    mut index: Index,
) -> io::Result<Option<(u64, Option<Listed>)>> {
    let mut out = file;
    let mut at = out.seek(SeekFrom::Start(ALIGN))?;
    let source = loop {
        let (mut matrix, kept) = match inbox.recv() {
            Ok(WriterMessage::Matrix(matrix, kept)) => (matrix, kept),
            Ok(WriterMessage::End(source)) => break source,
            Err(_) => return Ok(None),
        };
        for array in kept.arrays() {
            at = out.seek(SeekFrom::Start(at.next_multiple_of(ALIGN)))?;
            let mut hash = XxHash3_64::new();
            for piece in array.chunks(PIECE) {
                out.write_all(piece)?;
                hash.write(piece);
                // As between the units that are read.
                std::thread::yield_now();
            }
            matrix.arrays.push((at, array.len() as u64, hash.finish()));
            at += array.len() as u64;
        }
        index.matrices.push(*matrix);
    };
    let at = out.seek(SeekFrom::Start(at.next_multiple_of(ALIGN)))?;
    let index = serde_json::to_vec(&index)?;
    out.write_all(&index)?;
    // The prefix makes the file valid: all else is on the disk before.
    file.sync_all()?;
    os::write_all_at(file, &prefix(at, &index), 0)?;
    file.sync_all()?;
    Ok(Some((XxHash3_64::oneshot(&index), source)))
}

/// Give the file its name, and list its source.
fn finish(
    cache: &WeightCache,
    id: &str,
    partial: &Path,
    hash: u64,
    source: Option<Listed>,
) -> io::Result<PathBuf> {
    let path = cache.path(id, ENDING);
    std::fs::rename(partial, &path)?;
    if let Some((source, place)) = source {
        let list = cache.path(id, SOURCES);
        Sources::read(&list, hash).add(source, place, &list);
    }
    cache.enforce_limit(id);
    Ok(path)
}
