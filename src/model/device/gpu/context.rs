//! An opened GPU: its device, its limits, and the kernels compiled for it.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use super::{
    Buffer, GpuError, Result, Stream,
    adapter::{self, Adapter, AdapterKind},
    error::one_line,
};

/// Optional features that kernels make use of.
pub(super) const OPTIONAL: wgpu::Features = wgpu::Features::SUBGROUP.union(wgpu::Features::SHADER_F16);

/// Bytes that may wait in host memory before they are moved to the device.
const UPLOAD: u64 = 64 << 20;

/// Bytes of a kernel's parameters at most.
pub(super) const PARAMS: u64 = 256;

/// An opened GPU. Clones are handles of the same device; opening it again makes another one.
#[derive(Clone, Debug)]
pub struct Gpu(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    adapter: Adapter,
    features: wgpu::Features,
    kernels: Mutex<HashMap<KernelKey, Arc<Kernel>>>,
    state: Arc<State>,
    notes: Mutex<Vec<String>>,
    /// Bytes written since the last submission.
    waiting: AtomicU64,
}

/// The first error that no call could return.
#[derive(Debug, Default)]
struct State {
    broken: AtomicBool,
    why: Mutex<Option<GpuError>>,
}

impl State {
    fn set(&self, error: GpuError) {
        lock(&self.why).get_or_insert(error);
        self.broken.store(true, Ordering::Release);
    }
}

type KernelKey = (String, Vec<(String, u64)>);

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    Write,
}

/// A compiled kernel.
#[derive(Debug)]
pub struct Kernel {
    pub(super) name: String,
    /// Unique among the kernels of the device.
    pub(super) id: usize,
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) layout: wgpu::BindGroupLayout,
    pub(super) bindings: Vec<Access>,
}

/// A lock whose holder panicked still guards sound data: every change is a single insertion.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True if no optional feature may be used: `SPECREEL_GPU=plain`.
pub(super) fn plain_requested() -> bool {
    std::env::var_os(adapter::VARIABLE).is_some_and(|value| value == "plain")
}

