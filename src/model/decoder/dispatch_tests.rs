//! Mismatched caches and decoders.

use candle_core::{DType, Device};

use super::*;

/// Empty caches of one layout on both implementations.
fn caches(layers: usize, heads: usize, head_dim: usize) -> [Cache; 2] {
    [
        Cache::Cpu(CpuCache::new(layers, heads, head_dim, 8, crate::model::KvType::F32)),
        Cache::Tensors(TensorCache::new(layers, heads, head_dim, 8, DType::F32, &Device::Cpu)),
    ]
}

/// Caches with `slots` slots in use.
fn filled(slots: usize) -> [Cache; 2] {
    let mut caches = caches(2, 2, 4);
    for cache in &mut caches {
        match cache {
            Cache::Cpu(cache) => {
                cache.reserve(slots);
                cache.advance(slots);
            }
            Cache::Tensors(cache) => {
                cache.reserve(slots).unwrap();
                cache.advance(slots);
            }
        }
    }
    caches
}

fn panics(f: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_cache_of_another_device_or_model_cannot_be_appended() {
    let ([mut cpu, mut tensors], [other_cpu, other_tensors]) = (filled(3), filled(5));
    assert!(cpu.append(&other_tensors, 0..5).is_err() && tensors.append(&other_cpu, 0..5).is_err());
    for layout in [[1, 2, 4], [2, 1, 4], [2, 2, 8]] {
        let [other_cpu, other_tensors] = caches(layout[0], layout[1], layout[2]);
        assert!(cpu.append(&other_cpu, 0..0).is_err() && tensors.append(&other_tensors, 0..0).is_err());
    }
    #[expect(clippy::reversed_empty_ranges, reason = "this is what is refused")]
    for range in [0..6, 4..3, 6..6] {
        assert!(cpu.append(&other_cpu, range.clone()).is_err(), "{range:?}");
        assert!(tensors.append(&other_tensors, range.clone()).is_err(), "{range:?}");
    }
    assert_eq!((cpu.len(), tensors.len()), (3, 3));
    cpu.append(&other_cpu, 1..5).unwrap();
    tensors.append(&other_tensors, 1..5).unwrap();
    assert_eq!((cpu.len(), tensors.len()), (7, 7));
}

#[test]
fn slots_that_are_not_in_use_are_neither_kept_nor_gathered() {
    for mut cache in filled(5) {
        for (base, rows) in [(5, &[0][..]), (2, &[0, 3]), (2, &[1, 0]), (2, &[1, 1]), (6, &[])] {
            assert!(panics(|| cache.keep(base, rows)), "{base} {rows:?}");
        }
        assert!(panics(|| drop(cache.gather(2, 8, |_, _| &[0, 5]))), "a slot that is not in use");
        assert!(panics(|| drop(cache.gather(2, 8, |_, _| &[0]))), "too few slots");
        assert_eq!(cache.gather(2, 8, |_, _| &[4, 0]).len(), 2);
        cache.keep(2, &[0, 2]);
        assert_eq!(cache.len(), 4);
    }
}

#[test]
fn a_pass_with_a_cache_of_another_device_or_model_is_refused() {
    let config = crate::model::shapes::find("tiny").unwrap();
    let load = |device: &ComputeDevice| {
        Decoder::load(&Checkpoint::random(), &config, device, &mut |_, _| {}).unwrap()
    };
    let dtype = crate::model::WeightType::F32;
    let decoders =
        [load(&ComputeDevice::cpu(dtype)), load(&ComputeDevice::tensors(Device::Cpu, "tensors", dtype))];
    for (own, decoder) in decoders.iter().enumerate() {
        let pass = |cache: &mut Cache| {
            let (input, positions) = (decoder.embed(&[1, 2]).unwrap(), Positions::text(0, 2));
            let (taps, mut workspace) = (Taps::default(), Workspace::default());
            decoder.forward(&input, &positions, &Mask::Causal, cache, &taps, &mut workspace).is_ok()
        };
        for (device, mut cache) in
            caches(config.layers, config.kv_heads, config.head_dim).into_iter().enumerate()
        {
            assert_eq!(pass(&mut cache), device == own);
        }
        for mut cache in caches(config.layers - 1, config.kv_heads, config.head_dim) {
            assert!(!pass(&mut cache) && cache.is_empty());
        }
    }
}
