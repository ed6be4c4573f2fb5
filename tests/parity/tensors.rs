//! The decoder in tensors, and on a GPU, against the one in the kernels of the CPU, which [`decoder`](super::decoder) compares with
//! transformers. Candle's CPU device replaces an accelerator.

use std::ops::ControlFlow;

use candle_core::Device;
use specreel_model::{
    decoder::{AttentionProbe, Cache, Decoder, Logits, Mask, Pass, Positions, Taps, Workspace},
    family::VideoLlm,
};
use specreel_tensor::{ComputeDevice, VisualSpans, WeightType};

use super::{
    CHECKPOINTS, FAMILIES, NARROW, Values, decoder::visual, devices, difference, fixture, gpu::gpu_or_skip,
    load_on, values,
};

/// Maximum difference of a value in f32.
const CLOSE: f32 = 1e-4;

fn tensors(name: &str, dtype: WeightType) -> VideoLlm {
    let device = ComputeDevice::tensors(Device::Cpu, "tensors", dtype);
    VideoLlm::load_on(&fixture(name), &device, &mut |_, _| {}).unwrap()
}

/// The same checkpoint in kernels and in tensors.
fn both(name: &str) -> [VideoLlm; 2] {
    let kernels = VideoLlm::load(&fixture(name), WeightType::F32, &mut |_, _| {}).unwrap();
    [kernels, tensors(name, WeightType::F32)]
}

/// The checkpoint in kernels, and in tensors or on a GPU.
fn pairs(name: &str) -> Vec<[VideoLlm; 2]> {
    let gpu = gpu_or_skip(WeightType::F32).filter(|_| !NARROW.contains(&name));
    let kernels = || load_on(name, &ComputeDevice::cpu(WeightType::F32));
    [both(name)].into_iter().chain(gpu.map(|gpu| [kernels(), load_on(name, &gpu)])).collect()
}

/// What to call the second model of a pair.
fn called(name: &str, model: &VideoLlm) -> String {
    format!("{name} on {}", model.device().name())
}

fn ids(n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| 3 + i * 7 % 60).collect()
}

struct Run<'a> {
    decoder: &'a Decoder,
    cache: Cache,
    ws: Workspace,
}

impl<'a> Run<'a> {
    fn new(model: &'a VideoLlm) -> Self {
        let decoder = model.decoder();
        Self { decoder, cache: decoder.cache(16), ws: Workspace::default() }
    }

    fn pass(&mut self, ids: &[u32], at: &Positions, mask: &Mask, taps: &Taps) -> (Pass, Logits) {
        let input = self.decoder.embed(ids).unwrap();
        let pass = self.decoder.forward(&input, at, mask, &mut self.cache, taps, &mut self.ws).unwrap();
        let logits = self.decoder.logits(&pass.states, &mut self.ws).unwrap();
        (pass, logits)
    }

    fn chain(&mut self, ids: &[u32]) -> (Pass, Logits) {
        let at = Positions::text(self.cache.len() as u32, ids.len());
        self.pass(ids, &at, &Mask::Causal, &Taps::default())
    }
}

/// Check that two decoders agree on one pass.
fn assert_same(name: &str, [a, b]: [&(Pass, Logits); 2]) {
    let close = |what: &str, worst: f32| assert!(worst <= CLOSE, "{name}: {what} differ by {worst}");
    close("states", difference(&a.0.states, &b.0.states));
    close("logits", difference(&a.1, &b.1));
    assert_eq!(a.0.after_layers.len(), b.0.after_layers.len());
    for (a, b) in a.0.after_layers.iter().zip(&b.0.after_layers) {
        close("states after a layer", difference(a, b));
    }
    match (&a.0.before_norm, &b.0.before_norm) {
        (Some(a), Some(b)) => close("states before the norm", difference(a, b)),
        (a, b) => assert_eq!(a.is_some(), b.is_some()),
    }
    let near =
        |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= CLOSE);
    match (&a.0.attention, &b.0.attention) {
        (Some(a), Some(b)) => {
            assert!(near(&a.peaks, &b.peaks), "{name}: {:?} {:?}", a.peaks, b.peaks);
            assert!(near(&a.by_head, &b.by_head), "{name}: weights by head");
        }
        (a, b) => assert_eq!(a.is_some(), b.is_some()),
    }
}

