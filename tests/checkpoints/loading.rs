//! Memory while weights are loaded and prompts are prefilled.

use std::{io::Write, ops::ControlFlow, path::Path, sync::Arc};

use serde_json::{Value, json};
use specreel_checkpoint::Checkpoint;
use specreel_client::fake::request;
use specreel_engine::{Command, Engine, RunRequest, memory_check::Video};
use specreel_model::{
    ModelSpec,
    config::TextConfig,
    decoder::{Decoder, Positions, Sequence, States, parts},
    inspect::Facts,
    shapes,
};
use specreel_record::EventKind;
use specreel_scenes::{self as scenes, Scene};
use specreel_tensor::{ComputeDevice, DeviceChoice, KvType, WeightType};
use specreel_video::Sampling;

use crate::counting::peak;

/// Limit of the memory for loading besides the weights: a chunk in the file's type, as f32 and in the weight type.
const CHUNKS: usize = 16 << 20;

fn config(hidden: usize, layers: usize, intermediate: usize, vocab: usize, tied: bool) -> TextConfig {
    TextConfig {
        hidden,
        layers,
        heads: hidden / 64,
        kv_heads: hidden / 128,
        head_dim: 64,
        intermediate,
        vocab,
        tied,
        mrope_section: None,
        rotary_dim: 64,
        max_positions: 1 << 17,
        ..shapes::find("tiny").unwrap()
    }
}

/// A language model of small random weights in bf16.
fn write(dir: &Path, config: &TextConfig) {
    let mut header = serde_json::Map::new();
    let mut at = 0;
    for (name, shape) in parts::tensors(config) {
        let end = at + 2 * shape.iter().product::<usize>();
        header
            .insert(name, serde_json::json!({ "dtype": "BF16", "shape": shape, "data_offsets": [at, end] }));
        at = end;
    }
    let mut text = serde_json::to_string(&header).unwrap();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut file = std::io::BufWriter::new(std::fs::File::create(dir.join("model.safetensors")).unwrap());
    file.write_all(&(text.len() as u64).to_le_bytes()).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let mut state = 1u32;
    for _ in 0..at / 2 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // A sign and a mantissa at 2^-6.
        let bits = ((state >> 16) & 0x807f) as u16 | 0x3c80;
        file.write_all(&bits.to_le_bytes()).unwrap();
    }
}

/// A language model in a quantized format: `stored` has the tensors of a matrix, with their types and shapes. Other tensors are bf16.
fn write_quantized(dir: &Path, config: &TextConfig, quantization: &Value, stored: Parts) {
    std::fs::write(dir.join("config.json"), json!({ "quantization_config": quantization }).to_string())
        .unwrap();
    let (mut header, mut at) = (serde_json::Map::new(), 0);
    for (name, shape) in parts::tensors(config) {
        let tensors = match (name.strip_suffix("_proj.weight"), &shape[..]) {
            (Some(module), &[rows, inputs]) => {
                let named = |(part, dtype, shape)| (format!("{module}_proj.{part}"), dtype, shape);
                stored([rows, inputs]).into_iter().map(named).collect()
            }
            _ => vec![(name, "BF16", shape)],
        };
        for (name, dtype, shape) in tensors {
            let size = match dtype {
                "BF16" | "F16" => 2,
                "F8_E4M3" => 1,
                _ => 4,
            };
            let end = at + size * shape.iter().product::<usize>();
            header.insert(name, json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}));
            at = end;
        }
    }
    let text = serde_json::to_string(&header).unwrap();
    let bytes = [&(text.len() as u64).to_le_bytes(), text.as_bytes(), &vec![0; at]].concat();
    std::fs::write(dir.join("model.safetensors"), bytes).unwrap();
}

type Parts = fn([usize; 2]) -> Vec<(&'static str, &'static str, Vec<usize>)>;

#[test]
fn quantized_weights_take_the_memory_of_their_new_type() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(1024, 2, 2816, 16_384, false);
    let fp8: Parts = |[rows, inputs]| {
        let blocks = vec![rows.div_ceil(128), inputs.div_ceil(128)];
        vec![("weight", "F8_E4M3", vec![rows, inputs]), ("weight_scale_inv", "F32", blocks)]
    };
    let awq: Parts = |[rows, inputs]| {
        let (groups, words) = (inputs / 128, rows / 8);
        let codes = ("qweight", "I32", vec![inputs, words]);
        vec![codes, ("qzeros", "I32", vec![groups, words]), ("scales", "F16", vec![groups, rows])]
    };
    for (quantization, stored) in [
        (json!({"quant_method": "fp8", "weight_block_size": [128, 128]}), fp8),
        (json!({"quant_method": "awq", "bits": 4, "group_size": 128}), awq),
    ] {
        write_quantized(dir.path(), &config, &quantization, stored);
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        for dtype in [WeightType::F32, WeightType::Q8_0, WeightType::Q4_0] {
            let (decoder, peak_bytes) = peak(|| {
                Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(dtype), &mut |_, _| {}).unwrap()
            });
            let bytes = parts::bytes(&config, dtype, 2) as usize;
            assert_eq!(decoder.bytes(), bytes, "{dtype:?}");
            assert!(peak_bytes < bytes + CHUNKS, "{dtype:?}: peak {peak_bytes} for {bytes}");
        }
    }
}

