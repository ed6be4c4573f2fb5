//! Commands of one sequence, in order.
//!
//! Commands are recorded into one encoder and submitted together; the device runs submissions in the order in which they are made,
//! and every command sees the results of earlier ones. Parameters of all kernels of a submission are in one uniform buffer,
//! the arena, which is written once.

mod read;

use std::{collections::HashMap, sync::Weak};

use super::{Buffer, Gpu, GpuError, Kernel, Result, buffer::Memory, context::PARAMS};
use specreel_record::Traffic;

/// Offsets of bindings are multiples of this; no device asks for more.
pub const ALIGNMENT: u64 = 256;

/// First size of the arena: 512 kernels.
const ARENA: u64 = 512 * PARAMS;

/// Largest size of the arena.
const ARENA_LIMIT: u64 = 16 << 20;

/// Data up to this size is written through the arena.
const SMALL_WRITE: usize = 64 << 10;

/// Bind groups that were not used for this many submissions are dropped.
const IDLE: u64 = 256;

/// Submissions between two searches for bind groups to drop.
const SWEEP: u64 = 16;

/// A view of a buffer: its id, offset and size.
type View = (u64, u64, u64);

#[derive(Debug)]
struct CachedGroup {
    raw: wgpu::BindGroup,
    /// A group would keep the memory of its buffers: it goes when one of them goes.
    buffers: Vec<Weak<Memory>>,
    used: u64,
}

/// Commands of one sequence. Streams of one device may be used by different threads.
#[derive(Debug)]
pub struct Stream {
    gpu: Gpu,
    // Before the encoder: a pass ends before its encoder does.
    pass: Option<wgpu::ComputePass<'static>>,
    encoder: Option<wgpu::CommandEncoder>,
    arena: Option<wgpu::Buffer>,
    arena_size: u64,
    /// What the arena will hold.
    params: Vec<u8>,
    groups: HashMap<(usize, Vec<View>), CachedGroup>,
    landing: Option<wgpu::Buffer>,
    traffic: Traffic,
    counted: Traffic,
}

impl Stream {
    pub(super) fn new(gpu: Gpu) -> Self {
        Self {
            gpu,
            pass: None,
            encoder: None,
            arena: None,
            arena_size: ARENA,
            params: Vec::new(),
            groups: HashMap::new(),
            landing: None,
            traffic: Traffic::default(),
            counted: Traffic::default(),
        }
    }

    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// What passed between host and device so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Record a kernel over `groups` workgroups; `None` if one of the numbers is 0. `params` is its uniform block: a multiple of
    /// 16 bytes, 256 at most. `buffers` are its storage buffers in the order of its bindings. Fails if the device is lost, or the
    /// call does not fit the kernel or the device's limits.
    pub(crate) fn dispatch<P: bytemuck::Pod>(
        &mut self,
        kernel: &Kernel,
        params: &P,
        buffers: &[&Buffer],
        groups: [u32; 3],
    ) -> Result<()> {
        let views: Vec<(&Buffer, u64, u64)> =
            buffers.iter().map(|buffer| (*buffer, 0, buffer.bytes())).collect();
        self.dispatch_at(kernel, params, &views, groups)
    }

