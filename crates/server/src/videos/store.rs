//! Stored videos: uploaded files until they are deleted, inline and fetched ones while there is room.
//!
//! A file is named by the hash of its bytes, and has the same time stamp whenever it is written: the engine knows a video again
//! that was sent before.
//!
//! Everything that touches the disk blocks, for long if that stalls, and has no place on the threads that answer connections.
//! [`Store::get`], [`Store::list`] and [`Store::used`] never wait for it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::error::ApiError;
use specreel_client::scratch::Scratch;
use specreel_record::{Failure, units::bytes};

/// How the ids of uploaded files begin.
pub const PREFIX: &str = "file-";
/// Most uploaded files.
const MAX_FILES: usize = 10_000;
/// The time stamp of all files.
const WRITTEN: Duration = Duration::from_secs(1_000_000_000);

/// The bytes of a video on disk. The file stays while there are handles other than the store's own.
pub struct Blob {
    path: PathBuf,
    bytes: u64,
}

impl Blob {
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[derive(Clone)]
pub struct StoredFile {
    pub id: String,
    pub name: String,
    pub purpose: String,
    pub bytes: u64,
    /// Seconds since 1970.
    pub created: u64,
    pub(super) blob: Arc<Blob>,
}

#[derive(Default)]
struct State {
    /// By hash.
    blobs: HashMap<String, Arc<Blob>>,
    files: BTreeMap<u64, StoredFile>,
    /// Inline and fetched videos, the last one first.
    recent: VecDeque<Arc<Blob>>,
    next: u64,
}

/// Makes a temporary file in a directory.
type Create = fn(&Path) -> std::io::Result<NamedTempFile>;

/// Held while files get their names or are removed. The state is locked meanwhile for moments only.
type Disk<'a> = MutexGuard<'a, ()>;

/// The files of a server, in a temporary directory that only its user can read.
pub struct Store {
    dir: Scratch,
    create: Create,
    disk: Mutex<()>,
    state: Mutex<State>,
    used: Arc<AtomicU64>,
    max_file: u64,
    max_total: u64,
}

impl Store {
    /// Fails if the temporary directory cannot be created (class internal).
    pub fn new(max_file: u64, max_total: u64) -> Result<Self, Failure> {
        Self::with(max_file, max_total, |dir| NamedTempFile::new_in(dir))
    }

    /// A store that makes its files so.
    pub(crate) fn with(max_file: u64, max_total: u64, create: Create) -> Result<Self, Failure> {
        let dir = Scratch::new("serve").map_err(|e| {
            let dir = std::env::temp_dir();
            Failure::internal(
                format!("cannot create a directory in {}: {e}", dir.display()),
                "free some space there, or set TMPDIR",
            )
        })?;
        let (disk, state) = (Mutex::default(), Mutex::default());
        Ok(Self { dir, create, disk, state, used: Arc::default(), max_file, max_total })
    }

    fn disk(&self) -> Disk<'_> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of all stored files, and of those that are being received.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A file to receive bytes in. Blocks.
    pub fn incoming(&self) -> Result<Incoming, ApiError> {
        let file = (self.create)(self.dir.path()).map_err(unwritable)?;
        let used = self.used.clone();
        let (max_file, max_total) = (self.max_file, self.max_total);
        Ok(Incoming { file: Some(file), hash: Sha256::new(), bytes: 0, used, max_file, max_total })
    }

    /// Keep a received file while there is room, as one that a request brought along. Blocks.
    pub fn keep_recent(&self, incoming: Incoming) -> Result<Arc<Blob>, ApiError> {
        let disk = self.disk();
        let blob = self.blob(&disk, incoming)?;
        let mut state = self.state();
        state.recent.retain(|other| !Arc::ptr_eq(other, &blob));
        state.recent.push_front(blob.clone());
        // Half is left to uploads.
        let mut total = 0;
        state.recent.retain(|blob| {
            total += blob.bytes;
            total <= self.max_total / 2
        });
        drop(state);
        self.collect(&disk);
        Ok(blob)
    }

