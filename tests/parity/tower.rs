//! The vision tower in tensors against transformers, and towers that do not fit.

use std::{fs, ops::ControlFlow, path::Path};

use candle_core::Device;
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    family::VlConfig,
    family::qwen2_vl::{Generation, VisionConfig},
    processor::{Grid, Patches},
    vision::{Tower, TowerConfig, VisionError},
};
use specreel_tensor::{ComputeDevice, WeightType};

use super::{CHECKPOINTS, difference, fixture, patches, tensors};

fn config(dir: &Path) -> TowerConfig {
    VlConfig::read(dir).unwrap().tower().unwrap()
}

fn load(dir: &Path, config: &TowerConfig) -> Result<Tower, VisionError> {
    let device = ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32);
    Tower::load(&Checkpoint::open(dir).unwrap(), config, &device)
}

fn tower(name: &str) -> Tower {
    let dir = fixture(name);
    load(&dir, &config(&dir)).unwrap()
}

#[test]
fn states_and_embeddings_equal_transformers() {
    for name in CHECKPOINTS.into_iter().chain(["qwen2_vl", "qwen2_vl_nested"]) {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let (patches, tower) = (patches(name), tower(name));
        let mut steps = Vec::new();
        let mut progress = |done, total| {
            steps.push((done, total));
            ControlFlow::Continue(())
        };
        let states = tower.states(&patches, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let embeds = tower.encode(&patches, &mut progress).unwrap();
        let (a, b) =
            (difference(&states, &expected["tower_states"]), difference(&embeds, &expected["visual_embeds"]));
        assert!(a <= 1e-4 && b <= 1e-4, "{name}: states {a:e}, embeddings {b:e}");
        let total = steps.len();
        assert_eq!(steps, (1..=total).map(|done| (done, total)).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn a_break_cancels() {
    let result = tower("gqa_tied").encode(&patches("gqa_tied"), &mut |_, _| ControlFlow::Break(()));
    assert!(matches!(result, Err(VisionError::Cancelled)));
}

#[test]
fn patches_that_do_not_fit_are_refused() {
    let tower = tower("gqa_tied");
    let mut go = |_, _| ControlFlow::Continue(());
    for (values, row, t, h, w) in [
        (16 * 1176, 1176, 1, 4, 5),
        (15 * 1176, 1176, 1, 3, 5),
        (16 * 1175, 1175, 1, 4, 4),
        (16 * 1176 + 1, 1176, 1, 4, 4),
        (0, 1176, 0, 4, 4),
        (0, 0, 1, 4, 4),
        (16 * 1176, 1176, usize::MAX, 4, 4),
    ] {
        let patches = Patches { data: vec![0.0; values], row, grid: Grid { t, h, w } };
        let result = tower.encode(&patches, &mut go);
        assert!(matches!(result, Err(VisionError::Patches { .. })), "{values} {row} {t}x{h}x{w}");
    }
}

#[test]
fn weights_of_the_wrong_shape_are_named() {
    let refused = |dir: &Path, config: &TowerConfig| load(dir, config).map(|_| ()).unwrap_err().to_string();
    let from = fixture("gqa_tied");
    let raw = VlConfig::read(&from).unwrap().raw;
    let sizes = VisionConfig::from_json(&raw["vision_config"], Generation::Qwen25).unwrap();
    let wide = VisionConfig { out: 96, ..sizes };
    assert!(refused(&from, &wide.into()).contains("merger.mlp.2"));
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(&from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    let missing = "visual.blocks.1.attn.proj.bias";
    let path = dir.path().join("model.safetensors");
    let mut weights = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
    weights.remove(missing).unwrap();
    candle_core::safetensors::save(&weights, &path).unwrap();
    assert!(refused(dir.path(), &config(dir.path())).contains(missing));
}
