//! The decoders of all families against transformers, on the CPU, on a GPU and in candle's tensors: norms of queries and keys,
//! alternating axes, biases, rows with DeepStack levels, linear attention, and experts.

use std::{collections::HashMap, ops::ControlFlow, sync::Arc};

use candle_core::{Device, Tensor};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Decoder, Input, Mask, Pass, Positions, Sequence, States, Taps, Workspace, argmax},
    family::{VideoLlm, VlConfig},
};
use specreel_tensor::{ComputeDevice, KvType, WeightType};

use super::{
    CHECKPOINTS, EXPERTS, FAMILIES, NARROW, NEWER, Values, devices, difference, fixture, gpu::gpu_or_skip,
    load_on, numbers, states, tensors, values,
};

/// All devices with all types of keys and values that they have.
fn kinds(dtype: WeightType) -> Vec<(ComputeDevice, KvType)> {
    let all = devices(dtype).into_iter().flat_map(|device| KvType::ALL.map(|kind| (device.clone(), kind)));
    all.filter_map(|(device, kind)| Some((device.with_kv_type(kind).ok()?, kind))).collect()
}

pub fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let sum: f64 = logits.iter().map(|&v| f64::from(v).exp()).sum();
    logits.iter().map(|&v| (f64::from(v) - sum.ln()) as f32).collect()
}

/// Those with DeepStack levels: 3 and 2.
const DEEP: [&str; 2] = ["qwen3_vl", "qwen3_vl_small"];
/// Numbers of rows of a pass, up to a draft tree.
const ROWS: [usize; 5] = [1, 2, 6, 11, 64];

fn load(name: &str, device: &ComputeDevice) -> Arc<Decoder> {
    let (dir, device) = (fixture(name), device.clone());
    let config = VlConfig::read(&dir).unwrap().text;
    let checkpoint = Checkpoint::open(&dir).unwrap();
    Arc::new(Decoder::load(&checkpoint, &config, &device, &mut |_, _| {}).unwrap())
}

/// The CPU and a GPU, which compute rows alike, and candle's tensors, as far as they compute a checkpoint.
fn everywhere(name: &str, dtype: WeightType) -> Vec<ComputeDevice> {
    let tensors = ComputeDevice::tensors(Device::Cpu, "tensors", dtype);
    let tensors = (!EXPERTS.contains(&name)).then_some(tensors);
    devices(dtype).into_iter().chain(tensors).collect()
}

/// Each of some checkpoints there.
fn everywhere_in_f32<const N: usize>(
    names: [&'static str; N],
) -> impl Iterator<Item = (&'static str, ComputeDevice)> {
    names
        .into_iter()
        .flat_map(|name| everywhere(name, WeightType::F32).into_iter().map(move |device| (name, device)))
}

fn ids(of: &Tensor) -> Vec<u32> {
    numbers(of).into_iter().map(|n| n as u32).collect()
}

fn alone<'a>(decoder: &Decoder, input: impl Into<Input<'a>>, at: &Positions, taps: &Taps) -> Pass {
    let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
    decoder.forward(input, at, &Mask::Causal, &mut cache, taps, &mut ws).unwrap()
}

fn positions(of: &impl Values) -> Positions {
    let all: Vec<u32> = values(of).into_iter().map(|n| n as u32).collect();
    let n = all.len() / 3;
    Positions { axes: [all[..n].to_vec(), all[n..2 * n].to_vec(), all[2 * n..].to_vec()] }
}

/// A prompt's rows as a model reads them: text widened with zeros, visual tokens with their levels.
fn prompt(decoder: &Decoder, ids: &[u32], visual_rows: &[usize], visual: &States) -> States {
    let width = decoder.config().input_width();
    assert_eq!(visual.shape(), (visual_rows.len(), width));
    let text = decoder.embed(ids).unwrap().widened(width).unwrap();
    let rows: Vec<States> = (0..ids.len())
        .map(|row| match visual_rows.iter().position(|at| *at == row) {
            Some(token) => visual.narrow(token, 1).unwrap(),
            None => text.narrow(row, 1).unwrap(),
        })
        .collect();
    States::cat(&rows).unwrap()
}

