//! The language models of Qwen3-VL, SmolVLM2 and Qwen3.5 against transformers: norms of queries and keys, alternating axes, no
//! biases, rows with DeepStack levels, and linear attention.

use std::{ops::ControlFlow, sync::Arc};

use candle_core::Device;
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::{Decoder, Mask, Positions, Sequence, States, Taps, Workspace},
    family::VlConfig,
};
use specreel_tensor::{ComputeDevice, KvType, WeightType};

use super::{
    NEWER, Values, decoder::log_softmax, devices, difference, fixture, numbers, states, tensors, values,
};

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

/// The CPU and a GPU, which compute rows alike, and candle's tensors.
fn everywhere(dtype: WeightType) -> Vec<ComputeDevice> {
    let tensors = ComputeDevice::tensors(Device::Cpu, "tensors", dtype);
    devices(dtype).into_iter().chain([tensors]).collect()
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

/// Rows of noise with `levels` blocks beside the first, of which every third is text.
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

/// Positions that differ on all axes.
fn visual(n: usize) -> Positions {
    let axis = |k: usize| (0..n).map(|i| (i * k / 3) as u32).collect();
    Positions { axes: [axis(1), axis(2), axis(5)] }
}

fn bits(of: &States) -> Vec<u32> {
    values(of).into_iter().map(f32::to_bits).collect()
}

fn going(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn states_log_probabilities_and_greedy_tokens_equal_those_of_transformers() {
    for (name, device) in
        NEWER.into_iter().flat_map(|n| everywhere(WeightType::F32).into_iter().map(move |d| (n, d)))
    {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let decoder = load(name, &device);
        // Recurrent states add up rounding over all rows.
        let (slack, nats) = if name.starts_with("qwen3_5") { (2.5, 4e-4) } else { (1.0, 3e-4) };
        let name = &format!("{name} on {}", device.name());
        let close = |got: &dyn Fn() -> f32, what: &str, bound: f32| {
            let (worst, bound) = (got(), slack * bound);
            assert!(worst <= bound, "{name}: {what} differ by {worst}");
        };
        let ids: Vec<u32> = numbers(&expected["input_ids"]).into_iter().map(|n| n as u32).collect();
        let rows: Vec<usize> = numbers(&expected["visual_rows"]).into_iter().map(|n| n as usize).collect();
        let input = prompt(&decoder, &ids, &rows, &states(&expected["visual_embeds"]));
        let at = positions(&expected["position_ids"]);
        let (mut cache, mut ws) = (decoder.cache(4), Workspace::default());
        let pass =
            decoder.forward(&input, &at, &Mask::Causal, &mut cache, &Taps::default(), &mut ws).unwrap();
        close(&|| difference(&pass.states, &expected["hidden"]), "states", 1e-4);
        let logits = decoder.logits(&pass.states, &mut ws).unwrap();
        close(&|| difference(&logits, &expected["logits"]), "logits", 1e-4);

        let more: Vec<u32> = numbers(&expected["chunk_ids"]).into_iter().map(|n| n as u32).collect();
        let at_more = positions(&expected["chunk_positions"]);
        let pass = decoder
            .forward(&more[..], &at_more, &Mask::Causal, &mut cache, &Taps::default(), &mut ws)
            .unwrap();
        close(&|| difference(&pass.states, &expected["chunk_hidden"]), "states of a chunk", 1e-4);
        let logits = decoder.logits(&pass.states, &mut ws).unwrap();
        close(&|| difference(&logits, &expected["chunk_logits"]), "logits of a chunk", 1e-4);

        let (last, next) = (ids.len() - 1, numbers(&expected["next_position"])[0] as u32);
        let mut sequence = Sequence::new(decoder.clone(), 8);
        let (input, at) = (input.narrow(0, last).unwrap(), at.slice(0..last));
        assert!(sequence.prefill(&input, &at, next - 1, &mut |_, _| {}, &mut going).unwrap());
        let mut id = ids[last];
        let want = values(&expected["greedy_logprobs"]);
        let vocab = decoder.config().vocab;
        for (i, greedy) in numbers(&expected["greedy_ids"]).into_iter().enumerate() {
            let pass = sequence.feed(&[id], &Taps::default()).unwrap();
            let logits = values(&sequence.logits(&pass.states).unwrap());
            let sum = logits.iter().map(|v| f64::from(*v).exp()).sum::<f64>().ln();
            let worst = logits
                .iter()
                .zip(&want[i * vocab..])
                .map(|(l, w)| (f64::from(*l) - sum - f64::from(*w)).abs());
            let worst = worst.fold(0.0, f64::max);
            assert!(worst < nats, "{name}: log-probabilities of token {i} differ by {worst}");
            id = specreel_speculate::sampling::argmax(&logits);
            assert_eq!(i64::from(id), greedy, "{name}: token {i}");
        }
    }
}

/// Three hundred tokens after a prompt, so that a drift of recurrent states would show: in one pass with it, in passes of a few
/// rows, and one at a time.
#[test]
fn long_texts_do_not_drift_from_transformers() {
    for (name, device) in ["qwen3_5", "qwen3_5_untied"]
        .into_iter()
        .flat_map(|n| everywhere(WeightType::F32).into_iter().map(move |d| (n, d)))
    {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let decoder = load(name, &device);
        let ids: Vec<u32> = numbers(&expected["input_ids"]).into_iter().map(|n| n as u32).collect();
        let rows: Vec<usize> = numbers(&expected["visual_rows"]).into_iter().map(|n| n as usize).collect();
        let more: Vec<u32> = numbers(&expected["long_ids"]).into_iter().map(|n| n as u32).collect();
        let next = numbers(&expected["next_position"])[0] as u32;
        let head = prompt(&decoder, &ids, &rows, &states(&expected["visual_embeds"]));
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
        let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
        let pass = decoder
            .forward(&input, &Positions { axes }, &Mask::Causal, &mut cache, &Taps::default(), &mut ws)
            .unwrap();
        let whole = values(&pass.states.narrow(ids.len(), 300).unwrap());
        close(&whole, "one pass");
        // With one.
        for step in [1, 7, 64] {
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
    ];
    for (name, dtype) in models {
        for (device, kind) in
            devices(dtype).into_iter().flat_map(|d| KvType::ALL.map(|kind| (d.clone(), kind)))
        {
            let Ok(device) = device.with_kv_type(kind) else { continue };
            let decoder = load(name, &device);
            let config = decoder.config();
            let input = noise(config.hidden, 1 + config.deepstack, 150);
            let taps =
                Taps { before_norm: true, after_layers: (0..config.layers).collect(), ..Taps::default() };
            let read = |rows: usize| {
                let (mut cache, mut ws, mut parts) = (decoder.cache(8), Workspace::default(), Vec::new());
                for start in (0..150).step_by(rows) {
                    let n = rows.min(150 - start);
                    let (input, at) = (input.narrow(start, n).unwrap(), visual(150).slice(start..start + n));
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
            let whole = read(150);
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
    for (name, device) in
        DEEP.into_iter().flat_map(|n| everywhere(WeightType::F32).into_iter().map(move |d| (n, d)))
    {
        let decoder = load(name, &device);
        let name = &format!("{name} on {}", device.name());
        let (config, rows) = (decoder.config().clone(), 300);
        let (input, at) = (noise(config.hidden, 1 + config.deepstack, rows), visual(rows));
        let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
        let pass =
            decoder.forward(&input, &at, &Mask::Causal, &mut cache, &Taps::default(), &mut ws).unwrap();
        let same = |got: Vec<f32>, what: &str| {
            let got = States::new(got, config.hidden).unwrap();
            match decoder.is_batch_invariant() {
                true => assert_eq!(bits(&got), bits(&pass.states), "{name}: {what}"),
                false => assert!(difference(&got, &pass.states) < 1e-4, "{name}: {what}"),
            }
        };
        let mut chunked = Vec::new();
        let mut sequence = Sequence::new(decoder.clone(), 8);
        let mut keep = |_: usize, s: &[f32]| chunked.extend_from_slice(s);
        assert!(sequence.prefill(&input, &at, 300, &mut keep, &mut going).unwrap());
        same(chunked, "chunks");
        for layers in 0..=config.layers {
            let mut parts = Sequence::new(decoder.clone(), 8);
            let below = parts.prefill_below(&input, &at, layers, &mut going).unwrap().unwrap();
            let left = config.deepstack.saturating_sub(layers);
            assert_eq!(below.shape(), (rows, (1 + left) * config.hidden), "{name} {layers}");
            let mut seen = Vec::new();
            let mut keep = |_: usize, s: &[f32]| seen.extend_from_slice(s);
            assert!(parts.prefill_above(&below, &at, layers, 300, &mut keep, &mut going).unwrap());
            same(seen, &format!("{layers} layers below"));
            // Some rows only, as a pruned drafter reads.
            let some: Vec<usize> = (0..rows).filter(|row| row % 7 < 4).collect();
            let (few, few_at) = (input.select(&some).unwrap(), at.select(&some));
            let read = |parted: bool| {
                let mut sequence = Sequence::new(decoder.clone(), 8);
                let mut seen = Vec::new();
                let mut keep = |_: usize, s: &[f32]| seen.extend_from_slice(s);
                match parted {
                    false => sequence.prefill(&few, &few_at, 300, &mut keep, &mut going).unwrap(),
                    true => {
                        let below =
                            sequence.prefill_below(&few, &few_at, layers, &mut going).unwrap().unwrap();
                        sequence.prefill_above(&below, &few_at, layers, 300, &mut keep, &mut going).unwrap()
                    }
                };
                seen
            };
            let worst = read(true).iter().zip(read(false)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(
                worst <= if decoder.is_batch_invariant() { 0.0 } else { 1e-4 },
                "{name} {layers}: {worst}"
            );
        }
    }
}

#[test]
fn a_model_of_the_first_layers_reads_the_rows_of_the_whole_one() {
    for (name, device) in
        DEEP.into_iter().flat_map(|n| everywhere(WeightType::F32).into_iter().map(move |d| (n, d)))
    {
        let decoder = load(name, &device);
        let config = decoder.config().clone();
        let (input, at) = (noise(config.hidden, 1 + config.deepstack, 20), visual(20));
        let taps = Taps { after_layers: (0..config.layers).collect(), ..Taps::default() };
        let forward = |decoder: &Decoder, input: &States, taps: &Taps| {
            let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
            decoder.forward(input, &at, &Mask::Causal, &mut cache, taps, &mut ws)
        };
        let whole = forward(&decoder, &input, &taps).unwrap();
        for layers in 1..=config.layers {
            let first = decoder.first_layers(layers);
            assert_eq!(first.config().deepstack, layers.min(config.deepstack));
            let taps = Taps { before_norm: true, ..Taps::default() };
            let pass = forward(&first, &input, &taps).unwrap();
            assert_eq!(
                bits(&pass.before_norm.unwrap()),
                bits(&whole.after_layers[layers - 1]),
                "{name} {layers}"
            );
            let own = input.columns(0..first.config().input_width()).unwrap();
            let pass_of_own = forward(&first, &own, &taps).unwrap();
            assert_eq!(bits(&pass_of_own.states), bits(&pass.states), "{name} {layers}");
        }
        let missing = input.columns(0..2 * config.hidden).unwrap();
        let refused = forward(&decoder, &missing, &taps).err().unwrap().to_string();
        assert!(refused.contains("DeepStack"), "{refused}");
    }
}

#[test]
fn each_level_is_added_after_its_own_layer() {
    for (name, device) in
        DEEP.into_iter().flat_map(|n| everywhere(WeightType::F32).into_iter().map(move |d| (n, d)))
    {
        let decoder = load(name, &device);
        let (config, hidden) = (decoder.config().clone(), decoder.width());
        let (input, at) = (noise(hidden, 1 + config.deepstack, 9), visual(9));
        let taps = Taps { after_layers: (0..config.layers).collect(), ..Taps::default() };
        let read = |input: &States| {
            let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
            let pass = decoder.forward(input, &at, &Mask::Causal, &mut cache, &taps, &mut ws).unwrap();
            pass.after_layers.iter().map(values).collect::<Vec<_>>()
        };
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
        // Text is computed alike with zeros beside it and without, and from ids.
        let ids = [3u32, 9, 31, 7, 60, 2, 18, 90, 11];
        let text = decoder.embed(&ids).unwrap();
        let wide = read(&text.widened(config.input_width()).unwrap());
        assert_eq!(wide, read(&text), "{name}");
        let (mut cache, mut ws) = (decoder.cache(8), Workspace::default());
        let pass = decoder.forward(&ids[..], &at, &Mask::Causal, &mut cache, &taps, &mut ws).unwrap();
        assert_eq!(pass.after_layers.iter().map(values).collect::<Vec<_>>(), wide, "{name}");
    }
}

#[test]
fn every_weight_type_is_close_to_f32() {
    for name in NEWER {
        let read = |device: &ComputeDevice| {
            let decoder = load(name, device);
            let (config, mut cache) = (decoder.config(), decoder.cache(8));
            let (input, mut ws) = (noise(config.hidden, 1 + config.deepstack, 30), Workspace::default());
            let taps = Taps::default();
            let pass =
                decoder.forward(&input, &visual(30), &Mask::Causal, &mut cache, &taps, &mut ws).unwrap();
            values(&pass.states)
        };
        let exact = read(&ComputeDevice::cpu(WeightType::F32));
        let norm = |values: &[f32]| values.iter().map(|v| v * v).sum::<f32>().sqrt();
        for dtype in WeightType::ALL {
            for device in everywhere(dtype) {
                let got = read(&device);
                let dot: f32 = got.iter().zip(&exact).map(|(a, b)| a * b).sum();
                let cosine = dot / (norm(&got) * norm(&exact));
                let least = match dtype {
                    WeightType::F32 | WeightType::F16 => 0.9999,
                    // Decays of random weights are steep: what 4 bits round changes all later rows.
                    WeightType::Q4_0 if name.starts_with("qwen3_5") => 0.65,
                    WeightType::Q4_0 => 0.9,
                    _ => 0.99,
                };
                assert!(cosine > least, "{name} on {} in {}: {cosine}", device.name(), dtype.name());
            }
        }
    }
}
