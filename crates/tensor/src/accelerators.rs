//! The accelerators of this build and this machine.

use crate::{ComputeDevice, DeviceChoice, Gpu, WeightType, candle, device::usage, gpu::adapter};
use specreel_record::Failure;

/// An accelerator, or why it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// Its name, as in `--device`.
    pub name: String,
    /// True if this build supports it, and the machine has one of its kind.
    pub built: bool,
    /// A description, or why it cannot be used.
    pub about: Result<String, String>,
}

impl ComputeDevice {
    /// Open a device and resolve the weight type. Fails if this build lacks the device (class usage), or the machine has none
    /// (class input).
    pub fn open(choice: DeviceChoice, dtype: WeightType) -> Result<Self, Failure> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::cpu(dtype)),
            DeviceChoice::CpuTensors => {
                let device = candle::cpu().ok_or_else(|| not_built("tensors on the CPU", "candle"))?;
                Ok(Self::tensors(device, "cpu tensors", dtype))
            }
            DeviceChoice::Cuda(number) => cuda(number, dtype),
            DeviceChoice::Metal => metal(dtype),
            DeviceChoice::Gpu(number) => Ok(Self::gpu_device(Gpu::open(number)?, dtype)),
            DeviceChoice::Auto => {
                // A device that was not requested by name may be missing.
                let built = [cuda(0, dtype), metal(dtype)].into_iter().find_map(Result::ok);
                let best = built.or_else(|| Some(Self::gpu_device(Gpu::open_real()?, dtype)));
                Ok(best.unwrap_or_else(|| Self::cpu(dtype)))
            }
        }
    }
}

/// All accelerators, usable or not.
pub fn accelerators() -> Vec<Accelerator> {
    let mut all = cuda_devices();
    all.push(Accelerator { name: "metal".into(), built: cfg!(feature = "metal"), about: metal_about() });
    let taken = all.iter().find(|one| one.about.is_ok()).map(|one| one.name.clone());
    all.extend(gpus(taken));
    all
}

/// GPUs through wgpu; `taken` is what `--device auto` takes before any of them.
fn gpus(mut taken: Option<String>) -> Vec<Accelerator> {
    let list = adapter::adapters().into_iter().map(|gpu| {
        let name = format!("gpu:{}", gpu.number);
        let about = match &gpu.problem {
            Some(problem) => Err(format!("{}; it cannot be used: {problem}", gpu.about())),
            None => {
                let auto = match &taken {
                    _ if !gpu.is_real() => format!("not used by --device auto: {}", gpu.kind.name()),
                    Some(other) => format!("not used by --device auto: {other} is"),
                    None => "used by --device auto".to_owned(),
                };
                if gpu.is_real() {
                    taken.get_or_insert_with(|| name.clone());
                }
                Ok(format!("{}; {auto}", gpu.about()))
            }
        };
        Accelerator { name, built: true, about }
    });
    let list: Vec<Accelerator> = list.collect();
    if !list.is_empty() {
        return list;
    }
    let about = Err(adapter::NONE.to_owned());
    vec![Accelerator { name: "gpu".into(), built: false, about }]
}

fn not_built(name: &str, feature: &str) -> Failure {
    usage(
        &format!("this build has no {name}"),
        &format!("cargo build --release --features {feature} (see docs/devices.md), or use --device cpu"),
    )
}

#[cfg(feature = "cuda")]
mod with_cuda {
    use candle_core::{Device, cuda_backend::cudarc::driver::CudaContext};

    use super::{Accelerator, ComputeDevice, WeightType};
    use specreel_record::{Failure, FailureClass};

    /// The first generation with bf16 in its matrix units.
    const BF16_SINCE: i32 = 8;

    fn absent(error: String) -> Failure {
        let hint = "specreel doctor lists the devices; --device cpu always works";
        Failure { class: FailureClass::Input, error, hint: Some(hint.into()) }
    }

    fn count() -> Result<usize, String> {
        let count = CudaContext::device_count();
        count.map(|n| n.max(0) as usize).map_err(|e| format!("the NVIDIA driver is not available: {e}"))
    }

