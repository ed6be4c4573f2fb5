//! Where models compute: the processor with this crate's own kernels, or an accelerator through candle's tensors.
//!
//! CUDA and Metal are Cargo features; a build without them knows their names, to say what is missing. Every opened CUDA device
//! has a queue (stream) of its own, so a target and a drafter on one card can work side by side.

mod find;

use candle_core::{DType, Device, Tensor};

pub use self::find::{Found, found};
use super::WeightType;
use crate::record::{Failure, FailureClass};

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best device that this build and machine have.
    #[default]
    Auto,
    /// The processor.
    Cpu,
    /// A CUDA device by number.
    Cuda(usize),
    /// Apple's GPU.
    Metal,
    /// For developers: what an accelerator would compute, on the processor, slowly. See docs/devices.md.
    CpuTensors,
}

/// A device that was found, and the weights that a language model has there.
#[derive(Clone, Debug)]
pub struct ComputeDevice {
    device: Device,
    exact: bool,
    name: String,
    dtype: WeightType,
    /// What matrices that are not quantised, and everything between matrices, are computed in.
    float: DType,
}

impl ComputeDevice {
    /// Find the device and settle on the weights.
    ///
    /// # Errors
    /// If this build has no such device (class usage), or the machine has none (class input).
    pub fn open(choice: DeviceChoice, dtype: WeightType) -> Result<Self, Failure> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::cpu(dtype)),
            DeviceChoice::CpuTensors => Ok(Self::tensors(Device::Cpu, "cpu tensors", dtype)),
            DeviceChoice::Cuda(number) => find::cuda(number, dtype),
            DeviceChoice::Metal => find::metal(dtype),
            DeviceChoice::Auto => {
                // A device that this build lacks or that does not answer is no failure where nobody asked for it.
                let best = [find::cuda(0, dtype), find::metal(dtype)].into_iter().find_map(Result::ok);
                Ok(best.unwrap_or_else(|| Self::cpu(dtype)))
            }
        }
    }

    /// The processor, with any weights.
    pub fn cpu(dtype: WeightType) -> Self {
        let dtype = if dtype == WeightType::Auto { WeightType::Q8_0 } else { dtype };
        Self { device: Device::Cpu, exact: true, name: "cpu".into(), dtype, float: DType::F32 }
    }

    /// A device of candle's. Weights are bf16 unless asked for otherwise, and what is quantised is computed in f32.
    pub fn tensors(device: Device, name: &str, dtype: WeightType) -> Self {
        let dtype = if dtype == WeightType::Auto { WeightType::Bf16 } else { dtype };
        let float = match dtype {
            WeightType::F16 => DType::F16,
            WeightType::Bf16 => DType::BF16,
            _ => DType::F32,
        };
        Self { device, exact: false, name: name.into(), dtype, float }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if rows are computed alike whatever their number: lossless methods write the same text to the last bit.
    pub fn is_batch_invariant(&self) -> bool {
        self.exact
    }

    /// The weight type of the language model; never `Auto`.
    pub fn dtype(&self) -> WeightType {
        self.dtype
    }

    /// True if the language model's matrices are quantised.
    pub fn quantizes(&self) -> bool {
        self.dtype.block() > 1
    }

    /// What is computed in between matrices, in the tower, and kept as keys and values.
    pub fn compute_type(&self) -> DType {
        self.float
    }

    /// Values as a tensor there, in the type that is computed in.
    pub(crate) fn tensor(&self, values: Vec<f32>, shape: &[usize]) -> candle_core::Result<Tensor> {
        // Rounded first: half as much to send.
        Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(self.float)?.to_device(&self.device)
    }
}

fn usage(error: &str, hint: &str) -> Failure {
    Failure { class: FailureClass::Usage, error: error.into(), hint: Some(hint.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_has_its_weights() {
        let place = |choice, dtype| ComputeDevice::open(choice, dtype);
        let cpu = place(DeviceChoice::Cpu, WeightType::Auto).unwrap();
        assert_eq!((cpu.dtype(), cpu.is_batch_invariant(), cpu.name()), (WeightType::Q8_0, true, "cpu"));
        assert_eq!(place(DeviceChoice::Cpu, WeightType::Bf16).unwrap().compute_type(), DType::F32);
        let tensors = |dtype| place(DeviceChoice::CpuTensors, dtype).unwrap();
        assert_eq!(tensors(WeightType::Auto).dtype(), WeightType::Bf16);
        assert_eq!(tensors(WeightType::Auto).compute_type(), DType::BF16);
        assert_eq!(tensors(WeightType::Q4K).compute_type(), DType::F32);
        assert!(tensors(WeightType::Q4K).quantizes() && !tensors(WeightType::F16).quantizes());
    }

    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    #[test]
    fn what_was_not_built_in_is_named_with_the_way_to_build_it() {
        assert!(ComputeDevice::open(DeviceChoice::Auto, WeightType::Auto).unwrap().is_batch_invariant());
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
