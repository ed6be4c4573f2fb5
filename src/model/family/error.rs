//! Why a model cannot be used: one error over all its parts.

use crate::{
    model::{
        checkpoint::CheckpointError, processor::ProcessorError, template::TemplateError, tensor_error_text,
        text::TextError, vision::VisionError,
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
            ModelError::Tensor(e) if is_out_of_memory(&tensor_error_text(&e)) => Failure {
                class: FailureClass::Memory,
                error: format!("the device's memory does not suffice: {}", tensor_error_text(&e)),
                hint: Some("use fewer frames (--frames), smaller ones (--max-pixels), or smaller weights (--dtype q4_k)".into()),
            },
            ModelError::Tensor(e) => Failure {
                class: FailureClass::Internal,
                error: format!("a tensor operation failed: {}", tensor_error_text(&e)),
                hint: None,
            },
        }
    }
}

/// True if a device said that it has no room, in the words of CUDA or Metal.
pub(in crate::model) fn is_out_of_memory(error: &str) -> bool {
    let error = error.to_lowercase();
    ["out_of_memory", "out of memory", "failed to create metal resource"]
        .iter()
        .any(|words| error.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_not_our_fault() {
        let told = |text: &str| Failure::from(ModelError::Tensor(candle_core::Error::Msg(text.into()))).class;
        let full = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
        assert_eq!(told(full), FailureClass::Memory);
        assert_eq!(told("shape mismatch"), FailureClass::Internal);
    }
}