/// Rows of noise with `levels` blocks after the first, of which every third is text.
fn noise(width: usize, blocks: usize, rows: usize) -> States {
    let mut seed = 1u64;
    let mut value = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let row = |r: usize| -> Vec<f32> {
        (0..blocks * width).map(|i| if r.is_multiple_of(3) && i >= width { 0.0 } else { value() }).collect()
    };
    States::new((0..rows).flat_map(row).collect(), blocks * width).unwrap()
}

/// Positions that differ on all axes, as those of visual tokens do.
pub fn visual(n: usize) -> Positions {
    let axis = |k: usize| (0..n).map(|i| (i * k / 3) as u32).collect();
    Positions { axes: [axis(1), axis(2), axis(5)] }
}

fn bits(of: &States) -> Vec<u32> {
    values(of).into_iter().map(f32::to_bits).collect()
}

fn going(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The ids of a prompt's fixture, and its rows as a model reads them.
fn prompt_of(decoder: &Decoder, expected: &HashMap<String, Tensor>) -> (Vec<u32>, States) {
    let (ids, embeds) = (ids(&expected["input_ids"]), states(&expected["visual_embeds"]));
    let rows: Vec<usize> = match expected.get("visual_rows") {
        Some(rows) => numbers(rows).into_iter().map(|n| n as usize).collect(),
        // They follow each other, with the newline of families that have one.
        None => {
            let first = ids.iter().position(|id| ids.iter().filter(|i| *i == id).count() >= 12).unwrap();
            (first..first + embeds.rows()).collect()
        }
    };
    let input = prompt(decoder, &ids, &rows, &embeds);
    (ids, input)
}

/// All checkpoints on all devices that compute their attention heads, with weights in f32; where a checkpoint has 16-bit weights, in
/// that type as well.
fn exact() -> Vec<(&'static str, ComputeDevice)> {
    let in_f32 = CHECKPOINTS.into_iter().chain(FAMILIES).map(|name| (name, WeightType::F32));
    let smaller = [("gqa_untied_f16", WeightType::F16), ("mha_tied_bf16", WeightType::Bf16)];
    in_f32
        .chain(smaller)
        .flat_map(|(name, dtype)| devices(dtype).into_iter().map(move |device| (name, device)))
        .filter(|(name, device)| device.gpu().is_none() || !NARROW.contains(name))
        .map(|(name, device)| (name, device.with_kv_type(KvType::F32).unwrap()))
        .chain(everywhere_in_f32(NEWER))
        .chain(everywhere_in_f32(EXPERTS))
        .collect()
}

#[test]
fn states_log_probabilities_and_greedy_tokens_equal_those_of_transformers() {
    for (name, device) in exact() {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let decoder = load(name, &device);
        // Recurrent states add up rounding over all rows.
        let (slack, nats) = match name {
            _ if name.starts_with("qwen3_5") => (2.5, 4e-4),
            _ if name.starts_with("minicpmv") || EXPERTS.contains(&name) => (2.5, 3e-4),
            _ => (1.0, 3e-4),
        };
        let name = &format!("{name} on {}, {}", device.name(), device.dtype().name());
        let close = |got: &dyn Fn(&Tensor) -> f32, what: &str| {
            let worst = got(&expected[what]);
            assert!(worst <= slack * 1e-4, "{name}: {what} differ by {worst}");
        };
        let (prompt_ids, input) = prompt_of(&decoder, &expected);
        let at = positions(&expected["position_ids"]);
        let (mut cache, mut ws) = (decoder.cache(4), Workspace::default());
        let more = ids(&expected["chunk_ids"]);
        let more_at = positions(&expected["chunk_positions"]);
        for (input, at, hidden, logits) in [
            (Input::States(&input), &at, "hidden", "logits"),
            (Input::Ids(&more), &more_at, "chunk_hidden", "chunk_logits"),
        ] {
            let pass =
                decoder.forward(input, at, &Mask::Causal, &mut cache, &Taps::default(), &mut ws).unwrap();
            close(&|want| difference(&pass.states, want), hidden);
            let got = decoder.logits(&pass.states, &mut ws).unwrap();
            close(&|want| difference(&got, want), logits);
        }

        let (last, next) = (prompt_ids.len() - 1, numbers(&expected["next_position"])[0] as u32);
        let mut sequence = Sequence::new(decoder.clone(), 8);
        let (input, at) = (input.narrow(0, last).unwrap(), at.slice(0..last));
        assert!(sequence.prefill(&input, &at, next - 1, &mut |_, _| {}, &mut going).unwrap());
        let mut id = prompt_ids[last];
        let want = expected.get("greedy_logprobs").map(values);
        let vocab = decoder.config().vocab;
        for (i, greedy) in numbers(&expected["greedy_ids"]).into_iter().enumerate() {
            let pass = sequence.feed(&[id], &Taps::default()).unwrap();
            let logits = values(&sequence.logits(&pass.states).unwrap());
            if let Some(want) = &want {
                let sum = logits.iter().map(|v| f64::from(*v).exp()).sum::<f64>().ln();
                let off = |(l, w): (&f32, &f32)| (f64::from(*l) - sum - f64::from(*w)).abs();
                let worst = logits.iter().zip(&want[i * vocab..]).map(off).fold(0.0, f64::max);
                assert!(worst < nats, "{name}: log-probabilities of token {i} differ by {worst}");
            }
            id = argmax(&logits);
            assert_eq!(i64::from(id), greedy, "{name}: token {i}");
        }
    }
}

/// Three hundred tokens after a prompt, so that a drift of recurrent states would show: in one pass with it, in passes of a few
/// rows, and one at a time.
#[test]
fn long_texts_do_not_drift_from_transformers() {
    for (name, device) in
        everywhere_in_f32(["qwen3_5", "qwen3_5_untied", NEWER[6], NEWER[7], EXPERTS[2], EXPERTS[3]])
    {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let decoder = load(name, &device);
        let (ids, head) = prompt_of(&decoder, &expected);
        let more = self::ids(&expected["long_ids"]);
        let next = numbers(&expected["next_position"])[0] as u32;
        let at = positions(&expected["position_ids"]);
        let (want, vocab) = (values(&expected["long_logprobs"]), decoder.config().vocab);
        let every = more.len() / (want.len() / vocab);
        assert_eq!((more.len(), every), (300, 20));
        let close = |states: &[f32], what: &str| {
            let mut ws = Workspace::default();
            let rows = states.chunks_exact(decoder.config().hidden);
            for (row, state) in rows.enumerate().filter(|(row, _)| (row + 1).is_multiple_of(every)) {
                let state = States::new(state.to_vec(), decoder.config().hidden).unwrap();
                let logits = values(&decoder.logits(&state, &mut ws).unwrap());
                let got = log_softmax(&logits);
                let want = &want[row / every * vocab..][..vocab];
                let worst = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst < 3e-4, "{name} on {}, {what}: row {row} differs by {worst}", device.name());
            }
        };
        // Without a cache.
        let text = decoder.embed(&more).unwrap().widened(decoder.config().input_width()).unwrap();
        let input = States::cat(&[head.clone(), text]).unwrap();
        let tail: Vec<u32> = (next..next + 300).collect();
        let axes = std::array::from_fn(|axis| [&at.axes[axis][..], &tail[..]].concat());
        let pass = alone(&decoder, &input, &Positions { axes }, &Taps::default());
        let whole = values(&pass.states.narrow(ids.len(), 300).unwrap());
        close(&whole, "one pass");
        // With one.
        let steps = if device.gpu().is_some() { &[7, 64][..] } else { &[1, 7, 64] };
        for &step in steps {
            let mut sequence = Sequence::new(decoder.clone(), 8);
            assert!(sequence.prefill(&head, &at, next, &mut |_, _| {}, &mut going).unwrap());
            let mut states = Vec::new();
            for part in more.chunks(step) {
                states.extend(values(&sequence.feed(part, &Taps::default()).unwrap().states));
            }
            close(&states, &format!("passes of {step} rows"));
            if decoder.is_batch_invariant() {
                assert!(states.iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: {step}");
            }
        }
    }
}

#[test]
fn rows_have_the_same_bits_in_passes_of_any_number_of_rows() {
    let models = [
        (NEWER[0], WeightType::F32),
        (NEWER[1], WeightType::Q8_0),
        (NEWER[2], WeightType::F16),
        (NEWER[3], WeightType::Q4_0),
        (NEWER[4], WeightType::F32),
        (NEWER[5], WeightType::Q8_0),
        (NEWER[6], WeightType::Q8_0),
        (NEWER[7], WeightType::F32),
        (EXPERTS[0], WeightType::Q8_0),
        (EXPERTS[1], WeightType::F32),
        (EXPERTS[2], WeightType::Q4_0),
        (EXPERTS[3], WeightType::F16),
    ];
    for (nth, (name, dtype)) in models.into_iter().enumerate() {
        for (device, kind) in
            devices(dtype).into_iter().flat_map(|d| KvType::ALL.map(|kind| (d.clone(), kind)))
        {
            // A software driver is slow: there, each model has one type.
            if device.gpu().is_some() && kind != KvType::ALL[nth % KvType::ALL.len()] {
                continue;
            }
            let Ok(device) = device.with_kv_type(kind) else { continue };
            let decoder = load(name, &device);
            let config = decoder.config();
            // And its kernels have fewer shapes.
            let count = if device.gpu().is_some() { 70 } else { 150 };
            let input = noise(config.hidden, 1 + config.deepstack, count);
            let taps =
                Taps { before_norm: true, after_layers: (0..config.layers).collect(), ..Taps::default() };
            let read = |rows: usize| {
                let (mut cache, mut ws, mut parts) = (decoder.cache(8), Workspace::default(), Vec::new());
                for start in (0..count).step_by(rows) {
                    let n = rows.min(count - start);
                    let (input, at) =
                        (input.narrow(start, n).unwrap(), visual(count).slice(start..start + n));
                    let pass =
                        decoder.forward(&input, &at, &Mask::Causal, &mut cache, &taps, &mut ws).unwrap();
                    let taps = pass.after_layers.iter().chain(&pass.before_norm).chain([&pass.states]);
                    let wide = taps.map(|states| states.to_vec2().unwrap()).collect::<Vec<_>>();
                    parts.extend((0..n).map(|row| {
                        wide.iter().flat_map(|rows| &rows[row]).map(|v| v.to_bits()).collect::<Vec<_>>()
                    }));
                }
                parts
            };
            let whole = read(count);
            for rows in ROWS {
                assert_eq!(
                    read(rows),
                    whole,
                    "{name} on {}, {dtype:?}, {kind:?}: {rows} rows",
                    device.name()
                );
            }
        }
    }
}

#[test]
fn a_prefill_in_chunks_or_in_two_parts_at_any_layer_equals_one_pass() {
    let eight_bits = devices(WeightType::Q8_0).into_iter().map(|device| ("gqa_untied_f16", device));
    for (name, device) in
        everywhere_in_f32(DEEP).chain(everywhere_in_f32(["gqa_tied", "mha_tied_bf16"])).chain(eight_bits)
    {
        let decoder = load(name, &device);
        let name = &format!("{name} on {}", device.name());
        let (config, rows) = (decoder.config().clone(), 300);
        let (input, at) = (noise(config.hidden, 1 + config.deepstack, rows), visual(rows));
        let close = |got: &States, want: &States, what: &str| match decoder.is_batch_invariant() {
            true => assert_eq!(bits(got), bits(want), "{name}: {what}"),
            false => assert!(difference(got, want) < 1e-4, "{name}: {what}"),
        };
        // The states of a prefill, in two parts if `layers` says so, and the states of a row after it.
        let read = |input: &States, at: &Positions, layers: Option<usize>| {
            let (mut sequence, mut seen) = (Sequence::new(decoder.clone(), 8), Vec::new());
            let mut keep = |_: usize, s: &[f32]| seen.extend_from_slice(s);
            let whole = match layers {
                None => sequence.prefill(input, at, 300, &mut keep, &mut going),
                Some(layers) => {
                    let below = sequence.prefill_below(input, at, layers, &mut going).unwrap().unwrap();
                    let left = config.deepstack.saturating_sub(layers);
                    assert_eq!(below.shape(), (input.rows(), (1 + left) * config.hidden), "{name} {layers}");
                    sequence.prefill_above(&below, at, layers, 300, &mut keep, &mut going)
                }
            };
            assert!(whole.unwrap() && sequence.len() == input.rows());
            let next = sequence.feed(&[7], &Taps::default()).unwrap().states;
            [States::new(seen, config.hidden).unwrap(), next]
        };
        let chunked = read(&input, &at, None);
        close(&chunked[0], &alone(&decoder, &input, &at, &Taps::default()).states, "chunks");
        // Some rows only, as a pruned drafter reads.
        let some: Vec<usize> = (0..rows).filter(|row| row % 7 < 4).collect();
        let (few, few_at) = (input.select(&some).unwrap(), at.select(&some));
        let few_chunked = read(&few, &few_at, None);
        for layers in 0..=config.layers {
            for (input, at, want) in [(&input, &at, &chunked), (&few, &few_at, &few_chunked)] {
                let got = read(input, at, Some(layers));
                let what = format!("{} rows, {layers} layers below", input.rows());
                got.iter().zip(want).for_each(|(got, want)| close(got, want, &what));
            }
        }
    }
}

#[test]
fn a_model_of_the_first_layers_reads_the_rows_of_the_whole_one() {
    for (name, device) in everywhere_in_f32(DEEP) {
        let decoder = load(name, &device);
        let config = decoder.config().clone();
        let (input, at) = (noise(config.hidden, 1 + config.deepstack, 20), visual(20));
        let taps = Taps { after_layers: (0..config.layers).collect(), ..Taps::default() };
        let whole = alone(&decoder, &input, &at, &taps);
        for layers in 1..=config.layers {
            let first = decoder.first_layers(layers);
            assert_eq!(first.config().deepstack, layers.min(config.deepstack));
            let taps = Taps { before_norm: true, ..Taps::default() };
            let pass = alone(&first, &input, &at, &taps);
            assert_eq!(
                bits(&pass.before_norm.unwrap()),
                bits(&whole.after_layers[layers - 1]),
                "{name} {layers}"
            );
            let own = input.columns(0..first.config().input_width()).unwrap();
            let pass_of_own = alone(&first, &own, &at, &taps);
            assert_eq!(bits(&pass_of_own.states), bits(&pass.states), "{name} {layers}");
        }
        let missing = input.columns(0..2 * config.hidden).unwrap();
        let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
        let refused = decoder.forward(&missing, &at, &Mask::Causal, &mut cache, &taps, &mut ws);
        let refused = refused.err().unwrap().to_string();
        assert!(refused.contains("DeepStack"), "{refused}");
    }
}

#[test]
fn each_level_is_added_after_its_own_layer() {
    for (name, device) in everywhere_in_f32(DEEP) {
        let decoder = load(name, &device);
        let (config, hidden) = (decoder.config().clone(), decoder.width());
        let (input, at) = (noise(hidden, 1 + config.deepstack, 9), visual(9));
        let taps = Taps { after_layers: (0..config.layers).collect(), ..Taps::default() };
        let layers = |pass: Pass| pass.after_layers.iter().map(values).collect::<Vec<_>>();
        let read = |input: &States| layers(alone(&decoder, input, &at, &taps));
        let whole = read(&input);
        for level in 0..config.deepstack {
            let mut rows = input.to_vec2().unwrap();
            rows.iter_mut().for_each(|row| row[(1 + level) * hidden..(2 + level) * hidden].fill(0.0));
            let without = read(&States::new(rows.concat(), (1 + config.deepstack) * hidden).unwrap());
            assert_eq!(without[..level], whole[..level], "{name}: before level {level}");
            let added = input.columns((1 + level) * hidden..(2 + level) * hidden).unwrap();
            let sums = without[level].iter().zip(values(&added)).map(|(a, b)| a + b);
            assert!(sums.eq(whole[level].iter().copied()), "{name}: level {level} is added");
            assert!(
                (level + 1..config.layers).all(|after| without[after] != whole[after]),
                "{name}: after it"
            );
        }
        // Text has the same bits with and without zeros after it, and from ids.
        let ids = [3u32, 9, 31, 7, 60, 2, 18, 90, 11];
        let text = decoder.embed(&ids).unwrap();
        let wide = read(&text.widened(config.input_width()).unwrap());
        assert_eq!(wide, read(&text), "{name}");
        assert_eq!(layers(alone(&decoder, &ids[..], &at, &taps)), wide, "{name}");
    }
}

#[test]
fn every_weight_type_is_close_to_f32() {
    for (of, name) in NEWER.into_iter().chain(EXPERTS).enumerate() {
        let read = |device: &ComputeDevice| {
            let decoder = load(name, device);
            let config = decoder.config();
            let input = noise(config.hidden, 1 + config.deepstack, 30);
            values(&alone(&decoder, &input, &visual(30), &Taps::default()).states)
        };
        let exact = read(&ComputeDevice::cpu(WeightType::F32));
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        for (nth, dtype) in WeightType::ALL.into_iter().enumerate() {
            let mut devices = everywhere(name, dtype);
            // All types on the CPU, which is the first; elsewhere each in some of the families.
            devices.truncate(if (of + nth) % 3 == 0 { usize::MAX } else { 1 });
            for device in devices {
                let got = read(&device);
                let dot: f32 = got.iter().zip(&exact).map(|(a, b)| a * b).sum();
                let cosine = dot / (norm(&got) * norm(&exact));
                // Decays of random weights are steep: what few bits round changes all later rows. And it changes the choice of
                // experts.
                let hybrid = name.starts_with("qwen3_5") || name.starts_with("minicpmv");
                let steep = hybrid || EXPERTS.contains(&name);
                let least = match dtype {
                    WeightType::F32 | WeightType::F16 => 0.9999,
                    WeightType::Bf16 | WeightType::Q8_0 | WeightType::Q6K => 0.99,
                    WeightType::Q5_1 | WeightType::Q5K | WeightType::Q5_0 | WeightType::Q4K if steep => 0.88,
                    WeightType::Q5_1 | WeightType::Q5K | WeightType::Q5_0 | WeightType::Q4K => 0.98,
                    _ if steep => 0.65,
                    _ => 0.9,
                };
                assert!(cosine > least, "{name} on {} in {}: {cosine}", device.name(), dtype.name());
            }
        }
    }
}

/// The state of a tree node is bit-identical to the state of a chain's last row, fed together or one by one.
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

/// Keys and values of every type: rows do not depend on how they are fed, and the results equal f32 except
/// for rounding.
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
                // A GPU fills up 8-bit heads to 16 bytes.
                if kind != KvType::Q8_0 || device.gpu().is_none() {
                    assert_eq!(sequence.bytes() % model.decoder().config().kv_bytes(kind), 0);
                }
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
            // Relative to the size of the log-probabilities, which random weights make large. 8-bit weights
            // also round their inputs to 8 bits: the smallest change of one flips roundings in all later
            // layers.
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
fn heads_that_a_gpu_does_not_compute_are_refused() {
    let Some(device) = gpu_or_skip(WeightType::F32) else { return };
    for name in NARROW {
        let failure = VideoLlm::load_on(&fixture(name), &device, &mut |_, _| {}).err().unwrap().to_string();
        assert!(failure.contains("heads of 12 values") && failure.contains("--device cpu"), "{failure}");
    }
}

#[test]
fn a_mixture_of_experts_is_refused_where_it_is_not_computed() {
    let tensors = ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32);
    for name in EXPERTS {
        let error = VideoLlm::load_on(&fixture(name), &tensors, &mut |_, _| {}).err().unwrap();
        let failure = specreel_record::Failure::from(error);
        let words = "a mixture of experts is not available on tensors";
        assert!(failure.error.contains(words), "{}", failure.error);
        assert!(failure.hint.unwrap().contains("--device gpu or cpu"));
    }
}
