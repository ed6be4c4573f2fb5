//! Importing with `VK_EXT_external_memory_host`, on devices that share the host's memory. The other calls are of Vulkan 1.1.

use std::{ops::Range, sync::Arc};

use ash::{ext, vk};
use wgpu::hal::api::Vulkan;

use crate::{
    gpu::adapter::{Adapter, AdapterKind},
    store::FileMap,
};

/// A driver that takes memory of the host.
pub struct Importer {
    device: ash::Device,
    extension: ext::external_memory_host::Device,
    /// Places and sizes of imported memory are multiples of this.
    alignment: u64,
    memory: vk::PhysicalDeviceMemoryProperties,
}

impl std::fmt::Debug for Importer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Importer").field("alignment", &self.alignment).finish_non_exhaustive()
    }
}

/// What the imported memory is.
const HANDLE: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

impl Importer {
    /// Open a device with the extension. `None` if it has memory of its own, its driver lacks the extension, or it cannot be
    /// opened so.
    pub fn open(
        adapter: &Adapter,
        about: &wgpu::DeviceDescriptor<'_>,
    ) -> Option<(wgpu::Device, wgpu::Queue, Self)> {
        if !matches!(adapter.kind, AdapterKind::Integrated | AdapterKind::Software) {
            return None;
        }
        // SAFETY: nothing of the adapter is destroyed.
        let hal = unsafe { adapter.raw.as_hal::<Vulkan>() }?;
        let name = ext::external_memory_host::NAME;
        if !hal.physical_device_capabilities().supports_extension(name) {
            return None;
        }
        let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
        let mut host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut host);
        // SAFETY: the physical device belongs to this instance, which outlives the calls.
        let memory = unsafe {
            instance.get_physical_device_properties2(physical, &mut properties);
            instance.get_physical_device_memory_properties(physical)
        };
        let add = Box::new(|args: wgpu::hal::vulkan::CreateDeviceCallbackArgs<'_, '_, '_>| {
            args.extensions.push(name);
        });
        let (features, limits, hints) =
            (about.required_features, &about.required_limits, &about.memory_hints);
        // SAFETY: the driver has the extension, which needs no feature; nothing else is changed.
        let open = unsafe { hal.open_with_callback(features, limits, hints, Some(add)) }.ok()?;
        let device = open.device.raw_device().clone();
        let extension = ext::external_memory_host::Device::new(instance, &device);
        // SAFETY: the device was opened from this adapter with these features and limits.
        let (opened, queue) = unsafe { adapter.raw.create_device_from_hal(open, about) }.ok()?;
        let alignment = host.min_imported_host_pointer_alignment;
        let importer = Self { device, extension, alignment, memory };
        importer.reads_files(&opened, &queue).then_some((opened, queue, importer))
    }

    /// True if the device reads a page of a mapped file. Some drivers take such pages and fail later, when they are used.
    fn reads_files(&self, gpu: &wgpu::Device, queue: &wgpu::Queue) -> bool {
        const SIZE: usize = 4096;
        let Ok(program) = std::env::current_exe().and_then(|path| FileMap::open(&path)) else { return false };
        let Some(page) = self.import(gpu, &program, 0..SIZE) else { return false };
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let about =
            wgpu::BufferDescriptor { label: None, size: SIZE as u64, usage, mapped_at_creation: false };
        let copy = gpu.create_buffer(&about);
        let mut encoder = gpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&page, 0, &copy, 0, SIZE as u64);
        queue.submit([encoder.finish()]);
        let (done, mapped) = std::sync::mpsc::sync_channel(1);
        copy.map_async(wgpu::MapMode::Read, .., move |result| drop(done.send(result)));
        let polled = gpu.poll(wgpu::PollType::wait_indefinitely());
        let is_mapped = polled.is_ok() && matches!(mapped.try_recv(), Ok(Ok(())));
        is_mapped && copy.get_mapped_range(..).is_ok_and(|view| view[..] == program.bytes()[..SIZE])
    }

    /// A buffer of the device `gpu`, with which this was opened, over a place in a mapped file. It is only read.
    /// `None` if the driver refuses it: not every one takes the pages of a file, or pages that cannot be written.
    pub fn import(
        &self,
        gpu: &wgpu::Device,
        map: &Arc<FileMap>,
        place: Range<usize>,
    ) -> Option<wgpu::Buffer> {
        let size = map.bytes().get(place.clone())?.len() as u64;
        if size == 0 || !size.is_multiple_of(4) {
            return None;
        }
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_SRC;
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(HANDLE);
        let about = vk::BufferCreateInfo::default().size(size).usage(usage).push_next(&mut external);
        // SAFETY: the description is valid: the size is not zero.
        let buffer = unsafe { self.device.create_buffer(&about, None) }.ok()?;
        let Some(memory) = self.bind(buffer, map, place.start) else {
            // SAFETY: the buffer was made above and is not used.
            unsafe { self.device.destroy_buffer(buffer, None) };
            return None;
        };
        let (device, map) = (self.device.clone(), Arc::clone(map));
        let release = Box::new(move || {
            // SAFETY: wgpu drops its buffer after the last command that uses it, and before the device.
            unsafe {
                device.destroy_buffer(buffer, None);
                device.free_memory(memory, None);
            }
            drop(map);
        });
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let about = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        // SAFETY: the buffer lives until `release` is called. It was made from this device as described, its memory is bound, and
        // all of it has been written: it is a file's.
        Some(unsafe {
            let hal = wgpu::hal::vulkan::Buffer::from_raw_externally_owned(buffer, release);
            gpu.create_buffer_from_hal::<Vulkan>(hal, &about)
        })
    }

    /// Import the pages around the bytes from `at` on, and bind them to a buffer.
    fn bind(&self, buffer: vk::Buffer, map: &FileMap, at: usize) -> Option<vk::DeviceMemory> {
        // SAFETY: the buffer belongs to this device.
        let needs = unsafe { self.device.get_buffer_memory_requirements(buffer) };
        let begin = at as u64 / self.alignment * self.alignment;
        let end = (at as u64 + needs.size).next_multiple_of(self.alignment);
        let offset = at as u64 - begin;
        let bytes = map.bytes().get(begin as usize..end as usize)?;
        let pointer = bytes.as_ptr();
        if !(pointer as u64).is_multiple_of(self.alignment) || !offset.is_multiple_of(needs.alignment) {
            return None;
        }
        let mut host = vk::MemoryHostPointerPropertiesEXT::default();
        let ask = self.extension.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the extension is enabled, the pointer is aligned, and its memory is mapped as long as `map` lives.
        unsafe { ask(self.device.handle(), HANDLE, pointer.cast(), &mut host) }.result().ok()?;
        // Memory that needs no flushing.
        let coherent = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let kinds = needs.memory_type_bits & host.memory_type_bits;
        let kind = (0..self.memory.memory_type_count).find(|&kind| {
            let flags = self.memory.memory_types[kind as usize].property_flags;
            kinds & 1 << kind != 0 && flags.contains(coherent)
        })?;
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(HANDLE)
            .host_pointer(pointer.cast_mut().cast());
        let about = vk::MemoryAllocateInfo::default()
            .allocation_size(end - begin)
            .memory_type_index(kind)
            .push_next(&mut import);
        // SAFETY: the memory is mapped as long as `map` lives, which the caller keeps; the device only reads it, as no buffer over it
        // can be written.
        let memory = unsafe { self.device.allocate_memory(&about, None) }.ok()?;
        // SAFETY: buffer and memory are new and unbound, and the memory's type, size and offset are as required.
        if unsafe { self.device.bind_buffer_memory(buffer, memory, offset) }.is_err() {
            // SAFETY: the memory was made above, and nothing is bound to it.
            unsafe { self.device.free_memory(memory, None) };
            return None;
        }
        Some(memory)
    }
}
