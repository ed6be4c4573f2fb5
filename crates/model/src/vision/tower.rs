//! The tower of a checkpoint: one type for all towers.

use super::{EncodeProgress, Output, TowerConfig, VisionError, on_device::OnDevice};
use crate::processor::Patches;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    ComputeDevice, KvType,
    gpu::attention,
    ops::{CpuOps, GpuOps, TensorOps},
    states::States,
};

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
    Tensors(OnDevice<TensorOps>),
    Gpu(OnDevice<GpuOps>),
}

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
        held.map(Self).map_err(VisionError::Weights)
    }

    /// Visual embeddings of patches, one row for each visual token in the order of the cells, without the newline.
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
