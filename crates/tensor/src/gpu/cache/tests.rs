//! The contracts of a cache, on slots that hold their own numbers.

use super::*;
use crate::{
    attention::{AttentionShape, Mask},
    gpu::{
        Rows,
        attention::{Attention, Visible},
        testing::gpu_or_skip,
    },
};

const KINDS: [KvType; 3] = KvType::ALL;
const SHAPE: AttentionShape = AttentionShape { heads: 2, kv_heads: 2, head_dim: 8 };

/// Slot `s` of layer `l` holds `s + l / 2 + head / 4` in all of its keys, and as much less in its values.
fn fill(cache: &mut Cache, slots: usize, pieces: usize) {
    let gpu = cache.gpu().clone();
    let mut attention = Attention::new(&gpu, SHAPE, cache.kind()).unwrap();
    let mut stream = gpu.stream();
    for first in (0..slots).step_by(pieces) {
        let count = pieces.min(slots - first);
        cache.prepare(&mut stream, count).unwrap();
        attention.begin(&mut stream, Visible::new(&Mask::Causal, cache.len(), count)).unwrap();
        for layer in 0..cache.layout()[0] {
            let value = |slot: usize, head: usize| slot as f32 + layer as f32 / 2.0 + head as f32 / 4.0;
            let row = |slot: usize| {
                let keys = [0, 1].map(|head| vec![value(slot, head); 8]).concat();
                [vec![0.0; 16], keys.clone(), keys.iter().map(|v| -v).collect()].concat()
            };
            let rows: Vec<f32> = (first..first + count).flat_map(row).collect();
            let rows = Rows::upload(&gpu, &rows, 48).unwrap();
            attention.store(&mut stream, &rows, None, cache, layer).unwrap();
        }
        cache.advance(count);
    }
    stream.submit().unwrap();
}

/// What a slot holds: the number of its keys, after a check that all numbers fit together.
fn slot(cache: &Cache, layer: usize, head: usize, slot: usize) -> f32 {
    let mut stream = cache.gpu().stream();
    let held = cache.layer(layer).unwrap();
    let bytes = stream
        .read_all(&[(&held.keys, 0, held.keys.bytes()), (&held.values, 0, held.values.bytes())])
        .unwrap();
    let (pieces, first) = (cache.pieces() as usize, head * cache.capacity());
    let piece = |bytes: &[u8], at: usize| bytes[16 * at..16 * at + 16].to_vec();
    let keys = (0..pieces)
        .flat_map(|i| piece(&bytes[0], (first + slot / BLOCK * BLOCK) * pieces + i * BLOCK + slot % BLOCK));
    let values = (0..pieces).flat_map(|i| piece(&bytes[1], (first + slot) * pieces + i));
    let (keys, values) = (numbers(cache.kind(), &keys.collect::<Vec<u8>>()), values.collect::<Vec<u8>>());
    let values = numbers(cache.kind(), &values);
    for i in 0..8 {
        assert_eq!((keys[i], values[i]), (keys[0], -keys[0]), "layer {layer} head {head} slot {slot}");
    }
    keys[0]
}

/// The eight numbers in the pieces of a slot.
fn numbers(kind: KvType, bytes: &[u8]) -> Vec<f32> {
    match kind {
        KvType::Q8_0 => {
            let scale = f32::from_le_bytes(bytes[16..20].try_into().unwrap());
            // Numbers are quarters, and the largest of a block has an error of its last bits only.
            let near = |v: f32| if v.abs() < 1e6 { (v * 4.0).round() / 4.0 } else { v };
            bytes[..8].iter().map(|byte| near(f32::from(byte.cast_signed()) * scale)).collect()
        }
        KvType::F16 => {
            let halves: Vec<u16> = bytemuck::pod_collect_to_vec(bytes);
            halves.iter().map(|bits| half::f16::from_bits(*bits).to_f32()).collect()
        }
        _ => bytemuck::pod_collect_to_vec(bytes),
    }
}

fn want(layer: usize, head: usize, slot: usize) -> f32 {
    slot as f32 + layer as f32 / 2.0 + head as f32 / 4.0
}

#[test]
fn growing_keeps_what_was_written() {
    let Some(gpu) = gpu_or_skip() else { return };
    for kind in KINDS {
        let mut cache = Cache::new(&gpu, 2, 2, 8, 8, kind);
        assert_eq!(
            (cache.bytes(), cache.capacity()),
            (2 * 2 * 2 * 32 * if kind == KvType::F16 { 16 } else { 32 }, 0)
        );
        fill(&mut cache, 300, 90);
        assert_eq!(cache.len(), 300);
        for s in [0, 7, 31, 32, 89, 90, 255, 256, 299] {
            for (layer, head) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                assert_eq!(slot(&cache, layer, head, s), want(layer, head, s), "{kind:?}");
            }
        }
    }
}

