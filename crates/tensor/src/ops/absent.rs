//! A build without GPUs: what would compute on one is compiled for the CPU, and never runs.

use std::collections::BTreeMap;

use super::{CpuOps, RowOps, TunedOps};
use crate::{Gpu, KvType, Result, WeightType};

pub enum GpuOps {}

impl GpuOps {
    #[expect(clippy::new_ret_no_self, reason = "the type has no value, but the operations of some device")]
    pub fn new(gpu: &Gpu, _: WeightType, _: KvType) -> CpuOps {
        gpu.never()
    }
}

impl TunedOps for CpuOps {
    fn kernel_device(&self) -> String {
        String::new()
    }

    fn choose_kernels(
        &self,
        _: &BTreeMap<String, usize>,
        _: &[&Self::Matrix],
    ) -> Result<BTreeMap<String, usize>> {
        Ok(BTreeMap::new())
    }

    fn first_outputs(_: &<Self as RowOps>::Matrix, _: usize) -> <Self as RowOps>::Matrix {
        unreachable!("only a GPU's matrices are cut")
    }
}
