//! The tower of a checkpoint: one type for all towers.

use super::{
    EncodeProgress, TowerConfig, TowerOutput, VisionError,
    on_device::{DeviceTower, OnDevice},
};
use crate::processor::Patches;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Backend, ComputeDevice, KvType,
    gpu::attention,
    ops::{CpuOps, GpuOps, Loaded, TensorOps},
    states::States,
};

/// A loaded tower, including its merger or projector.
pub struct Tower(Box<dyn DeviceTower>);

impl Tower {
    /// Load a checkpoint's tower to a device. On the CPU and on GPUs its matrices have the type of [`ComputeDevice::tower`].
    /// With heads of a width that a GPU's kernels do not compute, it is on the CPU. [`VisionError::Weights`] if a tensor is
    /// missing, does not match the configuration, or does not fit into the type.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TowerConfig,
        device: &ComputeDevice,
    ) -> Result<Self, VisionError> {
        // A tower keeps no keys and values.
        let kept = KvType::F32;
        let tower: Loaded<Box<dyn DeviceTower>> = match device.backend() {
            Backend::Gpu(gpu) if attention::computes(config.head_dim()) => {
                let ops = GpuOps::new(gpu, device.tower(), kept);
                OnDevice::load(ops, checkpoint, config).map(|tower| Box::new(tower) as _)
            }
            Backend::Cpu | Backend::Gpu(_) => {
                let ops = CpuOps::new(device.tower(), kept);
                OnDevice::load(ops, checkpoint, config).map(|tower| Box::new(tower) as _)
            }
            Backend::Candle(_) => {
                let ops = TensorOps::new(device);
                OnDevice::load(ops, checkpoint, config).map(|tower| Box::new(tower) as _)
            }
        };
        tower.map(Self).map_err(VisionError::Weights)
    }

    /// Visual embeddings of patches, one row for each visual token in the order of the cells, without the newline.
    /// [`VisionError::Patches`] if the patches do not match their grid or the tower, [`VisionError::Cancelled`] if `progress`
    /// breaks, [`VisionError::Compute`] if the computation fails.
    pub fn encode(
        &self,
        patches: &Patches,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError> {
        self.0.encode(patches, TowerOutput::Embeddings, progress)
    }

    /// The states before they are merged or projected, one row for each patch in the order of the patches.
    pub fn states(
        &self,
        patches: &Patches,
        progress: &mut EncodeProgress<'_>,
    ) -> Result<States, VisionError> {
        self.0.encode(patches, TowerOutput::States, progress)
    }

    /// The vector that ends a video, one row, in families that have one.
    pub fn newline(&self) -> Option<&States> {
        self.0.newline()
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests;