#[test]
fn slots_are_gathered_appended_and_cut_by_layer() {
    let Some(gpu) = gpu_or_skip() else { return };
    for kind in KINDS {
        let mut cache = Cache::new(&gpu, 2, 2, 8, 64, kind);
        fill(&mut cache, 60, 60);
        let (even, odd): (Vec<usize>, Vec<usize>) = (0..40).partition(|s| s % 2 == 0);
        let mut some = cache.gather(20, 24, |_, head| if head == 1 { &odd } else { &even });
        assert_eq!((some.len(), some.kind()), (20, kind));
        for s in [0, 3, 19] {
            assert_eq!(slot(&some, 1, 1, s), want(1, 1, 2 * s + 1));
            assert_eq!(slot(&some, 0, 0, s), want(0, 0, 2 * s));
        }
        // What is kept counts as done for what is taken from it.
        cache.keep(30, &[2, 5, 10]);
        some.append(&mut cache, 28..33).unwrap();
        assert_eq!(some.len(), 25);
        let from: Vec<f32> = (20..25).map(|s| slot(&some, 1, 1, s)).collect();
        assert_eq!(from, [28, 29, 32, 35, 40].map(|s| want(1, 1, s)));
        assert_eq!(slot(&some, 0, 0, 19), want(0, 0, 38));
        cache.keep(30, &[1, 2]);
        let first = cache.first_layers(1);
        assert_eq!((first.len(), first.layout(), first.bytes() * 2), (32, [1, 2, 8], cache.bytes()));
        assert_eq!([30, 31].map(|s| slot(&first, 0, 1, s)), [35, 40].map(|s| want(0, 1, s)));
        let other = &mut Cache::new(&gpu, 1, 2, 8, 8, kind);
        assert!(cache.append(other, 0..0).is_err());
    }
}

#[test]
fn keeps_add_up_before_they_are_done() {
    let Some(gpu) = gpu_or_skip() else { return };
    for kind in KINDS {
        let mut cache = Cache::new(&gpu, 2, 2, 8, 32, kind);
        fill(&mut cache, 60, 60);
        cache.keep(30, &[0, 3, 4, 7, 20]);
        cache.keep(30, &[1, 2, 4]);
        assert_eq!(cache.len(), 33);
        let mut stream = gpu.stream();
        cache.prepare(&mut stream, 4).unwrap();
        stream.submit().unwrap();
        let held: Vec<f32> = (29..33).map(|s| slot(&cache, 1, 0, s)).collect();
        assert_eq!(held, [29, 33, 34, 50].map(|s| want(1, 0, s)), "{kind:?}");
        cache.truncate(99);
        assert_eq!(cache.len(), 33);
        cache.truncate(10);
        assert_eq!((cache.len(), cache.is_empty()), (10, false));
    }
}

#[test]
fn numbers_beyond_f16_become_its_largest() {
    let Some(gpu) = gpu_or_skip() else { return };
    let (mut cache, mut stream) = (Cache::new(&gpu, 1, 2, 8, 8, KvType::F16), gpu.stream());
    let mut attention = Attention::new(&gpu, SHAPE, KvType::F16).unwrap();
    let row = [vec![0.0; 16], vec![1e6; 16], vec![-1e6f32; 16]].concat();
    cache.prepare(&mut stream, 1).unwrap();
    attention.begin(&mut stream, Visible::new(&Mask::Causal, 0, 1)).unwrap();
    attention.store(&mut stream, &Rows::upload(&gpu, &row, 48).unwrap(), None, &cache, 0).unwrap();
    stream.submit().unwrap();
    assert_eq!(slot(&cache, 0, 1, 0), 65504.0);
    // Beyond the reserved slots nothing is written.
    cache.advance(32);
    assert!(attention.store(&mut stream, &Rows::upload(&gpu, &row, 48).unwrap(), None, &cache, 0).is_err());
}

#[test]
fn a_cache_larger_than_a_binding_is_refused_and_stays_so() {
    let Some(gpu) = gpu_or_skip() else { return };
    let limit = gpu.limits().max_storage_buffer_binding_size as usize;
    let mut cache = Cache::new(&gpu, 1, 2, 8, limit / 32, KvType::F32);
    let error = cache.prepare(&mut gpu.stream(), 1).unwrap_err();
    assert!(matches!(error, GpuError::TooLarge { .. }), "{error}");
    assert_eq!(cache.prepare(&mut gpu.stream(), 1).unwrap_err(), error);
}
