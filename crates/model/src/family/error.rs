//! The error of all parts of a model.

use crate::{processor::ProcessorError, template::TemplateError, text::TextError, vision::VisionError};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::{CheckpointError, is_out_of_memory, store::SHORTER, tensor_error_text};

/// Why a model cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what is wrong")]
pub enum ModelError {
    /// Checkpoint files.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// Tokenizer.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Frame processing and positions.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    /// Vision tower.
    #[error(transparent)]
    Vision(#[from] VisionError),
    #[error("{model} does not support these positions: {problem}")]
    Rope { model: String, problem: &'static str },
    #[error("{device} does not compute what the CPU does: {problem}")]
    Gpu { device: String, problem: String },
    /// A tensor operation.
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
                hint: Some("omit --rope, or use --rope sequential".into()),
            },
            ModelError::Gpu { .. } => Failure {
                class: FailureClass::Input,
                error: error.to_string(),
                hint: Some("update its driver, or use --device cpu; specreel doctor repeats the check".into()),
            },
            ModelError::Tensor(e) if is_out_of_memory(&tensor_error_text(&e)) => Failure {
                class: FailureClass::Memory,
                error: format!("out of device memory: {}", tensor_error_text(&e)),
                hint: Some("use fewer frames (--frames), smaller frames (--max-pixels) or smaller weights (--dtype q4_k)".into()),
            },
            ModelError::Tensor(e) if tensor_error_text(&e).contains(LOST) => Failure {
                class: FailureClass::Internal,
                error: tensor_error_text(&e),
                hint: Some("run it again: the models are loaded anew; --device cpu always works".into()),
            },
            ModelError::Tensor(e) if tensor_error_text(&e).contains(SHORTER) => Failure {
                class: FailureClass::Input,
                error: tensor_error_text(&e),
                hint: Some("load the model again once no other program writes to the file".into()),
            },
            ModelError::Tensor(e) => Failure {
                class: FailureClass::Internal,
                error: format!("internal error: tensor operation failed: {}", tensor_error_text(&e)),
                hint: None,
            },
        }
    }
}

/// In the text of a lost GPU's error.
const LOST: &str = "the GPU was lost";

#[cfg(test)]
mod tests {
    use super::*;
    use specreel_tensor::gpu::GpuError;

    #[test]
    fn a_full_device_is_a_memory_failure() {
        let class =
            |text: &str| Failure::from(ModelError::Tensor(candle_core::Error::Msg(text.into()))).class;
        let full = "DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")";
        assert_eq!(class(full), FailureClass::Memory);
        assert_eq!(class("shape mismatch"), FailureClass::Internal);
        let failure = |error: GpuError| Failure::from(ModelError::Tensor(error.into()));
        assert_eq!(failure(GpuError::OutOfMemory { needed: 8 }).class, FailureClass::Memory);
        let large = GpuError::TooLarge { what: "a buffer (bytes)".into(), size: 8, limit: 4 };
        assert_eq!(failure(large).class, FailureClass::Memory);
        let lost = failure(GpuError::Lost("reset".into()));
        assert_eq!((lost.class, lost.error.as_str()), (FailureClass::Internal, "the GPU was lost: reset"));
        assert!(lost.hint.unwrap().contains("run it again"));
    }
}
