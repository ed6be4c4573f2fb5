//! Qwen3-VL, SmolVLM2, Qwen3.5 and MiniCPM-V against transformers: what is sampled, written and resized, and whole runs from decoded
//! frames. See `make_newer_families.py`, `make_qwen3_5.py`, `make_minicpmv.py`, `make_experts.py` and `make_clips.py`.

use std::{collections::HashMap, fs, ops::ControlFlow, path::Path};

use candle_core::Tensor;
use serde::Deserialize;
use specreel_model::{
    decoder::{States, Taps},
    family::{ClipFacts, Prompt, VideoLlm},
    processor::{FrameSize, Grid, Patches, ProcessorConfig, ProcessorError, VideoProcessor, VisualGrid},
};
use specreel_speculate::{context::PrefillInput, sampling::argmax};
use specreel_tensor::{ComputeDevice, WeightType};
use specreel_video::{Rule, Sampling, sampling};

use super::{
    EXPERTS, NEWER, copy,
    decoder::log_softmax,
    devices, difference, fixture,
    frames::{Frame, PROMPT, cut, decoded_frames},
    json, numbers, tensors, values,
};

/// Log-probabilities of the models are within this of those in float64.
const NATS: f32 = 3e-4;

fn on(dir: &Path, device: &ComputeDevice) -> VideoLlm {
    VideoLlm::load_on(dir, device, &mut |_, _| {}).unwrap()
}

pub fn load(dir: &Path) -> VideoLlm {
    on(dir, &ComputeDevice::cpu(WeightType::F32))
}