    /// Keep a received file until it is deleted. Blocks.
    pub fn keep(&self, incoming: Incoming, name: String, purpose: String) -> Result<StoredFile, ApiError> {
        let disk = self.disk();
        if self.state().files.len() >= MAX_FILES {
            let message = format!("there are {MAX_FILES} files; delete some (DELETE /v1/files/ID)");
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "storage_full", message));
        }
        let bytes = incoming.bytes;
        let blob = self.blob(&disk, incoming)?;
        let mut state = self.state();
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        state.next += 1;
        let number = state.next;
        // Ids must be hard to guess: anyone who knows one can use the file.
        let id = format!("{PREFIX}{number}-{:016x}", RandomState::new().build_hasher().finish());
        let file = StoredFile { id, name, purpose, bytes, created, blob };
        state.files.insert(number, file.clone());
        Ok(file)
    }

    pub fn get(&self, id: &str) -> Result<StoredFile, ApiError> {
        let number = number(id);
        let found = number.and_then(|number| self.state().files.get(&number).cloned());
        found.filter(|file| file.id == id).ok_or_else(|| unknown(id))
    }

    /// All uploaded files, the oldest first.
    pub fn list(&self) -> Vec<StoredFile> {
        self.state().files.values().cloned().collect()
    }

    /// Delete an uploaded file; runs that are reading it continue. Blocks.
    pub fn delete(&self, id: &str) -> Result<(), ApiError> {
        let file = self.get(id)?;
        let disk = self.disk();
        let deleted = number(id).and_then(|number| self.state().files.remove(&number));
        drop((file, deleted));
        self.collect(&disk);
        Ok(())
    }

    pub fn clear(&self) {
        *self.state() = State::default();
        if let Err(error) = self.dir.remove() {
            tracing::warn!(%error, dir = %self.dir.path().display(), "cannot remove the temporary directory");
        }
    }

    /// Remove the files that nobody uses any more.
    fn collect(&self, _disk: &Disk<'_>) {
        // Only the store can make a second handle of its last one.
        let is_unused = |_: &String, blob: &mut Arc<Blob>| Arc::strong_count(blob) == 1;
        let unused: Vec<_> = self.state().blobs.extract_if(is_unused).collect();
        for (_, blob) in unused {
            self.used.fetch_sub(blob.bytes, Ordering::Relaxed);
            let _ = std::fs::remove_file(&blob.path);
        }
    }

    /// The file that has these bytes.
    fn blob(&self, _disk: &Disk<'_>, mut incoming: Incoming) -> Result<Arc<Blob>, ApiError> {
        let hash: String =
            incoming.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if let Some(blob) = self.state().blobs.get(&hash) {
            return Ok(blob.clone());
        }
        let Some(mut file) = incoming.file.take() else { return Err(ApiError::internal("no file")) };
        file.flush().map_err(unwritable)?;
        file.as_file().set_modified(UNIX_EPOCH + WRITTEN).map_err(unwritable)?;
        let path = self.dir.path().join(&hash);
        file.persist(&path).map_err(|e| unwritable(e.error))?;
        // The bytes count as long as the blob is there.
        let blob = Arc::new(Blob { path, bytes: std::mem::take(&mut incoming.bytes) });
        self.state().blobs.insert(hash, blob.clone());
        Ok(blob)
    }
}

/// A file that is being received; removed unless it is kept.
pub struct Incoming {
    file: Option<NamedTempFile>,
    hash: Sha256,
    bytes: u64,
    used: Arc<AtomicU64>,
    max_file: u64,
    max_total: u64,
}

impl Incoming {
    /// Append bytes. Blocks. Fails if the file or all files together become too large.
    pub fn write(&mut self, chunk: &[u8]) -> Result<(), ApiError> {
        let Some(file) = &mut self.file else { return Err(ApiError::internal("no file")) };
        let refuse = |code, message| Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, code, message));
        let more = chunk.len() as u64;
        if self.bytes + more > self.max_file {
            let most = bytes(self.max_file);
            let message = format!(
                "the video is larger than {most}, the limit of this server; use a smaller one, or raise --max-file"
            );
            return refuse("video_too_large", message);
        }
        let before = self.used.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        if before + more > self.max_total {
            let most = bytes(self.max_total);
            let message = format!(
                "the server stores at most {most} of videos; delete files (DELETE /v1/files/ID), or raise --max-storage"
            );
            return refuse("storage_full", message);
        }
        self.hash.update(chunk);
        file.write_all(chunk).map_err(unwritable)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn number(id: &str) -> Option<u64> {
    id.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn unknown(id: &str) -> ApiError {
    let id: String = id.chars().take(64).collect();
    let message = format!("no file `{id}`; upload it (POST /v1/files), or list files (GET /v1/files)");
    ApiError::new(StatusCode::NOT_FOUND, "file_not_found", message)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unwritable(error: std::io::Error) -> ApiError {
    ApiError::new(
        StatusCode::INSUFFICIENT_STORAGE,
        "storage_failed",
        format!("cannot write the video to the server's temporary directory: {error}"),
    )
}
