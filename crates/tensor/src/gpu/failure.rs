//! GPU errors as tensor errors, which say in their text what happened: layers above classify them by it.

use super::error::GpuError;

impl From<GpuError> for candle_core::Error {
    fn from(error: GpuError) -> Self {
        candle_core::Error::Msg(error.to_string())
    }
}
