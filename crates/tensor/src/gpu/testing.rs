//! A GPU for the tests of this crate and of others.

pub use super::noise::noise;
use super::{Gpu, adapter::adapters};

/// The first usable adapter, of any kind. Without one, a test says so and returns; with `SPECREEL_REQUIRE_GPU=1` it fails.
pub fn gpu_or_skip() -> Option<Gpu> {
    open(super::context::plain_requested())
}

/// As [`gpu_or_skip`], with kernels in their plain forms.
pub fn plain_gpu_or_skip() -> Option<Gpu> {
    open(true)
}

fn open(plain: bool) -> Option<Gpu> {
    let usable = adapters().into_iter().find(|adapter| adapter.problem.is_none());
    let required = std::env::var_os("SPECREEL_REQUIRE_GPU").is_some_and(|value| value == "1");
    assert!(usable.is_some() || !required, "no GPU adapter, and SPECREEL_REQUIRE_GPU=1 requires one");
    if usable.is_none() {
        eprintln!("skipped: no GPU adapter");
    }
    usable.map(|adapter| match Gpu::open_adapter(adapter, plain) {
        Ok(gpu) => gpu,
        Err(error) => panic!("{error}"),
    })
}
