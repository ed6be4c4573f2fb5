//! One file from the hub into the cache: resumed where it broke off, counted, and checked before it gets its name.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{
    HubError, ModelId,
    http::{Answer, Http},
    listing::{Checksum, RemoteFile},
};

/// Times that a broken connection is taken up again without a byte having come.
const ATTEMPTS: u32 = 5;

/// Bytes read at a time; between two of them the transfer can be cancelled.
const PORTION: usize = 1 << 17;

/// Told of every portion: the bytes that came. `Break` cancels.
pub(super) type Told<'a> = dyn FnMut(u64) -> ControlFlow<()> + 'a;

/// Fetches files of one model at one commit.
pub(super) struct Transfer<'a> {
    pub http: &'a Http,
    pub id: &'a ModelId,
    pub commit: &'a str,
    /// Where blobs go.
    pub blobs: PathBuf,
    /// Where locks go, as the other tools have them.
    pub locks: PathBuf,
    /// How long to wait before a broken connection is taken up again, at first.
    pub pause: Duration,
}

impl Transfer<'_> {
    /// Bytes of a file that are here already.
    pub fn have(&self, file: &RemoteFile) -> u64 {
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

    /// The blob of a file, fetched if it is not here.
    pub fn fetch(&self, file: &RemoteFile, told: &mut Told<'_>) -> Result<PathBuf, HubError> {
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
        lock.try_lock().map_err(|_| HubError::Locked { file: file.path.clone() })?;
        let path = partial(&blob);
        let written = self.write(file, &path, told);
        if matches!(written, Err(HubError::Damaged { .. })) {
            // A part that is wrong must not be gone on from.
            let _ = fs::remove_file(&path);
        }
        written?;
        fs::rename(&path, &blob).map_err(|e| HubError::io(&blob, e))?;
        Ok(blob)
    }

    fn write(&self, file: &RemoteFile, path: &Path, told: &mut Told<'_>) -> Result<(), HubError> {
        let io = |e| HubError::io(path, e);
        let mut out =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(io)?;
        if out.metadata().map_err(io)?.len() > file.size {
            out.set_len(0).map_err(io)?;
        }
        let mut sum = Sum::new(file);
        let mut done = sum.read(&mut out, path)?;
        let mut failures = 0;
        while done < file.size {
            let before = done;
            match self.portion(file, &mut out, path, &mut sum, &mut done, told) {
                Ok(()) if done == file.size => break,
                Err(error) if !again(&error) => return Err(error),
                outcome => {
                    failures = if done > before { 0 } else { failures + 1 };
                    if failures >= ATTEMPTS {
                        let host = self.http.page("");
                        let lost = HubError::Network { host, problem: "it closes too early".into() };
                        return Err(outcome.err().unwrap_or(lost));
                    }
                    self.wait(failures, told)?;
                }
            }
        }
        out.sync_all().map_err(io)?;
        match sum.differs(&file.checksum) {
            Some(problem) => Err(HubError::Damaged { file: file.path.clone(), problem }),
            None => Ok(()),
        }
    }

    /// Wait a little, longer after each failure, unless somebody cancels.
    fn wait(&self, failures: u32, told: &mut Told<'_>) -> Result<(), HubError> {
        for _ in 0..10 << failures {
            if told(0).is_break() {
                return Err(HubError::Cancelled);
            }
            std::thread::sleep(self.pause / 10);
        }
        Ok(())
    }

    /// One request for what is missing, as far as it goes.
    fn portion(
        &self,
        file: &RemoteFile,
        out: &mut File,
        path: &Path,
        sum: &mut Sum,
        done: &mut u64,
        told: &mut Told<'_>,
    ) -> Result<(), HubError> {
        let io = |e| HubError::io(path, e);
        let page = format!("{}/resolve/{}/{}", self.id.repository(), self.commit, file.path);
        let answer = self.http.get(&page, *done)?;
        let damaged = |problem: String| HubError::Damaged { file: file.path.clone(), problem };
        match answer.status {
            206 => {
                let (first, total) = range(&answer)
                    .ok_or_else(|| damaged("the hub sends some part of it, but not which".into()))?;
                if first != *done || total.is_some_and(|total| total != file.size) {
                    return Err(damaged(format!(
                        "asked for it from byte {done} on, the hub sends it from {first} on"
                    )));
                }
            }
            200 => {
                if let Some(length) = answer.header("content-length").and_then(|v| v.parse::<u64>().ok())
                    && length != file.size
                {
                    return Err(damaged(format!(
                        "it has {length} bytes, but the hub announced {}",
                        file.size
                    )));
                }
                // A server that knows no parts begins anew.
                out.set_len(0).map_err(io)?;
                out.seek(SeekFrom::Start(0)).map_err(io)?;
                (*done, *sum) = (0, Sum::new(file));
            }
            // What is here is not what the server has a rest of.
            416 => return Err(damaged("its part here is no part of it".into())),
            _ => return Err(refusal(self.http, self.id, &file.path, &answer)),
        }
        let mut reader = answer.reader();
        let mut buffer = vec![0; PORTION];
        loop {
            let n = match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(HubError::Network { host: self.http.page(""), problem: e.to_string() }),
            };
            if *done + n as u64 > file.size {
                return Err(damaged(format!("more than its {} bytes come", file.size)));
            }
            out.write_all(&buffer[..n]).map_err(io)?;
            sum.update(&buffer[..n]);
            *done += n as u64;
            if told(n as u64).is_break() {
                return Err(HubError::Cancelled);
            }
        }
    }
}

