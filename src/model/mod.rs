//! Checkpoints and forward passes: what the Video-LLMs compute.

pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod family;
pub mod processor;
pub mod rows;
pub mod template;
pub mod text;
pub mod vision;

use std::path::PathBuf;

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
