//! Vision towers of all families against transformers, on the CPU, in tensors and on a GPU.

use std::{collections::HashMap, ops::ControlFlow};

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use specreel_checkpoint::Checkpoint;
use specreel_model::{
    decoder::States,
    family::{
        VlConfig,
        qwen2_vl::{Generation, VisionConfig},
        qwen3_vl,
    },
    processor::{Grid, Patches},
    vision::{Tower, TowerConfig, VisionError},
};
use specreel_tensor::{ComputeDevice, WeightType, Weights};

use super::{
    CHECKPOINTS, FAMILIES, NEWER, copy, difference, fixture, gpu, json as read, patches, states, tensors,
    values,
};

fn names() -> impl Iterator<Item = &'static str> {
    CHECKPOINTS.into_iter().chain(FAMILIES).chain(NEWER)
}

/// Embeddings of a visual token.
fn levels(name: &str) -> usize {
    match name {
        "qwen3_vl" => 4,
        "qwen3_vl_small" => 3,
        _ => 1,
    }
}

fn go(_: usize, _: usize) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn of_json(config: Value) -> Result<TowerConfig, VisionError> {
    VlConfig::resolve(config).unwrap().tower()
}

fn config(name: &str) -> TowerConfig {
    VlConfig::read(&fixture(name)).unwrap().tower().unwrap()
}

fn tower(name: &str, device: &ComputeDevice) -> Tower {
    Tower::load(&Checkpoint::open(&fixture(name)).unwrap(), &config(name), device).unwrap()
}

fn in_kernels(dtype: WeightType) -> ComputeDevice {
    ComputeDevice::cpu(WeightType::F32).with_tower(dtype)
}

fn in_tensors() -> ComputeDevice {
    ComputeDevice::tensors(Device::Cpu, "tensors", WeightType::F32)
}

/// Embeddings with the newline, if there is one, as the fixtures have them.
fn embed(tower: &Tower, patches: &Patches) -> States {
    let embeddings = tower.encode(patches, &mut go).unwrap();
    match tower.newline() {
        Some(newline) => States::cat(&[embeddings, newline.clone()]).unwrap(),
        None => embeddings,
    }
}

/// The states that the reference has: SmolVLM2's and MiniCPM-V's after the last norm, which is a part of the projection here.
fn reference_states(name: &str, states: States) -> States {
    let last = match name {
        _ if name.starts_with("smolvlm") => "vision_model.post_layernorm",
        _ if name.starts_with("minicpmv") => "vision_tower.post_layernorm",
        _ => return states,
    };
    let checkpoint = Checkpoint::open(&fixture(name)).unwrap();
    let of = |kind: &str| checkpoint.f32(&format!("{last}.{kind}"), &[states.shape().1]).unwrap();
    let (weight, bias) = (of("weight"), of("bias"));
    let eps =
        read(&format!("{name}/config.json"))["vision_config"]["layer_norm_eps"].as_f64().unwrap_or(1e-6);
    let width = weight.len();
    let norm = |row: &[f32]| -> Vec<f32> {
        let row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
        let mean = row.iter().sum::<f64>() / width as f64;
        let variance = row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
        let scaled = row.iter().map(|v| ((v - mean) / (variance + eps).sqrt()) as f32);
        scaled.zip(weight.iter().zip(&bias)).map(|(v, (w, b))| v * w + b).collect()
    };
    States::new(values(&states).chunks_exact(width).flat_map(norm).collect(), width).unwrap()
}

#[test]
fn states_and_embeddings_equal_transformers_on_every_device() {
    for name in names() {
        let expected = tensors(&format!("{name}/fixture.safetensors"));
        let (patches, newer) = (patches(name), NEWER.contains(&name));
        // Values are up to 4, and states of Qwen3-VL up to 0.3.
        let [most, most_embedded] = if newer { [1e-5, 2e-5] } else { [1e-4; 2] };
        let gpu = gpu::gpu_or_skip(WeightType::F32).filter(|_| newer);
        for device in [in_kernels(WeightType::F32), in_tensors()].into_iter().chain(gpu) {
            let tower = tower(name, &device);
            let states = reference_states(name, tower.states(&patches, &mut go).unwrap());
            let embeds = embed(&tower, &patches);
            assert_eq!(embeds.shape().1, config(name).width(), "{name}");
            assert!(embeds.shape().1.is_multiple_of(levels(name)));
            let a = difference(&states, &expected["tower_states"]);
            let b = difference(&embeds, &expected["visual_embeds"]);
            println!("{name} {}: states {a:e}, embeddings {b:e}", device.name());
            let close = a <= most && b <= most_embedded;
            assert!(close, "{name} {}: states {a:e}, embeddings {b:e}", device.name());
        }
    }
}