fn partial(blob: &Path) -> PathBuf {
    blob.with_extension("incomplete")
}

/// First byte and length of the whole, from `Content-Range: bytes 5-9/10`.
fn range(answer: &Answer) -> Option<(u64, Option<u64>)> {
    let (range, total) = answer.header("content-range")?.strip_prefix("bytes ")?.split_once('/')?;
    Some((range.split_once('-')?.0.parse().ok()?, total.parse().ok()))
}

/// True for what may go away by itself.
fn again(error: &HubError) -> bool {
    match error {
        HubError::Network { .. } => true,
        HubError::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504),
        _ => false,
    }
}

/// What a status that is no success means.
pub(super) fn refusal(http: &Http, id: &ModelId, what: &str, answer: &Answer) -> HubError {
    let token = http.has_token();
    let who = if token { "you" } else { "somebody without a token" };
    match (answer.status, answer.header("x-error-code").unwrap_or_default()) {
        (401 | 403, "GatedRepo") => {
            HubError::Gated { id: id.to_string(), page: http.page(&id.repository()), token }
        }
        (404, "RevisionNotFound") => {
            HubError::Revision { repository: id.repository(), revision: id.revision.clone() }
        }
        (404, "EntryNotFound") => HubError::File { id: id.to_string(), file: what.into() },
        // Without a token the hub does not tell a private model from none.
        (401, _) if !token => HubError::Absent { id: id.to_string(), who, token },
        (404, _) | (401 | 403, "RepoNotFound") => HubError::Absent { id: id.to_string(), who, token },
        (status @ (401 | 403), _) if token => HubError::Token { status },
        (403, _) => HubError::Gated { id: id.to_string(), page: http.page(&id.repository()), token },
        (status, _) => HubError::Status { what: what.into(), status },
    }
}

/// A checksum in the making.
enum Sum {
    Sha256(Sha256),
    Git(Sha1),
}

impl Sum {
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

    /// Take in what a file has; the bytes that it has.
    fn read(&mut self, file: &mut File, path: &Path) -> Result<u64, HubError> {
        let mut buffer = vec![0; PORTION];
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
        (found != wanted.digits()).then(|| format!("its checksum is {found} instead of {}", wanted.digits()))
    }
}
