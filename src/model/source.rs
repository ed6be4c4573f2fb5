//! Where a model comes from: a directory in Hugging Face layout, or GGUF files. All parts of a model are read through it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    checkpoint::{Checkpoint, CheckpointError},
    config::VlConfig,
    family::{Family, ModelError},
    gguf::GgufModel,
    hub,
    processor::VideoProcessor,
    template::{ChatTemplate, TemplateError},
    text::{TextError, TextTokenizer},
    vision::TowerConfig,
};

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
    /// file in its folder, see [`GgufModel::open`]).
    ///
    /// # Errors
    /// If `path` does not exist, a GGUF file cannot be used, or `mmproj` is given with a directory.
    pub fn open(path: &Path, mmproj: Option<&Path>) -> Result<Self, CheckpointError> {
        match std::fs::metadata(path) {
            Ok(about) if about.is_dir() => match mmproj {
                None => Ok(Self::Directory(path.to_owned())),
                Some(mmproj) => Err(CheckpointError::Gguf {
                    path: mmproj.into(),
                    problem: format!(
                        "an mmproj file belongs to a GGUF file, but {} is a directory",
                        path.display()
                    ),
                    hint: "omit --mmproj or --drafter-mmproj",
                }),
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

    /// Display name: the directory's, or that of the file without `.gguf`.
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

    /// The configuration.
    ///
    /// # Errors
    /// As [`VlConfig::read`].
    pub fn config(&self) -> Result<VlConfig, CheckpointError> {
        match self {
            Self::Directory(dir) => VlConfig::read(dir),
            Self::Gguf(model) => VlConfig::resolve(model.config()?)
                .map_err(|problem| CheckpointError::file(model.text.path(), &problem)),
        }
    }

    /// The file that sizes are from, for messages.
    pub fn config_path(&self) -> PathBuf {
        match self {
            Self::Directory(dir) => dir.join("config.json"),
            Self::Gguf(model) => model.text.path().to_owned(),
        }
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// As [`TextTokenizer::load`].
    pub fn tokenizer(&self) -> Result<TextTokenizer, TextError> {
        match self {
            Self::Directory(dir) => TextTokenizer::load(dir),
            Self::Gguf(model) => {
                let path = model.text.path();
                let refuse = |problem| TextError::Vocabulary { path: path.into(), problem };
                TextTokenizer::from_vocabulary(&model.vocabulary().map_err(refuse)?, path)
            }
        }
    }

    /// The chat template; the family's if there is none, or if that is the one for videos.
    ///
    /// # Errors
    /// As [`ChatTemplate::load`].
    pub fn template(&self, family: Family) -> Result<ChatTemplate, TemplateError> {
        let built_in = || ChatTemplate::new(family.template(), "the built-in family");
        match self {
            _ if family.forces_template() => Ok(built_in()),
            Self::Directory(dir) => ChatTemplate::load(dir, family.template()),
            Self::Gguf(model) => Ok(match model.template() {
                Some(source) => ChatTemplate::new(source, model.text.path().display().to_string()),
                None => built_in(),
            }),
        }
    }

    /// The frame processor of a model with this tower.
    ///
    /// # Errors
    /// As [`VideoProcessor::load`].
    pub fn processor(&self, tower: &TowerConfig) -> Result<VideoProcessor, ModelError> {
        match self {
            Self::Directory(dir) => Ok(VideoProcessor::load(dir, tower.rules().processor())?),
            Self::Gguf(model) => {
                let mut settings = tower.frames();
                let [mean, std] = model.colours()?;
                settings.mean = mean.unwrap_or(settings.mean);
                settings.std = std.unwrap_or(settings.std);
                Ok(VideoProcessor::new(settings)?)
            }
        }
    }

    /// The weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`].
    pub fn checkpoint(&self) -> Result<Checkpoint, CheckpointError> {
        Checkpoint::of(self)
    }
}
