//! Choosing and opening a device.

use crate::{Gpu, KvType, WeightType, candle::Device};
use specreel_record::{Failure, FailureClass};

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best device of this build and machine.
    #[default]
    Auto,
    Cpu,
    Cuda(usize),
    /// Apple's GPU, with candle.
    Metal,
    /// A GPU through wgpu (Vulkan, Metal, DirectX 12), by its number in `specreel doctor`; `None` for the best.
    Gpu(Option<usize>),
    /// For developers: the tensor decoder of accelerators on the CPU, slowly. See docs/devices.md.
    CpuTensors,
}

/// What computes.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The CPU, in this crate's kernels.
    Cpu,
    /// A GPU through wgpu, in this crate's kernels.
    Gpu(Gpu),
    /// CUDA or Metal, or for developers the CPU, in candle's tensors.
    Candle(Device),
}

impl Backend {
    /// True if a row's result does not depend on the number of rows in a pass: lossless methods are bit-exact.
    pub fn is_batch_invariant(&self) -> bool {
        match self {
            Self::Cpu => true,
            Self::Gpu(gpu) => gpu.is_batch_invariant(),
            Self::Candle(_) => false,
        }
    }
}

/// An opened device, and the weight type of language models on it.
#[derive(Clone, Debug)]
pub struct ComputeDevice {
    backend: Backend,
    name: String,
    dtype: WeightType,
    kv_type: KvType,
    /// Type of matrices that are not quantized, and of everything between matrices.
    float: WeightType,
    /// Type of a vision tower's matrices on the CPU and on GPUs.
    tower: WeightType,
}

impl ComputeDevice {
    /// The CPU, with any weights.
    pub fn cpu(dtype: WeightType) -> Self {
        Self::kernels(Backend::Cpu, "cpu".into(), dtype)
    }

    /// A GPU through wgpu, with any weights: its kernels are batch-invariant, as the CPU's are.
    pub fn gpu_device(gpu: Gpu, dtype: WeightType) -> Self {
        let name = gpu.adapter().label();
        Self::kernels(Backend::Gpu(gpu), name, dtype)
    }

    /// A device with kernels of this crate.
    fn kernels(backend: Backend, name: String, dtype: WeightType) -> Self {
        let dtype = if dtype == WeightType::Auto { WeightType::Q8_0 } else { dtype };
        let tower = dtype.tower(WeightType::Auto);
        Self { backend, name, dtype, kv_type: KvType::Auto, float: WeightType::F32, tower }
    }

    /// A candle device. Weights are bf16 by default; quantized weights are computed in f32.
    pub fn tensors(device: Device, name: &str, dtype: WeightType) -> Self {
        let dtype = if dtype == WeightType::Auto { WeightType::Bf16 } else { dtype };
        Self {
            backend: Backend::Candle(device),
            name: name.into(),
            dtype,
            kv_type: KvType::Auto,
            float: float(dtype),
            tower: dtype.tower(WeightType::Auto),
        }
    }

    /// The same device with vision towers in another type. On an accelerator a tower has the compute type.
    pub fn with_tower(self, dtype: WeightType) -> Self {
        Self { tower: self.dtype.tower(dtype), ..self }
    }

    /// The type of a vision tower's matrices on the CPU and on GPUs; never `Auto`.
    pub fn tower(&self) -> WeightType {
        self.tower
    }

    /// The same device with another weight type of language models; not `Auto`.
    pub fn with_dtype(&self, dtype: WeightType) -> Self {
        // The float type of tensors goes with their weights.
        let float = match self.backend {
            Backend::Candle(_) => float(dtype),
            Backend::Cpu | Backend::Gpu(_) => self.float,
        };
        Self { dtype, float, ..self.clone() }
    }

    /// The same device with this float type between matrices.
    #[cfg(feature = "cuda")]
    pub(crate) fn with_compute_type(self, float: WeightType) -> Self {
        Self { float, ..self }
    }

    /// The same device with this type of keys and values. Fails if it is an accelerator, whose keys and values have its compute
    /// type (class usage).
    pub fn with_kv_type(self, kv_type: KvType) -> Result<Self, Failure> {
        if kv_type != KvType::Auto && matches!(self.backend, Backend::Candle(_)) {
            let (name, float) = (&self.name, self.float.name());
            return Err(usage(
                &format!(
                    "--kv-type {} is for cpu and gpu: the KV cache on {name} is {float}",
                    kv_type.name()
                ),
                "leave --kv-type out, or add --device cpu",
            ));
        }
        Ok(Self { kv_type, ..self })
    }

    /// What computes.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The GPU, if it is one through wgpu.
    pub fn gpu(&self) -> Option<&Gpu> {
        match &self.backend {
            Backend::Gpu(gpu) => Some(gpu),
            Backend::Cpu | Backend::Candle(_) => None,
        }
    }

