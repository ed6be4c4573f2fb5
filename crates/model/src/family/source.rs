//! The parts of a model that its files describe: configuration, tokenizer, chat template, frame processor.

use specreel_checkpoint::ModelFiles;
use specreel_tensor::CheckpointError;

use super::{Family, ModelError, VlConfig};
use crate::{
    processor::VideoProcessor,
    template::{ChatTemplate, TemplateError},
    text::{TextError, TextTokenizer},
    vision::TowerConfig,
};

/// Reads the parts of a model from its files.
pub trait ReadModel {
    fn config(&self) -> Result<VlConfig, CheckpointError>;

    fn tokenizer(&self) -> Result<TextTokenizer, TextError>;

    /// The chat template; the family's if there is none, or if that is the one for videos.
    fn template(&self, family: &Family) -> Result<ChatTemplate, TemplateError>;

    fn processor(&self, tower: &TowerConfig) -> Result<VideoProcessor, ModelError>;
}

impl ReadModel for ModelFiles {
    fn config(&self) -> Result<VlConfig, CheckpointError> {
        match self {
            Self::Directory { dir, .. } => VlConfig::read(dir),
            Self::Gguf(model) => VlConfig::resolve(model.config()?)
                .map_err(|problem| CheckpointError::file(model.text.path(), &problem)),
        }
    }

    fn tokenizer(&self) -> Result<TextTokenizer, TextError> {
        match self {
            Self::Directory { dir, .. } => TextTokenizer::load(dir),
            Self::Gguf(model) => {
                let path = model.text.path();
                let refuse = |problem| TextError::Vocabulary { path: path.into(), problem };
                TextTokenizer::from_vocabulary(&model.vocabulary().map_err(refuse)?, path)
            }
        }
    }

    fn template(&self, family: &Family) -> Result<ChatTemplate, TemplateError> {
        let built_in = || ChatTemplate::new(family.template, "the built-in family");
        match self {
            _ if family.forces_template => Ok(built_in()),
            Self::Directory { dir, .. } => ChatTemplate::load(dir, family.template),
            Self::Gguf(model) => {
                let own = model.template();
                let origin = || model.text.path().display().to_string();
                let template = own.map_or_else(built_in, |source| ChatTemplate::new(source, origin()));
                Ok(template.with_bos(model.first_token()))
            }
        }
    }

    fn processor(&self, tower: &TowerConfig) -> Result<VideoProcessor, ModelError> {
        match self {
            Self::Directory { dir, .. } => Ok(VideoProcessor::load(dir, tower.rules().processor())?),
            Self::Gguf(model) => {
                let mut settings = tower.frames();
                if !settings.centers_colors() {
                    let [mean, std] = model.colors()?;
                    settings.mean = mean.unwrap_or(settings.mean);
                    settings.std = std.unwrap_or(settings.std);
                }
                Ok(VideoProcessor::new(settings)?)
            }
        }
    }
}
