//! A checkpoint, in Hugging Face layout or GGUF: its weight files opened, every tensor checked before it is read.
//!
//! One file (`model.safetensors`), shards with an index, or the mapped files of a GGUF model. A tensor is requested by one
//! name and found under any spelling that checkpoints use for it, see [`super::names`]. Quantized matrices of safetensors files
//! are stored in several tensors, and count as one; see [`crate::quantized`].

mod adapted;
mod kept;
mod mapped;
mod quantized;
mod read;
mod tensors;
mod transposed;

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use safetensors::tensor::{Dtype, TensorInfo};

pub use self::kept::KeptWeights;
use super::{files, gguf, names};
use crate::{
    ModelFiles, WeightCache,
    adapter::Adapter,
    experts::{self, ExpertMatrix},
    quantized::{Quantization, QuantizedMatrix},
    shard::Shard,
};
use specreel_tensor::{CheckpointError, cpu::thread_pool::DisjointSliceMut, weights::random_values};

/// Called with (tensors read, tensors in total), also within a large tensor. `Break` stops the loading.
pub type LoadProgress = Arc<dyn Fn(usize, usize) -> ControlFlow<()> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTensor<'a> {
    /// Its name, as in a safetensors file.
    pub name: &'a str,
    pub shape: &'a [usize],
    /// Name of its type, in lower case.
    pub dtype: String,
    pub bytes: u64,
}

pub struct Checkpoint {
    files: ModelFiles,
    shards: Vec<Shard>,
    /// Name in the file -> shard, except of what quantized matrices and fused experts are stored in.
    names: HashMap<String, usize>,
    quantization: Option<Quantization>,
    /// By the names of the tensors that they stand for.
    quantized: BTreeMap<String, QuantizedMatrix>,
    /// The matrices of experts that fused tensors hold, by the names that they have in other files.
    experts: BTreeMap<String, ExpertMatrix>,
    adapter: Option<Adapter>,
    /// The files are in MLX's layout, where norms are stored as 1 + w.
    adds_to_norms: bool,
    /// The tensors of GGUF files by the names of this crate.
    mapped: BTreeMap<String, gguf::NamedTensor>,
    /// See [`Checkpoint::part`].
    part: Option<&'static str>,
    /// See [`Checkpoint::requantized`].
    requantized: bool,
    /// Without files: see [`Checkpoint::random`].
    random: bool,
    progress: Option<LoadProgress>,
    /// Where weights are kept in the form in which they are used.
    weight_cache: Option<WeightCache>,
    kept: KeptWeights,
    /// Tensors read so far.
    read: AtomicUsize,
    stopped: AtomicBool,
}

