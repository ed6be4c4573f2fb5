//! The tower of a checkpoint: one type for all towers.

use super::{
    EncodeProgress, Generation, LlavaConfig, VisionConfig, VisionError,
    on_device::{OnDevice, Output},
};
use crate::model::{
    ComputeDevice, KvType,
    checkpoint::Checkpoint,
    config::VlConfig,
    device::{
        candle::ops::TensorOps,
        cpu::ops::CpuOps,
        gpu::{attention, ops::GpuOps},
        states::States,
    },
    family::Family,
    processor::{Patches, ProcessorConfig},
};

/// The dimensions of a checkpoint's tower.
#[derive(Clone, Debug, PartialEq)]
pub enum TowerConfig {
    /// Qwen2-VL or Qwen2.5-VL.
    Qwen(VisionConfig),
    /// LLaVA-OneVision.
    Llava(LlavaConfig),
}

impl TowerConfig {
    /// Read the tower's dimensions from `config.json`.
    ///
    /// # Errors
    /// [`VisionError`] for values that are missing, out of range or not supported.
    pub fn of(config: &VlConfig) -> Result<Self, VisionError> {
        let Some(vision) = config.raw.get("vision_config") else {
            return Err(VisionError::Setting { name: "vision_config", problem: "is missing".into() });
        };
        match config.family {
            Family::Qwen2Vl => VisionConfig::from_json(vision, Generation::Qwen2).map(Self::Qwen),
            Family::Qwen25Vl => VisionConfig::from_json(vision, Generation::Qwen25).map(Self::Qwen),
            Family::LlavaOnevision => {
                LlavaConfig::from_json(&config.raw, config.text.hidden).map(Self::Llava)
            }
        }
    }

    /// Default settings of the frame processor.
    pub fn processor(&self) -> ProcessorConfig {
        match self {
            Self::Qwen(_) => ProcessorConfig::default(),
            Self::Llava(config) => ProcessorConfig::pictures(config.tower.image, config.tower.patch),
        }
    }

    /// Check that the tower matches the frame processor and a language model of this width.
    ///
    /// # Errors
    /// A message about what differs.
    pub fn fits(&self, frames: &ProcessorConfig, width: usize) -> Result<(), String> {
        let pairs = match self {
            Self::Qwen(tower) => vec![
                ("output width", tower.out, width),
                ("patch size", tower.patch, frames.patch),
                ("merge size", tower.merge, frames.merge),
                ("temporal patch size", tower.temporal, frames.temporal),
            ],
            Self::Llava(LlavaConfig { tower, .. }) => {
                let (height, width) = frames.fixed.unwrap_or_default();
                vec![
                    ("patch size", tower.patch, frames.patch),
                    ("picture height", tower.image, height),
                    ("picture width", tower.image, width),
                ]
            }
        };
        match pairs.into_iter().find(|(_, tower, other)| tower != other) {
            None => Ok(()),
            Some((what, tower, other)) => {
                Err(format!("the vision tower has {what} {tower}, expected {other}"))
            }
        }
    }

    /// Values of a patch.
    pub fn row(&self) -> usize {
        match self {
            Self::Qwen(config) => config.row(),
            Self::Llava(config) => config.tower.row(),
        }
    }

    /// Width of an attention head.
    pub fn head_dim(&self) -> usize {
        match self {
            Self::Qwen(config) => config.head_dim(),
            Self::Llava(config) => config.tower.hidden / config.tower.heads,
        }
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        match self {
            Self::Qwen(config) => config.depth,
            Self::Llava(config) => config.tower.layers,
        }
    }

    /// Layers, width and feed-forward width, such as `32x1280x3420`.
    pub fn sizes(&self) -> String {
        let [hidden, ffn] = match self {
            Self::Qwen(config) => [config.hidden, config.ffn],
            Self::Llava(LlavaConfig { tower, .. }) => [tower.hidden, tower.ffn],
        };
        format!("{}x{hidden}x{ffn}", self.layers())
    }

    /// Positions per second of video, if M-RoPE's time axis counts seconds.
    pub fn tokens_per_second(&self) -> Option<f32> {
        match self {
            Self::Qwen(config) => config.tokens_per_second,
            Self::Llava(_) => None,
        }
    }
}

/// Evaluate `$body` with `$inner` bound to the tower, whatever the device.
macro_rules! each {
    ($self:expr, $inner:ident => $body:expr) => {
        match &$self.0 {
            Held::Cpu($inner) => $body,
            Held::Tensors($inner) => $body,
            Held::Gpu($inner) => $body,
        }
    };
}

/// A loaded tower, including its merger or projector.
pub struct Tower(Held);

enum Held {
    /// On the CPU, in this crate's kernels.
    Cpu(OnDevice<CpuOps>),
    /// In candle's tensors.
    Tensors(OnDevice<TensorOps>),
    /// On a GPU.
    Gpu(OnDevice<GpuOps>),
}

impl Tower {
    /// Load a checkpoint's tower to a device. On the CPU and on GPUs its matrices have the type of [`ComputeDevice::tower`].
    /// With heads of a width that a GPU's kernels do not compute, it is on the CPU.
    ///
    /// # Errors
    /// [`VisionError::Weights`] if a tensor is missing, does not match the configuration, or does not fit into the type.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TowerConfig,
        device: &ComputeDevice,
    ) -> Result<Self, VisionError> {
        // A tower keeps no keys and values.
        let kept = KvType::F32;
        let on_gpu = device.gpu().filter(|_| attention::computes(config.head_dim()));
        let held = if let Some(gpu) = on_gpu {
            let ops = GpuOps::new(gpu, device.tower(), kept);
            OnDevice::load(ops, checkpoint, config).map(Held::Gpu)
        } else if device.is_batch_invariant() {
            let ops = CpuOps::new(device.tower(), kept);
            OnDevice::load(ops, checkpoint, config).map(Held::Cpu)
        } else {
            OnDevice::load(TensorOps::new(device), checkpoint, config).map(Held::Tensors)
        };
        held.map(Self).map_err(|error| VisionError::Weights(candle_core::Error::wrap(error)))
    }

    /// Visual embeddings of patches, one row for each visual token in the order of the cells, without the newline.
    ///
    /// # Errors
    /// [`VisionError::Patches`] if the patches do not match their grid or the tower, [`VisionError::Cancelled`] if `progress`
    /// breaks, [`VisionError::Compute`] if the computation fails.
    pub fn encode(
        &self,
        patches: &Patches,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError> {
        each!(self, tower => tower.encode(patches, Output::Embeddings, progress))
    }

    /// The states before they are merged or projected, one row for each patch in the order of the patches.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn states(
        &self,
        patches: &Patches,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError> {
        each!(self, tower => tower.encode(patches, Output::States, progress))
    }

    /// The vector that ends a video, one row, in families that have one.
    pub fn newline(&self) -> Option<&States> {
        each!(self, tower => tower.newline())
    }

    /// Size of the matrices in bytes.
    pub fn bytes(&self) -> usize {
        each!(self, tower => tower.bytes())
    }
}

#[cfg(test)]
#[path = "tower_tests.rs"]
mod tests;
