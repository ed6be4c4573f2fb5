//! Accelerators through candle's tensors: CUDA and Metal, and candle's CPU kernels in tests.

pub mod attention;
pub mod cache;
pub mod linear;
pub mod mask;
pub mod mixing;
pub mod recurrent;
pub mod states;

use candle_core::{DType, Tensor};
pub use candle_core::{Device, Error};

use crate::{Backend, ComputeDevice, Result, TensorType, WeightType};

/// A device for tests: candle's CPU kernels.
pub(crate) fn cpu() -> Option<Device> {
    Some(Device::Cpu)
}

impl ComputeDevice {
    /// The device of tensors; the CPU if this one has kernels of this crate.
    pub(crate) fn device(&self) -> &Device {
        match self.backend() {
            Backend::Candle(device) => device,
            Backend::Cpu | Backend::Gpu(_) => &Device::Cpu,
        }
    }

    /// True if the language model's matrices are quantized.
    pub(crate) fn quantizes(&self) -> bool {
        matches!(self.dtype(), WeightType::Of(TensorType::Blocks(_)))
    }

    /// candle's name of the compute type.
    pub(crate) fn candle_type(&self) -> DType {
        match self.compute_type() {
            WeightType::F16 => DType::F16,
            WeightType::Bf16 => DType::BF16,
            _ => DType::F32,
        }
    }

    /// Values as a tensor on the device, in its compute type.
    pub(crate) fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
        // Rounded on the CPU: half as much to transfer.
        let rounded = Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.candle_type())?;
        Ok(rounded.to_device(self.device())?)
    }
}

/// The message of an error, without the backtrace that candle adds if `RUST_BACKTRACE` is set.
pub(crate) fn message(error: &Error) -> String {
    match error {
        Error::WithBacktrace { inner, .. } => message(inner),
        Error::WithPath { inner, path } => format!("{}: {}", path.display(), message(inner)),
        Error::Context { inner, context } => format!("{context}: {}", message(inner)),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backtraces_are_left_out() {
        let backtrace = Box::new(std::backtrace::Backtrace::force_capture());
        let inner = || Box::new(Error::Msg("value 7 is NaN".into()));
        let error = Error::WithBacktrace { inner: inner(), backtrace };
        assert!(error.to_string().lines().count() > 1);
        assert_eq!(message(&error), "value 7 is NaN");
        let error = Error::WithPath { inner: Box::new(error), path: "a.safetensors".into() };
        assert_eq!(message(&error), "a.safetensors: value 7 is NaN");
        let error = Error::Context { inner: inner(), context: Box::new("reading") };
        assert_eq!(message(&error), "reading: value 7 is NaN");
    }
}
