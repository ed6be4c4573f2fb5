//! GPU errors as the errors of the layers above.

use super::error::GpuError;
use crate::record::{Failure, FailureClass};

impl From<GpuError> for candle_core::Error {
    fn from(error: GpuError) -> Self {
        candle_core::Error::Msg(error.to_string())
    }
}

impl From<GpuError> for Failure {
    fn from(error: GpuError) -> Self {
        let (class, hint) = match &error {
            GpuError::OutOfMemory { .. } => (
                FailureClass::Memory,
                "close other programs that use the GPU, use a smaller model or --dtype q4_0, or --device cpu",
            ),
            GpuError::TooLarge { .. } => (FailureClass::Memory, "use a smaller model, or --device cpu"),
            GpuError::Lost(_) => {
                (FailureClass::Internal, "run again: the GPU is opened anew; --device cpu always works")
            }
            GpuError::Shader { .. } | GpuError::Invalid(_) => {
                (FailureClass::Internal, "please report this; --device cpu always works")
            }
        };
        Failure { class, error: error.to_string(), hint: Some(hint.into()) }
    }
}