/// The smallest cosine of two rows of `width` values.
fn cosine(a: &States, b: &States, width: usize) -> f32 {
    let (a, b) = (values(a), values(b));
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let rows = a.chunks_exact(width).zip(b.chunks_exact(width));
    rows.map(|(a, b)| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()).fold(1.0, f32::min)
}

#[test]
fn every_level_stays_close_in_smaller_types() {
    for name in names() {
        let expected = states(&tensors(&format!("{name}/fixture.safetensors"))["visual_embeds"]);
        let patches = patches(name);
        let least_f16 = if NEWER.contains(&name) { 0.999_98 } else { 0.999_99 };
        let mut sizes = Vec::new();
        for (dtype, least) in
            [(WeightType::F16, least_f16), (WeightType::Bf16, 0.999), (WeightType::Q8_0, 0.999)]
        {
            let tower = tower(name, &in_kernels(dtype));
            let got = embed(&tower, &patches);
            // Each embedding of a token is a row of its own here.
            let cosine = cosine(&got, &expected, got.shape().1 / levels(name));
            println!("{name} {}: {cosine}", dtype.name());
            assert!(cosine >= least, "{name} {}: {cosine}", dtype.name());
            sizes.push(tower.bytes());
        }
        assert!(sizes[0] == sizes[1] && sizes[2] < sizes[0], "{sizes:?}");
    }
}

