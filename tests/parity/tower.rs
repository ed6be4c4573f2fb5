//! The vision tower against transformers.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use specreel::model::{
    processor::Grid,
    vision::{Generation, QwenVit, VisionConfig, VisionError},
};

use super::{CHECKPOINTS, difference, fixture, json, numbers, tensors};

fn weights(name: &str) -> HashMap<String, Tensor> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir(fixture(name)).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        if file.starts_with("model") && file.ends_with(".safetensors") {
            all.extend(tensors(&format!("{name}/{file}")));
        }
    }
    all
}

fn generation(name: &str) -> Generation {
    if name.starts_with("qwen2_vl") { Generation::Qwen2 } else { Generation::Qwen25 }
}

fn config(name: &str) -> VisionConfig {
    VisionConfig::from_json(&json(&format!("{name}/config.json"))["vision_config"], generation(name)).unwrap()
}

fn tower(name: &str) -> QwenVit {
    let root = if name.contains("nested") { "model.visual" } else { "visual" };
    let vb = VarBuilder::from_tensors(weights(name), DType::F32, &Device::Cpu);
    QwenVit::load(vb.pp(root), &config(name)).unwrap()
}

fn inputs(fixture: &HashMap<String, Tensor>) -> (Tensor, Grid) {
    let pixels = fixture["pixels"].to_dtype(DType::F32).unwrap();
    let grid = numbers(&fixture["grid"]);
    let grid = Grid { t: grid[0] as usize, h: grid[1] as usize, w: grid[2] as usize };
    (((pixels - 128.0).unwrap() / 64.0).unwrap(), grid)
}

#[test]
fn states_and_embeddings_equal_transformers() {
    for name in CHECKPOINTS.into_iter().chain(["qwen2_vl", "qwen2_vl_nested"]) {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let (patches, grid) = inputs(&expected);
        let tower = tower(name);
        let mut steps = Vec::new();
        let mut progress = |done, total| {
            steps.push((done, total));
            ControlFlow::Continue(())
        };
        let states = tower.states(&patches, grid, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let embeds = tower.forward(&patches, grid, &mut progress).unwrap();
        let (a, b) =
            (difference(&states, &expected["tower_states"]), difference(&embeds, &expected["visual_embeds"]));
        assert!(a <= 1e-4 && b <= 1e-4, "{name}: states {a:e}, embeddings {b:e}");
        let total = steps.len();
        assert_eq!(steps, (1..=total).map(|done| (done, total)).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_break_cancels() {
    let (patches, grid) = inputs(&tensors("gqa_tied/fixture.safetensors"));
    let result = tower("gqa_tied").forward(&patches, grid, &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(result, Err(VisionError::Cancelled)));
}

#[test]
fn patches_that_do_not_fit_are_refused() {
    let tower = tower("gqa_tied");
    let mut go = |_, _| ControlFlow::Continue(());
    for (shape, t, h, w) in [
        ((16, 1176), 1, 4, 5),
        ((15, 1176), 1, 3, 5),
        ((16, 1175), 1, 4, 4),
        ((0, 1176), 0, 4, 4),
        ((16, 1176), usize::MAX, 4, 4),
    ] {
        let patches = Tensor::zeros(shape, DType::F32, &Device::Cpu).unwrap();
        let result = tower.forward(&patches, Grid { t, h, w }, &mut go);
        assert!(matches!(result, Err(VisionError::Patches { .. })), "{shape:?} {t}x{h}x{w}");
    }
}

#[test]
fn weights_of_the_wrong_shape_are_named() {
    let load = |weights: HashMap<String, Tensor>, config: &VisionConfig| {
        let vb = VarBuilder::from_tensors(weights, DType::F32, &Device::Cpu);
        QwenVit::load(vb.pp("visual"), config).map(|_| ()).unwrap_err().to_string()
    };
    let mut missing = weights("gqa_tied");
    missing.remove("visual.blocks.1.attn.proj.bias");
    assert!(load(missing, &config("gqa_tied")).contains("blocks.1.attn.proj.bias"));
    let mut wide = config("gqa_tied");
    wide.out = 96;
    assert!(load(weights("gqa_tied"), &wide).contains("merger.mlp.2"));
}