impl Checkpoint {
    /// Open the weight files of a directory, or a GGUF file and its mmproj file, and read their headers. No tensor is
    /// read yet. Fails if files are missing or truncated, or their headers are invalid.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        if path.is_file() { Self::of(&ModelFiles::open(path, None)?) } else { Self::open_directory(path) }
    }

    /// Open the weight files of a model, as [`Checkpoint::open`].
    pub fn of(files: &ModelFiles) -> Result<Self, CheckpointError> {
        Ok(match files {
            ModelFiles::Directory { dir, lora } => {
                let checkpoint = Self::open_directory(dir)?;
                match lora {
                    Some(lora) => Self { files: files.clone(), ..checkpoint.with_adapter(lora)? },
                    None => checkpoint,
                }
            }
            ModelFiles::Gguf(model) => {
                Self { mapped: model.named(), random: false, ..Self::empty(files.clone()) }
            }
        })
    }

    fn open_directory(dir: &Path) -> Result<Self, CheckpointError> {
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
            names.extend(shard.tensors.keys().map(|name| (name.clone(), 0)));
            shards.push(shard);
        } else {
            return Err(CheckpointError::file(&single, "no such file (nor model.safetensors.index.json)"));
        }
        let quantization = Quantization::read(dir)?;
        let quantized = match &quantization {
            Some(quantization) => quantization.matrices(&mut names, &shards),
            None => BTreeMap::new(),
        };
        let experts = experts::split(&mut names, &shards)?;
        let adds_to_norms =
            adapted::adds_to_norms(names.iter().filter_map(|(name, shard)| {
                Some((name.as_str(), &shards[*shard].tensors.get(name)?.shape[..]))
            }));
        let files = ModelFiles::of_directory(dir);
        Ok(Self {
            shards,
            names,
            quantization,
            quantized,
            experts,
            adds_to_norms,
            random: false,
            ..Self::empty(files)
        })
    }

    fn empty(files: ModelFiles) -> Self {
        Self {
            files,
            shards: Vec::new(),
            names: HashMap::new(),
            quantization: None,
            quantized: BTreeMap::new(),
            experts: BTreeMap::new(),
            adapter: None,
            adds_to_norms: false,
            mapped: BTreeMap::new(),
            part: None,
            requantized: false,
            random: true,
            progress: None,
            weight_cache: None,
            kept: KeptWeights::default(),
            read: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        }
    }

    /// A checkpoint without files: every requested tensor has the requested shape and random values. The cost of a pass depends
    /// on the shapes alone.
    pub fn random() -> Self {
        Self::empty(ModelFiles::of_directory(Path::new("")))
    }

    /// The same checkpoint, whose tensors `PART.…` are requested by the names of a model: `model.norm.weight` is
    /// `PART.norm.weight`.
    pub fn part(self, part: &'static str) -> Self {
        Self { part: Some(part), ..self }
    }

    /// The names of a tensor in the files, in the order in which they are tried.
    fn spellings(&self, name: &str) -> Vec<String> {
        match self.part {
            None => names::spellings(name),
            Some(part) => names::spellings_in(part, name),
        }
    }

    /// The same checkpoint, reporting its loading to `progress`.
    pub fn with_progress(self, progress: LoadProgress) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// The same checkpoint, whose matrices are converted to the type that is asked for where a GGUF file has its own.
    pub fn requantized(self) -> Self {
        Self { requantized: true, ..self }
    }

    /// True if its matrices are used in the types of its file.
    pub fn keeps_own_types(&self) -> bool {
        self.files.gguf().is_some() && !self.requantized
    }

    /// The same checkpoint, whose converted weights are kept in a cache; see [`Checkpoint::open_weight_cache`].
    pub fn with_weight_cache(self, cache: Option<WeightCache>) -> Self {
        Self { weight_cache: cache, ..self }
    }

    /// Where converted weights are kept, if they are.
    pub fn weight_cache(&self) -> Option<&WeightCache> {
        self.weight_cache.as_ref()
    }

    /// Find the kept weights of a `variant` (weight types), or begin to keep them. `expected` is their size in bytes. Converted
    /// matrices may wait for the disk if they are the loaded model's own memory (`are_shared`), others hold up the loading. Fails if
    /// the loading was stopped, or a weight file cannot be read.
    pub fn open_weight_cache(
        &self,
        variant: &str,
        expected: u64,
        are_shared: bool,
    ) -> Result<(), CheckpointError> {
        let waiting = if are_shared { self.tensors().count() } else { 1 };
        match &self.weight_cache {
            Some(cache) if !self.random => self.kept.open(cache, self, variant, expected, waiting),
            _ => Ok(()),
        }
    }

    pub fn kept(&self) -> &KeptWeights {
        &self.kept
    }

    /// Count tensors from zero again.
    pub(super) fn restart_progress(&self) {
        self.read.store(0, Ordering::Relaxed);
    }

    /// The open weight files.
    pub(super) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// True once the progress callback stopped the loading.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// All tensors, as in the files; a quantized matrix is one.
    pub fn tensors(&self) -> impl Iterator<Item = StoredTensor<'_>> {
        let in_shards = self.names.iter().filter_map(|(name, &shard)| {
            let info = self.shards[shard].tensors.get(name)?;
            Some(StoredTensor {
                name,
                shape: &info.shape,
                dtype: format!("{:?}", info.dtype).to_lowercase(),
                bytes: (info.data_offsets.1 - info.data_offsets.0) as u64,
            })
        });
        let quantized = self.quantized.iter().map(|(name, matrix)| StoredTensor {
            name,
            shape: &matrix.shape,
            dtype: matrix.dtype(),
            bytes: matrix.bytes(),
        });
        let experts = self.experts.iter().map(|(name, matrix)| StoredTensor {
            name,
            shape: &matrix.shape,
            dtype: format!("{:?}", matrix.stored.info.dtype).to_lowercase(),
            bytes: matrix.bytes(),
        });
        in_shards.chain(quantized).chain(experts).chain(self.mapped.iter().filter_map(|(name, tensor)| {
            let dtype = tensor.parts.first()?.kind.name().to_owned();
            Some(StoredTensor { name, shape: &tensor.shape, dtype, bytes: tensor.bytes() })
        }))
    }

    /// Everything that is wrong with the weight files of `dir`, not only the first problem; empty if [`Checkpoint::open`]
    /// succeeds.
    pub fn problems(dir: &Path) -> Vec<CheckpointError> {
        let index = dir.join("model.safetensors.index.json");
        if dir.is_file() {
            return Self::open(dir).err().into_iter().collect();
        }
        let files = match index.is_file().then(|| read_index(&index)) {
            Some(Ok(files)) => files,
            _ => return Self::open(dir).err().into_iter().collect(),
        };
        let mut problems: Vec<CheckpointError> = Quantization::read(dir).err().into_iter().collect();
        for (file, wanted) in files {
            match Shard::open(&dir.join(&file)) {
                Ok(shard) => problems.extend(wanted.iter().filter_map(|name| shard.lacks(name))),
                Err(problem) => problems.push(problem),
            }
        }
        problems
    }

    pub fn files(&self) -> &ModelFiles {
        &self.files
    }

    pub fn bytes(&self) -> u64 {
        let mapped = self.files.gguf().map_or(0, |model| model.text.size() + model.tower.size());
        mapped + self.shards.iter().map(|shard| shard.len).sum::<u64>()
    }

    /// The type of most values; of a GGUF model, of the language model's.
    pub fn main_type(&self) -> String {
        if let Some(model) = self.files.gguf() {
            return model.main_type().name().to_owned();
        }
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        for tensor in self.tensors() {
            *shares.entry(tensor.dtype).or_default() += tensor.bytes;
        }
        shares.into_iter().max_by_key(|(_, bytes)| *bytes).map(|(dtype, _)| dtype).unwrap_or_default()
    }

    /// Bytes of a tensor's values as [`Weights::native`](specreel_tensor::Weights::native) has them.
    pub fn value_bytes(&self, name: &str) -> usize {
        self.native_kind(name).map_or(4, |_| 2)
    }

    /// True if the checkpoint has the tensor with this original name.
    pub fn contains(&self, name: &str) -> bool {
        self.find_named(name).is_some() || self.stored_in(name).is_some()
    }

    fn find_named(&self, name: &str) -> Option<&gguf::NamedTensor> {
        match self.part {
            None => self.mapped.get(name),
            Some(part) => names::spellings_in(part, name).iter().find_map(|name| self.mapped.get(name)),
        }
    }

    /// Where a tensor's values are; an adapter may replace them.
    fn stored_in(&self, name: &str) -> Option<TensorPlace<'_>> {
        let names = self.spellings(name);
        let replaced = self.adapter.iter().find_map(|adapter| {
            let part = names.iter().find_map(|name| adapter.replaced.get(name))?;
            Some(TensorPlace::Plain(&self.shards[part.shard], &part.info))
        });
        replaced.or_else(|| {
            names.iter().find_map(|name| {
                if let Some(matrix) = self.quantized.get(name) {
                    return Some(TensorPlace::Quantized(matrix));
                }
                if let Some(matrix) = self.experts.get(name) {
                    let shard = &self.shards[matrix.stored.shard];
                    return Some(match matrix.column {
                        None => TensorPlace::Plain(shard, &matrix.stored.info),
                        Some(first) => TensorPlace::Transposed(matrix, first),
                    });
                }
                let shard = &self.shards[*self.names.get(name)?];
                Some(TensorPlace::Plain(shard, shard.tensors.get(name)?))
            })
        })
    }

    /// A tensor whose rows are stored one after the other, as floats or integers.
    fn find(&self, name: &str) -> Option<(&Shard, &TensorInfo)> {
        match self.stored_in(name)? {
            TensorPlace::Plain(shard, info) => Some((shard, info)),
            TensorPlace::Quantized(_) | TensorPlace::Transposed(..) => None,
        }
    }
}

