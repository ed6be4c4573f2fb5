//! Where a model comes from: a directory in Hugging Face layout, or GGUF files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use specreel_tensor::CheckpointError;

use crate::{Checkpoint, gguf::GgufModel, hub, quantized::Quantization};

/// The files of a model. Clones share them.
#[derive(Clone)]
pub enum ModelFiles {
    /// A directory in Hugging Face layout; nothing is read yet.
    Directory {
        dir: PathBuf,
        /// The directory of a LoRA adapter that is added to the weights.
        lora: Option<PathBuf>,
    },
    /// A GGUF file with its mmproj file; their headers have been read.
    Gguf(Arc<GgufModel>),
}

impl ModelFiles {
    /// The files of a model at `path`: a directory, or a GGUF file with its vision tower in `mmproj` (by default the mmproj
    /// file in its folder, see [`GgufModel::open`]). Fails if `path` does not exist, a GGUF file cannot be used, or `mmproj` is
    /// given with a directory.
    pub fn open(path: &Path, mmproj: Option<&Path>) -> Result<Self, CheckpointError> {
        match std::fs::metadata(path) {
            Ok(about) if about.is_dir() => match mmproj {
                None => Ok(Self::of_directory(path)),
                Some(mmproj) => {
                    let problem = format!(
                        "an mmproj file belongs to a GGUF file, but {} is a directory",
                        path.display()
                    );
                    Err(CheckpointError::file_hint(mmproj, problem, "omit --mmproj or --drafter-mmproj"))
                }
            },
            Ok(_) => GgufModel::open(path, mmproj).map(|model| Self::Gguf(Arc::new(model))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(CheckpointError::file(path, "no such file or directory"))
            }
            Err(e) => Err(CheckpointError::file(path, &e.to_string())),
        }
    }

    /// The files of a directory in Hugging Face layout, which are not read yet.
    pub fn of_directory(dir: &Path) -> Self {
        Self::Directory { dir: dir.to_owned(), lora: None }
    }

    /// The same model with the LoRA adapter in a directory, if one is given. Fails for GGUF files.
    pub fn with_lora(self, lora: Option<&Path>) -> Result<Self, CheckpointError> {
        let Some(lora) = lora else { return Ok(self) };
        match self {
            Self::Directory { dir, .. } => Ok(Self::Directory { dir, lora: Some(lora.to_owned()) }),
            Self::Gguf(model) => {
                let problem =
                    format!("an adapter cannot be added to a GGUF file ({})", model.text.path().display());
                let hint = "use the model as a directory in Hugging Face layout, or omit --lora";
                Err(CheckpointError::file_hint(lora, problem, hint))
            }
        }
    }

    /// The directory, or the language model's file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory { dir, .. } => dir,
            Self::Gguf(model) => model.text.path(),
        }
    }

    /// Display name: the name of the directory, or of the file without `.gguf`; with `+` and the name of an adapter.
    pub fn name(&self) -> String {
        match self {
            Self::Directory { lora: Some(lora), .. } => {
                format!("{}+{}", self.model_name(), hub::name_of(lora))
            }
            _ => self.model_name(),
        }
    }

    /// The name, without the adapter.
    pub(crate) fn model_name(&self) -> String {
        hub::name_of(self.path())
    }

    /// The GGUF files, if the model is not in a directory.
    pub fn gguf(&self) -> Option<&GgufModel> {
        match self {
            Self::Directory { .. } => None,
            Self::Gguf(model) => Some(model),
        }
    }

    /// The file that sizes are from, for messages.
    pub fn config_path(&self) -> PathBuf {
        match self {
            Self::Directory { dir, .. } => dir.join("config.json"),
            Self::Gguf(model) => model.text.path().to_owned(),
        }
    }

    /// Fail if the configuration of a directory names a quantization that is not supported. Weight files are not needed.
    pub fn check_quantization(&self) -> Result<(), CheckpointError> {
        match self {
            Self::Directory { dir, .. } => Quantization::read(dir).map(|_| ()),
            Self::Gguf(_) => Ok(()),
        }
    }

    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::of(self)
    }
}
