//! On a GPU lossless methods write what autoregressive decoding writes there, to the last bit, as they do on the CPU.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use specreel_model::decoder::Taps;
use specreel_speculate::{Drafter, Method, Sampler};
use specreel_tensor::{ComputeDevice, KvType, WeightType};

use crate::gpu::gpu_or_skip;
use crate::lossless::{
    GREEDY, WHOLE, are_lossless, context, is_always_right, part_of_speculative, processed::processors,
    random_methods::walk, spans, speculative, support::Bench,
};

fn gpu(dtype: WeightType, kv_type: KvType) -> Option<ComputeDevice> {
    gpu_or_skip(dtype).map(|device| device.with_kv_type(kv_type).unwrap())
}

#[test]
fn every_drafter_shape_and_schedule_is_lossless_on_a_gpu() {
    let Some(device) = gpu(WeightType::Q8_0, KvType::F16) else { return };
    let mut bench = Bench::on("gqa_tied", "nested_bf16", &device, 0);
    let [mut accepted, mut rejected] = are_lossless(&mut bench, GREEDY, 15, part_of_speculative(0, 8));
    let warm = Sampler { temperature: 0.9, seed: 3, ..Sampler::GREEDY };
    let drawn = are_lossless(&mut bench, warm, 15, part_of_speculative(1, 12));
    (accepted, rejected) = (accepted + drawn[0], rejected + drawn[1]);
    assert!(accepted > 100 && rejected > 200, "{accepted} accepted, {rejected} rejected");
}

#[test]
fn families_and_files_are_lossless_on_a_gpu() {
    let pairs = [
        ("sharded_untied", "gqa_tied", WeightType::F32, KvType::F32),
        ("llava_ov", "llava_ov", WeightType::F32, KvType::F16),
        ("qwen2_vl", "qwen2_vl", WeightType::F16, KvType::Q8_0),
        ("gguf/mix/model-q4_k_m.gguf", "gguf/gqa_tied/model-q4_0.gguf", WeightType::Auto, KvType::F16),
        ("qwen3_5_moe", "qwen3_5", WeightType::Q8_0, KvType::F16),
    ];
    for (clip, (target, small, dtype, kv_type)) in pairs.into_iter().enumerate() {
        let Some(device) = gpu(dtype, kv_type) else { return };
        let mut bench = Bench::on(target, small, &device, clip as u64);
        let [accepted, rejected] = are_lossless(&mut bench, GREEDY, 15, part_of_speculative(clip, 24));
        assert!(accepted + rejected > 25, "{target}: {accepted} accepted, {rejected} rejected");
    }
}

/// Rows are processed alike on all devices, and lossless.
#[test]
fn processed_texts_are_those_of_the_cpu() {
    let Some(device) = gpu(WeightType::F32, KvType::F32) else { return };
    let mut on_gpu = Bench::on("gqa_tied", "nested_bf16", &device, 3);
    let mut on_cpu = Bench::new("gqa_tied", "nested_bf16", WeightType::F32, 3);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let untouched = on_gpu.plain(GREEDY, 20).ids;
    let mut changed = 0;
    for turn in 0..5 {
        let processors = processors(&mut rng, on_gpu.vocabulary());
        (on_gpu.processors, on_cpu.processors) = (processors.clone(), processors);
        let sampler = if turn % 2 == 0 { GREEDY } else { Sampler { temperature: 0.8, top_k: 9, ..GREEDY } };
        let plain = on_gpu.plain(sampler, 20);
        assert_eq!(plain.ids, on_cpu.plain(sampler, 20).ids, "{turn}");
        changed += usize::from(plain.ids != untouched);
        for method in part_of_speculative(turn, 40).into_iter().filter(Method::lossless) {
            on_gpu.write(&method, sampler, 20).equals(&plain, method.to_toml());
        }
    }
    assert!(changed > 2, "{changed}");
}

