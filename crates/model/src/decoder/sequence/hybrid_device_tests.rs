//! Linear attention on other devices: against the CPU, and on GPUs exact as there.

use std::sync::OnceLock;

use candle_core::Device;

use super::*;
use specreel_tensor::{KvType, gpu::testing::gpu_or_skip};

/// A decoder of a hybrid model in f32 on a device.
fn on(device: &ComputeDevice, every: usize) -> Arc<Decoder> {
    // Tensors have keys and values in the compute type.
    let device = match device.is_batch_invariant() {
        true => device.clone().with_kv_type(KvType::F32).unwrap(),
        false => device.clone(),
    };
    Arc::new(Decoder::load(&Checkpoint::random(), &config(every), &device, &mut |_, _| {}).unwrap())
}

/// The same on a GPU, if there is one. It is never closed: at the end of a thread its library may be gone already.
fn on_gpu(every: usize) -> Option<Arc<Decoder>> {
    static DECODERS: OnceLock<Option<[Arc<Decoder>; 2]>> = OnceLock::new();
    let load = || {
        let gpu = ComputeDevice::gpu_device(gpu_or_skip()?, WeightType::F32);
        Some([2, 4].map(|every| on(&gpu, every)))
    };
    DECODERS.get_or_init(load).as_ref().map(|decoders| decoders[usize::from(every == 4)].clone())
}

/// Passes of all shapes, and what a row gives after each: a prompt, chains, trees, marks, drops.
fn script(decoder: &Arc<Decoder>) -> Vec<(&'static str, Vec<f32>)> {
    let mut fed = Fed::new(decoder);
    let mut found = Vec::new();
    let mut rest = |fed: &mut Fed, what| {
        let row = fed.chain(1);
        fed.truncate(fed.ids.len() - 1);
        found.push((what, row));
    };
    fed.prompt(3);
    rest(&mut fed, "a prompt shorter than the convolution");
    fed.prompt(200);
    rest(&mut fed, "a prompt of several chunks");
    fed.chain(6);
    rest(&mut fed, "a chain");
    fed.truncate(fed.ids.len() - 4);
    fed.tree(&[0, 0, 1, 1, 2, 5, 3, 0, 6]);
    rest(&mut fed, "a tree in two passes");
    fed.tree(&[3, 1, 4, 1, 5, 9, 2, 6]);
    fed.tree(&[0, 0, 0, 2]);
    rest(&mut fed, "trees that follow each other");
    fed.chain(45);
    rest(&mut fed, "a long chain");
    fed.truncate(203);
    rest(&mut fed, "the end of the prompt, which is marked");
    fed.chain(2);
    let sequence = fed.sequence.fork(fed.ids.len() - 1, 300).unwrap();
    let mut fork = Fed { sequence, ids: fed.ids[..fed.ids.len() - 1].to_vec(), next: 11 };
    rest(&mut fork, "a fork");
    fork.chain(3);
    rest(&mut fork, "a fork that continues");
    rest(&mut fed, "what was forked");
    fed.truncate(100);
    rest(&mut fed, "rows that were fed again");
    found
}

fn same(decoder: &Arc<Decoder>, reference: &Arc<Decoder>) {
    for ((what, found), (_, want)) in script(decoder).iter().zip(script(reference)) {
        let size = want.iter().fold(0f32, |most, value| most.max(value.abs()));
        for (at, (a, b)) in found.iter().zip(&want).enumerate() {
            assert!((a - b).abs() < 1e-3 * size, "{what}, value {at}: {a}, on the CPU {b}");
        }
    }
}

#[test]
fn tensors_compute_as_the_cpu() {
    let device = ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32);
    for every in [2, 4] {
        same(&on(&device, every), &on(&ComputeDevice::cpu(WeightType::F32), every));
    }
}

#[test]
fn a_gpu_computes_as_the_cpu() {
    for every in [2, 4] {
        let Some(gpu) = on_gpu(every) else { return };
        same(&gpu, &on(&ComputeDevice::cpu(WeightType::F32), every));
    }
}

#[test]
fn a_chain_on_a_gpu_is_rolled_back_to_every_row() {
    let Some(decoder) = on_gpu(4) else { return };
    for rows in [3, 11, 40] {
        for left in (0..=rows).step_by(if rows > 20 { 9 } else { 1 }) {
            Fed::chain_rolled_back(&decoder, rows, left);
        }
    }
}

#[test]
fn states_on_a_gpu_grow_with_marks_and_log() {
    let Some(decoder) = on_gpu(2) else { return };
    let mut fed = Fed::new(&decoder);
    fed.prompt(10);
    let before = fed.sequence.bytes();
    for _ in 0..20 {
        fed.chain(3);
    }
    assert!(fed.sequence.bytes() > before, "the log holds more rows");
    fed.check();
    fed.truncate(10);
    fed.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Exact equality with a model that reads what is left from the start, after any feeding and dropping.
    #[test]
    fn any_rollback_on_a_gpu_is_exact(acts in acts(), every in prop::sample::select(vec![2usize, 4])) {
        if let Some(decoder) = on_gpu(every) {
            let mut fed = Fed::new(&decoder);
            acts.into_iter().for_each(|act| fed.act(act));
            fed.check();
        }
    }
}