#[test]
fn states_taps_and_attention_stats_are_those_of_the_kernels() {
    for (name, models) in CHECKPOINTS
        .into_iter()
        .chain(FAMILIES)
        .flat_map(|name| pairs(name).into_iter().map(move |m| (name, m)))
    {
        let name = &called(name, &models[1]);
        let prompt = ids(40);
        let spans = VisualSpans::new([4..9, 12..13, 20..30], 40).unwrap();
        let layers = models[0].decoder().config().layers;
        let passes = [0, 1].map(|i| {
            let mut run = Run::new(&models[i]);
            let first = run.pass(&prompt, &visual(40), &Mask::Causal, &Taps::default());
            let taps = Taps {
                before_norm: true,
                after_layers: vec![layers - 1, 0],
                probe: Some(AttentionProbe { spans: spans.clone(), by_head: true }),
                layers: None,
            };
            let second = run.pass(&ids(7), &Positions::text(90, 7), &Mask::Causal, &taps);
            // A span that ends after the last slot, and one that starts there.
            let ahead = VisualSpans::new([44..60, 62..64], 64).unwrap();
            let ahead =
                Taps { probe: Some(AttentionProbe { spans: ahead, by_head: true }), ..Taps::default() };
            let third = run.pass(&[9], &Positions::text(97, 1), &Mask::Causal, &ahead);
            [first, second, third]
        });
        for (a, b) in passes[0].iter().zip(&passes[1]) {
            assert_same(name, [a, b]);
        }
    }
}

#[test]
fn caches_truncated_compacted_gathered_and_grown_agree_with_the_kernels() {
    for (name, models) in CHECKPOINTS
        .into_iter()
        .chain(FAMILIES)
        .flat_map(|name| pairs(name).into_iter().map(move |m| (name, m)))
    {
        let name = &called(name, &models[1]);
        let passes = [0, 1].map(|i| {
            let mut run = Run::new(&models[i]);
            let mut passes = vec![run.chain(&ids(11))];
            // root 0; children 1 and 2; 3 under 1; 4 under 2.
            let paths = vec![vec![0], vec![0, 1], vec![0, 2], vec![0, 1, 3], vec![0, 2, 4]];
            let depth: Vec<u32> = paths.iter().map(|p| 10 + p.len() as u32).collect();
            let at = Positions { axes: [depth.clone(), depth.clone(), depth] };
            let tree = Mask::Paths { shared: 11, paths };
            passes.push(run.pass(&ids(5), &at, &tree, &Taps::default()));
            // A node fed later, below one that was fed before.
            let later = Mask::Paths { shared: 11, paths: vec![vec![0, 2, 4, 5]] };
            passes.push(run.pass(&[8], &Positions::text(14, 1), &later, &Taps::default()));
            run.cache.keep(11, &[0, 2, 4]);
            passes.push(run.chain(&ids(3)));
            run.cache.truncate(12);
            passes.push(run.chain(&ids(600)));
            let heads = run.decoder.config().kv_heads;
            let (even, odd): (Vec<usize>, Vec<usize>) = (0..100).partition(|s| s % 2 == 0);
            let some = run.cache.gather(50, 60, &|layer, head| {
                if (layer * heads + head).is_multiple_of(2) { &even } else { &odd }
            });
            let whole = std::mem::replace(&mut run.cache, some);
            passes.push(run.chain(&ids(4)));
            run.cache.truncate(50);
            run.cache.append(&whole, 590..612).unwrap();
            assert_eq!(run.cache.len(), 72);
            passes.push(run.chain(&ids(2)));
            let decoder = run.decoder.first_layers(1);
            let mut short = Run {
                decoder: &decoder,
                cache: whole.first_layers(decoder.config()),
                ws: Workspace::default(),
            };
            passes.push(short.chain(&ids(2)));
            passes
        });
        for (a, b) in passes[0].iter().zip(&passes[1]) {
            assert_same(name, [a, b]);
        }
    }
}

