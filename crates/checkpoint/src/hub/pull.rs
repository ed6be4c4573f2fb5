//! Downloads a model from the hub into the cache: only the files that are needed, configuration before weights.

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
    error::{Available, listed},
    gguf::{self, GgufFiles},
    http::Http,
    listing::{self, Listing, RemoteFile},
    transfer::{Transfer, refusal},
};
use crate::gguf::{GgufFile, architecture};
use specreel_record::{Failure, FailureClass};

/// Files that every checkpoint must have.
const REQUIRED: [&str; 2] = ["config.json", "tokenizer.json"];

/// Files that are downloaded if they exist.
const OPTIONAL: [&str; 7] = [
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.json",
    "chat_template.jinja",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
];

/// The weights: one file, or an index of several.
const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// Maximum size of a JSON file, in bytes.
const MAX_JSON: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullProgress {
    pub file: String,
    /// Its number, from 1.
    pub number: usize,
    /// Number of files; without the weights until these are listed.
    pub files: usize,
    /// Bytes in the cache, of all files.
    pub done: u64,
    pub total: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// The snapshot's directory.
    pub dir: PathBuf,
    /// The language model's file, of a GGUF model; the first part if it is split.
    pub file: Option<PathBuf>,
    /// The vision tower's file, of a GGUF model that has one.
    pub mmproj: Option<PathBuf>,
    pub commit: String,
    /// Number of its files in the cache.
    pub files: usize,
    pub bytes: u64,
    /// Bytes downloaded by this pull.
    pub fetched: u64,
}

impl Pulled {
    /// The directory, or the language model's file of a GGUF model.
    pub fn path(&self) -> &Path {
        self.file.as_deref().unwrap_or(&self.dir)
    }
}

/// Observes a pull and may cancel it.
pub trait PullObserver {
    /// Called for every chunk, and regularly while waiting. `Break` cancels.
    fn progress(&mut self, progress: &PullProgress) -> ControlFlow<()>;

    /// Called before the weights are downloaded, with the directory that has all other files, or the vision tower's file of a
    /// GGUF model. Fails if the model cannot be used; the pull ends with this failure.
    fn check(&mut self, path: &Path) -> Result<(), Failure>;
}

pub struct Hub {
    http: Http,
    cache: Cache,
    settings: Settings,
    retry_delay: Duration,
}

impl Hub {
    /// A client for the hub and cache of these settings. Fails with [`HubError::NoCache`] without a home directory.
    pub fn new(settings: Settings) -> Result<Self, HubError> {
        Self::with_timeouts(settings, Duration::from_secs(30), Duration::from_secs(1))
    }

    /// As [`Hub::new`], with a `timeout` for silent servers and the delay before the first retry.
    pub fn with_timeouts(
        settings: Settings,
        timeout: Duration,
        retry_delay: Duration,
    ) -> Result<Self, HubError> {
        let cache = Cache::new(settings.cache.clone().ok_or(HubError::NoCache)?);
        Ok(Self { http: Http::new(settings.clone(), timeout), cache, settings, retry_delay })
    }