#[test]
fn several_spans_are_lossless_on_a_gpu() {
    let Some(device) = gpu(WeightType::F32, KvType::F32) else { return };
    let mut bench = Bench::on("gqa_tied", "sharded_untied", &device, 1);
    bench.split_video();
    spans::are_lossless(&mut bench, 16);
}

#[test]
fn a_drafter_that_sees_everything_is_always_right_on_a_gpu() {
    let Some(device) = gpu(WeightType::Q8_0, KvType::F16) else { return };
    let mut bench = Bench::on("gqa_tied", "nested_bf16", &device, 2);
    for context in WHOLE.map(context) {
        is_always_right(&mut bench, &context, 18, [12, 12]);
    }
}

/// A draft model on the CPU for a target on a GPU, and the other way round.
#[test]
fn models_on_two_devices_are_lossless() {
    let Some(device) = gpu(WeightType::Q8_0, KvType::F16) else { return };
    let cpu = ComputeDevice::cpu(WeightType::Q8_0);
    for places in [[&device, &cpu], [&cpu, &device]] {
        let mut bench = Bench::apart("gqa_tied", "nested_bf16", places, 1);
        let small = |method: &Method| method.drafter == Drafter::Model {};
        are_lossless(&mut bench, GREEDY, 15, speculative().into_iter().filter(small).step_by(5));
    }
}

#[test]
fn random_methods_on_a_gpu_add_up_and_are_lossless_where_they_claim_to_be() {
    let pairs = [
        ("nested_bf16", "mha_tied_bf16", WeightType::Q8_0, KvType::F16, None),
        ("mha_tied_bf16", "sharded_untied", WeightType::F32, KvType::F32, Some(40)),
    ];
    if gpu_or_skip(WeightType::F32).is_none() {
        return;
    }
    let benches = pairs.into_iter().enumerate().map(|(clip, (target, small, dtype, kv_type, vocabulary))| {
        let mut bench = Bench::on(target, small, &gpu(dtype, kv_type).unwrap(), clip as u64);
        if let Some(vocabulary) = vocabulary {
            bench.restrict(vocabulary);
        }
        bench
    });
    let walk = walk(&mut ChaCha8Rng::seed_from_u64(21), benches, 36, 12);
    assert!(walk.equal >= 30 && walk.repeated >= 20 && walk.loosened >= 10, "{walk:?}");
}

/// States and logits have the same bits however many rows are fed together, after the prompt and after a copy of it.
#[test]
fn logits_do_not_depend_on_the_number_of_rows_on_a_gpu() {
    for (name, dtype, kv_type) in [
        ("gqa_tied", WeightType::Q8_0, KvType::F16),
        ("sharded_untied", WeightType::F32, KvType::F32),
        ("gguf/mix/model-q4_k_m.gguf", WeightType::Auto, KvType::Q8_0),
        ("qwen3_vl_moe", WeightType::Q4_0, KvType::F32),
    ] {
        let Some(device) = gpu(dtype, kv_type) else { return };
        let mut bench = Bench::on(name, name, &device, 0);
        let (mut sequence, _) = bench.reader();
        let ids: Vec<u32> = (0..70).map(|i| 3 + i * 7 % 60).collect();
        let base = sequence.len();
        let mut copy = sequence.fork(base, base + 80).unwrap();
        let mut whole: Vec<Vec<f32>> = Vec::new();
        for rows in [70, 1, 2, 6, 11, 64] {
            for sequence in [&mut sequence, &mut copy] {
                sequence.truncate(base);
                let mut parts: Vec<Vec<f32>> = Vec::new();
                for part in ids.chunks(rows) {
                    let pass = sequence.feed(part, &Taps::default()).unwrap();
                    parts.extend(sequence.logits(&pass.states).unwrap().to_vec2().unwrap());
                }
                if whole.is_empty() {
                    whole = parts;
                    continue;
                }
                let different = (0..ids.len())
                    .find(|&row| whole[row].iter().zip(&parts[row]).any(|(a, b)| a.to_bits() != b.to_bits()));
                assert_eq!(different, None, "{name}, {rows} rows at once");
            }
        }
    }
}
