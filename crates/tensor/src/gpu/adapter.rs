//! The GPUs of this machine, as wgpu finds them.

mod kind;

use std::sync::OnceLock;

pub use kind::AdapterKind;
use specreel_record::units::bytes;

/// One adapter: a GPU as one backend presents it.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Its number in `--device gpu:N`: the best first.
    pub number: usize,
    /// Its name, as the driver gives it.
    pub name: String,
    pub kind: AdapterKind,
    /// `vulkan`, `metal` or `dx12`.
    pub backend: &'static str,
    /// Name and version of the driver; may be empty.
    pub(crate) driver: String,
    pub limits: wgpu::Limits,
    pub features: wgpu::Features,
    /// Bytes of the GPU's own memory, if it has some and says how much.
    pub memory: Option<u64>,
    /// Why it cannot be used, if so.
    pub problem: Option<String>,
    pub(super) raw: wgpu::Adapter,
}

impl Adapter {
    /// Its number, name and backend, for people.
    pub fn label(&self) -> String {
        let software = if self.kind == AdapterKind::Software { ", software" } else { "" };
        format!("gpu:{} ({}, {}{software})", self.number, self.name, self.backend)
    }

    /// True if `--device auto` may take it: a usable GPU, and really one.
    pub(crate) fn is_real(&self) -> bool {
        let real =
            [AdapterKind::Discrete, AdapterKind::Integrated, AdapterKind::Virtual].contains(&self.kind);
        real && self.problem.is_none()
    }

    /// All of it in a line, for people.
    pub fn about(&self) -> String {
        let mut parts = vec![format!("{}, {}, {}", self.name, self.kind.name(), self.backend)];
        if !self.driver.is_empty() {
            parts.push(format!("driver {}", self.driver));
        }
        parts.extend(self.memory.map(|memory| format!("{} of memory", bytes(memory))));
        let limits = &self.limits;
        parts.push(format!(
            "buffers up to {}, bindings up to {}, workgroup memory {}",
            bytes(limits.max_buffer_size),
            bytes(limits.max_storage_buffer_binding_size),
            bytes(limits.max_compute_workgroup_storage_size.into())
        ));
        let offered = [(wgpu::Features::SUBGROUP, "subgroups"), (wgpu::Features::SHADER_F16, "f16")];
        let offered: Vec<&str> = offered
            .into_iter()
            .filter(|(one, _)| self.features.contains(*one))
            .map(|(_, name)| name)
            .collect();
        if !offered.is_empty() {
            parts.push(format!("has {}, which no kernel needs", offered.join(" and ")));
        }
        parts.join("; ")
    }
}

/// Why there is no adapter.
pub const NONE: &str = "no driver for Vulkan, Metal or DirectX 12 was found";

/// Backends whose devices can be used. OpenGL is not among them: it lacks features that the kernels need.
const BACKENDS: wgpu::Backends =
    wgpu::Backends::VULKAN.union(wgpu::Backends::METAL).union(wgpu::Backends::DX12);

/// Share of a GPU's free memory, in percent, beyond which an allocation is refused instead of moving other memory out.
const MEMORY_LIMIT: u8 = 97;

/// One instance for all devices: it loads the system's libraries, and a second one would only load them again.
fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        let mut about = wgpu::InstanceDescriptor::new_without_display_handle();
        about.backends = BACKENDS;
        // No validation layers: they print, and cost time.
        about.flags = wgpu::InstanceFlags::empty();
        about.memory_budget_thresholds.for_resource_creation = Some(MEMORY_LIMIT);
        wgpu::Instance::new(about)
    })
}

/// Set to `off`, no GPUs are looked for: not even a driver is loaded.
pub const VARIABLE: &str = "SPECREEL_GPU";