    /// Open a device with its own stream.
    pub fn open(number: usize, dtype: WeightType) -> Result<ComputeDevice, Failure> {
        let there = count().map_err(absent)?;
        if number >= there {
            let devices = match there {
                0 => "this machine has none".to_owned(),
                1 => "this machine has cuda:0 only".to_owned(),
                n => format!("this machine has cuda:0 to cuda:{}", n - 1),
            };
            return Err(absent(format!("no CUDA device {number}: {devices}")));
        }
        let fail = |e: String| absent(format!("CUDA device {number} cannot be used: {e}"));
        let device = Device::new_cuda_with_stream(number).map_err(|e| fail(e.to_string()))?;
        let cuda = device.as_cuda_device().map_err(|e| fail(e.to_string()))?;
        // SAFETY: memory that one `Device` allocates is used on its one stream only, and data passes from one device to another
        // through host memory only; so two events per tensor are not needed.
        unsafe { cuda.disable_event_tracking() };
        let stream = cuda.cuda_stream();
        let context = stream.context();
        let (major, _) = context.compute_capability().map_err(|e| fail(e.to_string()))?;
        let model = context.name().unwrap_or_else(|_| "unknown".into());
        let dtype = match dtype {
            WeightType::Auto if major < BF16_SINCE => WeightType::F16,
            dtype => dtype,
        };
        let opened = ComputeDevice::tensors(device, &format!("cuda:{number} ({model})"), dtype);
        // candle's CUDA kernels for blocks take rows in half precision too.
        let half = if major < BF16_SINCE { WeightType::F16 } else { WeightType::Bf16 };
        Ok(if opened.quantizes() { opened.with_compute_type(half) } else { opened })
    }

    pub fn list() -> Vec<Accelerator> {
        let there = match count() {
            Ok(0) => Err("no device".to_owned()),
            other => other,
        };
        match there {
            Ok(n) => (0..n)
                .map(|i| Accelerator { name: format!("cuda:{i}"), built: true, about: about(i) })
                .collect(),
            Err(why) => vec![Accelerator { name: "cuda".into(), built: true, about: Err(why) }],
        }
    }

    fn about(number: usize) -> Result<String, String> {
        let context = CudaContext::new(number).map_err(|e| e.to_string())?;
        let name = context.name().map_err(|e| e.to_string())?;
        let (major, minor) = context.compute_capability().map_err(|e| e.to_string())?;
        let (free, total) = context.mem_get_info().map_err(|e| e.to_string())?;
        let gb = |bytes: usize| bytes as f64 / 1e9;
        Ok(format!("{name}, {:.1} of {:.1} GB free, compute capability {major}.{minor}", gb(free), gb(total)))
    }
}

#[cfg(feature = "cuda")]
pub(super) fn cuda(number: usize, dtype: WeightType) -> Result<ComputeDevice, Failure> {
    with_cuda::open(number, dtype)
}

#[cfg(feature = "cuda")]
fn cuda_devices() -> Vec<Accelerator> {
    with_cuda::list()
}

#[cfg(not(feature = "cuda"))]
pub(super) fn cuda(_: usize, _: WeightType) -> Result<ComputeDevice, Failure> {
    Err(not_built("CUDA", "cuda"))
}

#[cfg(not(feature = "cuda"))]
fn cuda_devices() -> Vec<Accelerator> {
    vec![Accelerator { name: "cuda".into(), built: false, about: Err("not in this build".into()) }]
}

#[cfg(feature = "metal")]
pub(super) fn metal(dtype: WeightType) -> Result<ComputeDevice, Failure> {
    let device = candle_core::Device::new_metal(0).map_err(|e| Failure {
        class: specreel_record::FailureClass::Input,
        error: format!("Metal cannot be used: {e}"),
        hint: Some("--device cpu always works".into()),
    })?;
    Ok(ComputeDevice::tensors(device, "metal", dtype))
}

#[cfg(feature = "metal")]
fn metal_about() -> Result<String, String> {
    candle_core::Device::new_metal(0).map(|_| "Apple's GPU".into()).map_err(|e| e.to_string())
}

#[cfg(not(feature = "metal"))]
pub(super) fn metal(_: WeightType) -> Result<ComputeDevice, Failure> {
    Err(not_built("Metal", "metal"))
}

#[cfg(not(feature = "metal"))]
fn metal_about() -> Result<String, String> {
    Err("not in this build".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_accelerator_is_listed() {
        let all = accelerators();
        assert!(all.iter().any(|f| f.name.starts_with("cuda")));
        assert!(all.iter().any(|f| f.name == "metal"));
        #[cfg(not(any(feature = "cuda", feature = "metal")))]
        {
            let (gpus, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|f| f.name.starts_with("gpu"));
            assert!(others.iter().all(|f| f.about == Err("not in this build".into())));
            let used = |f: &&Accelerator| {
                f.about.as_ref().is_ok_and(|about| about.ends_with("; used by --device auto"))
            };
            assert!(!gpus.is_empty() && gpus.iter().filter(used).count() <= 1);
            let software =
                |f: &&Accelerator| f.about.as_ref().is_ok_and(|about| about.contains(", software, "));
            assert!(!gpus.iter().filter(software).any(|f| used(&f)));
        }
    }
}