#[test]
fn weights_are_never_in_memory_twice() {
    let dir = tempfile::tempdir().unwrap();
    for (vocab, tied) in [(16_384, false), (32_768, true)] {
        let config = config(1024, 2, 2816, vocab, tied);
        write(dir.path(), &config);
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        for dtype in WeightType::ALL.into_iter().step_by(if tied { 3 } else { 1 }) {
            let (decoder, peak_bytes) = peak(|| {
                Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(dtype), &mut |_, _| {}).unwrap()
            });
            let bytes = parts::bytes(&config, dtype, 2) as usize;
            assert_eq!(decoder.bytes(), bytes, "{dtype:?}");
            assert!(peak_bytes < bytes + CHUNKS, "{dtype:?}: peak {peak_bytes} for {bytes}");
            assert!(peak_bytes >= bytes, "{dtype:?}: peak {peak_bytes} for {bytes}");
        }
    }
}

/// Half a minute of 720p is 21,600 visual tokens; half as many do. Scores of all rows against all slots would take 625 MB a head.
#[test]
fn a_prompt_of_12500_tokens_is_prefilled_in_bounded_memory() {
    let (rows, dir) = (12_500, tempfile::tempdir().unwrap());
    let config = config(128, 1, 256, 512, true);
    write(dir.path(), &config);
    let checkpoint = Checkpoint::open(dir.path()).unwrap();
    let decoder = Arc::new(
        Decoder::load(&checkpoint, &config, &ComputeDevice::cpu(WeightType::Q8_0), &mut |_, _| {}).unwrap(),
    );
    let values: Vec<f32> = (0..rows * config.hidden).map(|i| (i as f32 * 0.37).sin()).collect();
    let embeddings = States::new(values, config.hidden).unwrap();
    let mut sequence = Sequence::new(decoder, rows + 64);
    let cache = sequence.bytes();
    let mut reports = Vec::new();
    let (whole, most) = peak(|| {
        let positions = Positions::text(0, rows);
        sequence.prefill(&embeddings, &positions, rows as u32, &mut |_, _| {}, &mut |done, total| {
            reports.push((done, total));
            ControlFlow::Continue(())
        })
    });
    assert!(whole.unwrap() && sequence.len() == rows);
    assert_eq!(sequence.bytes(), cache, "the cache grew");
    assert!(most < 64 << 20, "{most} bytes besides the cache of {cache}");
    // Often enough to be cancelled soon.
    assert!(reports.len() > 75 && reports.is_sorted() && reports.last() == Some(&(rows, rows)));
}

#[test]
fn the_memory_estimate_is_close_to_the_peak_of_a_run() {
    let at = |part: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo").join(part);
    let dir = tempfile::tempdir().unwrap();
    let clip = dir.path().join("clip.mp4");
    scenes::encode::mp4(&Scene::from_seed(11), &clip, 320, 240).unwrap();
    let video = Video {
        frames: 48,
        size: specreel_model::processor::FrameSize::new(240, 320),
        limits: specreel_model::processor::FrameLimits::default(),
        new_tokens: 32,
    };
    for dtype in [WeightType::F32, WeightType::Q8_0, WeightType::Bf16] {
        let facts = Facts::read(&at("target")).unwrap();
        let sample = facts.sample(&video).unwrap();
        let need = facts.need(dtype, KvType::Auto, Some(&sample), video.new_tokens).total()
            + 4 * sample.patch_values as u64;
        let ((), most) = peak(|| {
            let (handle, mut events) = Engine::start().unwrap();
            let device = DeviceChoice::Cpu;
            let spec = ModelSpec { target: at("target"), device, dtype, ..ModelSpec::default() };
            handle.send(Command::Load(spec)).unwrap();
            let request = RunRequest {
                video: clip.clone(),
                prompt: "What happens?".into(),
                sampling: Sampling::Frames(video.frames),
                max_new_tokens: video.new_tokens,
                ..request(1, "autoregressive")
            };
            handle.send(Command::Run(Box::new(request))).unwrap();
            // Until the engine has ended and freed its memory, so that the next run is counted alone.
            drop(handle);
            let mut done = false;
            while let Some(event) = events.blocking_recv() {
                assert!(!matches!(event.kind, EventKind::Failed(_)), "{event:?}");
                done |= matches!(event.kind, EventKind::Done { .. });
            }
            assert!(done);
        });
        let ratio = most as f64 / need as f64;
        println!("{dtype:?}: peak {most}, estimate {need}");
        assert!((0.3..1.25).contains(&ratio), "{dtype:?}: peak {most}, estimate {need}");
    }
}
