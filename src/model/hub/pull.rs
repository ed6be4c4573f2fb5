//! A model from the hub into the cache: the files that are needed, no others, in the order in which they can be judged.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use super::{
    Cache, HubError, ModelId, Settings,
    disk::free_space,
    http::Http,
    listing::{self, Listing, RemoteFile},
    transfer::{Transfer, refusal},
};
use crate::record::Failure;

/// Files that a checkpoint cannot do without.
const NEEDED: [&str; 2] = ["config.json", "tokenizer.json"];

/// Files that are fetched where there are such.
const WELCOME: [&str; 7] = [
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
];

/// The weights, whole or listed.
const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Largest file that is read as JSON, in bytes.
const LARGEST_INDEX: u64 = 64 << 20;

/// How far a pull is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The file that is being fetched.
    pub file: String,
    /// Its place among all, from 1.
    pub number: usize,
    /// How many files there are (known once the weights are listed).
    pub files: usize,
    /// Bytes that are here, of all files.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

/// A model that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The snapshot's directory.
    pub dir: PathBuf,
    /// The commit.
    pub commit: String,
    /// Files of the model that are here.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were fetched for it now.
    pub fetched: u64,
}

/// Who watches a pull, and may end it.
pub trait Watch {
    /// A portion came, or nothing for a while. `Break` cancels.
    fn progress(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// The small files are in this directory; the weights come next unless this refuses.
    ///
    /// # Errors
    /// If the model cannot be used anyway.
    fn judge(&mut self, dir: &Path) -> Result<(), Failure>;
}

/// Fetches models.
pub struct Hub {
    http: Http,
    cache: Cache,
    settings: Settings,
    pause: Duration,
}

impl Hub {
    /// The hub and cache of these settings.
    ///
    /// # Errors
    /// [`HubError::NoCache`] where there is no home.
    pub fn new(settings: Settings) -> Result<Self, HubError> {
        Self::patient(settings, Duration::from_secs(30), Duration::from_secs(1))
    }

    /// The same with a `patience` for silent servers and a first `pause` before a broken connection is taken up again.
    ///
    /// # Errors
    /// As [`Hub::new`].
    pub fn patient(settings: Settings, patience: Duration, pause: Duration) -> Result<Self, HubError> {
        let cache = Cache::new(settings.cache.clone().ok_or(HubError::NoCache)?);
        Ok(Self { http: Http::new(settings.clone(), patience), cache, settings, pause })
    }

    /// Fetch what is missing of a model.
    ///
    /// # Errors
    /// See [`HubError`]. What came before an error is kept and gone on from, unless it is damaged.
    pub fn pull(&self, id: &ModelId, watch: &mut dyn Watch) -> Result<Pulled, HubError> {
        if self.settings.offline {
            return self.offline(id);
        }
        let listing = self.list(id)?;
        let folder = self.cache.folder(id);
        let transfer = Transfer {
            http: &self.http,
            id,
            commit: &listing.commit,
            blobs: folder.join("blobs"),
            locks: self.cache.root().join(".locks").join(id.folder()),
            pause: self.pause,
        };
        let dir = self.cache.snapshot(id, &listing.commit);
        let small = small_files(id, &listing)?;
        let mut work =
            Work { transfer, dir: &dir, watch, done: 0, total: 0, number: 0, files: small.len(), fetched: 0 };
        let guess: u64 =
            listing.files.iter().filter(|f| f.path.ends_with(".safetensors")).map(|f| f.size).sum();
        work.total = small.iter().map(|f| f.size).sum::<u64>() + guess;
        self.room(&small, &work.transfer)?;
        for file in &small {
            work.fetch(file)?;
        }
        work.watch.judge(&dir).map_err(HubError::Unusable)?;
        let large = weights(id, &listing, &dir)?;
        self.room(&large, &work.transfer)?;
        let all = || small.iter().chain(&large);
        let bytes = all().map(|f| f.size).sum();
        (work.files, work.total) = (small.len() + large.len(), bytes);
        for file in &large {
            work.fetch(file)?;
        }
        let fetched = work.fetched;
        self.cache.note(id, &listing.commit)?;
        Ok(Pulled { files: all().count(), bytes, fetched, commit: listing.commit, dir })
    }

    fn list(&self, id: &ModelId) -> Result<Listing, HubError> {
        let page = format!("api/models/{}/revision/{}?blobs=true", id.repository(), id.revision_in_url());
        let answer = self.http.get(&page, 0)?;
        if answer.status != 200 {
            return Err(refusal(&self.http, id, "its list of files", &answer));
        }
        Listing::read(id, &answer.bytes(&id.to_string(), listing::LONGEST)?)
    }

