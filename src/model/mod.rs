//! Checkpoints and forward passes: what the Video-LLMs compute.

pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod family;
pub mod names;
pub mod processor;
pub mod rows;
pub mod template;
pub mod text;
pub mod vision;

use std::path::PathBuf;

use self::family::Rope;
use crate::record::{Failure, FailureClass};

/// Which models to run, on what, in which weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Directory of the target in Hugging Face layout.
    pub target: PathBuf,
    /// Directory of the drafter; none leaves only methods without a small model.
    pub drafter: Option<PathBuf>,
    /// Where to compute.
    pub device: DeviceChoice,
    /// Weight type of the language models.
    pub dtype: WeightType,
    /// Positions of a prompt's tokens, for both models.
    pub rope: Rope,
}

impl ModelSpec {
    /// The weight type in which the models are loaded, and its name.
    ///
    /// # Errors
    /// If this build has no such device, or the device no such weights (class usage).
    pub fn weights(&self) -> Result<(WeightType, &'static str), Failure> {
        let refuse = |error: &str, hint: &str| Failure {
            class: FailureClass::Usage,
            error: error.into(),
            hint: Some(hint.into()),
        };
        if !matches!(self.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
            return Err(refuse(
                "this version computes on the CPU only",
                "use --device cpu (or leave it out)",
            ));
        }
        match self.dtype {
            WeightType::Auto | WeightType::Q8_0 => Ok((WeightType::Q8_0, "q8_0")),
            WeightType::F32 => Ok((WeightType::F32, "f32")),
            WeightType::Q4K => Ok((WeightType::Q4K, "q4_k")),
            WeightType::F16 | WeightType::Bf16 => Err(refuse(
                "f16 and bf16 weights are slow and inexact on a CPU and not offered there",
                "use --dtype q8_0 (the default), q4_k or f32",
            )),
        }
    }
}

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best device that this build and machine have.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A CUDA device by number.
    Cuda(usize),
    /// Apple's GPU.
    Metal,
}

/// Weight type of the language model's matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightType {
    /// q8_0 on the CPU, bf16 on an accelerator.
    #[default]
    Auto,
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// bfloat16.
    Bf16,
    /// 8-bit blocks of 32.
    Q8_0,
    /// 4-bit blocks of 256 (widths that do not divide fall back to q8_0).
    Q4K,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_are_not_offered_are_refused() {
        let spec =
            |device, dtype| ModelSpec { target: "t".into(), drafter: None, device, dtype, rope: Rope::Auto };
        assert!(spec(DeviceChoice::Cuda(0), WeightType::Auto).weights().is_err());
        assert!(spec(DeviceChoice::Cpu, WeightType::Bf16).weights().is_err());
        assert_eq!(spec(DeviceChoice::Auto, WeightType::Auto).weights(), Ok((WeightType::Q8_0, "q8_0")));
    }
}
