//! Checkpoints and forward passes: what the Video-LLMs compute.

pub mod about;
pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod device;
pub mod draft_head;
pub mod family;
pub mod files;
pub mod hub;
pub mod names;
pub mod processor;
pub mod rows;
pub mod shapes;
pub mod spans;
pub mod store;
pub mod template;
mod tensor_error;
pub mod text;
pub mod vision;
pub mod weights;
pub mod work;

use std::path::PathBuf;

use self::family::Rope;
pub(crate) use self::tensor_error::tensor_error_text;
pub use self::{
    device::{ComputeDevice, DeviceChoice},
    spans::VisualSpans,
    weights::WeightType,
};
use crate::record::Failure;

/// Which models to run, on what, in which weights.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSpec {
    /// Directory of the target in Hugging Face layout.
    pub target: PathBuf,
    /// Directory of the drafter; none for methods without a small model.
    pub drafter: Option<PathBuf>,
    /// Directories of draft heads ([`draft_head`]).
    pub heads: Vec<PathBuf>,
    /// Device of the target.
    pub device: DeviceChoice,
    /// Device of the drafter; none = the target's.
    pub drafter_device: Option<DeviceChoice>,
    /// Weight type of the language models.
    pub dtype: WeightType,
    /// Positions of a prompt's tokens, for both models.
    pub rope: Rope,
}

impl ModelSpec {
    /// Open the target's device.
    ///
    /// # Errors
    /// As [`ComputeDevice::open`].
    pub fn target_place(&self) -> Result<ComputeDevice, Failure> {
        ComputeDevice::open(self.device, self.dtype)
    }

    /// Open the drafter's device, with a queue of its own.
    ///
    /// # Errors
    /// As [`ComputeDevice::open`].
    pub fn drafter_place(&self) -> Result<ComputeDevice, Failure> {
        ComputeDevice::open(self.drafter_device.unwrap_or(self.device), self.dtype)
    }
}
