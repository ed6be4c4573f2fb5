//! The decoder, and the whole model, against the results of transformers.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::Tensor;
use specreel_model::{
    decoder::{Mask, Positions, Sequence, States, Taps, Workspace},
    family::VideoLlm,
};
use specreel_tensor::{ComputeDevice, KvType, WeightType};

use super::{
    CHECKPOINTS, FAMILIES, NARROW, Values, devices, difference, fixture, gpu::gpu_or_skip, load_on, numbers,
    states, tensors,
};

struct Fixture(HashMap<String, Tensor>);

impl Fixture {
    fn read(name: &str) -> Self {
        Self(tensors(&format!("{name}/fixture.safetensors")))
    }

    fn ids(&self, name: &str) -> Vec<u32> {
        numbers(&self.0[name]).into_iter().map(|n| n as u32).collect()
    }

    fn positions(&self, name: &str) -> Positions {
        let all = self.ids(name);
        let n = all.len() / 3;
        Positions { axes: [all[..n].to_vec(), all[n..2 * n].to_vec(), all[2 * n..].to_vec()] }
    }

    fn close(&self, got: &impl Values, want: &str, model: &str) {
        let worst = difference(got, &self.0[want]);
        assert!(worst <= 1e-4, "{model}: {want} differs by {worst}");
    }
}

/// All devices with all types of keys and values that they have.
fn kinds(dtype: WeightType) -> Vec<(ComputeDevice, KvType)> {
    let all = devices(dtype).into_iter().flat_map(|device| KvType::ALL.map(|kind| (device.clone(), kind)));
    all.filter_map(|(device, kind)| Some((device.with_kv_type(kind).ok()?, kind))).collect()
}

/// Log-probabilities of logits.
pub fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let sum: f64 = logits.iter().map(|&v| f64::from(v).exp()).sum();
    logits.iter().map(|&v| (f64::from(v) - sum.ln()) as f32).collect()
}

fn embeddings(model: &VideoLlm, expected: &Fixture) -> States {
    let ids = expected.ids("input_ids");
    let start = ids.iter().position(|id| ids.iter().filter(|i| *i == id).count() >= 12).unwrap();
    let seen = states(&expected.0["visual_embeds"]);
    let n = seen.rows();
    let parts = [
        model.decoder().embed(&ids[..start]).unwrap(),
        seen,
        model.decoder().embed(&ids[start + n..]).unwrap(),
    ];
    States::cat(&parts).unwrap()
}

/// All checkpoints on all devices that compute their attention heads, with weights in f32; where a checkpoint has 16-bit weights, in that type, too.
fn exact() -> Vec<(&'static str, ComputeDevice)> {
    let in_f32 = CHECKPOINTS.into_iter().chain(FAMILIES).map(|name| (name, WeightType::F32));
    let smaller = [("gqa_untied_f16", WeightType::F16), ("mha_tied_bf16", WeightType::Bf16)];
    in_f32
        .chain(smaller)
        .flat_map(|(name, dtype)| devices(dtype).into_iter().map(move |device| (name, device)))
        .filter(|(name, device)| device.gpu().is_none() || !NARROW.contains(name))
        .map(|(name, device)| (name, device.with_kv_type(KvType::F32).unwrap()))
        .collect()
}

#[test]
fn states_and_logits_equal_those_of_transformers() {
    for (name, device) in exact() {
        let model = load_on(name, &device);
        let expected = Fixture::read(name);
        let name = &format!("{name} on {}, {}", device.name(), device.dtype().name());
        let (decoder, mut ws) = (model.decoder(), Workspace::default());
        let mut cache = decoder.cache(4);
        let (input, at) = (embeddings(&model, &expected), expected.positions("position_ids"));
        let pass =
            decoder.forward(&input, &at, &Mask::Causal, &mut cache, &Taps::default(), &mut ws).unwrap();
        expected.close(&pass.states, "hidden", name);
        expected.close(&decoder.logits(&pass.states, &mut ws).unwrap(), "logits", name);

        let more = decoder.embed(&expected.ids("chunk_ids")).unwrap();
        let at = expected.positions("chunk_positions");
        let pass = decoder.forward(&more, &at, &Mask::Causal, &mut cache, &Taps::default(), &mut ws).unwrap();
        expected.close(&pass.states, "chunk_hidden", name);
        let logits = decoder.logits(&pass.states, &mut ws).unwrap();
        expected.close(&logits, "chunk_logits", name);
    }
}