impl Gpu {
    /// Open an adapter, with those optional features that it has, or with none.
    ///
    /// # Errors
    /// A sentence, if the adapter cannot be used.
    pub fn open_adapter(adapter: Adapter, plain: bool) -> std::result::Result<Gpu, String> {
        if let Some(problem) = &adapter.problem {
            return Err(problem.clone());
        }
        let features = if plain { wgpu::Features::empty() } else { adapter.features & OPTIONAL };
        let (device, queue) = pollster::block_on(adapter.raw.request_device(&wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            required_limits: adapter.limits.clone(),
            // Weights are few large buffers: no blocks of memory ahead of need.
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        }))
        .map_err(|error| one_line(&error.to_string()))?;
        let state = Arc::new(State::default());
        let uncaptured = Arc::clone(&state);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            uncaptured.set(GpuError::from_wgpu(&error, 0));
        }));
        let lost = Arc::clone(&state);
        device.set_device_lost_callback(move |reason, message| {
            lost.set(GpuError::Lost(match message.trim() {
                "" => format!("{reason:?}").to_lowercase(),
                message => one_line(message),
            }));
        });
        let (kernels, notes, waiting) = Default::default();
        Ok(Gpu(Arc::new(Inner { device, queue, adapter, features, kernels, state, notes, waiting })))
    }

    /// The adapter.
    pub fn adapter(&self) -> &Adapter {
        &self.0.adapter
    }

    /// True if both are handles of one opened device.
    pub fn is(&self, other: &Gpu) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// True if the adapter computes on the CPU.
    pub fn is_software(&self) -> bool {
        self.0.adapter.kind == AdapterKind::Software
    }

    /// Its limits.
    pub fn limits(&self) -> &wgpu::Limits {
        &self.0.adapter.limits
    }

    /// True if kernels may use subgroups.
    pub fn has_subgroups(&self) -> bool {
        self.0.features.contains(wgpu::Features::SUBGROUP)
    }

    /// True if kernels may compute in f16.
    pub fn has_f16(&self) -> bool {
        self.0.features.contains(wgpu::Features::SHADER_F16)
    }

    /// What differs from the usual: kernels that fell back to their plain form.
    pub fn notes(&self) -> Vec<String> {
        lock(&self.0.notes).clone()
    }

    pub(super) fn device(&self) -> &wgpu::Device {
        &self.0.device
    }

    pub(super) fn queue(&self) -> &wgpu::Queue {
        &self.0.queue
    }

    /// Nothing, or why the device can no longer be used.
    ///
    /// # Errors
    /// The first error that no call returned: a loss, or commands that were refused after they had been recorded.
    pub fn check(&self) -> Result<()> {
        if !self.0.state.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(lock(&self.0.state.why).clone().unwrap_or_else(|| GpuError::Lost("unknown reason".into())))
    }

    /// Give the device up, as a driver does that resets it: every later call fails with [`GpuError::Lost`].
    pub fn lose(&self) {
        self.0.device.destroy();
        // The callback runs while the device is polled.
        drop(self.0.device.poll(wgpu::PollType::Poll));
        self.0.state.set(GpuError::Lost("the device was closed".into()));
    }

    /// Call `make`; the errors of wgpu in it are returned instead of breaking the device.
    fn scoped<T>(&self, needed: u64, make: impl FnOnce() -> T) -> Result<T> {
        self.check()?;
        let filters =
            [wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::OutOfMemory];
        let [validation, internal, memory] = filters.map(|filter| self.0.device.push_error_scope(filter));
        let made = make();
        // Innermost first, as the scopes are a stack.
        let errors = [memory.pop(), internal.pop(), validation.pop()].map(pollster::block_on);
        match errors.iter().flatten().next() {
            Some(error) => {
                self.check()?;
                Err(GpuError::from_wgpu(error, needed))
            }
            None => Ok(made),
        }
    }

    /// Zeroed memory of at least `bytes`.
    ///
    /// # Errors
    /// If it is larger than the device allows, or memory is missing.
    pub fn buffer(&self, bytes: u64) -> Result<Buffer> {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.allocate(bytes, usage).map(Buffer::new)
    }

    pub(super) fn allocate(&self, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer> {
        let size = bytes.max(4).next_multiple_of(4);
        let limit = self.limits().max_buffer_size;
        if size > limit {
            return Err(GpuError::TooLarge { what: "a buffer (bytes)".into(), size, limit });
        }
        let about = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        self.scoped(size, || self.0.device.create_buffer(&about))
    }

    /// Memory with these bytes.
    ///
    /// # Errors
    /// As [`Gpu::buffer`].
    pub fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        let buffer = self.buffer(bytes.len() as u64)?;
        self.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Write before all that is submitted from now on; `at` is a multiple of 4. Bytes beyond a multiple of 4 are padded with
    /// zeros. For data in the order of a stream's commands there is [`Stream::write`].
    ///
    /// # Errors
    /// If the bytes do not fit into the buffer, or memory to hand them over is missing.
    pub fn write(&self, buffer: &Buffer, at: u64, bytes: &[u8]) -> Result<()> {
        self.check()?;
        let end = at + (bytes.len() as u64).next_multiple_of(4);
        if !at.is_multiple_of(4) || end > buffer.bytes() {
            let size = buffer.bytes();
            return Err(GpuError::Invalid(format!("{} bytes at {at} of a buffer of {size}", bytes.len())));
        }
        let mut at = at;
        // In pieces: a copy of each waits in host memory until the device has taken it.
        for piece in bytes.chunks(UPLOAD as usize) {
            let whole = piece.len() / 4 * 4;
            self.scoped(piece.len() as u64, || {
                self.0.queue.write_buffer(buffer.raw(), at, &piece[..whole]);
                if whole < piece.len() {
                    let mut last = [0; 4];
                    last[..piece.len() - whole].copy_from_slice(&piece[whole..]);
                    self.0.queue.write_buffer(buffer.raw(), at + whole as u64, &last);
                }
            })?;
            at += piece.len() as u64;
            if self.0.waiting.fetch_add(piece.len() as u64, Ordering::Relaxed) + piece.len() as u64 >= UPLOAD
            {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Move written bytes to the device and release their copies in host memory.
    fn flush(&self) -> Result<()> {
        self.0.waiting.store(0, Ordering::Relaxed);
        let submission_index = Some(self.0.queue.submit([]));
        self.wait(submission_index)
    }

    /// Wait for a submission.
    pub(super) fn wait(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let polled = self.0.device.poll(wgpu::PollType::Wait { submission_index, timeout: None });
        self.check()?;
        polled.map(drop).map_err(|error| GpuError::Lost(one_line(&error.to_string())))
    }

    /// The compiled kernel of a WGSL source whose entry point is `main`; kept by its name and constants. `bindings` are the
    /// storage buffers at `@group(0) @binding(1)` and up; `@binding(0)` is the uniform block of parameters, which every kernel
    /// has. `constants` are its `override`s.
    ///
    /// Buffer accesses stay in bounds, whatever the kernel computes. Loops are not bounded by the compiler: each must end.
    ///
    /// # Errors
    /// If the kernel does not compile, or has more bindings than the device allows.
    pub fn kernel(
        &self,
        name: &str,
        source: &dyn Fn() -> String,
        bindings: &[Access],
        constants: &[(&str, f64)],
    ) -> Result<Arc<Kernel>> {
        let key: KernelKey = (
            name.to_owned(),
            constants.iter().map(|(name, value)| ((*name).to_owned(), value.to_bits())).collect(),
        );
        // Held while compiling: a second thread waits for the kernel instead of compiling it again.
        let mut kernels = lock(&self.0.kernels);
        if let Some(kernel) = kernels.get(&key) {
            return Ok(Arc::clone(kernel));
        }
        let kernel = Arc::new(self.compile(name, kernels.len(), &source(), bindings, constants)?);
        kernels.insert(key, Arc::clone(&kernel));
        Ok(kernel)
    }

    /// As [`Gpu::kernel`], for a kernel with a form for optional features: if that does not compile, or the device lacks what it
    /// needs (`available`), the plain one is taken. Both must compute the same bits.
    ///
    /// # Errors
    /// If the plain kernel does not compile.
    pub fn kernel_or_plain(
        &self,
        name: &str,
        available: bool,
        preferred: &dyn Fn() -> String,
        plain: &dyn Fn() -> String,
        bindings: &[Access],
        constants: &[(&str, f64)],
    ) -> Result<Arc<Kernel>> {
        let plain_name = format!("{name} (plain)");
        if !available {
            return self.kernel(&plain_name, plain, bindings, constants);
        }
        match self.kernel(name, preferred, bindings, constants) {
            Err(GpuError::Shader { kernel, why }) => {
                let made = self.kernel(&plain_name, plain, bindings, constants)?;
                let note = format!(
                    "kernel `{kernel}` does not compile on this GPU and runs in its plain form: {why}"
                );
                let mut notes = lock(&self.0.notes);
                if !notes.contains(&note) {
                    notes.push(note);
                }
                Ok(made)
            }
            other => other,
        }
    }

    fn compile(
        &self,
        name: &str,
        id: usize,
        source: &str,
        bindings: &[Access],
        constants: &[(&str, f64)],
    ) -> Result<Kernel> {
        let (size, limit) =
            (bindings.len() as u64, self.limits().max_storage_buffers_per_shader_stage.into());
        if size > limit {
            return Err(GpuError::TooLarge { what: format!("kernel `{name}` (buffers)"), size, limit });
        }
        let entry = |binding: usize, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
            binding: binding as u32,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
            count: None,
        };
        let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
        entries.extend(bindings.iter().enumerate().map(|(i, access)| {
            entry(i + 1, wgpu::BufferBindingType::Storage { read_only: *access == Access::Read }, false)
        }));
        let device = &self.0.device;
        let made = self.scoped(0, || {
            let label = Some(name);
            // Loops with an extra counter are slow, and hide their bounds from the driver's compiler.
            let checks = wgpu::ShaderRuntimeChecks {
                force_loop_bounding: false,
                ..wgpu::ShaderRuntimeChecks::checked()
            };
            let about =
                wgpu::ShaderModuleDescriptor { label, source: wgpu::ShaderSource::Wgsl(source.into()) };
            // SAFETY: kernels are part of this program, and each of their loops counts up to a bound; every other check is on.
            let module = unsafe { device.create_shader_module_trusted(about, checks) };
            let layout = device
                .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
            let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions { constants, ..Default::default() },
                cache: None,
            });
            (pipeline, layout)
        });
        match made {
            Ok((pipeline, layout)) => {
                Ok(Kernel { name: name.into(), id, pipeline, layout, bindings: bindings.into() })
            }
            Err(GpuError::Invalid(why)) => Err(GpuError::Shader { kernel: name.into(), why }),
            Err(other) => Err(other),
        }
    }

    /// A stream of commands.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }
}