fn cosine(a: &impl Values, b: &impl Values) -> f32 {
    let (a, b) = (values(a), values(b));
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
    dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
}

#[test]
fn smaller_weight_types_are_close_to_f32() {
    for name in CHECKPOINTS {
        let exact = both(name);
        let (_, want) = Run::new(&exact[0]).chain(&ids(30));
        for (dtype, least) in
            [(WeightType::F16, 0.9999), (WeightType::Bf16, 0.998), (WeightType::Q8_0, 0.998)]
        {
            let model = tensors(name, dtype);
            assert!(!model.decoder().is_batch_invariant());
            let (_, got) = Run::new(&model).chain(&ids(30));
            let near = cosine(&got, &want);
            assert!(near >= least, "{name} {dtype:?}: {near}");
            let weights = model.decoder().matrix_bytes();
            assert!(weights <= exact[0].decoder().matrix_bytes(), "{name} {dtype:?}: {weights} bytes");
        }
    }
}

/// Weights of every type, and their products with inputs that are rounded as the weights are: a GPU differs from the CPU in the
/// order of its sums alone.
#[test]
fn smaller_weight_types_on_a_gpu_are_close_to_the_same_on_the_cpu() {
    for name in CHECKPOINTS {
        for (dtype, least) in
            [(WeightType::F16, 0.99999), (WeightType::Bf16, 0.99999), (WeightType::Q8_0, 0.9995)]
        {
            let devices = devices(dtype);
            let logits = devices.iter().map(|device| Run::new(&load_on(name, device)).chain(&ids(30)).1);
            let logits: Vec<Logits> = logits.collect();
            let [want, got] = &logits[..] else { return };
            let near = cosine(got, want);
            println!("{name} {dtype:?}: {near}");
            assert!(near >= least, "{name} {dtype:?}: {near}");
        }
    }
}

#[test]
fn towers_agree_with_those_on_the_cpu() {
    for name in ["gqa_tied", "qwen2_vl", "llava_ov"] {
        for models in pairs(name) {
            let processor = models[0].processor();
            let mut builder = processor.patches(processor.target_size(56, 84, 4, None).unwrap()).unwrap();
            for frame in 0..4u8 {
                let pixel = |i: usize| ((i * 7 + i / 84 * 13) as u8).wrapping_add(frame * 40);
                builder.push(&(0..56 * 84 * 3).map(pixel).collect::<Vec<u8>>(), 56, 84).unwrap();
            }
            let patches = builder.finish().unwrap();
            let encode =
                |model: &VideoLlm| model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
            let want = encode(&models[0]);
            assert!(difference(&encode(&models[1]), &want) <= CLOSE, "{name}");
            assert!(cosine(&encode(&tensors(name, WeightType::Bf16)), &want) > 0.99, "{name}");
        }
    }
}

#[test]
fn mismatched_caches_and_positions_are_refused() {
    for models in pairs("gqa_tied") {
        let (mut kernels, tensors) = (Run::new(&models[0]), Run::new(&models[1]));
        kernels.decoder = tensors.decoder;
        let input = kernels.decoder.embed(&[1, 2]).unwrap();
        let (mask, taps) = (Mask::Causal, Taps::default());
        let mut pass = |at: &Positions, cache: &mut Cache| {
            kernels.decoder.forward(&input, at, &mask, cache, &taps, &mut kernels.ws).is_err()
        };
        assert!(pass(&Positions::text(0, 2), &mut kernels.cache), "a cache of another device");
        let mut own = tensors.decoder.cache(4);
        assert!(pass(&Positions::text(0, 3), &mut own), "positions for another number of rows");
        assert!(!pass(&Positions::text(0, 2), &mut own));
        assert!(tensors.decoder.embed(&[1 << 30]).is_err());
    }
}