/// The fixtures of a case of `frames.safetensors`.
pub struct Case(pub HashMap<String, Tensor>, pub &'static str);

impl Case {
    pub fn part(&self, what: &str) -> &Tensor {
        &self.0[&format!("{}.{what}", self.1)]
    }

    pub fn numbers(&self, what: &str) -> Vec<i64> {
        numbers(self.part(what))
    }

    fn seconds(&self, what: &str) -> Vec<f64> {
        self.part(what).flatten_all().unwrap().to_vec1().unwrap()
    }

    pub fn frames(&self) -> Vec<Frame> {
        let all = decoded_frames();
        self.numbers("order").into_iter().map(|i| all[i as usize].clone()).collect()
    }

    pub fn facts(&self, grid: VisualGrid) -> ClipFacts {
        let timestamps_s = self.seconds("timestamps");
        ClipFacts { grid, sample_fps: 1.0, timestamps_s, duration_s: self.seconds("duration")[0] }
    }
}

/// A checkpoint whose pictures are resized in one step: those of their size stay as they are.
fn one_step(name: &str) -> tempfile::TempDir {
    let dir = copy(name);
    let path = dir.path().join("preprocessor_config.json");
    let Ok(file) = fs::read(&path) else { return dir };
    let mut settings: serde_json::Value = serde_json::from_slice(&file).unwrap();
    if !settings["max_image_size"].is_null() {
        settings["size"] = settings["max_image_size"].clone();
    }
    fs::write(path, settings.to_string()).unwrap();
    dir
}

/// Patches of frames, made as in a run.
pub fn cut_into_patches(processor: &VideoProcessor, frames: &[Frame], limit: Option<usize>) -> Patches {
    let first = &frames[0];
    let target = processor.target_size(first.height, first.width, frames.len(), limit).unwrap();
    let mut builder = processor.patches(target).unwrap();
    for frame in frames {
        builder.push(&frame.rgb, frame.height, frame.width).unwrap();
    }
    builder.finish().unwrap()
}

/// Byte levels of patches, and how far they are from the expected ones: on average, and at most.
pub fn levels_off(config: &ProcessorConfig, patches: &Patches, levels: &[f32]) -> (f64, f32) {
    assert_eq!(patches.data.len(), levels.len());
    let plane = config.temporal * config.patch * config.patch;
    let (mut sum, mut most) = (0f64, 0f32);
    for (i, (value, level)) in patches.data.iter().zip(levels).enumerate() {
        let c = i % patches.row / plane;
        let off = ((value * config.std[c] + config.mean[c]) * 255.0 - level).abs();
        sum += f64::from(off);
        most = most.max(off);
    }
    (sum / levels.len() as f64, most)
}

pub fn from_levels(config: &ProcessorConfig, grid: Grid, levels: &Tensor) -> Patches {
    let row = levels.dim(1).unwrap();
    let plane = config.temporal * config.patch * config.patch;
    let level = |(i, level): (usize, &f32)| {
        let c = i % row / plane;
        (level / 255.0 - config.mean[c]) / config.std[c]
    };
    Patches { data: values(levels).iter().enumerate().map(level).collect(), grid, row }
}

/// The greedy ids after a prompt, and their rows of log-probabilities.
pub fn greedy(
    model: &VideoLlm,
    prompt: &Prompt,
    visual: &States,
    length: usize,
) -> (Vec<i64>, Vec<Vec<f32>>) {
    let rows: Vec<usize> = (0..prompt.ids.len() - 1).collect();
    let input = PrefillInput::new(model, prompt, Some(visual), &rows, length);
    let read = input.prefill(None, &mut |_, _| {}, &mut |_, _| ControlFlow::Continue(()));
    let mut sequence = read.unwrap().unwrap();
    let mut id = *prompt.ids.last().unwrap();
    let step = |_| {
        let pass = sequence.feed(&[id], &Taps::default()).unwrap();
        let logits = values(&sequence.logits(&pass.states).unwrap());
        id = argmax(&logits);
        (i64::from(id), log_softmax(&logits))
    };
    (0..length).map(step).unzip()
}

pub fn grid_of(case: &Case) -> Grid {
    let sides = case.numbers("grid");
    Grid { t: sides[0] as usize, h: sides[1] as usize, w: sides[2] as usize }
}

/// Prompt, positions, greedy ids and log-probabilities of a case, from its visual embeddings.
pub fn same_run(model: &VideoLlm, case: &Case, visual: &States, name: &str) {
    let grid = model.processor().visual_grid(grid_of(case)).unwrap();
    assert_eq!(grid.len(), visual.rows(), "{name}");
    let prompt = model.prompt(PROMPT, &case.facts(grid)).unwrap();
    let ids: Vec<i64> = prompt.ids.iter().map(|id| i64::from(*id)).collect();
    assert_eq!(ids, case.numbers("input_ids"), "{name}");
    let axes: Vec<i64> = prompt.positions.axes.iter().flatten().map(|at| i64::from(*at)).collect();
    assert_eq!(axes, case.numbers("position_ids"), "{name}");
    assert_eq!(i64::from(prompt.next), case.numbers("next_position")[0], "{name}");
    let want = case.numbers("greedy_ids");
    let (ids, rows) = greedy(model, &prompt, visual, want.len());
    assert_eq!(ids, want, "{name}");
    let expected = case.part("greedy_logprobs");
    let (kept, vocab) = expected.dims2().unwrap();
    let got: Vec<f32> = rows.into_iter().take(kept).flatten().collect();
    let got = Tensor::from_vec(got, (kept, vocab), &candle_core::Device::Cpu).unwrap();
    let off = difference(&got, expected);
    println!("{name}: {off:e} nats");
    // Recurrent states add up rounding over all rows of a prompt.
    let bound = if name.starts_with("qwen3_5") { 4e-4 } else { NATS };
    assert!(off <= bound, "{name}: {off:e} nats");
}

#[test]
fn runs_of_frames_equal_transformers() {
    for name in NEWER.into_iter().chain(EXPERTS) {
        let dir = one_step(name);
        for device in devices(WeightType::F32) {
            let model = on(dir.path(), &device);
            for case in ["cut", "odd"] {
                let case = Case(tensors(&format!("{name}/frames.safetensors")), case);
                // Of a size that is not resized.
                let side = match name {
                    "minicpmv4_6" => 112,
                    "minicpmv4_6_4x" => 84,
                    _ if name.starts_with("qwen3") => 96,
                    _ => 90,
                };
                let frames: Vec<Frame> = case.frames().iter().map(|frame| cut(frame, side)).collect();
                let patches = cut_into_patches(model.processor(), &frames, None);
                let name = &format!("{name} {} on {}", case.1, device.name());
                assert_eq!(patches.grid, grid_of(&case), "{name}");
                let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
                let off = difference(&visual, case.part("visual_embeds"));
                assert!(off <= 1e-4, "{name}: embeddings differ by {off:e}");
                same_run(&model, &case, &visual, name);
            }
        }
    }
}

/// Resized frames may differ by single byte levels, which the ids survive; from the reference's own levels all is equal.
#[test]
fn runs_of_resized_frames_equal_transformers() {
    for name in NEWER.into_iter().chain(EXPERTS) {
        let model = load(&fixture(name));
        let case = Case(tensors(&format!("{name}/frames.safetensors")), "whole");
        let patches = cut_into_patches(model.processor(), &case.frames(), None);
        assert_eq!(patches.grid, grid_of(&case), "{name}");
        let ours = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let grid = model.processor().visual_grid(patches.grid).unwrap();
        let prompt = model.prompt(PROMPT, &case.facts(grid)).unwrap();
        let want = case.numbers("greedy_ids");
        assert_eq!(greedy(&model, &prompt, &ours, want.len()).0, want, "{name}");
        if let Some(levels) = case.0.get("whole.levels") {
            let (mean, most) = levels_off(model.processor().config(), &patches, &values(levels));
            println!("{name}: mean {mean:.4} and at most {most:.3} byte levels off");
            assert!(mean <= 0.05 && most < 2.5, "{name}: mean {mean}, most {most}");
            let theirs = from_levels(model.processor().config(), patches.grid, levels);
            let visual = model.encode(&theirs, &mut |_, _| ControlFlow::Continue(())).unwrap();
            let off = difference(&visual, case.part("visual_embeds"));
            assert!(off <= 1e-4, "{name}: embeddings differ by {off:e}");
            same_run(&model, &case, &visual, &format!("{name} whole"));
        }
    }
}

#[derive(Deserialize)]
struct Clip {
    name: String,
    frames: usize,
    fps: f64,
    duration: f64,
    indices: Vec<usize>,
    timestamps: Option<Vec<f64>>,
    stamps: Option<Vec<String>>,
    head: Option<String>,
    #[serde(flatten)]
    prompt: Option<ClipPrompt>,
}

/// Its prompt, where it is short.
#[derive(Deserialize)]
struct ClipPrompt {
    text: String,
    ids: Vec<u32>,
    grid: [usize; 3],
    positions: Option<[Vec<u32>; 3]>,
    next: Option<u32>,
}

fn clips(family: &str) -> Vec<Clip> {
    let clips: Vec<Clip> = serde_json::from_value(json("clips.json")[family]["clips"].clone()).unwrap();
    assert!(clips.len() >= 30 && clips.iter().filter(|clip| clip.prompt.is_some()).count() >= 10);
    clips
}

/// The families of `clips.json`, with their rules and patches of a frame.
const TABLES: [(&str, Rule, (usize, usize)); 3] = [
    ("qwen3_vl", Rule::QWEN3_VL, (4, 6)),
    ("smolvlm", Rule::SMOLVLM, (6, 6)),
    ("minicpmv4_6", Rule::MINICPM_V, (8, 8)),
];

#[test]
fn sampled_frames_and_times_equal_transformers() {
    for (family, rule, _) in TABLES {
        for clip in clips(family) {
            let plan = sampling::plan(clip.frames, clip.fps, &rule, Sampling::Auto).unwrap();
            assert_eq!(plan.indices, clip.indices, "{family} {}", clip.name);
            if let Some(times) = clip.timestamps {
                assert_eq!(plan.timestamps_s, times, "{family} {}", clip.name);
            }
        }
    }
}

/// The frames of a clip as the prompt describes it, with so many patches each.
fn facts(model: &VideoLlm, clip: &Clip, rule: &Rule, (h, w): (usize, usize)) -> ClipFacts {
    let plan = sampling::plan(clip.frames, clip.fps, rule, Sampling::Auto).unwrap();
    let t = plan.indices.len().div_ceil(model.processor().config().temporal);
    let grid = model.processor().visual_grid(Grid { t, h, w }).unwrap();
    ClipFacts {
        grid,
        sample_fps: plan.sample_fps,
        timestamps_s: plan.timestamps_s,
        duration_s: clip.duration,
    }
}

#[test]
fn prompts_and_positions_of_clips_equal_transformers() {
    for (family, rule, patches) in TABLES {
        let model = load(&fixture(family));
        for clip in clips(family) {
            let name = &format!("{family} {}", clip.name);
            // Frames of many are smaller.
            let patches = clip.prompt.as_ref().map_or(patches, |prompt| (prompt.grid[1], prompt.grid[2]));
            let facts = facts(&model, &clip, &rule, patches);
            let prompt = model.prompt(PROMPT, &facts).unwrap();
            assert_eq!(prompt.visual.len(), facts.grid.len(), "{name}");
            assert_eq!(prompt.visual.ranges().count(), facts.grid.t, "{name}");
            let ours = |ids: &[u32]| model.tokenizer().decode(ids);
            if let Some(stamps) = &clip.stamps {
                assert_eq!(prompt.stamps.len(), stamps.len(), "{name}");
                for (rows, stamp) in prompt.stamps.iter().zip(stamps) {
                    let ids: Vec<u32> =
                        rows.iter().flat_map(|rows| prompt.ids[rows.clone()].to_vec()).collect();
                    let text = match family {
                        "qwen3_vl" => format!("<{stamp} seconds>"),
                        _ => format!("\nFrame from {stamp}:"),
                    };
                    assert_eq!(ours(&ids), text, "{name}");
                }
            }
            if let Some(head) = &clip.head {
                let before = prompt.visual.first().unwrap();
                assert_eq!(ours(&prompt.ids[..before]), head.replace("<|im_start|>", ""), "{name}");
            }
            let Some(expected) = &clip.prompt else { continue };
            assert_eq!(prompt.ids, expected.ids, "{name}: {}", expected.text);
            assert_eq!(expected.grid[0], facts.grid.t, "{name}");
            match (&expected.positions, expected.next) {
                (Some(axes), Some(next)) => {
                    assert_eq!(prompt.positions.axes, *axes, "{name}");
                    assert_eq!(prompt.next, next, "{name}");
                }
                _ => {
                    let all: Vec<u32> = (0..prompt.ids.len() as u32).collect();
                    assert!(prompt.positions.axes.iter().all(|axis| *axis == all), "{name}");
                    assert_eq!(prompt.next as usize, all.len(), "{name}");
                }
            }
        }
    }
}

/// Counts are written in words, and seconds with one decimal, as the processors write them.
#[test]
fn numbers_in_prompts_equal_transformers() {
    let smol = load(&fixture("smolvlm"));
    let tables = json("clips.json");
    for (number, words) in tables["words"].as_object().unwrap() {
        let frames: usize = number.parse().unwrap();
        if frames > 300 {
            continue;
        }
        let grid = smol.processor().visual_grid(Grid { t: frames, h: 6, w: 6 }).unwrap();
        let prompt = smol.prompt(PROMPT, &ClipFacts::steady(grid, frames, 1.0)).unwrap();
        let text = smol.tokenizer().decode(&prompt.ids);
        let sentence = format!("the following series of {} frames from a", words.as_str().unwrap());
        assert!(text.contains(&sentence), "{text}");
    }
    let qwen = load(&fixture("qwen3_vl"));
    for row in tables["seconds"].as_array().unwrap() {
        let (seconds, text) = (row[0].as_f64().unwrap(), row[1].as_str().unwrap());
        let grid = qwen.processor().visual_grid(Grid { t: 1, h: 2, w: 2 }).unwrap();
        let clip =
            ClipFacts { grid, sample_fps: 1.0, timestamps_s: vec![seconds, seconds], duration_s: seconds };
        let prompt = qwen.prompt(PROMPT, &clip).unwrap();
        let ours = qwen.tokenizer().decode(&prompt.ids);
        assert!(ours.contains(&format!("<{text} seconds>")), "{seconds}: {ours}");
    }
}

#[test]
fn sizes_of_frames_equal_transformers() {
    let published = VideoProcessor::new(ProcessorConfig::qwen3_vl()).unwrap();
    let model = load(&fixture("qwen3_vl"));
    let mut refused = 0;
    for (table, processor) in [("sizes", &published), ("sizes_of_checkpoint", model.processor())] {
        for row in json("clips.json")["qwen3_vl"][table].as_array().unwrap() {
            let row: Vec<usize> = serde_json::from_value(row.clone()).unwrap();
            let got = processor.target_size(row[0], row[1], row[2], None);
            match &row[3..] {
                [height, width] => assert_eq!(got.unwrap(), FrameSize::new(*height, *width), "{row:?}"),
                // One frame alone is refused by transformers; here it is repeated.
                [] if row[2] == 1 => {}
                _ => {
                    assert!(matches!(got, Err(ProcessorError::Size { .. })), "{row:?}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
    for row in json("clips.json")["minicpmv4_6"]["sizes"].as_array().unwrap() {
        let row: Vec<usize> = serde_json::from_value(row.clone()).unwrap();
        for (merge, size) in [(4, &row[2..4]), (2, &row[4..])] {
            let processor = VideoProcessor::new(ProcessorConfig::minicpmv(14, merge)).unwrap();
            let got = processor.target_size(row[0], row[1], 1, None);
            match row[0].max(row[1]) > 200 * row[0].min(row[1]) {
                true => assert!(matches!(got, Err(ProcessorError::Size { .. })), "{row:?}"),
                false => assert_eq!(got.unwrap(), FrameSize::new(size[0], size[1]), "{row:?}"),
            }
        }
    }
}

/// Frames of other sizes, resized as by the processors; SmolVLM2's go by way of their longest edge.
#[test]
fn resized_frames_equal_transformers() {
    for case in [
        "qwen3_vl_tall",
        "qwen3_vl_wide",
        "smolvlm_tall",
        "smolvlm_wide",
        "smolvlm_larger",
        "minicpmv_tall",
        "minicpmv_wide",
    ] {
        let expected = tensors(&format!("processor/{case}.safetensors"));
        let limits: Vec<usize> = numbers(&expected["limits"]).into_iter().map(|v| v as usize).collect();
        let config = if case.starts_with("qwen3_vl") {
            ProcessorConfig { min_pixels: limits[0], max_pixels: limits[1], ..ProcessorConfig::qwen3_vl() }
        } else if case.starts_with("minicpmv") {
            ProcessorConfig { max_pixels: limits[0].pow(2), ..ProcessorConfig::minicpmv(14, limits[1]) }
        } else {
            ProcessorConfig { longest_edge: Some(limits[0]), ..ProcessorConfig::smolvlm(limits[1], 14, 3) }
        };
        let all = &expected["frames"];
        let (n, height, width, _) = all.dims4().unwrap();
        let frame = |i| {
            let rgb = all.get(i).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            Frame { height, width, rgb }
        };
        let frames: Vec<Frame> = (0..n).map(frame).collect();
        let patches = cut_into_patches(&VideoProcessor::new(config.clone()).unwrap(), &frames, None);
        let grid = [patches.grid.t, patches.grid.h, patches.grid.w].map(|side| side as i64);
        assert_eq!(grid.to_vec(), numbers(&expected["grid"]), "{case}");
        let (mean, most) = levels_off(&config, &patches, &values(&expected["levels"]));
        println!("{case}: mean {mean:.4} and at most {most:.3} byte levels off");
        assert!(mean <= 0.05 && most < 2.5, "{case}: mean {mean}, most {most}");
    }
}
