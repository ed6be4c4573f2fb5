//! Downloads one file from the hub into the cache: resumes partial files, and verifies size and checksum before renaming.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{
    HubError, ModelId,
    http::{Http, HubResponse},
    listing::{Checksum, RemoteFile},
};

/// Maximum number of attempts in a row that transfer no byte.
const MAX_ATTEMPTS: u32 = 5;

/// Bytes read at a time; the download can be cancelled in between.
const CHUNK: usize = 1 << 17;

/// What stays as it is in the path of a URL: letters, digits, `-._~`, and what separates directories.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Receives the number of bytes of every chunk. `Break` cancels.
pub(super) type OnBytes<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// Downloads files of one model at one commit.
pub(super) struct Transfer<'a> {
    pub http: &'a Http,
    pub id: &'a ModelId,
    pub commit: &'a str,
    /// Directory of the blobs.
    pub blobs: PathBuf,
    /// Directory of the lock files, shared with the other tools.
    pub locks: PathBuf,
    pub(crate) retry_delay: Duration,
}

impl Transfer<'_> {
    /// Bytes of a file that are in the cache, its partial download included.
    pub fn cached(&self, file: &RemoteFile) -> u64 {
        let size = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
        let blob = self.blob(file);
        if size(&blob) == file.size && blob.is_file() {
            file.size
        } else {
            size(&partial(&blob)).min(file.size)
        }
    }

    fn blob(&self, file: &RemoteFile) -> PathBuf {
        self.blobs.join(file.checksum.digits())
    }

    /// Where a file is while it is downloaded.
    pub fn partial(&self, file: &RemoteFile) -> PathBuf {
        partial(&self.blob(file))
    }

    /// The blob of a file, downloaded if it is not in the cache.
    pub(crate) fn fetch(&self, file: &RemoteFile, on_bytes: &mut OnBytes<'_>) -> Result<PathBuf, HubError> {
        let blob = self.blob(file);
        if blob.is_file() && fs::metadata(&blob).is_ok_and(|m| m.len() == file.size) {
            return Ok(blob);
        }
        for dir in [&self.blobs, &self.locks] {
            fs::create_dir_all(dir).map_err(|e| HubError::io(dir, e))?;
        }
        let lock = self.locks.join(format!("{}.lock", file.checksum.digits()));
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock)
            .map_err(|e| HubError::io(&lock, e))?;
        specreel_os::file::try_lock(&lock).map_err(|_| HubError::Locked { file: file.path.clone() })?;
        let path = partial(&blob);
        let written = self.write(file, &path, on_bytes);
        if matches!(written, Err(HubError::Damaged { .. })) {
            // A corrupt partial file must not be resumed.
            let _ = fs::remove_file(&path);
        }
        written?;
        fs::rename(&path, &blob).map_err(|e| HubError::io(&blob, e))?;
        Ok(blob)
    }

    fn write(&self, file: &RemoteFile, path: &Path, on_bytes: &mut OnBytes<'_>) -> Result<(), HubError> {
        let io = |e| HubError::io(path, e);
        let mut out =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(io)?;
        if out.metadata().map_err(io)?.len() > file.size {
            out.set_len(0).map_err(io)?;
        }
        let mut sum = Hasher::new(file);
        let mut done = sum.read(&mut out, path)?;
        let mut failures = 0;
        while done < file.size {
            let before = done;
            match self.request(file, &mut out, path, &mut sum, &mut done, on_bytes) {
                Ok(()) if done == file.size => break,
                Err(error) if !is_transient(&error) => return Err(error),
                outcome => {
                    failures = if done > before { 0 } else { failures + 1 };
                    if failures >= MAX_ATTEMPTS {
                        let host = self.http.url("");
                        let lost =
                            HubError::Network { host, problem: "the connection was closed early".into() };
                        return Err(outcome.err().unwrap_or(lost));
                    }
                    self.wait(failures, on_bytes)?;
                }
            }
        }
        out.sync_all().map_err(io)?;
        match sum.differs(&file.checksum) {
            Some(problem) => Err(HubError::Damaged { file: file.path.clone(), problem }),
            None => Ok(()),
        }
    }

    /// Wait before a retry, longer after each failure, unless cancelled.
    fn wait(&self, failures: u32, on_bytes: &mut OnBytes<'_>) -> Result<(), HubError> {
        for _ in 0..10 << failures {
            if on_bytes(0).is_break() {
                return Err(HubError::Cancelled);
            }
            std::thread::sleep(self.retry_delay / 10);
        }
        Ok(())
    }

    /// One request for the rest of the file, until the connection ends.
    fn request(
        &self,
        file: &RemoteFile,
        out: &mut File,
        path: &Path,
        sum: &mut Hasher,
        done: &mut u64,
        on_bytes: &mut OnBytes<'_>,
    ) -> Result<(), HubError> {
        let io = |e| HubError::io(path, e);
        let page = format!(
            "{}/resolve/{}/{}",
            self.id.repository(),
            self.commit,
            utf8_percent_encode(&file.path, PLAIN)
        );
        let response = self.http.get(&page, *done)?;
        let damaged = |problem: String| HubError::Damaged { file: file.path.clone(), problem };
        match response.status {
            206 => {
                let (first, total) = range(&response)
                    .ok_or_else(|| damaged("the hub sent a part of it without its range".into()))?;
                if first != *done || total.is_some_and(|total| total != file.size) {
                    return Err(damaged(format!(
                        "requested it from byte {done}, the hub sent it from byte {first}"
                    )));
                }
            }
            200 => {
                if let Some(length) = response.header("content-length").and_then(|v| v.parse::<u64>().ok())
                    && length != file.size
                {
                    return Err(damaged(format!("it has {length} bytes, the hub listed {}", file.size)));
                }
                // The server does not support ranges and sends the whole file.
                out.set_len(0).map_err(io)?;
                out.seek(SeekFrom::Start(0)).map_err(io)?;
                (*done, *sum) = (0, Hasher::new(file));
            }
            // The partial file is longer than the server's.
            416 => return Err(damaged("the partial file does not belong to it".into())),
            _ => return Err(refusal(self.http, self.id, &file.path, &response)),
        }
        let mut reader = response.reader();
        let mut buffer = vec![0; CHUNK];
        loop {
            let n = match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(HubError::Network { host: self.http.url(""), problem: e.to_string() }),
            };
            if *done + n as u64 > file.size {
                return Err(damaged(format!("the hub sent more than its {} bytes", file.size)));
            }
            out.write_all(&buffer[..n]).map_err(io)?;
            sum.update(&buffer[..n]);
            *done += n as u64;
            if on_bytes(n as u64).is_break() {
                return Err(HubError::Cancelled);
            }
        }
    }
}

