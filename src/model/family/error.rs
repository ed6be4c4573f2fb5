//! Why a model cannot be used: one error over all its parts.

use crate::{
    model::{
        checkpoint::CheckpointError, processor::ProcessorError, template::TemplateError, text::TextError,
        vision::VisionError,
    },
    record::{Failure, FailureClass},
};

/// Why a model cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The checkpoint's files.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The tokenizer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Frames and positions.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// The vision tower.
    #[error(transparent)]
    Vision(#[from] VisionError),
    /// Positions that the checkpoint does not have.
    #[error("{model} has no positions of this kind: {problem}")]
    Rope {
        /// The model's name.
        model: String,
        /// What it has instead.
        problem: &'static str,
    },
    /// Arithmetic on tensors.
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Checkpoint(e) => e.into(),
            ModelError::Text(e) => e.into(),
            ModelError::Template(e) => e.into(),
            ModelError::Processor(e) => e.into(),
            ModelError::Vision(e) => e.into(),
            ModelError::Rope { .. } => Failure {
                class: FailureClass::Usage,
                error: error.to_string(),
                hint: Some("leave --rope out, or use --rope sequential".into()),
            },
            ModelError::Tensor(e) => Failure {
                class: FailureClass::Internal,
                error: format!("a tensor operation failed: {e}"),
                hint: None,
            },
        }
    }
}
