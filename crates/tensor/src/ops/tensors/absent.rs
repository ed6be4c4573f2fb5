//! A build without candle: what would compute in its tensors is compiled for the CPU, and never runs.

use super::CpuOps;
use crate::{Backend, ComputeDevice};

pub enum TensorOps {}

impl TensorOps {
    #[expect(clippy::new_ret_no_self, reason = "the type has no value, but the operations of some device")]
    pub fn new(device: &ComputeDevice) -> CpuOps {
        match device.backend() {
            Backend::Candle(device) => device.never(),
            Backend::Cpu | Backend::Gpu(_) => unreachable!("only a device of candle computes in tensors"),
        }
    }
}
