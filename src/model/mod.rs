//! Checkpoints and forward passes: what the Video-LLMs compute.

pub mod about;
pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod family;
pub mod files;
pub mod hub;
pub mod processor;
pub mod rows;
pub mod template;
pub mod text;
pub mod vision;
pub mod weights;

use std::path::PathBuf;

pub use self::weights::WeightType;
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
}

impl ModelSpec {
    /// The weight type in which the models are loaded, and its name.
    ///
    /// # Errors
    /// If this build has no such device (class usage).
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
        let dtype = if self.dtype == WeightType::Auto { WeightType::Q8_0 } else { self.dtype };
        Ok((dtype, dtype.name()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_that_are_not_offered_are_refused() {
        let spec = |device, dtype| ModelSpec { target: "t".into(), drafter: None, device, dtype };
        assert!(spec(DeviceChoice::Cuda(0), WeightType::Auto).weights().is_err());
        assert_eq!(spec(DeviceChoice::Cpu, WeightType::Bf16).weights(), Ok((WeightType::Bf16, "bf16")));
        assert_eq!(spec(DeviceChoice::Auto, WeightType::Auto).weights(), Ok((WeightType::Q8_0, "q8_0")));
    }
}