#[test]
fn greedy_tokens_are_those_of_transformers() {
    for (name, device) in exact() {
        let model = load_on(name, &device);
        let expected = Fixture::read(name);
        let name = &format!("{name} on {}, {}", device.name(), device.dtype().name());
        let input = embeddings(&model, &expected);
        let rows = input.rows() - 1;
        let mut sequence = Sequence::new(model.decoder().clone(), 8);
        let next = expected.ids("next_position")[0];
        let whole = sequence
            .prefill(
                &input.narrow(0, rows).unwrap(),
                &expected.positions("position_ids").slice(0..rows),
                next - 1,
                &mut |_, _| {},
                &mut |_, _| ControlFlow::Continue(()),
            )
            .unwrap();
        assert!(whole);
        let mut id = *expected.ids("input_ids").last().unwrap();
        for (i, want) in expected.ids("greedy_ids").into_iter().enumerate() {
            let pass = sequence.feed(&[id], &Taps::default()).unwrap();
            let logits = sequence.logits(&pass.states).unwrap();
            id = specreel_speculate::sampling::argmax(&logits.to_vec().unwrap());
            assert_eq!(id, want, "{name}: token {i}");
        }
    }
}

/// The state of a tree node is bit-identical to that of the last row of a chain, fed together or one by one.
#[test]
fn paths_of_a_tree_are_bit_identical_to_chains() {
    let models = [("gqa_tied", WeightType::F32), ("gqa_untied_f16", WeightType::Q8_0)];
    let runs = models.into_iter().flat_map(|(name, dtype)| {
        let kinds = kinds(dtype).into_iter().flat_map(|kind| [(kind.clone(), 11), (kind, 126)]);
        kinds.map(move |((device, kind), length)| (name, device, kind, length))
    });
    for (name, device, kind, length) in runs {
        let model = load_on(name, &device);
        let name = &format!("{name} on {}", device.name());
        let (decoder, mut ws) = (model.decoder(), Workspace::default());
        let prompt: Vec<u32> =
            [5u32, 9, 31, 44, 7, 60, 2, 18, 90, 11, 13].into_iter().cycle().take(length).collect();
        let feed = |ids: &[u32], at: &[u32], mask: &Mask, cache: &mut _, ws: &mut _| {
            let positions = Positions { axes: [at.to_vec(), at.to_vec(), at.to_vec()] };
            let input = decoder.embed(ids).unwrap();
            let pass = decoder.forward(&input, &positions, mask, cache, &Taps::default(), ws).unwrap();
            pass.states.to_vec2().unwrap()
        };
        let at: Vec<u32> = (0..prompt.len() as u32).collect();
        // root 0; children 1 and 2; 3 under 1; 4 under 2; 5 under 4.
        let ids = [3u32, 20, 21, 22, 23, 24];
        let paths = vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 3], vec![0, 2, 4], vec![0, 2, 4, 5]];
        let n = prompt.len() as u32;
        let depth: Vec<u32> = paths.iter().map(|p| n + p.len() as u32 - 1).collect();
        let mut cache = decoder.cache(64);
        feed(&prompt, &at, &Mask::Causal, &mut cache, &mut ws);
        let tree = feed(
            &ids,
            &depth,
            &Mask::Paths { shared: prompt.len(), paths: paths.clone() },
            &mut cache,
            &mut ws,
        );
        for path in &paths {
            let mut chain = decoder.cache(64);
            feed(&prompt, &at, &Mask::Causal, &mut chain, &mut ws);
            let mut last = Vec::new();
            for (i, &node) in path.iter().enumerate() {
                last = feed(&[ids[node]], &[n + i as u32], &Mask::Causal, &mut chain, &mut ws).remove(0);
            }
            let node = path[path.len() - 1];
            let same = tree[node].iter().zip(&last).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{name} {kind:?} after {length}: node {node}");
        }
        // The accepted path continues like a chain.
        cache.keep(prompt.len(), &[0, 2, 4]);
        let on_tree = feed(&[50], &[n + 3], &Mask::Causal, &mut cache, &mut ws);
        let mut chain = decoder.cache(64);
        feed(&prompt, &at, &Mask::Causal, &mut chain, &mut ws);
        feed(&[3, 21, 23], &[n, n + 1, n + 2], &Mask::Causal, &mut chain, &mut ws);
        assert_eq!(on_tree, feed(&[50], &[n + 3], &Mask::Causal, &mut chain, &mut ws));
    }
}