    /// Download the missing files of a model. Bytes downloaded before an error are kept, unless they are corrupt, and the next
    /// pull resumes.
    pub fn pull(&self, id: &ModelId, observer: &mut dyn PullObserver) -> Result<Pulled, HubError> {
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
            retry_delay: self.retry_delay,
        };
        let dir = self.cache.snapshot(id, &listing.commit);
        let model = id.tag.as_ref().map(|tag| gguf_files(id, tag, &listing)).transpose()?;
        let small = match &model {
            Some(files) => files.tower.iter().cloned().collect(),
            None => small_files(id, &listing)?,
        };
        let mut pull = ActivePull {
            transfer,
            dir: &dir,
            observer,
            done: 0,
            total: 0,
            number: 0,
            files: small.len(),
            fetched: 0,
        };
        let weighs = |file: &&RemoteFile| match &model {
            Some(files) => files.text.contains(file),
            None => file.path.ends_with(".safetensors"),
        };
        let estimate: u64 = listing.files.iter().filter(weighs).map(|f| f.size).sum();
        pull.total = small.iter().map(|f| f.size).sum::<u64>() + estimate;
        let known = model.iter().flat_map(|files| files.text.iter().cloned());
        self.check_disk_space(&small.iter().cloned().chain(known).collect::<Vec<_>>(), &pull.transfer)?;
        for file in &small {
            pull.fetch(file)?;
        }
        let tower = model.as_ref().and_then(|files| files.tower.as_ref()).map(|tower| dir.join(&tower.path));
        match (&model, &tower) {
            (None, _) => pull.observer.check(&dir),
            (Some(_), Some(tower)) => pull.observer.check(tower),
            (Some(_), None) => Ok(()),
        }
        .map_err(HubError::Unusable)?;
        let large = match &model {
            Some(files) => files.text.clone(),
            None => weights(id, &listing, &dir)?,
        };
        self.check_disk_space(&large, &pull.transfer)?;
        let all = || small.iter().chain(&large);
        let bytes = all().map(|f| f.size).sum();
        (pull.files, pull.total) = (small.len() + large.len(), bytes);
        for file in &large {
            match &id.tag {
                Some(tag) => pull.fetch_gguf(file, &|problem| unsupported(id, tag, problem, &listing))?,
                None => pull.fetch(file)?,
            }
        }
        let fetched = pull.fetched;
        self.cache.set_ref(id, &listing.commit)?;
        Ok(Pulled {
            files: all().count(),
            bytes,
            fetched,
            file: model.and_then(|files| Some(dir.join(&files.text.first()?.path))),
            mmproj: tower,
            commit: listing.commit,
            dir,
        })
    }

    /// Bytes of all files that a pull of this model downloads into an empty cache.
    pub fn size(&self, id: &ModelId) -> Result<u64, HubError> {
        let listing = self.list(id)?;
        Ok(match &id.tag {
            Some(tag) => {
                let files = gguf_files(id, tag, &listing)?;
                files.text.iter().chain(&files.tower).map(|file| file.size).sum()
            }
            None => {
                let is_weight = |file: &&RemoteFile| file.path.ends_with(".safetensors");
                let weights: u64 = listing.files.iter().filter(is_weight).map(|file| file.size).sum();
                let small: u64 = small_files(id, &listing)?.iter().map(|file| file.size).sum();
                small + weights
            }
        })
    }

    fn list(&self, id: &ModelId) -> Result<Listing, HubError> {
        let page = format!("api/models/{}/revision/{}?blobs=true", id.repository(), id.revision_in_url());
        let response = self.http.get(&page, 0)?;
        if response.status != 200 {
            return Err(refusal(&self.http, id, "its file list", &response));
        }
        Listing::read(id, &response.bytes(&id.to_string(), listing::MAX_LISTING)?)
    }

    /// An error if the missing files do not fit on the disk.
    fn check_disk_space(&self, files: &[RemoteFile], transfer: &Transfer<'_>) -> Result<(), HubError> {
        let needed: u64 = files.iter().map(|file| file.size - transfer.cached(file)).sum();
        match free_space(self.cache.root()) {
            Some(free) if free < needed => {
                Err(HubError::Disk { needed, free, dir: self.cache.root().to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The cached model, if it is complete.
    fn offline(&self, id: &ModelId) -> Result<Pulled, HubError> {
        let incomplete = |missing: String| HubError::Offline { id: id.to_string(), missing };
        let found = self.cache.find(id).ok_or_else(|| incomplete(String::new()))?;
        let commit = self.cache.commit(id).unwrap_or_default();
        if id.tag.is_some() {
            let dir = self.cache.snapshot(id, &commit);
            let mmproj = gguf::cached_tower(&found);
            let cached = gguf::cached(&dir).into_iter().map(|(_, files)| files);
            let text = cached.into_iter().find(|files| files.contains(&found)).unwrap_or_default();
            let all = || text.iter().chain(&mmproj);
            let bytes = all().map(|file| fs::metadata(file).map_or(0, |about| about.len())).sum();
            return Ok(Pulled {
                dir,
                commit,
                files: all().count(),
                bytes,
                fetched: 0,
                file: Some(found),
                mmproj,
            });
        }
        let dir = found;
        let weights = match dir.join(INDEX).is_file() {
            true => [vec![INDEX.to_owned()], shards(id, &dir)?].concat(),
            false => vec![SINGLE.to_owned()],
        };
        let required = REQUIRED.map(str::to_owned).into_iter().chain(weights);
        let optional = OPTIONAL.map(str::to_owned).into_iter().filter(|name| dir.join(name).is_file());
        let (mut files, mut bytes) = (0, 0);
        for name in required.chain(optional) {
            let about =
                fs::metadata(dir.join(&name)).map_err(|_| incomplete(format!(" (missing {name})")))?;
            (files, bytes) = (files + 1, bytes + about.len());
        }
        Ok(Pulled { dir, commit, files, bytes, fetched: 0, file: None, mmproj: None })
    }
}

struct ActivePull<'a> {
    transfer: Transfer<'a>,
    dir: &'a Path,
    observer: &'a mut dyn PullObserver,
    done: u64,
    total: u64,
    number: usize,
    files: usize,
    fetched: u64,
}

impl ActivePull<'_> {
    fn fetch(&mut self, file: &RemoteFile) -> Result<(), HubError> {
        self.fetch_watched(file, &mut |_| Ok(()))
    }

    /// Download a GGUF file. Fails with an error `of` its types as soon as its header shows that they are not supported.
    fn fetch_gguf(&mut self, file: &RemoteFile, of: &dyn Fn(String) -> HubError) -> Result<(), HubError> {
        let partial = self.transfer.partial(file);
        // Where the header is looked at next.
        let mut next = 0;
        self.fetch_watched(file, &mut |here| {
            if here < next {
                return Ok(());
            }
            let checked = GgufFile::check_beginning(&partial);
            next = if checked.is_some() { u64::MAX } else { 2 * here };
            checked.unwrap_or(Ok(())).map_err(of)
        })
    }

    /// Download a file and link it into the snapshot. `watch` gets the number of its bytes in the cache, and may end the download.
    fn fetch_watched(
        &mut self,
        file: &RemoteFile,
        watch: &mut dyn FnMut(u64) -> Result<(), HubError>,
    ) -> Result<(), HubError> {
        self.number += 1;
        let cached = self.transfer.cached(file);
        let mut progress = PullProgress {
            file: file.path.clone(),
            number: self.number,
            files: self.files,
            done: self.done + cached,
            total: self.total,
        };
        let (observer, fetched, limit) = (&mut *self.observer, &mut self.fetched, self.done + file.size);
        if observer.progress(&progress).is_break() {
            return Err(HubError::Cancelled);
        }
        let (mut here, mut refused) = (cached, None);
        let blob = self.transfer.fetch(file, &mut |n| {
            *fetched += n;
            here += n;
            if let Err(error) = watch(here) {
                refused = Some(error);
                return ControlFlow::Break(());
            }
            // A file that is downloaded from the start again counts once.
            progress.done = (progress.done + n).min(limit);
            observer.progress(&progress)
        });
        if let Some(error) = refused {
            return Err(error);
        }
        let blob = blob?;
        self.done += file.size;
        link(&blob, self.dir, &file.path)
    }
}

/// The files of a GGUF model; an error if the hub knows that it is none of a supported family.
fn gguf_files(id: &ModelId, tag: &str, listing: &Listing) -> Result<GgufFiles, HubError> {
    let files = gguf::choose(id, tag, listing)?;
    // Of a repository with a language model and a tower, the hub may name either.
    let known = listing.architecture.as_deref().filter(|name| *name != architecture::TOWER);
    let refuse = |problem: String, hint: &str| {
        let error = format!("{id}: {problem}");
        Err(HubError::Unusable(Failure { class: FailureClass::Input, error, hint: Some(hint.into()) }))
    };
    match known {
        Some(name) if !architecture::is_supported(name) => {
            refuse(architecture::unsupported(name), "pull a model of one of these families")
        }
        Some(name) if architecture::is_shared(name) && files.tower.is_none() => refuse(
            format!("a language model ({name}) without a vision tower: the repository has no mmproj file"),
            "specreel models known lists models that see videos",
        ),
        _ => Ok(files),
    }
}

/// The error of a file with types that are not supported. The other types of the repository are the way out.
fn unsupported(id: &ModelId, tag: &str, problem: String, listing: &Listing) -> HubError {
    let others: Vec<Available> =
        gguf::available(listing).into_iter().filter(|available| available.tag != tag).collect();
    let hint = match listed(&others) {
        others if others.is_empty() => "pull another repository of this model".to_owned(),
        others => format!("choose another type of {}; available: {others}", id.repository()),
    };
    let error = format!("{id}: {problem}");
    HubError::Unusable(Failure { class: FailureClass::Input, error, hint: Some(hint) })
}

/// The files to download before the weights.
fn small_files(id: &ModelId, listing: &Listing) -> Result<Vec<RemoteFile>, HubError> {
    let find = |name: &str| listing.file(name).cloned();
    let missing = |name: &str| HubError::File { id: id.to_string(), file: name.into() };
    if listing.file(INDEX).is_none() && listing.file(SINGLE).is_none() && gguf::has_models(listing) {
        let available = gguf::available(listing);
        return Err(HubError::Type { repository: id.repository(), tag: None, available });
    }
    let mut files = Vec::new();
    for name in REQUIRED {
        files.push(find(name).ok_or_else(|| missing(name))?);
    }
    files.extend(OPTIONAL.into_iter().filter_map(find));
    match (find(INDEX), find(SINGLE)) {
        (Some(index), _) => files.push(index),
        (None, Some(_)) => {}
        (None, None) => return Err(missing(SINGLE)),
    }
    if let Some(file) = files.iter().find(|file| file.size > MAX_JSON) {
        let problem = format!("{} has {} bytes", file.path, file.size);
        return Err(HubError::Response { what: id.to_string(), problem });
    }
    Ok(files)
}

fn weights(id: &ModelId, listing: &Listing, dir: &Path) -> Result<Vec<RemoteFile>, HubError> {
    let names = if listing.file(INDEX).is_some() { shards(id, dir)? } else { vec![SINGLE.to_owned()] };
    let find =
        |name: String| listing.file(&name).cloned().ok_or(HubError::File { id: id.to_string(), file: name });
    names.into_iter().map(find).collect()
}

/// The shards in a snapshot's index; an error if one is not a plain file name.
fn shards(id: &ModelId, dir: &Path) -> Result<Vec<String>, HubError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::HashMap<String, String>,
    }
    let path = dir.join(INDEX);
    let bytes = fs::read(&path).map_err(|e| HubError::io(&path, e))?;
    let index: Index = serde_json::from_slice(&bytes)
        .map_err(|e| HubError::Response { what: format!("{id}'s {INDEX}"), problem: e.to_string() })?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    match names.iter().find(|name| !is_plain(name)) {
        Some(name) => Err(HubError::Path { id: id.to_string(), name: name.clone() }),
        None => Ok(names.into_iter().collect()),
    }
}