    /// Refuse what does not fit on the disk.
    fn room(&self, files: &[RemoteFile], transfer: &Transfer<'_>) -> Result<(), HubError> {
        let needed: u64 = files.iter().map(|file| file.size - transfer.have(file)).sum();
        match free_space(self.cache.root()) {
            Some(free) if free < needed => {
                Err(HubError::Disk { needed, free, dir: self.cache.root().to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// What the cache has, if it has it all.
    fn offline(&self, id: &ModelId) -> Result<Pulled, HubError> {
        let lacks = |missing: String| HubError::Offline { id: id.to_string(), missing };
        let dir = self.cache.find(id).ok_or_else(|| lacks(String::new()))?;
        let weights = match dir.join(INDEX).is_file() {
            true => [vec![INDEX.to_owned()], shards(id, &dir)?].concat(),
            false => vec![WHOLE.to_owned()],
        };
        let needed = NEEDED.map(str::to_owned).into_iter().chain(weights);
        let there = WELCOME.map(str::to_owned).into_iter().filter(|name| dir.join(name).is_file());
        let (mut files, mut bytes) = (0, 0);
        for name in needed.chain(there) {
            let about = fs::metadata(dir.join(&name)).map_err(|_| lacks(format!(" (it lacks {name})")))?;
            (files, bytes) = (files + 1, bytes + about.len());
        }
        let commit = self.cache.commit(id).unwrap_or_default();
        Ok(Pulled { dir, commit, files, bytes, fetched: 0 })
    }
}

/// One pull under way.
struct Work<'a> {
    transfer: Transfer<'a>,
    dir: &'a Path,
    watch: &'a mut dyn Watch,
    done: u64,
    total: u64,
    number: usize,
    files: usize,
    fetched: u64,
}

impl Work<'_> {
    /// Fetch a file and put it in its place in the snapshot.
    fn fetch(&mut self, file: &RemoteFile) -> Result<(), HubError> {
        self.number += 1;
        let have = self.transfer.have(file);
        let mut progress = Progress {
            file: file.path.clone(),
            number: self.number,
            files: self.files,
            done: self.done + have,
            total: self.total,
        };
        let (watch, fetched, limit) = (&mut *self.watch, &mut self.fetched, self.done + file.size);
        if watch.progress(&progress).is_break() {
            return Err(HubError::Cancelled);
        }
        let blob = self.transfer.fetch(file, &mut |n| {
            *fetched += n;
            // A file that had to be begun anew counts no byte twice.
            progress.done = (progress.done + n).min(limit);
            watch.progress(&progress)
        })?;
        self.done += file.size;
        link(&blob, self.dir, &file.path)
    }
}

/// The small files to fetch.
fn small_files(id: &ModelId, listing: &Listing) -> Result<Vec<RemoteFile>, HubError> {
    let find = |name: &str| listing.file(name).cloned();
    let lacks = |name: &str| HubError::File { id: id.to_string(), file: name.into() };
    let mut files = Vec::new();
    for name in NEEDED {
        files.push(find(name).ok_or_else(|| lacks(name))?);
    }
    files.extend(WELCOME.into_iter().filter_map(find));
    match (find(INDEX), find(WHOLE)) {
        (Some(index), _) => files.push(index),
        (None, Some(_)) => {}
        (None, None) => return Err(lacks(WHOLE)),
    }
    if let Some(file) = files.iter().find(|file| file.size > LARGEST_INDEX) {
        let problem = format!("{} has {} bytes", file.path, file.size);
        return Err(HubError::Answer { what: id.to_string(), problem });
    }
    Ok(files)
}

/// The weight files to fetch.
fn weights(id: &ModelId, listing: &Listing, dir: &Path) -> Result<Vec<RemoteFile>, HubError> {
    let names = if listing.file(INDEX).is_some() { shards(id, dir)? } else { vec![WHOLE.to_owned()] };
    let find =
        |name: String| listing.file(&name).cloned().ok_or(HubError::File { id: id.to_string(), file: name });
    names.into_iter().map(find).collect()
}

/// The names of the shards in a snapshot's index, each a plain name.
fn shards(id: &ModelId, dir: &Path) -> Result<Vec<String>, HubError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::HashMap<String, String>,
    }
    let path = dir.join(INDEX);
    let bytes = fs::read(&path).map_err(|e| HubError::io(&path, e))?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|e| HubError::Answer { what: format!("{id}'s {INDEX}"), problem: e.to_string() })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    match names.iter().find(|name| !is_plain(name)) {
        Some(name) => Err(HubError::Path { id: id.to_string(), name: name.clone() }),
        None => Ok(names.into_iter().collect()),
    }
}

/// True for the name of a file in the same folder.
fn is_plain(name: &str) -> bool {
    Path::new(name).file_name() == Some(OsStr::new(name)) && !name.contains(['\\', '\0', ':'])
}

/// A link to a blob in the snapshot, relative as the other tools make it; a copy where there are no links.
fn link(blob: &Path, dir: &Path, name: &str) -> Result<(), HubError> {
    let path = dir.join(name);
    if !is_plain(name) {
        return Err(HubError::Path { id: dir.display().to_string(), name: name.into() });
    }
    fs::create_dir_all(dir).map_err(|e| HubError::io(dir, e))?;
    let right = fs::canonicalize(&path).ok().zip(fs::canonicalize(blob).ok()).is_some_and(|(a, b)| a == b);
    if right {
        return Ok(());
    }
    if fs::symlink_metadata(&path).is_ok() {
        fs::remove_file(&path).map_err(|e| HubError::io(&path, e))?;
    }
    let blob = Path::new("../../blobs").join(blob.file_name().unwrap_or_default());
    std::os::unix::fs::symlink(blob, &path).map_err(|e| HubError::io(&path, e))
}
