//! The GPU of this machine for tests: a software adapter will do.

use std::sync::OnceLock;

use specreel_tensor::{ComputeDevice, Gpu, WeightType, gpu::adapter::adapters};

/// The first usable adapter, of any kind. Without one, a test says so and leaves the GPU out; with `SPECREEL_REQUIRE_GPU=1` it
/// fails.
pub fn gpu_or_skip(dtype: WeightType) -> Option<ComputeDevice> {
    // Opened once: each opening compiles the kernels again.
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| {
        let usable = adapters().into_iter().find(|adapter| adapter.problem.is_none());
        let required = std::env::var_os("SPECREEL_REQUIRE_GPU").is_some_and(|value| value == "1");
        assert!(usable.is_some() || !required, "no GPU adapter, and SPECREEL_REQUIRE_GPU=1 requires one");
        if usable.is_none() {
            eprintln!("skipped: no GPU adapter");
        }
        usable.map(|adapter| Gpu::open(Some(adapter.number)).unwrap())
    });
    gpu.clone().map(|gpu| ComputeDevice::gpu_device(gpu, dtype))
}