/// As deep as a published tower, and a quarter as wide, with random weights.
#[test]
fn eight_bits_stay_close_in_a_deep_tower() {
    let config = json!({
        "depth": 32, "hidden_size": 320, "intermediate_size": 852, "num_heads": 4, "out_hidden_size": 512, "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    });
    let config = TowerConfig::from(VisionConfig::from_json(&config, Generation::Qwen25).unwrap());
    let grid = Grid { t: 2, h: 8, w: 10 };
    let data = (0..160 * 1176).map(|i| (i as f32 * 0.37).sin() * 2.0).collect();
    let patches = Patches { data, grid, row: 1176 };
    let [exact, small] = [WeightType::F32, WeightType::Q8_0].map(|dtype| {
        let tower = Tower::load(&Checkpoint::random(), &config, &in_kernels(dtype)).unwrap();
        embed(&tower, &patches)
    });
    let cosine = cosine(&small, &exact, exact.shape().1);
    println!("{cosine}");
    assert!(cosine >= 0.999, "{cosine}");
}

/// A temporal grid's embeddings have the same bits among any others.
#[test]
fn grids_do_not_depend_on_each_other() {
    for name in ["gqa_tied", "mha_tied_bf16", "qwen2_vl", "llava_ov"].into_iter().chain(NEWER) {
        let Patches { data, grid, row } = patches(name);
        let one = &data[..grid.h * grid.w * row];
        let shifted = |k: usize| -> Vec<f32> { one.iter().map(|v| v * (1.0 - 0.1 * k as f32)).collect() };
        let of = |data: Vec<f32>, t: usize| Patches { data, grid: Grid { t, ..grid }, row };
        let grids = 7;
        let all = of((0..grids).flat_map(shifted).collect(), grids);
        for dtype in WeightType::TOWERS {
            let tower = tower(name, &in_kernels(dtype));
            let together = tower.encode(&all, &mut go).unwrap();
            let tokens = together.rows() / grids;
            for k in 0..grids {
                let alone = tower.encode(&of(shifted(k), 1), &mut go).unwrap();
                let ours = together.narrow(k * tokens, tokens).unwrap();
                let same = values(&alone).iter().zip(values(&ours)).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{name} {} grid {k}", dtype.name());
            }
        }
    }
}

/// More grids than are computed together, of patches of one pixel: every chunk gives the bits of grids alone, on the CPU as on a
/// GPU, and no embedding of an earlier chunk remains.
#[test]
fn chunks_give_the_bits_of_grids_alone() {
    let config: TowerConfig = qwen3_vl::VisionConfig::from_json(&json!({
        "deepstack_visual_indexes": [0], "depth": 2, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2,
        "num_position_embeddings": 9, "out_hidden_size": 32, "patch_size": 1, "temporal_patch_size": 1,
    }))
    .unwrap()
    .into();
    // On the CPU, 64 MiB of states, queries, keys, values and sums are a chunk.
    let per_chunk = (64 << 20) / (20 * 32) / 16;
    let cases = [(ComputeDevice::cpu(WeightType::F32), per_chunk)];
    let gpu = gpu::gpu_or_skip(WeightType::F32).map(|gpu| (gpu, 64));
    for (device, per_chunk) in cases.into_iter().chain(gpu) {
        let tower = Tower::load(&Checkpoint::random(), &config, &device).unwrap();
        let (t, row) = (per_chunk + 9, 3);
        let data: Vec<f32> = (0..t * 16 * row).map(|i| (i as f32 * 0.37).sin() * 2.0).collect();
        let mut steps = Vec::new();
        let mut progress = |done, total| {
            steps.push((done, total));
            ControlFlow::Continue(())
        };
        let all = Patches { data: data.clone(), grid: Grid { t, h: 4, w: 4 }, row };
        let together = tower.encode(&all, &mut progress).unwrap();
        assert_eq!(together.shape(), (4 * t, 64));
        let total = steps.len();
        assert!(total.is_multiple_of(2));
        assert_eq!(steps, (1..=total).map(|done| (done, total)).collect::<Vec<_>>());
        if device.is_batch_invariant() && device.gpu().is_none() {
            assert_eq!(total, 4, "two chunks of two layers");
        }
        for k in [0, 1, per_chunk - 1, per_chunk, per_chunk + 1, t - 1] {
            let grid = data[k * 16 * row..(k + 1) * 16 * row].to_vec();
            let alone = Patches { data: grid, grid: Grid { t: 1, h: 4, w: 4 }, row };
            let alone = values(&tower.encode(&alone, &mut go).unwrap());
            let ours = values(&together.narrow(4 * k, 4).unwrap());
            let same = alone.iter().zip(&ours).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same && alone.len() == ours.len(), "{} grid {k}", device.name());
        }
        let stopped = tower.encode(&all, &mut |done, _| match done {
            3 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        assert!(matches!(stopped, Err(VisionError::Cancelled)) || total == 2);
    }
}

#[test]
fn progress_counts_layers_a_break_cancels_and_patches_that_do_not_fit_are_refused() {
    for (name, device) in
        names().flat_map(|name| [in_kernels(WeightType::Q8_0), in_tensors()].map(|device| (name, device)))
    {
        let (tower, patches) = (tower(name, &device), patches(name));
        let mut steps = Vec::new();
        let mut progress = |done, total| {
            steps.push((done, total));
            ControlFlow::Continue(())
        };
        tower.encode(&patches, &mut progress).unwrap();
        let total = steps.len();
        assert!(total > 0);
        assert_eq!(steps, (1..=total).map(|done| (done, total)).collect::<Vec<_>>(), "{name}");
        let stopped = tower.encode(&patches, &mut |_, _| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(VisionError::Cancelled)));
        let (grid, row) = (patches.grid, patches.row);
        let odd = Patches { data: vec![0.0; 15 * row], grid: Grid { t: 1, h: 3, w: 5 }, row };
        let grids = [Grid { t: grid.t + 1, ..grid }, Grid { h: 3, ..grid }, Grid { t: 0, ..grid }];
        for patches in grids.map(|grid| Patches { grid, ..patches.clone() }).into_iter().chain([odd]) {
            let refused = tower.encode(&patches, &mut go);
            assert!(matches!(refused, Err(VisionError::Patches { .. })), "{name} {:?}", patches.grid);
        }
    }
    for device in [in_kernels(WeightType::F32), in_tensors()] {
        let tower = tower("gqa_tied", &device);
        for (values, row, t, h, w) in [
            (16 * 1176, 1176, 1, 4, 5),
            (16 * 1175, 1175, 1, 4, 4),
            (16 * 1176 + 1, 1176, 1, 4, 4),
            (0, 0, 1, 4, 4),
            (16 * 1176, 1176, usize::MAX, 4, 4),
        ] {
            let patches = Patches { data: vec![0.0; values], row, grid: Grid { t, h, w } };
            let refused = tower.encode(&patches, &mut go);
            assert!(matches!(refused, Err(VisionError::Patches { .. })), "{values} {row} {t}x{h}x{w}");
        }
    }
}

#[test]
fn wrong_configs_and_weights_are_refused_by_name() {
    let vision = "vision_config";
    for (name, part, key, value, word) in [
        ("qwen3_vl", vision, "out_hidden_size", json!(96), "merger.linear_fc2"),
        ("qwen3_vl", vision, "intermediate_size", json!(96), "mlp.linear_fc1"),
        ("qwen3_vl", vision, "num_position_embeddings", json!(64), "pos_embed"),
        ("qwen3_vl", vision, "depth", json!(7), "blocks.6"),
        ("qwen3_vl", vision, "deepstack_visual_indexes", json!([1, 2, 4, 5]), "deepstack_merger_list.3"),
        ("qwen3_vl", vision, "spatial_merge_size", json!(4), "merger"),
        ("qwen3_vl", vision, "temporal_patch_size", json!(1), "patch_embed"),
        ("qwen3_5", vision, "out_hidden_size", json!(96), "merger.linear_fc2"),
        ("qwen3_5", vision, "spatial_merge_size", json!(4), "merger"),
        ("smolvlm", vision, "image_size", json!(132), "position_embedding"),
        ("smolvlm", "", "scale_factor", json!(2), "modality_projection"),
        ("minicpmv4_6", vision, "image_size", json!(140), "position_embedding"),
        ("minicpmv4_6", vision, "intermediate_size", json!(64), "mlp.fc1"),
        ("minicpmv4_6", vision, "num_hidden_layers", json!(5), "encoder.layers.4"),
    ] {
        let mut whole = read(&format!("{name}/config.json"));
        let parent = if part.is_empty() { &mut whole } else { &mut whole[part] };
        parent[key] = value;
        let checkpoint = Checkpoint::open(&fixture(name)).unwrap();
        for device in [ComputeDevice::cpu(WeightType::F32), in_tensors()] {
            let loaded = of_json(whole.clone()).and_then(|config| Tower::load(&checkpoint, &config, &device));
            let error = loaded.map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(word), "lacks {word}: {error}");
        }
    }
    let raw = read("gqa_tied/config.json");
    let sizes = VisionConfig::from_json(&raw["vision_config"], Generation::Qwen25).unwrap();
    let wide = VisionConfig { out: 96, ..sizes }.into();
    let loaded = Tower::load(&Checkpoint::open(&fixture("gqa_tied")).unwrap(), &wide, &in_tensors());
    assert!(loaded.map(|_| ()).unwrap_err().to_string().contains("merger.mlp.2"));
    // A tensor that is missing, and one of another shape.
    type Change = fn(&mut HashMap<String, Tensor>);
    let changes: [(&str, Change, &str); 2] = [
        (
            "gqa_tied",
            |weights| drop(weights.remove("visual.blocks.1.attn.proj.bias").unwrap()),
            "visual.blocks.1.attn.proj.bias",
        ),
        (
            "qwen3_vl",
            |weights| {
                let short = Tensor::ones(32, DType::F32, &Device::Cpu).unwrap();
                weights.insert("model.visual.deepstack_merger_list.1.norm.weight".into(), short).unwrap();
            },
            "deepstack_merger_list.1.norm",
        ),
    ];
    for (name, change, word) in changes {
        let dir = copy(name);
        let mut weights = tensors(&format!("{name}/model.safetensors"));
        change(&mut weights);
        candle_core::safetensors::save(&weights, dir.path().join("model.safetensors")).unwrap();
        let checkpoint = Checkpoint::open(dir.path()).unwrap();
        let error = Tower::load(&checkpoint, &config(name), &in_tensors()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
