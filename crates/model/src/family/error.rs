//! The error of all parts of a model.

use super::Family;
use crate::{processor::ProcessorError, template::TemplateError, text::TextError, vision::VisionError};
use specreel_record::{Failure, FailureClass};
use specreel_tensor::{CheckpointError, Error, GpuError};

/// Why a model cannot be loaded or used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// Frame processing and positions.
    #[error(transparent)]
    Processor(#[from] ProcessorError),
    #[error(transparent)]
    Vision(#[from] VisionError),
    #[error("{model} does not support these positions: {problem}")]
    Rope { model: String, problem: &'static str },
    #[error("{device} computes other results than the CPU: {problem}")]
    Gpu { device: String, problem: String },
    #[error(transparent)]
    Tensor(#[from] specreel_tensor::Error),
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
            ModelError::Tensor(e) if e.is_out_of_memory() => Failure {
                class: FailureClass::Memory,
                error: format!("out of device memory: {e}"),
                hint: Some("use fewer frames (--frames), smaller frames (--max-pixels) or smaller weights (--dtype q4_k)".into()),
            },
            ModelError::Tensor(Error::Gpu(e @ GpuError::Lost(_))) => Failure {
                class: FailureClass::Internal,
                error: e.to_string(),
                hint: Some("run it again, which reloads the models; --device cpu always works".into()),
            },
            ModelError::Tensor(Error::File(e)) => Failure {
                class: FailureClass::Input,
                error: e.to_string(),
                hint: Some("load the model again once no other program writes to the file".into()),
            },
            ModelError::Tensor(e) => Failure {
                class: FailureClass::Internal,
                error: format!("internal error: tensor operation failed: {e}"),
                hint: None,
            },
        }
    }
}

impl From<VisionError> for Failure {
    fn from(error: VisionError) -> Self {
        use VisionError as E;
        let text = error.to_string();
        let (class, hint) = match error {
            E::Config { .. } | E::Setting { .. } | E::Parse(_) => {
                let families = Family::names().join(", ");
                let hint =
                    format!("use a checkpoint with its family's own vision tower; supported: {families}");
                (FailureClass::Input, Some(hint))
            }
            E::Weights(error) => {
                let Failure { class, hint, .. } = error.into();
                (class, hint)
            }
            E::Patches { .. } | E::Cancelled => (FailureClass::Internal, None),
            E::Compute(_) => {
                (FailureClass::Internal, Some("use fewer frames or a smaller --max-pixels".to_owned()))
            }
        };
        Failure { class, error: text, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_a_memory_failure() {
        let class = |text: &str| {
            Failure::from(ModelError::Tensor(specreel_tensor::Error::Message(text.into()))).class
        };
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