    /// The name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`Backend::is_batch_invariant`].
    pub fn is_batch_invariant(&self) -> bool {
        self.backend.is_batch_invariant()
    }

    /// True if mixtures of experts are computed: on the CPU and on GPUs through wgpu.
    pub fn computes_experts(&self) -> bool {
        !matches!(self.backend, Backend::Candle(_))
    }

    /// True if attention within a window is computed ([`Ability::Windows`](crate::ops::Ability::Windows)).
    pub fn computes_windows(&self) -> bool {
        matches!(self.backend, Backend::Cpu)
    }

    /// The weight type of the language model; never `Auto`.
    pub fn dtype(&self) -> WeightType {
        self.dtype
    }

    /// The requested type of keys and values.
    pub fn kv_type(&self) -> KvType {
        self.kv_type
    }

    /// The float type of the tower, of keys and values, and of everything between matrices.
    pub fn compute_type(&self) -> WeightType {
        self.float
    }

    /// Wait until all operations that were queued in candle's tensors are done.
    pub fn synchronize(&self) -> crate::Result<()> {
        match &self.backend {
            Backend::Cpu | Backend::Gpu(_) => Ok(()),
            Backend::Candle(device) => Ok(device.synchronize()?),
        }
    }
}

/// The float type of tensors that are not quantized, for weights of this type.
fn float(dtype: WeightType) -> WeightType {
    match dtype {
        WeightType::F16 | WeightType::Bf16 => dtype,
        _ => WeightType::F32,
    }
}

pub(crate) fn usage(error: &str, hint: &str) -> Failure {
    Failure { class: FailureClass::Usage, error: error.into(), hint: Some(hint.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_a_default_weight_type() {
        let device = |choice, dtype| ComputeDevice::open(choice, dtype);
        let cpu = device(DeviceChoice::Cpu, WeightType::Auto).unwrap();
        assert_eq!((cpu.dtype(), cpu.is_batch_invariant(), cpu.name()), (WeightType::Q8_0, true, "cpu"));
        assert_eq!(device(DeviceChoice::Cpu, WeightType::Bf16).unwrap().compute_type(), WeightType::F32);
        let tensors = |dtype| device(DeviceChoice::CpuTensors, dtype).unwrap();
        assert_eq!(tensors(WeightType::Auto).dtype(), WeightType::Bf16);
        assert_eq!(tensors(WeightType::Auto).compute_type(), WeightType::Bf16);
        assert_eq!(tensors(WeightType::Q4K).compute_type(), WeightType::F32);
        assert!(tensors(WeightType::Q4K).quantizes() && !tensors(WeightType::F16).quantizes());
    }

    #[test]
    fn an_accelerator_refuses_a_type_of_keys_and_values() {
        let open = |choice, kind| ComputeDevice::open(choice, WeightType::Auto).unwrap().with_kv_type(kind);
        assert_eq!(open(DeviceChoice::Cpu, KvType::Q8_0).unwrap().kv_type(), KvType::Q8_0);
        assert!(open(DeviceChoice::CpuTensors, KvType::Auto).is_ok());
        let failure = open(DeviceChoice::CpuTensors, KvType::Q8_0).unwrap_err();
        assert_eq!(failure.class, FailureClass::Usage);
        assert!(
            failure.error.contains("--kv-type q8_0") && failure.error.contains("bf16"),
            "{}",
            failure.error
        );
    }

    #[test]
    fn a_gpu_has_the_weights_and_keys_of_the_cpu() {
        let Some(gpu) = crate::gpu::testing::gpu_or_skip() else { return };
        let device = ComputeDevice::gpu_device(gpu, WeightType::Auto);
        assert_eq!((device.dtype(), device.is_batch_invariant()), (WeightType::Q8_0, true));
        assert!(device.gpu().is_some() && device.name().starts_with("gpu:"), "{}", device.name());
        for kind in KvType::ALL {
            assert_eq!(device.clone().with_kv_type(kind).unwrap().kv_type(), kind);
        }
    }

    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    #[test]
    fn a_device_that_is_not_built_in_is_refused_with_the_build_command() {
        let auto = ComputeDevice::open(DeviceChoice::Auto, WeightType::Auto).unwrap();
        assert!(auto.is_batch_invariant() && !auto.gpu().is_some_and(Gpu::is_software));
        for (choice, name) in [(DeviceChoice::Cuda(1), "cuda"), (DeviceChoice::Metal, "metal")] {
            let failure = ComputeDevice::open(choice, WeightType::Auto).unwrap_err();
            assert_eq!(failure.class, FailureClass::Usage);
            let hint = failure.hint.unwrap();
            assert!(
                hint.contains(&format!("--features {name}")) && hint.contains("docs/devices.md"),
                "{hint}"
            );
        }
    }
}