/// Keys and values of every type: rows do not depend on how they are fed, and the results are those of f32 but for rounding.
#[test]
fn every_type_of_keys_and_values_is_independent_of_rows_and_close_to_f32() {
    for (name, dtype) in [("gqa_tied", WeightType::F32), ("mha_tied_bf16", WeightType::Q8_0)] {
        let ids: Vec<u32> = (0..300).map(|i| 3 + i * 7 % 60).collect();
        let mut exact: Vec<Vec<f32>> = Vec::new();
        for (device, kind) in kinds(dtype) {
            let model = load_on(name, &device);
            let name = &format!("{name} on {}", device.name());
            // The last rows' log-probabilities, of a prompt fed in parts of so many rows.
            let read = |rows: usize| {
                let mut sequence = Sequence::new(model.decoder().clone(), 8);
                let mut last = Vec::new();
                for part in ids.chunks(rows) {
                    let pass = sequence.feed(part, &Taps::default()).unwrap();
                    let logits = sequence.logits(&pass.states).unwrap().to_vec2().unwrap();
                    last.extend(logits);
                }
                assert_eq!(sequence.bytes() % model.decoder().config().kv_bytes(kind), 0);
                last.iter().map(|logits| log_softmax(logits)).collect::<Vec<_>>()
            };
            let whole = read(ids.len());
            for rows in [1, 7, 128] {
                let parts = read(rows);
                let same = parts
                    .iter()
                    .flatten()
                    .zip(whole.iter().flatten())
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name} {kind:?}: {rows} rows");
            }
            if kind == KvType::F32 {
                exact = whole;
                continue;
            }
            let far = whole
                .iter()
                .flatten()
                .zip(exact.iter().flatten())
                .fold(0f32, |far, (a, b)| far.max((a - b).abs() / (1.0 + b.abs())));
            // Relative to the size of the log-probabilities, which random weights make large. 8-bit weights round their inputs to 8
            // bits, too: a smallest change of one flips roundings in all later layers.
            let bound = match (kind, dtype) {
                (_, WeightType::Q8_0) => 0.5,
                (KvType::F16, _) => 0.01,
                _ => 0.2,
            };
            println!("{name} {kind:?}: {far} nats");
            assert!(far > 0.0 && far < bound, "{name} {kind:?}: {far} nats");
        }
    }
}

#[test]
fn a_prefill_in_two_parts_is_bit_identical_to_one_in_a_single_part() {
    for (name, dtype) in [("gqa_tied", WeightType::F32), ("gqa_untied_f16", WeightType::Q8_0)] {
        for device in devices(dtype) {
            let model = load_on(name, &device);
            let ids: Vec<u32> = (0..150).map(|i| 3 + i % 60).collect();
            let embeddings = model.decoder().embed(&ids).unwrap();
            let positions = Positions::text(0, ids.len());
            let next = ids.len() as u32;
            let mut go_on = |_: usize, _: usize| ControlFlow::Continue(());
            let mut whole = Sequence::new(model.decoder().clone(), 8);
            let mut states = Vec::new();
            let mut keep = |_: usize, s: &[f32]| states.extend_from_slice(s);
            assert!(whole.prefill(&embeddings, &positions, next, &mut keep, &mut go_on).unwrap());
            for layers in 1..=model.decoder().config().layers {
                let mut parts = Sequence::new(model.decoder().clone(), 8);
                let below =
                    parts.prefill_below(&embeddings, &positions, layers, &mut go_on).unwrap().unwrap();
                let mut seen = Vec::new();
                let mut keep = |_: usize, s: &[f32]| seen.extend_from_slice(s);
                assert!(
                    parts.prefill_above(&below, &positions, layers, next, &mut keep, &mut go_on).unwrap()
                );
                assert_eq!((seen.len(), parts.len()), (states.len(), ids.len()));
                assert!(seen.iter().zip(&states).all(|(a, b)| a.to_bits() == b.to_bits()), "{name} {layers}");
                let row = |sequence: &mut Sequence| {
                    let pass = sequence.feed(&[7], &Taps::default()).unwrap();
                    sequence.truncate(ids.len());
                    pass.states.to_vec2().unwrap().remove(0)
                };
                assert_eq!(row(&mut parts), row(&mut whole), "{name} {layers}");
            }
        }
    }
}

#[test]
fn heads_that_a_gpu_does_not_compute_are_refused() {
    let Some(device) = gpu_or_skip(WeightType::F32) else { return };
    for name in NARROW {
        let failure = VideoLlm::load_on(&fixture(name), &device, &mut |_, _| {}).err().unwrap().to_string();
        assert!(failure.contains("heads of 12 values") && failure.contains("--device cpu"), "{failure}");
    }
}
