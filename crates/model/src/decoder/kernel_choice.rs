//! The kernels of a device that are the faster ones with a model's weights.

use specreel_checkpoint::WeightCache;
use specreel_tensor::{Result, ops::TunedOps};

use super::on_device::OnDevice;

impl<D: TunedOps> OnDevice<D> {
    /// Measure which kernels are the faster ones, or take what an earlier start has measured. Fails if memory is missing, or the
    /// device is lost.
    pub(super) fn choose_kernels(&self, cache: Option<&WeightCache>) -> Result<()> {
        let device = format!("{}, specreel {}", self.ops.kernel_device(), env!("CARGO_PKG_VERSION"));
        let known = cache.map(|cache| cache.kernel_limits(&device)).unwrap_or_default();
        let measured = self.ops.choose_kernels(&known, &self.matrices().collect::<Vec<_>>())?;
        if let Some(cache) = cache.filter(|_| !measured.is_empty()) {
            cache.keep_kernel_limits(&device, measured);
        }
        Ok(())
    }
}
