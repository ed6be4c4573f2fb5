//! A directory in Hugging Face layout: its weight files mapped into memory, every tensor checked before it is read.
//!
//! One file (`model.safetensors`) or shards with an index. A tensor is asked for by one name and found under any that
//! checkpoints have for it, see [`super::names`].

mod header;
mod parts;

use std::{
    collections::HashMap,
    fs::File,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};

use super::{ComputeDevice, family::Family, files, names, shapes};
use crate::record::{Failure, FailureClass};

/// Why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file is missing or cannot be understood.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A tensor is missing or has another shape or type.
    #[error("tensor `{name}`: {problem}")]
    Tensor {
        /// Its original name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Somebody stopped the reading.
    #[error("reading the checkpoint was stopped")]
    Stopped,
}

impl CheckpointError {
    /// About a file.
    pub fn file(path: &Path, problem: &str) -> Self {
        Self::File { path: path.to_owned(), problem: problem.to_owned() }
    }

    /// About a tensor.
    pub fn tensor(name: &str, problem: &str) -> Self {
        Self::Tensor { name: name.to_owned(), problem: problem.to_owned() }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        if super::family::is_out_of_memory(&error.to_string()) {
            return Failure {
                class: FailureClass::Memory,
                error: format!("the model does not fit into the device's memory: {error}"),
                hint: Some("use smaller weights (--dtype q8_0 or q4_k), or --device cpu".into()),
            };
        }
        let hint = match &error {
            CheckpointError::Stopped => "load the models again".into(),
            CheckpointError::File { path, .. } if path.ends_with("config.json") => {
                let known = Family::ALL.map(Family::name).join(", ");
                format!(
                    "give the directory of a checkpoint as it is downloaded from the Hugging Face hub: {known}"
                )
            }
            _ => "download the checkpoint again, all files of it: this copy is incomplete or damaged".into(),
        };
        Failure { class: FailureClass::Input, error: error.to_string(), hint: Some(hint) }
    }
}

struct Shard {
    path: PathBuf,
    map: memmap2::Mmap,
    /// Where the tensors' bytes begin.
    data: usize,
    metadata: Metadata,
}

/// Told how many tensors of how many were read, now and then within a large one. `Break` stops the reading.
pub type Watch = Arc<dyn Fn(usize, usize) -> ControlFlow<()> + Send + Sync>;

/// An opened checkpoint directory.
pub struct Checkpoint {
    dir: PathBuf,
    shards: Vec<Shard>,
    /// Name in the file -> shard.
    names: HashMap<String, usize>,
    /// It has no files: see [`Checkpoint::random`].
    random: bool,
    watch: Option<Watch>,
    /// Tensors that were read.
    read: AtomicUsize,
    stopped: AtomicBool,
    /// What is missing or wrong, where nothing is read but all is asked for.
    rehearsal: Option<Mutex<Vec<CheckpointError>>>,
}

