//! Mismatched caches and decoders.

use candle_core::{DType, Device};

use super::*;
use crate::decoder::cache::HybridCache;
use specreel_tensor::{
    ComputeDevice, Gpu, KvType,
    attention::AttentionShape,
    candle::cache::TensorCache,
    cpu::cache::CpuCache,
    gpu::{held::GpuCache, states::SharedStream, testing::gpu_or_skip},
    ops::{CpuOps, GpuOps, TensorOps},
};

/// Caches of one layout with `slots` slots in use, on all devices that this machine has.
fn caches(layers: usize, heads: usize, head_dim: usize, slots: usize) -> Vec<Cache> {
    let mut cpu = CpuCache::new(layers, heads, head_dim, 8, KvType::F32);
    cpu.reserve(slots);
    cpu.advance(slots);
    let mut tensors = TensorCache::new(layers, heads, head_dim, 8, DType::F32, &Device::Cpu);
    tensors.reserve(slots).unwrap();
    tensors.advance(slots);
    let cpu = HybridCache::<CpuOps>::new(cpu);
    let mut caches = vec![Cache::new(cpu), Cache::new(HybridCache::<TensorOps>::new(tensors))];
    if let Some(gpu) = gpu() {
        let shape = AttentionShape { heads, kv_heads: heads, head_dim };
        let mut cache = GpuCache::new(&gpu, layers, shape, 8, KvType::F32);
        let stream = SharedStream::new(&gpu);
        cache.begin(&stream, &mut stream.lock(), slots).unwrap();
        cache.advance(slots);
        caches.push(Cache::new(HybridCache::<GpuOps>::new(cache)));
    }
    caches
}

/// The GPU of these tests. It is never closed: at the end of a thread its library may be gone already.
fn gpu() -> Option<Gpu> {
    static GPU: std::sync::OnceLock<Option<Gpu>> = std::sync::OnceLock::new();
    GPU.get_or_init(gpu_or_skip).clone()
}

fn panics(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_cache_of_another_device_or_model_cannot_be_appended() {
    let others = caches(2, 2, 4, 5);
    for (own, mut cache) in caches(2, 2, 4, 3).into_iter().enumerate() {
        for (device, other) in others.iter().enumerate() {
            assert!(own == device || cache.append(other, 0..5).is_err(), "{own} {device}");
        }
        for layout in [[1, 2, 4], [2, 1, 4], [2, 2, 8]] {
            let other = caches(layout[0], layout[1], layout[2], 0).remove(own);
            assert!(cache.append(&other, 0..0).is_err(), "{layout:?}");
        }
        #[expect(clippy::reversed_empty_ranges, reason = "this is what is refused")]
        for range in [0..6, 4..3, 6..6] {
            assert!(cache.append(&others[own], range.clone()).is_err(), "{range:?}");
        }
        assert_eq!(cache.len(), 3);
        cache.append(&others[own], 1..5).unwrap();
        assert_eq!(cache.len(), 7);
    }
}

#[test]
fn slots_that_are_not_in_use_are_neither_kept_nor_gathered() {
    for mut cache in caches(2, 2, 4, 5) {
        for (base, rows) in [(5, &[0][..]), (2, &[0, 3]), (2, &[1, 0]), (2, &[1, 1]), (6, &[])] {
            assert!(panics(|| cache.keep(base, rows)), "{base} {rows:?}");
        }
        assert!(panics(|| drop(cache.gather(2, 8, &|_, _| &[0, 5]))), "a slot that is not in use");
        assert!(panics(|| drop(cache.gather(2, 8, &|_, _| &[0]))), "too few slots");
        assert_eq!(cache.gather(2, 8, &|_, _| &[4, 0]).len(), 2);
        cache.keep(2, &[0, 2]);
        assert_eq!(cache.len(), 4);
    }
}

#[test]
fn a_pass_with_a_cache_of_another_device_or_model_is_refused() {
    let config = crate::shapes::find("tiny").unwrap();
    let load = |device: &ComputeDevice| {
        Decoder::load(&Checkpoint::random(), &config, device, &mut |_, _| {}).unwrap()
    };
    let dtype = specreel_tensor::WeightType::F32;
    let mut decoders =
        vec![load(&ComputeDevice::cpu(dtype)), load(&ComputeDevice::tensors(Device::Cpu, "tensors", dtype))];
    decoders.extend(gpu().map(|gpu| load(&ComputeDevice::gpu_device(gpu, dtype))));
    for (own, decoder) in decoders.iter().enumerate() {
        let pass = |cache: &mut Cache| {
            let (input, positions) = (decoder.embed(&[1, 2]).unwrap(), Positions::text(0, 2));
            let (taps, mut workspace) = (Taps::default(), Workspace::default());
            decoder.forward(&input, &positions, &Mask::Causal, cache, &taps, &mut workspace).is_ok()
        };
        let own_layout = caches(config.layers, config.kv_heads, config.head_dim, 0);
        for (device, mut cache) in own_layout.into_iter().enumerate() {
            assert_eq!(pass(&mut cache), device == own);
        }
        for mut cache in caches(config.layers - 1, config.kv_heads, config.head_dim, 0) {
            assert!(!pass(&mut cache) && cache.is_empty());
        }
    }
}
