//! Towers on a GPU against those on the CPU.

use std::ops::ControlFlow;

use serde_json::json;

use super::*;
use crate::{
    family::{
        VlConfig,
        llava_onevision::LlavaConfig,
        minicpmv4_6,
        qwen2_vl::{Generation, VisionConfig},
        qwen3_vl, smolvlm,
    },
    processor::Grid,
    testing::fixture,
};
use specreel_tensor::{WeightType, gpu::testing::gpu_or_skip};

fn go(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Towers of all kinds, with heads of 16 and 24 values and widths that are not whole blocks.
fn configs() -> [(&'static str, TowerConfig, Grid); 7] {
    let windows = json!({
        "depth": 3, "hidden_size": 48, "intermediate_size": 72, "num_heads": 3, "out_hidden_size": 64,
        "window_size": 112, "fullatt_block_indexes": [1],
    });
    let full = json!({"depth": 2, "embed_dim": 48, "mlp_ratio": 2, "num_heads": 3, "hidden_size": 56});
    let pictures = json!({"vision_config": {
        "hidden_size": 48, "image_size": 76, "intermediate_size": 88, "num_attention_heads": 2, "patch_size": 14,
        "num_hidden_layers": 2,
    }});
    let levels = json!({
        "deepstack_visual_indexes": [0, 2], "depth": 3, "hidden_size": 48, "intermediate_size": 72, "num_heads": 3,
        "num_position_embeddings": 25, "out_hidden_size": 56,
    });
    let squares = json!({"scale_factor": 2, "vision_config": {
        "hidden_size": 48, "image_size": 62, "intermediate_size": 88, "num_attention_heads": 2, "patch_size": 14,
        "num_hidden_layers": 2,
    }});
    let joining = |mode| -> TowerConfig {
        let config = json!({"downsample_mode": mode, "insert_layer_id": 0, "vision_config": {
            "hidden_size": 48, "image_size": 76, "intermediate_size": 88, "num_attention_heads": 2, "patch_size": 14,
            "num_hidden_layers": 3,
        }});
        minicpmv4_6::MiniCpmVisionConfig::from_json(&config, 64).unwrap().into()
    };
    let qwen = |config: &serde_json::Value, generation| -> TowerConfig {
        VisionConfig::from_json(config, generation).unwrap().into()
    };
    [
        ("qwen2_5_vl", qwen(&windows, Generation::Qwen25), Grid { t: 2, h: 12, w: 20 }),
        ("qwen2_vl", qwen(&full, Generation::Qwen2), Grid { t: 2, h: 6, w: 10 }),
        ("llava_onevision", LlavaConfig::from_json(&pictures, 64).unwrap().into(), Grid { t: 3, h: 5, w: 5 }),
        ("qwen3_vl", qwen3_vl::VisionConfig::from_json(&levels).unwrap().into(), Grid { t: 2, h: 6, w: 10 }),
        (
            "smolvlm",
            smolvlm::SmolVlmVisionConfig::from_json(&squares, 64).unwrap().into(),
            Grid { t: 3, h: 4, w: 4 },
        ),
        ("minicpmv4_6", joining("16x"), Grid { t: 2, h: 8, w: 12 }),
        ("minicpmv4_6 4x", joining("4x"), Grid { t: 2, h: 6, w: 4 }),
    ]
}

fn patches(config: &TowerConfig, grid: Grid) -> Patches {
    let row = config.row();
    let count = grid.t * grid.h * grid.w * row;
    Patches { data: (0..count).map(|i| (i as f32 * 0.37).sin() * 2.0).collect(), grid, row }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn is_on_gpu(tower: &Tower) -> bool {
    (&*tower.0 as &dyn std::any::Any).is::<OnDevice<GpuOps>>()
}

#[test]
fn a_gpu_computes_what_the_cpu_computes() {
    let Some(gpu) = gpu_or_skip() else { return };
    let checkpoint = Checkpoint::random();
    for (name, config, grid) in configs() {
        let patches = patches(&config, grid);
        let load = |device: ComputeDevice, dtype| {
            Tower::load(&checkpoint, &config, &device.with_tower(dtype)).unwrap()
        };
        let want = load(ComputeDevice::cpu(WeightType::F32), WeightType::F32);
        assert!(!is_on_gpu(&want));
        let outputs = |tower: &Tower| {
            [tower.states(&patches, &mut go).unwrap(), tower.encode(&patches, &mut go).unwrap()]
        };
        let expected = outputs(&want);
        for dtype in WeightType::TOWERS {
            let tower = load(ComputeDevice::gpu_device(gpu.clone(), WeightType::F32), dtype);
            assert!(is_on_gpu(&tower));
            for (got, want) in outputs(&tower).iter().zip(&expected) {
                assert_eq!(got.shape(), want.shape(), "{name}");
                let (got, want) = (got.to_vec().unwrap(), want.to_vec().unwrap());
                let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                let cosine = cosine(&got, &want);
                let enough = match dtype {
                    WeightType::F32 => worst < 1e-4,
                    _ => cosine > 0.999,
                };
                assert!(enough, "{name} {}: {worst:e}, cosine {cosine}", dtype.name());
            }
        }
    }
}

/// A temporal grid's embeddings have the same bits among any others.
#[test]
fn grids_on_a_gpu_do_not_depend_on_each_other() {
    let Some(gpu) = gpu_or_skip() else { return };
    let checkpoint = Checkpoint::random();
    for (name, config, grid) in configs() {
        let all = patches(&config, grid);
        let one = all.data.len() / grid.t;
        for dtype in [WeightType::F32, WeightType::Q8_0] {
            let device = ComputeDevice::gpu_device(gpu.clone(), WeightType::F32).with_tower(dtype);
            let tower = Tower::load(&checkpoint, &config, &device).unwrap();
            let together = tower.encode(&all, &mut go).unwrap().to_vec().unwrap();
            let tokens = together.len() / grid.t;
            for k in 0..grid.t {
                let data = all.data[k * one..(k + 1) * one].to_vec();
                let alone = Patches { data, grid: Grid { t: 1, ..grid }, row: all.row };
                let alone = tower.encode(&alone, &mut go).unwrap().to_vec().unwrap();
                let same = alone.iter().zip(&together[k * tokens..]).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same && alone.len() == tokens, "{name} {} grid {k}", dtype.name());
            }
        }
    }
}

/// Its heads have 12 values.
#[test]
fn a_tower_that_a_gpu_cannot_compute_is_on_the_cpu() {
    let Some(gpu) = gpu_or_skip() else { return };
    let dir = fixture("gqa_tied");
    let config = VlConfig::read(&dir).unwrap().tower().unwrap();
    let device = ComputeDevice::gpu_device(gpu, WeightType::F32);
    let tower = Tower::load(&Checkpoint::open(&dir).unwrap(), &config, &device).unwrap();
    assert!(!is_on_gpu(&tower) && config.head_dim() == 12);
}
