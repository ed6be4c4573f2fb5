//! An opened GPU: its device, its limits, and the kernels compiled for it.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use super::{
    Buffer, GpuError, Result, Stream,
    adapter::{self, Adapter, AdapterKind},
    imported::Importer,
    kernel::Kernels,
    lock, one_line,
    products::choice::Limits,
    upload::Uploads,
};
use specreel_record::Traffic;

/// Bytes of a kernel's parameters at most.
pub(super) const PARAMS: u64 = 256;

/// An opened GPU. Clones are handles of the same device; opening it again makes another one.
#[derive(Clone, Debug)]
pub struct Gpu(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    device: wgpu::Device,
    queue: wgpu::Queue,
    importer: Option<Importer>,
    adapter: Adapter,
    plain: bool,
    kernels: Kernels,
    limits: Mutex<Limits>,
    state: Arc<GpuState>,
    notes: Mutex<Vec<String>>,
    /// A row had other bits among other rows.
    inexact: AtomicBool,
    uploads: Uploads,
    traffic: Mutex<Traffic>,
}

/// The first error that no call could return.
#[derive(Debug, Default)]
struct GpuState {
    broken: AtomicBool,
    why: Mutex<Option<GpuError>>,
}

impl GpuState {
    fn set(&self, error: GpuError) {
        lock(&self.why).get_or_insert(error);
        self.broken.store(true, Ordering::Release);
    }
}

/// True if kernels are to run in their plain forms: `SPECREEL_GPU=plain`.
pub(super) fn plain_requested() -> bool {
    std::env::var_os(adapter::VARIABLE).is_some_and(|value| value == "plain")
}

impl Gpu {
    /// Open an adapter; `plain` kernels use nothing that a driver may lack.
    pub(crate) fn open_adapter(adapter: Adapter, plain: bool) -> std::result::Result<Gpu, String> {
        if let Some(problem) = &adapter.problem {
            return Err(problem.clone());
        }
        let about = wgpu::DeviceDescriptor {
            label: None,
            required_limits: adapter.limits.clone(),
            // Weights are few large buffers: no blocks of memory ahead of need.
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..Default::default()
        };
        let importing = if plain { None } else { Importer::open(&adapter, &about) };
        let (device, queue, importer) = match importing {
            Some((device, queue, importer)) => (device, queue, Some(importer)),
            None => {
                let (device, queue) = pollster::block_on(adapter.raw.request_device(&about))
                    .map_err(|error| one_line(&error.to_string()))?;
                (device, queue, None)
            }
        };
        let state = Arc::new(GpuState::default());
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
        Ok(Gpu(Arc::new(Inner {
            device,
            queue,
            importer,
            adapter,
            plain,
            kernels: Kernels::default(),
            limits: Mutex::default(),
            state,
            notes: Mutex::default(),
            inexact: AtomicBool::new(false),
            uploads: Uploads::default(),
            traffic: Mutex::default(),
        })))
    }

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

    pub fn limits(&self) -> &wgpu::Limits {
        &self.0.adapter.limits
    }

    /// True if kernels run in their plain forms.
    pub(super) fn is_plain(&self) -> bool {
        self.0.plain
    }

    pub(super) fn kernels(&self) -> &Kernels {
        &self.0.kernels
    }

    pub(super) fn limits_of_kernels(&self) -> &Mutex<Limits> {
        &self.0.limits
    }

    /// The adapter with its driver, and how kernels are compiled: what their speed depends on.
    pub(crate) fn identity(&self) -> String {
        let Adapter { name, backend, driver, .. } = &self.0.adapter;
        let plain = if self.0.plain { ", plain" } else { "" };
        format!("{name}, {backend}, {driver}{plain}")
    }

    /// True unless a row was found to differ in its bits among others. Every kernel adds in one order; a driver's compiler could
    /// still round one form of a kernel in another way, so it is checked when a model is loaded.
    pub fn is_batch_invariant(&self) -> bool {
        !self.0.inexact.load(Ordering::Relaxed)
    }

    /// Note that a row differs in its bits among others.
    pub fn doubt(&self) {
        self.0.inexact.store(true, Ordering::Relaxed);
        let note = "this GPU's driver rounds a row in another way among others: lossless methods can differ at near-ties";
        self.note(note.into());
    }

    /// Add to [`Gpu::notes`].
    pub(super) fn note(&self, note: String) {
        let mut notes = lock(&self.0.notes);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// What differs from the usual: kernels that fell back to their plain form.
    pub fn notes(&self) -> Vec<String> {
        lock(&self.0.notes).clone()
    }

    /// What passed to and from the device in the submissions of all streams.
    pub fn traffic(&self) -> Traffic {
        *lock(&self.0.traffic)
    }

    pub(super) fn count(&self, more: Traffic) {
        let mut all = lock(&self.0.traffic);
        *all = *all + more;
    }

    pub(super) fn device(&self) -> &wgpu::Device {
        &self.0.device
    }

    pub(super) fn queue(&self) -> &wgpu::Queue {
        &self.0.queue
    }

    /// What takes memory of the host, if the device shares it and its driver can do so.
    pub(super) fn importer(&self) -> Option<&Importer> {
        self.0.importer.as_ref()
    }

    pub(super) fn uploads(&self) -> &Uploads {
        &self.0.uploads
    }

    /// Nothing, or why the device can no longer be used. The first error that no call returned: a loss, or commands that were
    /// refused after they had been recorded.
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
    pub(super) fn scoped<T>(&self, needed: u64, make: impl FnOnce() -> T) -> Result<T> {
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

    /// Zeroed memory of at least `bytes`. Fails if it is larger than the device allows, or memory is missing.
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

    pub(super) fn wait(&self, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
        let polled = self.0.device.poll(wgpu::PollType::Wait { submission_index, timeout: None });
        self.check()?;
        polled.map(drop).map_err(|error| GpuError::Lost(one_line(&error.to_string())))
    }

    pub fn stream(&self) -> Stream {
        Stream::new(self.clone())
    }
}