impl Checkpoint {
    /// Map the weight files of `dir` and read their headers. No tensor is read yet.
    ///
    /// # Errors
    /// If files are missing, truncated, or their headers are not valid.
    pub fn open(dir: &Path) -> Result<Self, CheckpointError> {
        match std::fs::metadata(dir) {
            Ok(about) if about.is_dir() => {}
            Ok(_) => return Err(CheckpointError::file(dir, "not a directory")),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(CheckpointError::file(dir, "no such directory"));
            }
            Err(e) => return Err(CheckpointError::file(dir, &e.to_string())),
        }
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let mut names = HashMap::new();
        let mut shards = Vec::new();
        if index.is_file() {
            for (file, wanted) in read_index(&index)? {
                let shard = Shard::open(&dir.join(&file))?;
                if let Some(problem) = wanted.iter().find_map(|name| shard.lacks(name)) {
                    return Err(problem);
                }
                names.extend(wanted.into_iter().map(|name| (name, shards.len())));
                shards.push(shard);
            }
        } else if single.is_file() {
            let shard = Shard::open(&single)?;
            names.extend(shard.metadata.tensors().into_keys().map(|name| (name, 0)));
            shards.push(shard);
        } else {
            return Err(CheckpointError::file(
                &single,
                "missing (and there is no model.safetensors.index.json)",
            ));
        }
        Ok(Self { shards, names, random: false, ..Self::empty(dir) })
    }

    fn empty(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            shards: Vec::new(),
            names: HashMap::new(),
            random: true,
            watch: None,
            read: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            rehearsal: None,
        }
    }

    /// A checkpoint without files: every tensor that is asked for has the asked shape and random values. What a pass of a model
    /// costs depends on its shape alone.
    pub fn random() -> Self {
        Self::empty(Path::new(""))
    }

    /// The same, telling a watch of every tensor that is read.
    pub fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// True once the watch stopped the reading.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The same for a rehearsal: towers are given zeros that take no memory, and what is missing or wrong is noted rather
    /// than refused. See [`Checkpoint::noted`].
    pub fn rehearsing(self) -> Self {
        Self { rehearsal: Some(Mutex::default()), ..self }
    }

    /// What a rehearsal found; from then on there is nothing noted.
    pub fn noted(&self) -> Vec<CheckpointError> {
        let Some(noted) = &self.rehearsal else { return Vec::new() };
        std::mem::take(&mut noted.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Names, shapes and types of all tensors, as the files have them.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.names
            .iter()
            .filter_map(|(name, &shard)| Some((name.as_str(), self.shards[shard].metadata.info(name)?)))
    }

    /// Everything that is wrong with the weight files of `dir`, not only the first thing; empty where [`Checkpoint::open`]
    /// succeeds.
    pub fn problems(dir: &Path) -> Vec<CheckpointError> {
        let index = dir.join("model.safetensors.index.json");
        let files = match index.is_file().then(|| read_index(&index)) {
            Some(Ok(files)) => files,
            _ => return Self::open(dir).err().into_iter().collect(),
        };
        let mut problems = Vec::new();
        for (file, wanted) in files {
            match Shard::open(&dir.join(&file)) {
                Ok(shard) => problems.extend(wanted.iter().filter_map(|name| shard.lacks(name))),
                Err(problem) => problems.push(problem),
            }
        }
        problems
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes of all weight files.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|s| s.map.len() as u64).sum()
    }

    /// True if the tensor with this original name is there.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<(&Shard, &TensorInfo)> {
        names::spellings(name).iter().find_map(|name| {
            let shard = &self.shards[*self.names.get(name)?];
            Some((shard, shard.metadata.info(name)?))
        })
    }
}

impl Shard {
    /// What is wrong if the index promises a tensor here.
    fn lacks(&self, name: &str) -> Option<CheckpointError> {
        let problem = || format!("the index promises `{name}` here, but it is not in the file");
        self.metadata.info(name).is_none().then(|| CheckpointError::file(&self.path, &problem()))
    }

    fn open(path: &Path) -> Result<Self, CheckpointError> {
        let fail = |problem: &str| CheckpointError::file(path, problem);
        // A pipe would be waited for, and a directory has no bytes.
        if !std::fs::metadata(path).map_err(|e| fail(&e.to_string()))?.is_file() {
            return Err(fail("not a file"));
        }
        let file = File::open(path).map_err(|e| fail(&e.to_string()))?;
        // SAFETY: the mapping is read-only. A file changed by others while it is in use would be seen changed, as with any
        // program that maps its weights.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| fail(&e.to_string()))?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|e| fail(&format!("not a whole safetensors file: {e}")))?;
        if let Some(name) = header::duplicate(&map[8..8 + header]) {
            return Err(fail(&format!("its header names `{name}` twice")));
        }
        let data = header + 8;
        let end = metadata.tensors().values().map(|info| info.data_offsets.1).max().unwrap_or(0);
        if data.checked_add(end).is_none_or(|end| end > map.len()) {
            return Err(fail(&format!(
                "truncated: its header promises {} bytes, it has {}",
                data + end,
                map.len()
            )));
        }
        Ok(Self { path: path.to_owned(), map, data, metadata })
    }
}

/// The shards of an index with the tensor names that each is to hold.
fn read_index(path: &Path) -> Result<Vec<(String, Vec<String>)>, CheckpointError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let text = files::text(path, files::TABLE).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
    let index: Index =
        serde_json::from_str(&text).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
    let mut files: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for (name, file) in index.weight_map {
        if Path::new(&file).file_name() != Some(std::ffi::OsStr::new(&file)) {
            return Err(CheckpointError::file(
                path,
                &format!("names `{file}`, which is not a file beside it"),
            ));
        }
        files.entry(file).or_default().push(name);
    }
    Ok(files.into_iter().collect())
}