/// True for the name of a file in the same directory.
fn is_plain(name: &str) -> bool {
    Path::new(name).file_name() == Some(OsStr::new(name)) && !name.contains(['\\', '\0', ':'])
}

/// Link a blob into the snapshot, or a folder in it, with a relative path, as the other tools do.
fn link(blob: &Path, dir: &Path, name: &str) -> Result<(), HubError> {
    let path = dir.join(name);
    let folders = name.matches('/').count();
    if folders > 1 || !name.split('/').all(is_plain) {
        return Err(HubError::Path { id: dir.display().to_string(), name: name.into() });
    }
    let folder = path.parent().unwrap_or(dir);
    fs::create_dir_all(folder).map_err(|e| HubError::io(folder, e))?;
    let identity = |path: &Path| specreel_os::file::identity_at(path).ok();
    if identity(&path).zip(identity(blob)).is_some_and(|(a, b)| a == b) {
        return Ok(());
    }
    if fs::symlink_metadata(&path).is_ok() {
        fs::remove_file(&path).map_err(|e| HubError::io(&path, e))?;
    }
    let blob = Path::new(&"../".repeat(2 + folders)).join("blobs").join(blob.file_name().unwrap_or_default());
    specreel_os::file::link(&blob, &path).map_err(|e| HubError::io(&path, e))
}
