//! Loading a decoder onto a device.

use super::{Decoder, on_device::OnDevice, parts};
use crate::config::TextConfig;
use specreel_checkpoint::Checkpoint;
use specreel_tensor::{
    Backend, CheckpointError, ComputeDevice,
    ops::{CpuOps, GpuOps, Loaded, TensorOps},
};

impl Decoder {
    /// Load from a checkpoint, matrix by matrix. Fails if a tensor is missing, has the wrong shape or values that are not finite,
    /// or does not fit into memory.
    pub fn load(
        checkpoint: &Checkpoint,
        config: &TextConfig,
        device: &ComputeDevice,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Loaded<Self> {
        let kv_type = config.kv_type(device.kv_type(), device.dtype());
        match device.backend() {
            Backend::Cpu => {
                let ops = CpuOps::new(device.dtype(), kv_type);
                OnDevice::load(ops, checkpoint, config, progress).map(Self::new)
            }
            Backend::Gpu(gpu) => {
                let ops = GpuOps::new(gpu, device.dtype(), kv_type);
                let decoder = OnDevice::load(ops, checkpoint, config, progress)?;
                let chosen = decoder.choose_kernels(checkpoint.weight_cache());
                let alike = chosen.and_then(|()| decoder.computes_rows_alike());
                if !alike.map_err(|e| CheckpointError::tensor(parts::TABLE, &e.to_string()))? {
                    gpu.doubt();
                }
                Ok(Self::new(decoder))
            }
            Backend::Candle(_) => {
                OnDevice::load(TensorOps::new(device), checkpoint, config, progress).map(Self::new)
            }
        }
    }
}
