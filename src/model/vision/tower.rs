//! The tower of a checkpoint: one type for all towers.

use candle_core::Tensor;

use super::{
    CpuTower, EncodeProgress, Generation, LlavaConfig, LlavaVision, QwenVit, VisionConfig, VisionError,
};
use crate::model::{
    ComputeDevice,
    checkpoint::Checkpoint,
    config::VlConfig,
    family::{Family, ModelError},
    processor::{Grid, ProcessorConfig},
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

/// A loaded tower, including its projector.
pub enum Tower {
    /// Any tower on the CPU, in this crate's kernels.
    Cpu(Box<CpuTower>),
    /// Qwen2-VL or Qwen2.5-VL, in candle's tensors.
    Qwen(QwenVit),
    /// LLaVA-OneVision, in candle's tensors.
    Llava(LlavaVision),
}

impl Tower {
    /// Load a checkpoint's tower to a device.
    ///
    /// # Errors
    /// If a tensor is missing or does not match the configuration.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TowerConfig,
        device: &ComputeDevice,
    ) -> Result<Self, ModelError> {
        if device.is_batch_invariant() {
            return Ok(Self::Cpu(Box::new(CpuTower::load(checkpoint, config, device.tower())?)));
        }
        Ok(match config {
            TowerConfig::Qwen(config) => {
                Self::Qwen(QwenVit::load(checkpoint.var_builder("visual", device)?, config)?)
            }
            TowerConfig::Llava(config) => Self::Llava(LlavaVision::load(checkpoint, config, device)?),
        })
    }

    /// Visual embeddings of `patches` `[n, row]` over `grid`, one row for each visual token in the order of the cells.
    ///
    /// # Errors
    /// As [`QwenVit::forward`] and [`LlavaVision::forward`].
    pub fn encode(
        &self,
        patches: &Tensor,
        grid: Grid,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<Tensor, VisionError> {
        match self {
            Self::Cpu(tower) => tower.forward(patches, grid, progress),
            Self::Qwen(tower) => tower.forward(patches, grid, progress),
            Self::Llava(tower) => tower.forward(patches, grid, progress),
        }
    }

    /// The vector that ends a video, `[1, width]`, in families that have one.
    pub fn newline(&self) -> Option<&Tensor> {
        match self {
            Self::Cpu(tower) => tower.newline(),
            Self::Qwen(_) => None,
            Self::Llava(tower) => Some(tower.newline()),
        }
    }
}