    /// As [`Stream::dispatch`], over views of the buffers: an offset, which is a multiple of [`ALIGNMENT`], and a size.
    pub(crate) fn dispatch_at<P: bytemuck::Pod>(
        &mut self,
        kernel: &Kernel,
        params: &P,
        buffers: &[(&Buffer, u64, u64)],
        groups: [u32; 3],
    ) -> Result<()> {
        self.gpu.check()?;
        if groups.contains(&0) {
            return Ok(());
        }
        self.validate(kernel, size_of::<P>(), buffers, groups)?;
        let at = self.place(bytemuck::bytes_of(params))?;
        let key = (kernel.id, buffers.iter().map(|(buffer, at, size)| (buffer.id(), *at, *size)).collect());
        let arena = Self::arena(&self.gpu, &mut self.arena, self.arena_size)?;
        let device = self.gpu.device();
        let group = self.groups.entry(key).or_insert_with(|| {
            let binding = |binding: usize, buffer, offset, size| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer,
                    offset,
                    size: wgpu::BufferSize::new(size),
                }),
            };
            let mut entries = vec![binding(0, arena, 0, PARAMS)];
            let views = buffers.iter().enumerate();
            entries.extend(views.map(|(i, (buffer, at, size))| binding(i + 1, buffer.raw(), *at, *size)));
            let about = wgpu::BindGroupDescriptor { label: None, layout: &kernel.layout, entries: &entries };
            let buffers = buffers.iter().map(|(buffer, ..)| buffer.downgrade()).collect();
            CachedGroup { raw: device.create_bind_group(&about), buffers, used: 0 }
        });
        group.used = self.traffic.submissions;
        let pass = self.pass.get_or_insert_with(|| {
            let encoder =
                self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()));
            encoder.begin_compute_pass(&Default::default()).forget_lifetime()
        });
        pass.set_pipeline(&kernel.pipeline);
        pass.set_bind_group(0, &group.raw, &[at]);
        pass.dispatch_workgroups(groups[0], groups[1], groups[2]);
        self.traffic.dispatches += 1;
        Ok(())
    }

    /// What wgpu would refuse at submission only, for the whole of it.
    fn validate(
        &self,
        kernel: &Kernel,
        params: usize,
        buffers: &[(&Buffer, u64, u64)],
        groups: [u32; 3],
    ) -> Result<()> {
        let name = &kernel.name;
        let invalid = |why: String| Err(GpuError::Invalid(format!("kernel `{name}`: {why}")));
        if params as u64 > PARAMS || !params.is_multiple_of(16) || params == 0 {
            return invalid(format!(
                "{params} bytes of parameters: a multiple of 16 up to {PARAMS} is expected"
            ));
        }
        if buffers.len() != kernel.bindings.len() {
            return invalid(format!("{} buffers, {} are expected", buffers.len(), kernel.bindings.len()));
        }
        let limits = self.gpu.limits();
        for (i, (buffer, at, size)) in buffers.iter().enumerate() {
            if !at.is_multiple_of(ALIGNMENT)
                || *size == 0
                || !size.is_multiple_of(4)
                || at + size > buffer.bytes()
            {
                return invalid(format!("binding {}: bytes {at}+{size} of {}", i + 1, buffer.bytes()));
            }
            let limit = limits.max_storage_buffer_binding_size;
            if *size > limit {
                let what = format!("kernel `{name}`, binding {} (bytes)", i + 1);
                return Err(GpuError::TooLarge { what, size: *size, limit });
            }
            let twice = buffers[..i].iter().position(|(other, ..)| other.id() == buffer.id());
            if let Some(other) = twice.filter(|other| kernel.bindings[*other] != kernel.bindings[i]) {
                return invalid(format!("bindings {} and {} read and write one buffer", other + 1, i + 1));
            }
        }
        let (size, limit) =
            (groups.into_iter().fold(0, u32::max), limits.max_compute_workgroups_per_dimension);
        if size > limit {
            let what = format!("kernel `{name}` (workgroups)");
            return Err(GpuError::TooLarge { what, size: size.into(), limit: limit.into() });
        }
        Ok(())
    }

    /// Place bytes in the arena; their offset. A full arena is submitted, and the next one is larger.
    fn place(&mut self, bytes: &[u8]) -> Result<u32> {
        // A binding is as long as the longest parameters, wherever it starts.
        if (self.params.len() + bytes.len()) as u64 + PARAMS > self.arena_size {
            self.submit()?;
            if self.arena_size < ARENA_LIMIT {
                self.arena_size *= 2;
                self.arena = None;
                self.groups.clear();
            }
        }
        let at = self.params.len();
        self.params.extend_from_slice(bytes);
        let alignment = self.gpu.limits().min_uniform_buffer_offset_alignment as usize;
        self.params.resize(self.params.len().next_multiple_of(alignment.max(16)), 0);
        Ok(at as u32)
    }

    fn arena<'a>(gpu: &Gpu, arena: &'a mut Option<wgpu::Buffer>, size: u64) -> Result<&'a wgpu::Buffer> {
        if arena.is_none() {
            let usage =
                wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
            *arena = Some(gpu.allocate(size, usage)?);
        }
        arena.as_ref().ok_or_else(|| GpuError::Invalid("no arena".into()))
    }

    /// The encoder, outside of a pass.
    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        self.pass = None;
        self.encoder.get_or_insert_with(|| self.gpu.device().create_command_encoder(&Default::default()))
    }

    /// Write bytes, in the order of the recorded commands; `at` and the number of bytes are multiples of 4. At the beginning of
    /// a submission this costs least: later, it splits the pass. Fails if the bytes do not fit into the buffer, or memory is
    /// missing.
    pub fn write(&mut self, buffer: &Buffer, at: u64, bytes: &[u8]) -> Result<()> {
        Self::range(buffer, at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.traffic.up += bytes.len() as u64;
        if self.encoder.is_none() {
            return self.gpu.write(buffer, at, bytes);
        }
        self.gpu.check()?;
        let size = bytes.len() as u64;
        if bytes.len() <= SMALL_WRITE {
            let from_at = self.place(bytes)?.into();
            let arena = Self::arena(&self.gpu, &mut self.arena, self.arena_size)?.clone();
            self.encoder().copy_buffer_to_buffer(&arena, from_at, buffer.raw(), at, size);
            self.traffic.up -= size; // counted with the arena
        } else {
            let from = self.gpu.upload(bytes)?;
            self.encoder().copy_buffer_to_buffer(from.raw(), 0, buffer.raw(), at, size);
        }
        Ok(())
    }

    fn range(buffer: &Buffer, at: u64, bytes: u64) -> Result<()> {
        if !at.is_multiple_of(4) || !bytes.is_multiple_of(4) || at.saturating_add(bytes) > buffer.bytes() {
            return Err(GpuError::Invalid(format!("bytes {at}+{bytes} of a buffer of {}", buffer.bytes())));
        }
        Ok(())
    }

    /// Copy bytes between buffers, or within one where source and target do not overlap. Offsets and size are multiples of 4.
    /// Fails if a range is not within its buffer, or memory is missing.
    pub fn copy(&mut self, from: &Buffer, from_at: u64, to: &Buffer, to_at: u64, bytes: u64) -> Result<()> {
        self.gpu.check()?;
        Self::range(from, from_at, bytes)?;
        Self::range(to, to_at, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        if from.id() != to.id() {
            self.encoder().copy_buffer_to_buffer(from.raw(), from_at, to.raw(), to_at, bytes);
            return Ok(());
        }
        if from_at.abs_diff(to_at) < bytes {
            return Err(GpuError::Invalid(format!(
                "a copy of {bytes} bytes from {from_at} to {to_at} overlaps"
            )));
        }
        // wgpu copies between different buffers only.
        let between = self.gpu.buffer(bytes)?;
        let encoder = self.encoder();
        encoder.copy_buffer_to_buffer(from.raw(), from_at, between.raw(), 0, bytes);
        encoder.copy_buffer_to_buffer(between.raw(), 0, to.raw(), to_at, bytes);
        Ok(())
    }

    /// Set bytes to zero; `at` and `bytes` are multiples of 4. Fails if the range is not within the buffer.
    pub fn clear(&mut self, buffer: &Buffer, at: u64, bytes: u64) -> Result<()> {
        self.gpu.check()?;
        Self::range(buffer, at, bytes)?;
        if bytes > 0 {
            self.encoder().clear_buffer(buffer.raw(), at, Some(bytes));
        }
        Ok(())
    }

    /// Start the recorded commands, without waiting for them. Without commands nothing happens.
    pub(crate) fn submit(&mut self) -> Result<()> {
        self.send().map(drop)
    }

    /// Start the recorded commands, and wait until all of this device's work is done.
    pub fn wait(&mut self) -> Result<()> {
        self.submit()?;
        self.gpu.wait(None)
    }

    fn send(&mut self) -> Result<Option<wgpu::SubmissionIndex>> {
        self.pass = None;
        let Some(encoder) = self.encoder.take() else {
            self.gpu.check()?;
            return Ok(None);
        };
        if let Some(arena) = &self.arena
            && !self.params.is_empty()
        {
            self.gpu.queue().write_buffer(arena, 0, &self.params);
        }
        self.traffic.up += self.params.len() as u64;
        self.params.clear();
        let index = self.gpu.queue().submit([encoder.finish()]);
        self.traffic.submissions += 1;
        let now = self.traffic.submissions;
        if now.is_multiple_of(SWEEP) {
            let alive = |group: &CachedGroup| group.buffers.iter().all(|buffer| buffer.strong_count() > 0);
            self.groups.retain(|_, group| group.used + IDLE > now && alive(group));
        }
        self.count();
        self.gpu.check()?;
        Ok(Some(index))
    }

    fn count(&mut self) {
        self.gpu.count(self.traffic - self.counted);
        self.counted = self.traffic;
    }
}

#[cfg(test)]
mod tests;