fn partial(blob: &Path) -> PathBuf {
    blob.with_extension("incomplete")
}

/// First byte and total length, from `Content-Range: bytes 5-9/10`.
fn range(response: &HubResponse) -> Option<(u64, Option<u64>)> {
    let (range, total) = response.header("content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

fn is_transient(error: &HubError) -> bool {
    match error {
        HubError::Network { .. } => true,
        HubError::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
        _ => false,
    }
}

pub(super) fn refusal(http: &Http, id: &ModelId, what: &str, response: &HubResponse) -> HubError {
    let token = http.has_token();
    match (response.status, response.header("x-error-code").unwrap_or_default()) {
        (401 | 403, "GatedRepo") => {
            HubError::Gated { id: id.to_string(), page: http.url(&id.repository()), token }
        }
        (404, "RevisionNotFound") => {
            HubError::Revision { repository: id.repository(), revision: id.revision.clone() }
        }
        (404, "EntryNotFound") => HubError::File { id: id.to_string(), file: what.into() },
        // Without a token, the hub answers the same for private and missing models.
        (401, _) if !token => HubError::Absent { id: id.to_string(), token },
        (404, _) | (401 | 403, "RepoNotFound") => HubError::Absent { id: id.to_string(), token },
        (status @ (401 | 403), _) if token => HubError::Token { status },
        (403, _) => HubError::Gated { id: id.to_string(), page: http.url(&id.repository()), token },
        (status, _) => HubError::Status { what: what.into(), status },
    }
}

enum Hasher {
    Sha256(Sha256),
    Git(Sha1),
}

impl Hasher {
    fn new(file: &RemoteFile) -> Self {
        match file.checksum {
            Checksum::Sha256(_) => Self::Sha256(Sha256::new()),
            Checksum::Git(_) => Self::Git(Sha1::new().chain_update(format!("blob {}\0", file.size))),
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(sum) => sum.update(bytes),
            Self::Git(sum) => sum.update(bytes),
        }
    }

    /// Hash the content of a file; returns its length.
    fn read(&mut self, file: &mut File, path: &Path) -> Result<u64, HubError> {
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        loop {
            let n = file.read(&mut buffer).map_err(|e| HubError::io(path, e))?;
            if n == 0 {
                return Ok(done);
            }
            self.update(&buffer[..n]);
            done += n as u64;
        }
    }

    fn differs(self, wanted: &Checksum) -> Option<String> {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let found = match self {
            Self::Sha256(sum) => hex(&sum.finalize()),
            Self::Git(sum) => hex(&sum.finalize()),
        };
        (found != wanted.digits()).then(|| format!("its checksum is {found}, expected {}", wanted.digits()))
    }
}
