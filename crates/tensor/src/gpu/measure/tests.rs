//! Work is counted as it is; times are not judged.

use super::*;
use crate::{BlockKind, gpu::testing::gpu_or_skip};

#[test]
fn rates_and_kernels_are_measured() {
    let Some(gpu) = gpu_or_skip() else { return };
    let extent = Extent { bytes: 1 << 20, rounds: 1 };
    let rates = rates(&gpu, extent).unwrap();
    let Rates { read, copied, f32_macs, int8_macs, command_s, round_trip_s } = rates;
    assert!([read, copied, f32_macs, int8_macs, round_trip_s].iter().all(|rate| *rate > 0.0), "{rates:?}");
    assert!(command_s.is_finite());
    let q8_0 = TensorType::Blocks(BlockKind::Q8_0);
    let time = product(&gpu, extent, q8_0, [64, 256], 3).unwrap();
    // A scale in f32 for each 32 bytes.
    assert_eq!((time.bytes, time.macs), (64 * 256 * 36 / 32, 3 * 64 * 256));
    assert!(0.0 < time.range[0] && time.range[0] <= time.seconds && time.seconds <= time.range[1]);
    let shape = AttentionShape { heads: 4, kv_heads: 2, head_dim: 16 };
    let time = attention(&gpu, extent, shape, KvType::F16, 200, 2).unwrap();
    assert_eq!((time.bytes, time.macs), (200 * 2 * 16 * 2 * 2, 2 * 2 * 200 * 4 * 16));

    let uneven = product(&gpu, extent, TensorType::Blocks(BlockKind::Q4K), [64, 96], 1).unwrap_err();
    assert!(uneven.to_string().contains("a multiple of 256"), "{uneven}");
}
