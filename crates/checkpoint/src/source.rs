//! Where a model comes from: a directory in Hugging Face layout, or GGUF files.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use specreel_tensor::CheckpointError;

use crate::{Checkpoint, gguf::GgufModel, hub};

/// The files of a model. Clones share them.
#[derive(Clone)]
pub enum ModelFiles {
    /// A directory in Hugging Face layout; nothing is read yet.
    Directory(PathBuf),
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
                None => Ok(Self::Directory(path.to_owned())),
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

    /// The directory, or the language model's file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(dir) => dir,
            Self::Gguf(model) => model.text.path(),
        }
    }

    /// Display name: the name of the directory, or of the file without `.gguf`.
    pub fn name(&self) -> String {
        hub::name_of(self.path())
    }

    /// The GGUF files, if the model is not in a directory.
    pub fn gguf(&self) -> Option<&GgufModel> {
        match self {
            Self::Directory(_) => None,
            Self::Gguf(model) => Some(model),
        }
    }

    /// The file that sizes are from, for messages.
    pub fn config_path(&self) -> PathBuf {
        match self {
            Self::Directory(dir) => dir.join("config.json"),
            Self::Gguf(model) => model.text.path().to_owned(),
        }
    }

    /// The weights.
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::of(self)
    }
}