/// All adapters, the best first: by kind, then Vulkan and Metal before DirectX.
pub fn adapters() -> Vec<Adapter> {
    if std::env::var_os(VARIABLE).is_some_and(|value| value == "off") {
        return Vec::new();
    }
    let found = pollster::block_on(instance().enumerate_adapters(BACKENDS));
    let mut all: Vec<Adapter> = found.into_iter().map(describe).collect();
    all.sort_by_key(|adapter| (adapter.problem.is_some(), adapter.kind, adapter.backend == "dx12"));
    for (number, adapter) in all.iter_mut().enumerate() {
        adapter.number = number;
    }
    all
}

fn describe(raw: wgpu::Adapter) -> Adapter {
    let info = raw.get_info();
    let kind = match info.device_type {
        wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
        wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
        wgpu::DeviceType::Other => AdapterKind::Other,
        wgpu::DeviceType::Cpu => AdapterKind::Software,
    };
    let backend = match info.backend {
        wgpu::Backend::Vulkan => "vulkan",
        wgpu::Backend::Metal => "metal",
        wgpu::Backend::Dx12 => "dx12",
        _ => "other",
    };
    let driver = [info.driver.trim(), info.driver_info.trim()].join(" ").trim().to_owned();
    let (limits, features) = (raw.limits(), raw.features());
    let compute = raw.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS);
    let problem = if compute { too_small(&limits) } else { Some("it has no compute shaders".into()) };
    let memory = if kind == AdapterKind::Discrete { own_memory(&raw) } else { None };
    Adapter { number: 0, name: info.name, kind, backend, driver, limits, features, memory, problem, raw }
}

/// The largest memory on the device itself. Known for Vulkan only.
#[cfg(not(target_vendor = "apple"))]
fn own_memory(raw: &wgpu::Adapter) -> Option<u64> {
    /// `VK_MEMORY_HEAP_DEVICE_LOCAL_BIT`.
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: nothing of the adapter is destroyed; it is only asked.
    let vulkan = unsafe { raw.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = vulkan.shared_instance().raw_instance();
    // SAFETY: the physical device belongs to this instance, which outlives the call.
    let memory = unsafe { instance.get_physical_device_memory_properties(vulkan.raw_physical_device()) };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).max()
}

#[cfg(target_vendor = "apple")]
fn own_memory(_: &wgpu::Adapter) -> Option<u64> {
    None
}

/// Limits of the adapter below the kernels' needs.
fn too_small(limits: &wgpu::Limits) -> Option<String> {
    let needed = [
        ("storage buffers per kernel", limits.max_storage_buffers_per_shader_stage.into(), 8),
        ("threads per workgroup", limits.max_compute_invocations_per_workgroup.into(), 256),
        ("threads per workgroup (x)", limits.max_compute_workgroup_size_x.into(), 256),
        ("workgroup memory in bytes", limits.max_compute_workgroup_storage_size.into(), 16 << 10),
        ("workgroups per dimension", limits.max_compute_workgroups_per_dimension.into(), 65_535),
        ("largest storage binding in bytes", limits.max_storage_buffer_binding_size, 128 << 20),
        ("largest buffer in bytes", limits.max_buffer_size, 256 << 20),
    ];
    let short = needed.into_iter().find(|(_, has, needs): &(_, u64, u64)| has < needs);
    short.map(|(what, has, needs)| format!("{what}: it has {has}, {needs} are needed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_below_the_needed_limits_is_refused() {
        assert_eq!(too_small(&wgpu::Limits::default()), None);
        let small = wgpu::Limits { max_storage_buffers_per_shader_stage: 4, ..wgpu::Limits::default() };
        let why = too_small(&small).unwrap();
        assert!(why.contains("it has 4, 8 are needed"), "{why}");
    }

    #[test]
    fn adapters_are_numbered_the_best_first() {
        let all = adapters();
        assert!(all.iter().enumerate().all(|(i, a)| a.number == i));
        let usable: Vec<AdapterKind> = all.iter().filter(|a| a.problem.is_none()).map(|a| a.kind).collect();
        assert!(usable.is_sorted());
    }
}
