//! GGUF files of the parity checkpoints (`make_gguf.py`): the same models as in Hugging Face layout.

use specreel_model::ReadModel as _;
use std::{collections::HashMap, fs::File, ops::ControlFlow, path::Path};

use candle_core::{
    DType, Device, Tensor,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{self, Content, Value},
    },
};
use specreel_checkpoint::{Checkpoint, ModelFiles};
use specreel_model::{
    config::TextConfig,
    decoder::{Logits, Sequence, States, Taps},
    draft_head::DraftHead,
    family::{ClipFacts, VideoLlm},
    processor::Grid,
};
use specreel_tensor::{ComputeDevice, LinearAttention, WeightType};

use super::{EXPERTS, devices, difference, fixture, gpu::gpu_or_skip, load_on, patches, values};

fn load(path: &str, dtype: WeightType) -> VideoLlm {
    load_at(path, ComputeDevice::cpu(dtype))
}

fn load_at(path: &str, device: ComputeDevice) -> VideoLlm {
    // The tower in f32, for any type of the language model.
    load_on(path, &device.with_tower(WeightType::F32))
}

/// Logits after each of some tokens.
fn logits(model: &VideoLlm, ids: &[u32]) -> Logits {
    let mut sequence = Sequence::new(model.decoder().clone(), ids.len());
    let pass = sequence.feed(ids, &Taps::default()).unwrap();
    sequence.logits(&pass.states).unwrap()
}

/// Visual embeddings of the patches of a checkpoint's fixture.
fn visual(model: &VideoLlm, checkpoint: &str) -> States {
    model.encode(&patches(checkpoint), &mut |_, _| ControlFlow::Continue(())).unwrap()
}

const IDS: [u32; 12] = [3, 99, 250, 7, 7, 180, 44, 0, 290, 13, 61, 5];

#[test]
fn everything_but_the_weights_is_that_of_the_directory() {
    for (file, dir) in [
        ("gguf/gqa_tied/model-f32.gguf", "gqa_tied"),
        ("gguf/qwen2_vl/model-f16.gguf", "qwen2_vl"),
        ("gguf/qwen3_vl/model-bf16.gguf", "qwen3_vl"),
        ("gguf/qwen3_5/model-bf16.gguf", "qwen3_5"),
        ("gguf/qwen3_vl_moe/model-bf16.gguf", "qwen3_vl_moe"),
        ("gguf/qwen3_5_moe/model-bf16.gguf", "qwen3_5_moe"),
        ("gguf/smolvlm/model-bf16.gguf", "smolvlm"),
        ("gguf/smolvlm_untied/model-f16.gguf", "smolvlm_untied"),
        ("gguf/minicpmv4_6/model-bf16.gguf", "minicpmv4_6"),
        ("gguf/minicpmv4_6_4x/model-f16.gguf", "minicpmv4_6_4x"),
        ("gguf/gemma4/model-bf16.gguf", "gemma4"),
        ("gguf/gemma4_plain/model-f16.gguf", "gemma4_plain"),
    ] {
        let (ours, theirs) =
            (ModelFiles::open(&fixture(file), None).unwrap(), ModelFiles::open(&fixture(dir), None).unwrap());
        let (a, b) = (ours.config().unwrap(), theirs.config().unwrap());
        // The order of value heads may be another one.
        let tiled = a.text.linear.is_some_and(|linear| linear.tiled);
        let linear = b.text.linear.map(|linear| LinearAttention { tiled, ..linear });
        // A file does not say how wide dense layers would be where there are none.
        let intermediate = if dir == "qwen3_5_moe" { a.text.intermediate } else { b.text.intermediate };
        let text = TextConfig { linear, intermediate, ..b.text };
        assert_eq!((a.family, &a.text, a.video_token), (b.family, &text, b.video_token), "{dir}");
        let (a, b) = (load(file, WeightType::Auto), load(dir, WeightType::F32));
        let (text, other) = (a.tokenizer(), b.tokenizer());
        text.same_vocabulary(other).unwrap();
        assert_eq!(text.end_ids(), other.end_ids());
        for sample in [
            "The red ball isn't moving… 12 frames\n\n  <|im_end|> ok? Ünï",
            "at 00:12:  3 x 45s,\t6\n 7 'll<end_of_utterance>",
            "decomposed: u\u{308}",
        ] {
            assert_eq!(text.encode(sample).unwrap(), other.encode(sample).unwrap(), "{dir}: {sample}");
            assert_eq!(text.encode_plain(sample).unwrap(), other.encode_plain(sample).unwrap());
        }
        let patches = match dir.starts_with("gemma4") {
            true => Grid { t: 3, h: 6, w: 9 },
            false => patches(dir).grid,
        };
        let grid = a.processor().visual_grid(patches).unwrap();
        let frames = patches.t * a.processor().config().temporal;
        let ids = |model: &VideoLlm| {
            model.prompt("What <|im_end|> moves?", &ClipFacts::steady(grid, frames, 2.0)).unwrap()
        };
        let (a_prompt, b_prompt) = (ids(&a), ids(&b));
        assert_eq!((&a_prompt.ids, &a_prompt.positions.axes), (&b_prompt.ids, &b_prompt.positions.axes));
        let cut = |model: &VideoLlm| model.processor().config().clone();
        // These checkpoints set limits and rates of their own for videos, which GGUF files do not hold.
        let same = specreel_model::processor::ProcessorConfig {
            min_pixels: cut(&b).min_pixels,
            max_pixels: cut(&b).max_pixels,
            sampling: cut(&b).sampling,
            // Rows of the first matrix are in the same order as pixels.
            colors_last: cut(&b).colors_last,
            ..cut(&a)
        };
        assert_eq!(same, cut(&b), "{dir}");
    }
}

