//! A directory in Hugging Face layout: its weight files mapped into memory, every tensor checked before it is read.
//!
//! One file (`model.safetensors`) or shards with an index. A tensor is asked for by one name and found under any that
//! checkpoints have for it, see [`super::names`].

use std::{
    collections::HashMap,
    fs::File,
    path::{Path, PathBuf},
};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use safetensors::tensor::{Dtype, Metadata, SafeTensors, TensorInfo};

use super::{family::Family, names};
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
        let hint = match &error {
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

/// An opened checkpoint directory.
pub struct Checkpoint {
    dir: PathBuf,
    shards: Vec<Shard>,
    /// Name in the file -> shard.
    names: HashMap<String, usize>,
}

impl Checkpoint {
    /// Map the weight files of `dir` and read their headers. No tensor is read yet.
    ///
    /// # Errors
    /// If files are missing, truncated, or their headers are not valid.
    pub fn open(dir: &Path) -> Result<Self, CheckpointError> {
        if !dir.is_dir() {
            let problem = if dir.exists() { "not a directory" } else { "no such directory" };
            return Err(CheckpointError::file(dir, problem));
        }
        let single = dir.join("model.safetensors");
        let index = dir.join("model.safetensors.index.json");
        let mut names = HashMap::new();
        let mut shards = Vec::new();
        if index.is_file() {
            for (file, wanted) in read_index(&index)? {
                let shard = Shard::open(&dir.join(&file))?;
                for name in wanted {
                    if shard.metadata.info(&name).is_none() {
                        let problem = format!("the index promises `{name}` here, but it is not in the file");
                        return Err(CheckpointError::file(&shard.path, &problem));
                    }
                    names.insert(name, shards.len());
                }
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
        Ok(Self { dir: dir.to_owned(), shards, names })
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

    /// A tensor's values as f32, row-major, after checking its shape. A patch kernel `[o, c, t, h, w]` may be asked for as
    /// the matrix `[o, c·t·h·w]` that it is: shapes agree if the first sizes and the products do.
    ///
    /// # Errors
    /// If it is missing, has another shape, or an integer type.
    pub fn f32(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, CheckpointError> {
        let (shard, info) = self.find(name).ok_or_else(|| self.missing(name))?;
        let same = info.shape == shape
            || (info.shape.first() == shape.first()
                && info.shape.len() > shape.len()
                && info.shape.iter().product::<usize>() == shape.iter().product::<usize>());
        if !same {
            let problem = format!("shape {:?} where config.json says {shape:?}", info.shape);
            return Err(CheckpointError::tensor(name, &problem));
        }
        self.values(name, shard, info)
    }

    fn values(&self, name: &str, shard: &Shard, info: &TensorInfo) -> Result<Vec<f32>, CheckpointError> {
        let (from, to) = info.data_offsets;
        let bytes = &shard.map[shard.data + from..shard.data + to];
        let values = match info.dtype {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F16 => bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
            Dtype::BF16 => {
                bytes.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
            }
            other => {
                let problem = format!("type {other:?}; expected F32, F16 or BF16");
                return Err(CheckpointError::tensor(name, &problem));
            }
        };
        let values: Vec<f32> = values;
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            let problem = format!("value {at} is {}, in {}", values[at], shard.path.display());
            return Err(CheckpointError::tensor(name, &problem));
        }
        Ok(values)
    }

    fn missing(&self, name: &str) -> CheckpointError {
        CheckpointError::tensor(name, &format!("not in the weight files of {}", self.dir.display()))
    }

    /// All tensors under an original prefix (`visual`), as f32 on the CPU, names relative to it.
    ///
    /// # Errors
    /// If there are none, or one cannot be read.
    pub fn var_builder(&self, prefix: &str) -> Result<VarBuilder<'static>, CheckpointError> {
        let mut tensors = HashMap::new();
        for (name, &shard) in &self.names {
            let Some(relative) = names::below(name, prefix) else { continue };
            let shard = &self.shards[shard];
            let Some(info) = shard.metadata.info(name) else { continue };
            let tensor =
                Tensor::from_vec(self.values(name, shard, info)?, info.shape.as_slice(), &Device::Cpu)
                    .map_err(|e| CheckpointError::tensor(name, &e.to_string()))?;
            tensors.insert(relative.to_owned(), tensor);
        }
        if tensors.is_empty() {
            return Err(self.missing(&format!("{prefix}.*")));
        }
        Ok(VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu))
    }
}

impl Shard {
    fn open(path: &Path) -> Result<Self, CheckpointError> {
        let fail = |problem: &str| CheckpointError::file(path, problem);
        let file = File::open(path).map_err(|e| fail(&e.to_string()))?;
        // SAFETY: the mapping is read-only. A file changed by others while it is in use would be seen changed, as with any
        // program that maps its weights.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| fail(&e.to_string()))?;
        let (header, metadata) = SafeTensors::read_metadata(&map)
            .map_err(|e| fail(&format!("not a whole safetensors file: {e}")))?;
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
    let text = std::fs::read_to_string(path).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
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
