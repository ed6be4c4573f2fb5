//! Which memory a device's weights and caches take.

use super::{
    DeviceChoice, WeightType, accelerators,
    gpu::adapter::{self, Adapter, AdapterKind},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceMemory {
    System,
    /// Memory of its own.
    Own {
        /// The device, for people.
        device: String,
        bytes: u64,
    },
    /// Its own, of unknown size.
    Unknown,
}

impl DeviceChoice {
    /// The memory of the device that this choice opens; unknown for one that is not there.
    pub fn memory(self) -> DeviceMemory {
        match self {
            DeviceChoice::Cpu => DeviceMemory::System,
            DeviceChoice::CpuTensors | DeviceChoice::Cuda(_) | DeviceChoice::Metal => DeviceMemory::Unknown,
            DeviceChoice::Gpu(number) => {
                let found = adapter::adapters().into_iter().nth(number.unwrap_or(0));
                found.map_or(DeviceMemory::Unknown, |adapter| of(&adapter))
            }
            DeviceChoice::Auto => {
                let candle = [accelerators::cuda(0, WeightType::Auto), accelerators::metal(WeightType::Auto)];
                if candle.iter().any(Result::is_ok) {
                    return DeviceMemory::Unknown;
                }
                let found = adapter::adapters().into_iter().find(Adapter::is_real);
                found.map_or(DeviceMemory::System, |adapter| of(&adapter))
            }
        }
    }
}

fn of(adapter: &Adapter) -> DeviceMemory {
    match (adapter.kind, adapter.memory) {
        (AdapterKind::Integrated | AdapterKind::Software, _) => DeviceMemory::System,
        (_, Some(bytes)) => DeviceMemory::Own { device: adapter.label(), bytes },
        (_, None) => DeviceMemory::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_device_is_known_before_it_is_opened() {
        assert_eq!(DeviceChoice::Cpu.memory(), DeviceMemory::System);
        assert_eq!(DeviceChoice::CpuTensors.memory(), DeviceMemory::Unknown);
        assert_eq!(DeviceChoice::Gpu(Some(1000)).memory(), DeviceMemory::Unknown);
        let Some(adapter) = adapter::adapters().into_iter().find(|a| a.kind == AdapterKind::Software) else {
            return;
        };
        assert_eq!(of(&adapter), DeviceMemory::System);
        let own = |memory| {
            let mut own = adapter.clone();
            (own.kind, own.memory) = (AdapterKind::Discrete, memory);
            of(&own)
        };
        let DeviceMemory::Own { bytes, .. } = own(Some(8)) else { panic!("it has its own memory") };
        assert_eq!((bytes, own(None)), (8, DeviceMemory::Unknown));
    }
}
