//! Gemma 4 against transformers: what is sampled and resized, the tower, and whole runs. See `make_gemma4.py`.

use std::ops::ControlFlow;

use specreel_model::processor::{FrameSize, Patches, ProcessorConfig, VideoProcessor};
use specreel_tensor::{ComputeDevice, WeightType};
use specreel_video::{Rule, Sampling, sampling};

use super::{
    difference, fixture,
    frames::PROMPT,
    json,
    newer::{Case, cut_into_patches, from_levels, greedy, grid_of, levels_off, load, same_run},
    tensors, values,
};

const CHECKPOINTS: [&str; 2] = ["gemma4", "gemma4_plain"];

fn case(name: &str, of: &'static str) -> Case {
    Case(tensors(&format!("{name}/frames.safetensors")), of)
}

#[test]
fn runs_from_the_same_levels_equal_transformers() {
    for name in CHECKPOINTS {
        let (model, case) = (load(&fixture(name)), case(name, "noise"));
        let patches = from_levels(model.processor().config(), grid_of(&case), case.part("levels"));
        let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let width = model.decoder().width();
        let off = difference(&visual.columns(0..width).unwrap(), case.part("visual_embeds"));
        assert!(off <= 1e-4, "{name}: embeddings differ by {off:e}");
        same_run(&model, &case, &visual, name);
    }
}

/// In the files of llama.cpp's converter the colors of a patch are one after the other.
#[test]
fn runs_of_gguf_files_equal_transformers() {
    for (file, name) in
        [("gguf/gemma4/model-bf16.gguf", "gemma4"), ("gguf/gemma4_plain/model-f16.gguf", "gemma4_plain")]
    {
        let (model, case) = (load(&fixture(file)), case(name, "noise"));
        let config = model.processor().config();
        assert!(!config.colors_last);
        let together = from_levels(config, grid_of(&case), case.part("levels"));
        let pixels = together.row / 3;
        let apart = |row: &[f32]| -> Vec<f32> {
            (0..3).flat_map(|c| (0..pixels).map(move |p| 3 * p + c)).map(|at| row[at]).collect()
        };
        let data = together.data.chunks_exact(together.row).flat_map(apart).collect();
        let patches = Patches { data, ..together };
        let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let width = model.decoder().width();
        let off = difference(&visual.columns(0..width).unwrap(), case.part("visual_embeds"));
        assert!(off <= 1e-4, "{file}: embeddings differ by {off:e}");
        same_run(&model, &case, &visual, file);
    }
}

/// Resized frames may differ by single byte levels, which the ids survive.
#[test]
fn runs_of_resized_frames_equal_transformers() {
    for name in CHECKPOINTS {
        let (model, case) = (load(&fixture(name)), case(name, "whole"));
        let patches = cut_into_patches(model.processor(), &case.frames(), None);
        assert_eq!(patches.grid, grid_of(&case), "{name}");
        if let Some(levels) = case.0.get("whole.levels") {
            let first = patches.data.len() / patches.grid.t;
            let first = Patches { data: patches.data[..first].to_vec(), ..patches.clone() };
            let (mean, most) = levels_off(model.processor().config(), &first, &values(levels));
            println!("{name}: mean {mean:.4} and at most {most:.3} byte levels off");
            assert!(mean <= 0.05 && most < 2.5, "{name}: mean {mean}, most {most}");
        }
        let visual = model.encode(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let grid = model.processor().visual_grid(patches.grid).unwrap();
        let prompt = model.prompt(PROMPT, &case.facts(grid)).unwrap();
        let want = case.numbers("greedy_ids");
        assert_eq!(greedy(&model, &prompt, &visual, want.len()).0, want, "{name}");
    }
}

#[test]
fn frames_are_sampled_and_sized_as_by_transformers() {
    let tables = json("gemma4.json");
    for (total, want) in tables["sampled"].as_object().unwrap() {
        let total = total.parse().unwrap();
        let plan = sampling::plan(total, 24.0, &Rule::GEMMA4, Sampling::Auto).unwrap();
        let want: Vec<usize> = serde_json::from_value(want.clone()).unwrap();
        assert_eq!(plan.indices, want, "{total}");
    }
    for row in tables["sizes"].as_array().unwrap() {
        let row: Vec<usize> = serde_json::from_value(row.clone()).unwrap();
        let config = ProcessorConfig { max_pixels: row[2] * 48 * 48, ..ProcessorConfig::gemma4(16, 3) };
        let size = VideoProcessor::new(config).unwrap().target_size(row[0], row[1], 1, None).unwrap();
        assert_eq!(size, FrameSize::new(row[3], row[4]), "{row:?}");
    }
}

#[test]
fn other_devices_refuse_it_before_anything_is_loaded() {
    let cpu = ComputeDevice::cpu(WeightType::F32);
    assert!(cpu.computes_windows());
    for device in super::devices(WeightType::F32).into_iter().filter(|device| device.gpu().is_some()) {
        let loaded = specreel_model::family::VideoLlm::load_on(&fixture("gemma4"), &device, &mut |_, _| {});
        let error = loaded.err().unwrap().to_string();
        assert!(error.contains("Gemma 4 is not available on"), "{error}");
    }
}