#[test]
fn floats_give_the_same_bits_as_the_directory() {
    for (file, dir, dtype) in [
        ("gguf/gqa_tied/model-f32.gguf", "gqa_tied", WeightType::F32),
        ("gguf/qwen2_vl/model-f16.gguf", "qwen2_vl", WeightType::F16),
        ("gguf/qwen3_vl/model-bf16.gguf", "qwen3_vl", WeightType::Bf16),
        ("gguf/qwen3_vl_moe/model-bf16.gguf", "qwen3_vl_moe", WeightType::Bf16),
        ("gguf/smolvlm/model-bf16.gguf", "smolvlm", WeightType::Bf16),
        ("gguf/smolvlm_untied/model-f16.gguf", "smolvlm_untied", WeightType::F16),
    ] {
        for (own, device) in devices(WeightType::Auto).into_iter().zip(devices(dtype)) {
            let (ours, theirs) = (load_at(file, own), load_at(dir, device));
            assert_eq!(difference(&logits(&ours, &IDS), &logits(&theirs, &IDS)), 0.0, "{dir}");
            // This tower's epsilon is the one that the converter writes where a checkpoint has none.
            if dir != "smolvlm_untied" {
                assert_eq!(difference(&visual(&ours, dir), &visual(&theirs, dir)), 0.0, "{dir}");
            }
        }
    }
}

#[test]
fn smaller_types_stay_near_the_directory() {
    for (dir, files) in [
        ("gqa_tied", &[("f16", 2e-3), ("q8_0", 0.03)][..]),
        // Norms of queries and keys magnify what rounding changes.
        ("qwen3_vl", &[("q8_0", 0.08)]),
        // Random states that hardly decay magnify it: in torch, the rounding of the weights alone moves a value by 0.31.
        ("qwen3_5", &[("q8_0", 0.5)]),
        ("minicpmv4_6", &[("q8_0", 0.5)]),
        ("qwen3_vl_moe", &[("q8_0", 0.3)]),
        ("qwen3_5_moe", &[("q8_0", 0.6)]),
        // The rows of queries and keys are also blocks.
        ("smolvlm", &[("q8_0", 0.08)]),
        // Attention is not scaled, which magnifies it.
        ("gemma4", &[("q8_0", 0.5)]),
    ] {
        let exact = logits(&load(dir, WeightType::F32), &IDS);
        let spread = values(&exact).iter().fold(0f32, |largest, value| largest.max(value.abs()));
        for (file, tolerance) in files {
            let model = load(&format!("gguf/{dir}/model-{file}.gguf"), WeightType::Auto);
            assert_eq!(model.stored_type(), Some(*file));
            let error = difference(&logits(&model, &IDS), &exact) / spread;
            assert!(error > 0.0 && error < *tolerance, "{dir}, {file}: {error}");
            if *file == "q8_0" {
                let own = difference(&logits(&load(dir, WeightType::Q8_0), &IDS), &exact) / spread;
                // What is rounded in another way changes the choice of experts.
                let factor = if EXPERTS.contains(&dir) { 3.0 } else { 2.0 };
                assert!(error < factor * own, "{dir}: {error}, converted here {own}");
            }
        }
    }
}