/// Where a tensor of safetensors files is.
#[derive(Clone, Copy)]
enum TensorPlace<'a> {
    Plain(&'a Shard, &'a TensorInfo),
    Quantized(&'a QuantizedMatrix),
    /// The outputs are columns of the tensor, from this one on.
    Transposed(&'a ExpertMatrix, usize),
}

impl TensorPlace<'_> {
    fn shape(&self) -> &[usize] {
        match self {
            Self::Plain(_, info) => &info.shape,
            Self::Quantized(matrix) => &matrix.shape,
            Self::Transposed(matrix, _) => &matrix.shape,
        }
    }
}

/// The shards of an index, each with the names of its tensors.
fn read_index(path: &Path) -> Result<Vec<(String, Vec<String>)>, CheckpointError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let text = files::text(path, files::TABLE).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
    let index: Index =
        serde_json::from_str(&text).map_err(|e| CheckpointError::file(path, &e.to_string()))?;
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, file) in index.weight_map {
        if Path::new(&file).file_name() != Some(std::ffi::OsStr::new(&file)) {
            let problem = format!("`{file}` is not the name of a file in this directory");
            return Err(CheckpointError::file(path, &problem));
        }
        files.entry(file).or_default().push(name);
    }
    Ok(files.into_iter().collect())
}
