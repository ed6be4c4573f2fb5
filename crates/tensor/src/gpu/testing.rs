//! A GPU for the tests of this crate and of others.

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

/// Numbers between -1 and 1 that look random.
pub fn noise(seed: usize, count: usize) -> Vec<f32> {
    let value = |i: usize| {
        let mut x = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (seed as u64 + 7).wrapping_mul(0xd1b5_4a32_d192_ed03);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(value).collect()
}