/// Value heads in another order, norms and decays in another form: values differ by a rounding of the decay at most.
#[test]
fn linear_attention_of_a_file_is_that_of_the_directory() {
    for dir in ["qwen3_5", "minicpmv4_6", "qwen3_5_moe"] {
        let file = &format!("gguf/{dir}/model-bf16.gguf");
        let linear = ModelFiles::open(&fixture(file), None).unwrap().config().unwrap().text.linear.unwrap();
        assert!(linear.tiled && linear.value_heads > linear.key_heads);
        let ours = load(file, WeightType::Auto);
        let theirs = load(dir, WeightType::Bf16);
        let exact = logits(&theirs, &IDS);
        let peak = values(&exact).iter().fold(0f32, |peak, value| peak.max(value.abs()));
        let error = difference(&logits(&ours, &IDS), &exact) / peak;
        assert!(error < 1e-5, "{dir}: {error}");
        assert_eq!(difference(&visual(&ours, dir), &visual(&theirs, dir)), 0.0);
    }
}

/// The layer for multi-token prediction is found in a file as in a directory, with the same values.
#[test]
fn the_layer_for_multi_token_prediction_is_that_of_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(fixture("mtp/mtp.safetensors"), dir.path().join("model.safetensors")).unwrap();
    let ids = [3, 99, 250, 7];
    let outputs = |target: VideoLlm, checkpoint: &Path| {
        let checkpoint = Checkpoint::open(checkpoint).unwrap();
        let head = DraftHead::own(checkpoint, target.decoder(), "own").unwrap();
        let width = target.decoder().width();
        let before = States::new(vec![0.5; ids.len() * width], width).unwrap();
        let mut sequence = Sequence::new(head.decoder().clone(), ids.len());
        let pass = sequence.feed_input(&head.fuse(&ids, &before).unwrap(), &head.own_taps()).unwrap();
        pass.states.to_vec().unwrap()
    };
    let file = "gguf/qwen3_5/model-bf16.gguf";
    let rows = [
        outputs(load(file, WeightType::Auto), &fixture(file)),
        outputs(load("qwen3_5", WeightType::Bf16), dir.path()),
    ];
    assert_eq!(rows[0], rows[1]);
}

/// Blocks of all types, in files as they are.
#[test]
fn blocks_on_a_gpu_are_close_to_the_same_on_the_cpu() {
    for (file, tolerance) in [
        ("gqa_tied/model-f16.gguf", 1e-5),
        ("gqa_tied/model-q8_0.gguf", 0.01),
        ("gqa_tied/model-q5_0.gguf", 0.01),
        ("gqa_tied/model-q4_1.gguf", 0.01),
        ("gqa_tied/model-q4_0.gguf", 0.01),
        ("qwen3_vl/model-q8_0.gguf", 0.01),
        ("qwen3_5/model-bf16.gguf", 1e-4),
        ("minicpmv4_6/model-bf16.gguf", 1e-4),
        ("smolvlm/model-q8_0.gguf", 0.03),
        // Inputs have one scale for 32 values on a GPU, for 256 on the CPU.
        ("mix/model-q4_k_m.gguf", 0.1),
    ] {
        let Some(device) = gpu_or_skip(WeightType::Auto) else { return };
        let path = format!("gguf/{file}");
        let model = load_at(&path, device);
        let want = logits(&load(&path, WeightType::Auto), &IDS);
        let peak = values(&want).iter().fold(0f32, |peak, value| peak.max(value.abs()));
        let error = difference(&logits(&model, &IDS), &want) / peak;
        println!("{file}: {error}");
        assert!(error < tolerance, "{file}: {error}");
    }
}

