//! Memory of the host that a device reads where it is: the weights of a mapped file need no copy.

#[cfg(not(target_vendor = "apple"))]
mod vulkan;
#[cfg(not(target_vendor = "apple"))]
pub(super) use vulkan::Importer;

/// Nothing is imported with Metal: weights are copied.
#[cfg(target_vendor = "apple")]
#[derive(Debug)]
pub(super) enum Importer {}

#[cfg(target_vendor = "apple")]
impl Importer {
    pub fn open(
        _: &super::adapter::Adapter,
        _: &wgpu::DeviceDescriptor<'_>,
    ) -> Option<(wgpu::Device, wgpu::Queue, Self)> {
        None
    }

    pub fn import(
        &self,
        _: &wgpu::Device,
        _: &std::sync::Arc<crate::store::FileMap>,
        _: std::ops::Range<usize>,
    ) -> Option<wgpu::Buffer> {
        match *self {}
    }
}