/// The reference: candle's own reader and quantized Qwen2, for text.
fn reference(path: &Path, ids: &[u32]) -> Tensor {
    let mut file = File::open(path).unwrap();
    let mut content = Content::read(&mut file).unwrap();
    let renamed: Vec<(String, Value)> = content
        .metadata
        .iter()
        .filter_map(|(key, value)| Some((format!("qwen2.{}", key.strip_prefix("qwen2vl.")?), value.clone())))
        .collect();
    content.metadata.extend(renamed);
    let mut model = candle_transformers::models::quantized_qwen2::ModelWeights::from_gguf(
        content,
        &mut file,
        &Device::Cpu,
    )
    .unwrap();
    // It returns the logits after the last token, so that every prefix is a pass.
    let rows: Vec<Tensor> = (0..ids.len())
        .map(|at| {
            let input = Tensor::new(&[[ids[at]]], &Device::Cpu).unwrap();
            model.forward(&input, at).unwrap()
        })
        .collect();
    Tensor::cat(&rows, 0).unwrap()
}

/// Rows are quantized to 8 bits on both sides, but candle's blocks hold their scale in 16 bits where ours are f32 (and for K-quants,
/// round with another sign): values differ by up to half a step of 1/127 of a block's peak, of which the outputs see the mean.
#[test]
fn text_logits_are_those_of_candle_transformers() {
    for (file, tolerance) in [
        ("gqa_tied/model-f32.gguf", 1e-5),
        ("gqa_tied/model-f16.gguf", 2e-3),
        ("gqa_tied/model-q8_0.gguf", 0.02),
        ("gqa_tied/model-q4_0.gguf", 0.02),
        // One scale for 256 inputs instead of 32.
        ("mix/model-q4_k_m.gguf", 0.05),
    ] {
        let path = format!("gguf/{file}");
        let ours = logits(&load(&path, WeightType::Auto), &IDS);
        let theirs = reference(&fixture(&path), &IDS);
        let peak = values(&theirs).iter().fold(0f32, |peak, value| peak.max(value.abs()));
        let error = difference(&ours, &theirs) / peak;
        assert!(error < tolerance, "{file}: {error}");
    }
}

/// Types that candle does not multiply in rows of 96 values: the weights differ by what `gguf` rounds.
#[test]
fn text_logits_are_near_those_of_weights_in_f32() {
    let want = logits(&load("gguf/gqa_tied/model-f32.gguf", WeightType::Auto), &IDS);
    let peak = values(&want).iter().fold(0f32, |peak, value| peak.max(value.abs()));
    for (file, tolerance) in [("q8_0", 0.05), ("q5_0", 0.2), ("q4_1", 0.3)] {
        let ours = logits(&load(&format!("gguf/gqa_tied/model-{file}.gguf"), WeightType::Auto), &IDS);
        let error = difference(&ours, &want) / peak;
        println!("{file}: {error}");
        assert!(error < tolerance, "{file}: {error}");
    }
}

/// Write `fixtures/gguf/mix`: random weights in a mix of all block types, with candle's quantization and its writer. Everything
/// else is from the f32 file of `make_gguf.py`.
#[test]
#[ignore = "writes a fixture"]
fn write_the_mix() {
    let (width, layers) = (256usize, 2usize);
    let dir = fixture("gguf/mix");
    std::fs::create_dir_all(&dir).unwrap();
    let mut state = 7u64;
    let mut random = |shape: &[usize], scale: f32| {
        let count: usize = shape.iter().product();
        let data: Vec<f32> = (0..count)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * scale
            })
            .collect();
        Tensor::from_vec(data, shape, &Device::Cpu).unwrap()
    };
    let mut file = File::open(fixture("gguf/gqa_tied/model-f32.gguf")).unwrap();
    let content = Content::read(&mut file).unwrap();
    let mut metadata = content.metadata;
    for (key, value) in [
        ("embedding_length", width),
        ("feed_forward_length", width),
        ("block_count", layers),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        metadata.insert(format!("qwen2vl.{key}"), Value::U32(value as u32));
    }
    let sections = [8i32, 12, 12, 0].map(Value::I32).to_vec();
    metadata.insert("qwen2vl.rope.dimension_sections".into(), Value::Array(sections));
    let vocab = match &metadata["tokenizer.ggml.tokens"] {
        Value::Array(tokens) => tokens.len(),
        _ => panic!("no tokens"),
    };
    let bound = (3.0 / width as f32).sqrt() * 2.0;
    let mut all: Vec<(String, QTensor)> = Vec::new();
    let mut add = |name: String, tensor: Tensor, kind: GgmlDType| {
        all.push((name, QTensor::quantize(&tensor, kind).unwrap()));
    };
    let ones = |n: usize| Tensor::ones(n, DType::F32, &Device::Cpu).unwrap();
    add("token_embd.weight".into(), random(&[vocab, width], 1.0), GgmlDType::Q6K);
    add("output_norm.weight".into(), ones(width), GgmlDType::F32);
    for layer in 0..layers {
        let name = |part: &str| format!("blk.{layer}.{part}");
        for norm in ["attn_norm.weight", "ffn_norm.weight"] {
            add(name(norm), ones(width), GgmlDType::F32);
        }
        let turn = layer % 2 == 0;
        for (part, rows, kind) in [
            ("attn_q", width, if turn { GgmlDType::Q4K } else { GgmlDType::Q5K }),
            ("attn_k", width / 2, GgmlDType::Q4K),
            ("attn_v", width / 2, GgmlDType::Q6K),
            ("attn_output", width, if turn { GgmlDType::Q4K } else { GgmlDType::Q8_0 }),
            ("ffn_gate", width, if turn { GgmlDType::Q4K } else { GgmlDType::Q4_0 }),
            ("ffn_up", width, if turn { GgmlDType::Q5K } else { GgmlDType::Q4_0 }),
            ("ffn_down", width, GgmlDType::Q6K),
        ] {
            add(name(&format!("{part}.weight")), random(&[rows, width], bound), kind);
        }
        for (part, rows) in [("attn_q", width), ("attn_k", width / 2), ("attn_v", width / 2)] {
            add(name(&format!("{part}.bias")), random(&[rows], 0.1), GgmlDType::F32);
        }
    }
    save(&dir.join("model-q4_k_m.gguf"), &metadata, &all);

    let mut file = File::open(fixture("gguf/gqa_tied/mmproj-f32.gguf")).unwrap();
    let content = Content::read(&mut file).unwrap();
    let mut metadata = content.metadata.clone();
    metadata.insert("clip.vision.projection_dim".into(), Value::U32(width as u32));
    let mut all: Vec<(String, QTensor)> = Vec::new();
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut file, name, &Device::Cpu).unwrap();
        let dims = tensor.shape().dims().to_vec();
        let tensor = match name.as_str() {
            "mm.2.weight" => QTensor::quantize(&random(&[width, dims[1]], 0.3), GgmlDType::F32).unwrap(),
            "mm.2.bias" => QTensor::quantize(&random(&[width], 0.3), GgmlDType::F32).unwrap(),
            _ => tensor,
        };
        all.push((name.clone(), tensor));
    }
    save(&dir.join("mmproj-f32.gguf"), &metadata, &all);
}

fn save(path: &Path, metadata: &HashMap<String, Value>, tensors: &[(String, QTensor)]) {
    let mut metadata: Vec<(&str, &Value)> =
        metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    metadata.sort_by_key(|(key, _)| *key);
    let mut tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    tensors.sort_by_key(|(name, _)| *name);
    gguf_file::write(&mut File::create(path).unwrap(), &metadata, &tensors).unwrap();
}
